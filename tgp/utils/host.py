"""Decide whether values of tensors can be read on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tgp.errors import InputError

__all__ = ["on_host", "read_array"]


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


def read_array(tensor: Tensor) -> np.ndarray[Any, Any]:
    """Return the values of a tensor in main memory as a numpy array, also inside ``torch.func`` transforms.

    Args:
        tensor: Without gradients. ``vmap`` over it is not possible: the array would have to have another shape.
    """
    functorch = torch._C._functorch
    if functorch.maybe_current_level() is None:
        return tensor.numpy()
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_batchedtensor(tensor):
            raise InputError(
                "A deterministic pooler reads its graph: vmap over edges or weights is not possible."
            )
        tensor = functorch.get_unwrapped(tensor)
    with torch._C._DisableFuncTorch():
        return tensor.detach().numpy()
