"""Cache for the last result of a stage, valid as long as its inputs stay the same."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tgp.select.base_select import SelectOutput

__all__ = ["ResultCache", "assignment_tensors"]


class _Snapshot:
    """Tensors and numbers from which a result was computed.

    The snapshot keeps tensors alive, so that no other tensor can have the same identity. A tensor matches if it
    is the same object without changes, or if it has the same content: a loader creates a new tensor in every epoch.
    Inference tensors do not count changes, so the snapshot keeps and compares a copy of them.
    """

    def __init__(self, values: tuple[Any, ...]) -> None:
        self._values = tuple(v.clone() if _is_inference(v) else v for v in values)
        self._versions = tuple(_version(value) for value in self._values)

    def matches(self, values: tuple[Any, ...]) -> bool:
        """Return True if ``values`` equal those of the snapshot."""
        return len(values) == len(self._values) and all(map(_same, self._values, self._versions, values))

    def unchanged(self) -> bool:
        """Return True if no tensor of the snapshot was changed in place."""
        return all(
            _version(value) == version for value, version in zip(self._values, self._versions, strict=True)
        )


class ResultCache:
    """Cache of one result and of the inputs from which it was computed.

    Results that require gradients are never cached: each training step needs a new one. Results of
    ``torch.inference_mode`` cannot be used in training, so they are cached separately. A cached result that was
    changed in place is not returned again.
    """

    def __init__(self) -> None:
        self._kept: dict[bool, tuple[Any, _Snapshot, _Snapshot]] = {}

    def find(self, *inputs: Any) -> Any | None:
        """Return the cached result for these inputs, or ``None``."""
        found = self._kept.get(torch.is_inference_mode_enabled())
        if found is None or any(map(_is_learned, inputs)):
            return None
        result, made_from, tensors = found
        return result if made_from.matches(inputs) and tensors.unchanged() else None

    def keep(self, result: Any, tensors: tuple[Any, ...], *inputs: Any) -> None:
        """Store a result.

        Args:
            result: The result.
            tensors: Tensors of the result.
            *inputs: Values from which it was computed.
        """
        if any(map(_is_learned, (*inputs, *tensors))) or torch.compiler.is_compiling():
            return
        self._kept[torch.is_inference_mode_enabled()] = (result, _Snapshot(inputs), _Snapshot(tensors))

    def clear(self) -> None:
        """Remove the result."""
        self._kept.clear()


def assignment_tensors(so: SelectOutput) -> tuple[Tensor | None, ...]:
    """Return the tensors of an assignment."""
    matrix = so._s if so._cluster_index is None else None
    return so._node_index, so._cluster_index, so._weight, matrix, so.batch, so.in_mask


def _is_learned(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def _is_inference(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_inference()


def _version(value: Any) -> int:
    """Return the number of in-place changes of a tensor; 0 for inference tensors, which do not count them."""
    return value._version if isinstance(value, Tensor) and not value.is_inference() else 0


def _same(kept: Any, version: int, value: Any) -> bool:
    if not isinstance(kept, Tensor) or not isinstance(value, Tensor):
        return kept is value or (type(kept) is type(value) and bool(kept == value))
    if _version(kept) != version:
        return False
    if kept is value:
        return True
    if kept.layout is not torch.strided or value.layout is not torch.strided:
        return False
    alike = kept.shape == value.shape and kept.dtype == value.dtype and kept.device == value.device
    return alike and torch.equal(kept, value)
