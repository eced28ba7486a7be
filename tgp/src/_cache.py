"""A cached result that knows which input it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["InputKey"]


class InputKey:
    """The tensors and numbers a result was made from.

    An input matches if it is the same tensor, unchanged since; or another tensor of the same content,
    as a loader makes one per epoch.
    """

    def __init__(self, *values: Any) -> None:
        self._values = tuple(v.detach() if isinstance(v, Tensor) and v.requires_grad else v for v in values)
        self._ids = tuple(id(v) for v in values)
        self._versions = tuple(_version(v) for v in values)

    def matches(self, *values: Any) -> bool:
        """Whether ``values`` are what this key was made from."""
        if len(values) != len(self._values):
            return False
        return all(self._same(i, value) for i, value in enumerate(values))

    def _same(self, place: int, value: Any) -> bool:
        kept = self._values[place]
        if not isinstance(value, Tensor):
            return not isinstance(kept, Tensor) and (kept is value or kept == value)
        if not isinstance(kept, Tensor) or kept._version != self._versions[place]:
            return False
        if id(value) == self._ids[place]:
            return True
        if kept.layout is not torch.strided or value.layout is not torch.strided:
            return False
        alike = kept.shape == value.shape and kept.dtype == value.dtype and kept.device == value.device
        return alike and torch.equal(kept, value)

    def apply(self, func: Callable[[Tensor], Tensor]) -> InputKey:
        """The key of the same input moved by ``func``."""
        return InputKey(*(func(v) if isinstance(v, Tensor) else v for v in self._values))


def _version(value: Any) -> int:
    return value._version if isinstance(value, Tensor) else 0
