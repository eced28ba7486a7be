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
    # Inside a transform even plain tensors count: a custom Function fails there whatever its arguments are.
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    for tensor in tensors:
        if tensor is None:
            continue
        kind = type(tensor)
        if not tensor.is_cpu or (kind is not Tensor and kind is not torch.nn.Parameter):
            return False
    return True
