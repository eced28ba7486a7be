"""Decide whether values of tensors can be read on the host."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["on_host"]


def on_host(*tensors: Tensor | None) -> bool:
    """Return True if the values of all tensors can be read for free.

    Code that branches on values, calls numpy or scipy, or loops over chunks asks this function first.
    Where it returns False, the code must take a path of plain torch operations: reading a value would
    synchronize an accelerator, break a compiled graph, or fail on a fake tensor.

    Args:
        *tensors: Tensors to read; ``None`` is skipped.

    Returns:
        False under ``torch.compile`` and ``torch.export``, inside ``torch.func`` transforms, and for tensors
        on accelerators, fake tensors, meta tensors and tensor subclasses.
    """
    if torch.compiler.is_compiling():
        return False
    return all(tensor is None or _is_plain(tensor) for tensor in tensors)


def _is_plain(tensor: Tensor) -> bool:
    if type(tensor) is not Tensor and type(tensor) is not torch.nn.Parameter:
        return False
    return tensor.device.type == "cpu" and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
