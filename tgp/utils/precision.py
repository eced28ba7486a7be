"""Number types of intermediate results.

Sums over the nodes or edges of a graph are computed in float32 or wider, because bfloat16 cannot count beyond 256 and
float16 not beyond 65,504. Losses of half-precision input are float32; losses of float64 input are float64.

For graphs of up to 100,000 nodes, a loss of bfloat16 or float16 input, or under autocast, differs from that of float32
input by at most 2 % of the larger of 1 and its value. Most of the difference comes from rounding the assignment.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["autocast_enabled", "is_half", "matmul", "widen"]

_HALF = (torch.bfloat16, torch.float16)


def is_half(tensor: Tensor) -> bool:
    """Return True for bfloat16 and float16."""
    return tensor.dtype in _HALF


def widen(tensor: Tensor) -> Tensor:
    """Return ``tensor`` in a dtype that is safe for sums: float32 for bfloat16 and float16, else unchanged."""
    return tensor.float() if tensor.dtype in _HALF else tensor


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a @ b`` in the dtype of the arguments, even if autocast would use a narrower one."""
    if autocast_enabled(a):
        with torch.autocast(a.device.type, enabled=False):
            return a @ b
    return a @ b


def autocast_enabled(tensor: Tensor) -> bool:
    """Return True if autocast is enabled for the device of ``tensor``."""
    device = tensor.device.type
    return device != "meta" and torch.is_autocast_enabled(device)
