"""Functions on every tensor inside nested values."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor
from torch.distributions import Distribution

__all__ = ["map_tensors"]


def map_tensors(value: Any, func: Callable[[Tensor], Tensor]) -> Any:
    """Return ``value`` with ``func`` applied to the tensors in lists, tuples, mappings and distributions."""
    if isinstance(value, Tensor):
        return func(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_tensors(v, func) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(map_tensors(v, func) for v in value)
    if isinstance(value, Mapping):
        return {key: map_tensors(v, func) for key, v in value.items()}
    if isinstance(value, Distribution):
        moved = copy.copy(value)
        for key, part in vars(value).items():
            moved.__dict__[key] = map_tensors(part, func)
        return moved
    return value
