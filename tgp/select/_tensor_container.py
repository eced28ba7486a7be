"""Moving, copying and pickling of objects that hold tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tgp.select._mapping import map_tensors
from tgp.select._release import adopt_state
from tgp.utils.ops.batching import GraphLayout

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["TensorHolder"]

_PARTS = ("_node_index", "_cluster_index", "_weight", "_s", "_s_inv", "batch", "in_mask")


class TensorHolder:
    """Methods of ``SelectOutput`` that move, copy and pickle its tensors, named as those of ``Data``.

    Equality and hash are those of the object itself.
    """

    _node_index: Tensor | None
    _cluster_index: Tensor | None
    _weight: Tensor | None
    _s: Tensor | None
    _s_inv: Tensor | None
    _given_s_inv: bool
    _dense: bool
    _extra_args: set[str]
    _dtype: torch.dtype | None
    _layout: GraphLayout | None
    _link: Any
    _memo: Any
    _single: tuple[Tensor, Tensor] | None

    def _map(self, func: Callable[[Tensor], Tensor]) -> Self:
        """Apply ``func`` in place to every stored tensor."""
        for name in _PARTS:
            value = getattr(self, name)
            if value is not None:
                setattr(self, name, func(value))
        for name in self._extra_args - {"in_mask"}:
            if hasattr(self, name):
                setattr(self, name, map_tensors(getattr(self, name), func))
        if self._layout is not None:
            self._layout = _moved(self._layout, func)
        self._memo = self._single = None
        return self

    def apply(self, func: Callable[[Tensor], Tensor]) -> Self:
        """Apply ``func`` in place to ``s``, ``s_inv`` and every tensor in the extras."""
        s, s_inv = func(self.s), None if self.s_inv is None else func(self.s_inv)
        given = self._given_s_inv
        self.s = s
        self._s_inv, self._given_s_inv = s_inv, given
        for name in self._extra_args:
            if hasattr(self, name):
                setattr(self, name, map_tensors(getattr(self, name), func))
        return self

    def to(self, device: Any = None, non_blocking: Any = False, *args: Any, **kwargs: Any) -> Self:
        """Move in place, as ``Data.to`` does; a dtype reaches floating-point tensors only.

        Args:
            device: device, dtype or tensor, as in :meth:`torch.Tensor.to`.
            non_blocking: do not wait for copies from pinned memory; a dtype here is that of
                ``Tensor.to(device, dtype)``.
            *args, **kwargs: further arguments of :meth:`torch.Tensor.to`.
        """
        given = [] if device is None else [device]
        if not isinstance(non_blocking, bool):
            given.append(non_blocking)
            non_blocking = False
        args = (*given, *args)
        device, dtype, other_non_blocking, _ = torch._C._nn._parse_to(*args, **kwargs)
        wait_not = non_blocking or other_non_blocking
        if dtype is not None and dtype.is_floating_point and self._cluster_index is not None:
            self._dtype = dtype
        return self._map(
            lambda t: t.to(device, dtype if t.is_floating_point() else None, non_blocking=wait_not)
        )

    def cpu(self) -> Self:
        """Move to main memory in place."""
        return self.to("cpu")

    def cuda(self, device: int | str | torch.device | None = None, non_blocking: bool = False) -> Self:
        """Move to a GPU in place."""
        return self.to("cuda" if device is None else torch.device(device), non_blocking=non_blocking)

    def clone(self) -> Self:
        """Return a new object with cloned tensors; gradients flow through."""
        return copy.copy(self)._map(torch.clone)

    def detach(self) -> Self:
        """Return a new object with detached tensors; this one is not changed."""
        return copy.copy(self)._map(torch.Tensor.detach)

    def detach_(self) -> Self:
        """Detach in place."""
        return self._map(torch.Tensor.detach)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set ``requires_grad`` of every floating-point tensor."""
        if not self._dense and self._weight is None:
            self._weight = self.weight
        if not self._given_s_inv:
            self._s_inv = None
        self._s = self._s if self._dense else None
        return self._map(lambda t: t.requires_grad_(requires_grad) if t.is_floating_point() else t)

    def pin_memory(self) -> Self:
        """Pin every tensor, in place."""
        return self._drop_built()._map(lambda t: t.pin_memory())

    def share_memory_(self) -> Self:
        """Move every tensor to shared memory, in place."""
        return self._drop_built()._map(lambda t: t.share_memory_())

    def record_stream(self, stream: Any) -> Self:
        """Tell the CUDA allocator that ``stream`` uses every tensor."""

        def record(tensor: Tensor) -> Tensor:
            tensor.record_stream(stream)
            return tensor

        return self._drop_built()._map(record)

    def _drop_built(self) -> Self:
        """Forget what can be built again: sparse matrices have no storage to pin or share."""
        if self._cluster_index is not None:
            self._s = None
        if not self._given_s_inv:
            self._s_inv = None
        return self

    def __copy__(self) -> Self:
        out = type(self).__new__(type(self))
        out.__dict__.update(self.__dict__)
        out._extra_args = set(self._extra_args)
        out._link = out._memo = None
        return out

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # By clone, since tensors with a history refuse to be deep-copied.
        out = self.clone()
        memo[id(self)] = out
        for name in self._extra_args:
            value = getattr(self, name, None)
            if value is not None and getattr(out, name) is value:
                setattr(out, name, copy.deepcopy(value, memo))
        return out

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__, "_link": None, "_memo": None, "_single": None}
        if self._cluster_index is not None:
            state["_s"] = None
        if not self._given_s_inv:
            state["_s_inv"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_dense" in state:
            self.__dict__.update(state)
        else:
            adopt_state(self, state)  # type: ignore[arg-type]


def _moved(layout: GraphLayout, func: Callable[[Tensor], Tensor]) -> GraphLayout:
    """Return a layout of the same graphs whose graph ids went through ``func``."""
    batch = None if layout.batch is None else func(layout.batch)
    out = GraphLayout(batch, layout.num_nodes, layout.batch_size)
    out.max_count = layout.max_count
    return out
