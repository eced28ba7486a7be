"""State of a ``SelectOutput``: the stored tensors, and the methods that move, copy and pickle them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import Field, make_dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from tgp.errors import InputError
from tgp.utils.ops.batching import GraphLayout
from tgp.utils.typing import SinvType

if TYPE_CHECKING:
    from typing_extensions import Self

    from tgp.select.concat import Parts

__all__ = ["TensorContainer", "arguments_from_1_0_2", "map_tensors"]

_TENSORS = ("_node_index", "_cluster_index", "_weight", "_s", "_s_inv", "batch", "in_mask")
_FIELDS = ("s", "s_inv", "batch")
"""Fields of the dataclass ``SelectOutput`` in tgp 1.0.2."""


def _dataclass_fields() -> dict[str, Field[Any]]:
    """Return the fields that :func:`dataclasses.fields` and :func:`dataclasses.replace` see."""
    fields: Any = make_dataclass("Fields", [(name, "Tensor | None", None) for name in _FIELDS])
    return dict(fields.__dataclass_fields__)


class TensorContainer:
    """Base class of ``SelectOutput`` that stores its tensors. The methods are named like those of PyG's ``Data``.

    Two objects are equal only if they are the same object.
    """

    __dataclass_fields__ = _dataclass_fields()

    _node_index: Tensor | None
    """Node of each entry, ascending; ``None`` if entry ``i`` is node ``i``."""
    _cluster_index: Tensor | None
    """Supernode of each entry, or the column of each node of a one-hot assignment; ``None`` if ``s`` was given."""
    _weight: Tensor | None
    """Value of each entry; ``None`` for ones."""
    _s: Tensor | None
    """Assignment matrix; ``None`` if it is not built yet."""
    _s_inv: Tensor | None
    _given_s_inv: bool
    _dense: bool
    _num_nodes: int
    _num_supernodes: int
    _extra_args: set[str]
    _parts: Parts | None
    """Offsets of the assignments that ``cat`` joined."""
    _link: Any
    """Arrays of the engine, for the connector."""
    s: Tensor
    s_inv: Tensor
    s_inv_op: SinvType
    batch: Tensor | None
    batch_size: int | None
    in_mask: Tensor | None

    # The following have defaults because objects that older versions pickled do not have them.
    _dtype: torch.dtype | None = None
    """Type of default weights; ``None`` for the default dtype."""
    _layout: GraphLayout | None = None
    """Graphs of a padded ``[B, N, K]`` assignment, for ``to_nodes``."""
    _memo: Any = None
    """Views that a pooler made. They are valid for this object only."""
    _distinct: bool | None = None
    """True if no node has two entries; ``None`` if this is not known yet."""
    _single: tuple[Tensor, Tensor] | None = None
    """Node and entry of each supernode, if every supernode has one node."""
    _node_id_extras: frozenset[str] = frozenset({"mis"})
    """Extras that hold node ids, which ``cat`` shifts. tgp 1.0.2 has ``mis`` of k-MIS."""

    def _set_parts(
        self,
        node_index: Tensor | None,
        cluster_index: Tensor | None,
        weight: Tensor | None,
        num_nodes: int,
        num_supernodes: int,
        s: Tensor | None = None,
        dense: bool | None = None,
    ) -> None:
        """Set the assignment."""
        self._node_index = node_index
        self._cluster_index = cluster_index
        self._weight = weight
        self._num_nodes = num_nodes
        self._num_supernodes = num_supernodes
        self._s = s
        self._dense = cluster_index is None if dense is None else dense
        self._distinct = True if node_index is None else None
        self._single = None

    def _set_options(
        self,
        s_inv: Tensor | None,
        s_inv_op: SinvType,
        batch: Tensor | None,
        batch_size: int | None,
        extra_args: Mapping[str, Any],
    ) -> None:
        """Set everything but the assignment."""
        self.s_inv_op = s_inv_op
        self._s_inv = s_inv
        self._given_s_inv = s_inv is not None
        self.batch = batch
        self.batch_size = batch_size
        self.in_mask = None
        self._parts = None
        self._link = None
        self._memo = None
        self._extra_args = set(extra_args)
        for name, value in extra_args.items():
            setattr(self, name, value)

    def _stored_index(self) -> Tensor:
        """Return the supernodes of a sparse assignment or the columns of a one-hot assignment."""
        assert self._cluster_index is not None
        return self._cluster_index

    def _entry_weights(self) -> Tensor:
        """Return the value of each entry of a sparse assignment."""
        if self._weight is None:
            index = self._stored_index()
            return torch.ones(index.numel(), dtype=self._dtype, device=index.device)
        return self._weight

    def _has_distinct_nodes(self) -> bool:
        """Return True if no node has two entries."""
        if self._distinct is None:
            rows = self._node_index
            assert rows is not None  # otherwise ``_distinct`` is True
            self._distinct = bool((rows[1:] != rows[:-1]).all())
        return self._distinct

    def _map(self, func: Callable[[Tensor], Tensor]) -> Self:
        """Apply ``func`` in place to every stored tensor."""
        for name in _TENSORS:
            value = getattr(self, name)
            if value is not None:
                setattr(self, name, func(value))
        for name in self._extra_args - {"in_mask"}:
            if hasattr(self, name):
                setattr(self, name, map_tensors(getattr(self, name), func))
        if self._layout is not None:
            self._layout = _map_layout(self._layout, func)
        self._memo = self._single = None
        return self

    def apply(self, func: Callable[[Tensor], Tensor]) -> Self:
        """Apply ``func`` in place to ``s``, ``s_inv`` and every tensor in the extras."""
        s, s_inv = func(self.s), func(self.s_inv)
        given = self._given_s_inv
        self.s = s
        self._s_inv, self._given_s_inv = s_inv, given
        for name in self._extra_args:
            if hasattr(self, name):
                setattr(self, name, map_tensors(getattr(self, name), func))
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set ``requires_grad`` of every floating-point tensor."""
        if not self._dense and self._weight is None:
            self._weight = self._entry_weights()
        if not self._given_s_inv:
            self._s_inv = None
        self._s = self._s if self._dense else None
        return self._map(lambda t: t.requires_grad_(requires_grad) if t.is_floating_point() else t)

    def to(self, device: Any = None, non_blocking: Any = False, *args: Any, **kwargs: Any) -> Self:
        """Move or convert all tensors in place, like ``Data.to``. A dtype applies to floating-point tensors only.

        Args:
            device: device, dtype or tensor, as in :meth:`torch.Tensor.to`.
            non_blocking: do not wait for copies from pinned memory. May be the dtype, as in
                ``Tensor.to(device, dtype)``.
            *args, **kwargs: further arguments of :meth:`torch.Tensor.to`.
        """
        given = [] if device is None else [device]
        if not isinstance(non_blocking, bool):
            given.append(non_blocking)
            non_blocking = False
        args = (*given, *args)
        device, dtype, other_non_blocking, _ = torch._C._nn._parse_to(*args, **kwargs)
        non_blocking = non_blocking or other_non_blocking
        if dtype is not None and dtype.is_floating_point and self._cluster_index is not None:
            self._dtype = dtype
        return self._map(
            lambda t: t.to(device, dtype if t.is_floating_point() else None, non_blocking=non_blocking)
        )

    def cpu(self) -> Self:
        """Move all tensors to main memory in place."""
        return self.to("cpu")

    def cuda(self, device: int | str | torch.device | None = None, non_blocking: bool = False) -> Self:
        """Move all tensors to a GPU in place."""
        return self.to("cuda" if device is None else torch.device(device), non_blocking=non_blocking)

    def clone(self) -> Self:
        """Return a new object with cloned tensors. Gradients reach the original tensors."""
        return copy.copy(self)._map(torch.clone)

    def detach(self) -> Self:
        """Return a new object with detached tensors. This object does not change."""
        return copy.copy(self)._map(torch.Tensor.detach)

    def detach_(self) -> Self:
        """Detach all tensors in place."""
        return self._map(torch.Tensor.detach)

    def pin_memory(self) -> Self:
        """Pin the memory of all tensors in place."""
        return self._drop_built()._map(lambda t: t.pin_memory())

    def share_memory_(self) -> Self:
        """Move all tensors to shared memory in place."""
        return self._drop_built()._map(lambda t: t.share_memory_())

    def record_stream(self, stream: Any) -> Self:
        """Mark all tensors as used by a CUDA stream; see :meth:`torch.Tensor.record_stream`."""

        def record(tensor: Tensor) -> Tensor:
            tensor.record_stream(stream)
            return tensor

        return self._drop_built()._map(record)

    def _drop_built(self) -> Self:
        """Remove matrices that can be built again. Sparse matrices have no storage to pin or share."""
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
        # torch cannot deep-copy tensors that have a gradient function, so they are cloned.
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


def _map_layout(layout: GraphLayout, func: Callable[[Tensor], Tensor]) -> GraphLayout:
    """Return a layout of the same graphs with ``func`` applied to the graph ids."""
    batch = None if layout.batch is None else func(layout.batch)
    out = GraphLayout(batch, layout.num_nodes, layout.batch_size)
    out.max_count = layout.max_count
    return out


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
        mapped = copy.copy(value)
        for key, part in vars(value).items():
            mapped.__dict__[key] = map_tensors(part, func)
        return mapped
    return value


def arguments_from_1_0_2(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constructor arguments that restore a ``SelectOutput`` pickled by tgp 1.0.2.

    Args:
        state: Attributes of the pickled object.

    Raises:
        InputError: If the state has no assignment matrix.
    """
    if not isinstance(state.get("s"), Tensor):
        raise InputError(
            "cannot load this SelectOutput: expected the state of tgp 1.0.2 or later, "
            f"got the attributes {sorted(state)}. Compute the assignment again and save it",
            field="s",
        )
    extras = {name: state[name] for name in state.get("_extra_args", ()) if name in state}
    extras["in_mask"] = state.get("in_mask")
    return {**{name: state.get(name) for name in _FIELDS}, **extras}
