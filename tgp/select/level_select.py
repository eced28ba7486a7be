"""Selectors that run a level method of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tgp.engine.coarsening import assign_level
from tgp.engine.level_method import RandomKey
from tgp.engine.schedule import LevelSpec
from tgp.errors import InputError
from tgp.ragged import Assignment
from tgp.select._sparse_entries import check_inverse_op
from tgp.select.base_select import Select, SelectOutput
from tgp.utils.blocks import TorchBlock, to_block
from tgp.utils.ops.connectivity import check_connectivity
from tgp.utils.signature import foo_signature
from tgp.utils.tracing import opaque
from tgp.utils.typing import SinvType

__all__ = ["FixedKSelect", "LevelSelect", "MethodParameter", "needed_attributes", "to_select_output"]


def needed_attributes(spec: LevelSpec, x: Tensor | None, given: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the attributes of nodes that a method needs.

    Args:
        spec: method and parameters.
        x: features.
        given: further arguments of a call by name.

    Raises:
        InputError: if an attribute is missing or not a tensor.
    """
    found = {}
    for name in spec.level_method.needs:
        value = x if name == "x" else given.get(name)
        if not isinstance(value, Tensor):
            raise InputError(
                f"{spec.method} needs the node attribute {name!r}: expected a tensor with one row for each node, got "
                f"{'None' if value is None else type(value).__name__}. Pass {name}=... to the pooler.",
                field=name,
            )
        found[name] = value
    return found


class MethodParameter:
    """Attribute of a selector that reads and sets a parameter of its level method."""

    def __init__(self, doc: str) -> None:
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, selector: LevelSelect | None, owner: type) -> Any:
        return self if selector is None else getattr(selector.spec.params, self.name)

    def __set__(self, selector: LevelSelect, value: Any) -> None:
        spec = selector.spec
        selector.spec = LevelSpec(spec.method, replace(spec.params, **{self.name: value}))


class LevelSelect(Select):
    """Selector that computes assignments from the topology with a level method.

    The result is the same on every run. The method runs in compiled code outside of torch, so ``torch.compile`` does
    not trace it.

    Args:
        method: alias of the method (``graclus``, ``ndp``, ...).
        params: parameters of the method. Parameters that are not given have their defaults.
        seed: seed of all random choices. The attribute can be changed later.
        s_inv_op: ``transpose`` or ``inverse``.
    """

    def __init__(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        seed: int = 0,
        s_inv_op: SinvType = "transpose",
    ) -> None:
        super().__init__()
        check_inverse_op(s_inv_op)
        self.spec = LevelSpec.of(method, params)
        self.seed = seed
        self.s_inv_op = s_inv_op
        self.is_dense = self.spec.level_method.dense

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = state if "spec" in state else self._state_from_1_0_2(state)
        super().__setstate__(state)  # type: ignore[no-untyped-call]

    def _state_from_1_0_2(self, state: dict[str, Any]) -> dict[str, Any]:
        """Convert the state of a selector that tgp 1.0.2 pickled to the attributes of this version."""
        names = foo_signature(type(self)).args
        with torch.random.fork_rng(devices=[]):
            made = type(self)(**{name: state[name] for name in names if name in state})
        kept = {name: value for name, value in state.items() if name not in names}
        return {**made.__dict__, **kept}

    @property
    def method(self) -> str:
        """Alias of the method."""
        return self.spec.method

    @property
    def representative(self) -> str | None:
        """Name of the extra with the node that represents each supernode; ``None`` if the method has no such nodes."""
        return self.spec.level_method.representative

    @property
    def needs(self) -> tuple[str, ...]:
        """Attributes of nodes that the method reads, such as ``("x",)`` or ``("pos",)``. They are arguments of a call."""
        return self.spec.level_method.needs

    @opaque
    def forward(
        self,
        x: Tensor | None = None,
        edge_index: Any = None,
        edge_weight: Tensor | None = None,
        *,
        batch: Tensor | None = None,
        num_nodes: int | None = None,
        batch_size: int | None = None,
        level: int = 0,
        keep_link: bool = False,
        **kwargs: Any,
    ) -> SelectOutput:
        """Assign the nodes of every graph.

        Args:
            x: features. They give the number of nodes and the type of the weights.
            edge_index: edge list, sparse matrix or ``SparseTensor``.
            edge_weight: ``[E]`` or ``[E, 1]``.
            batch: ``[N]`` graph ids, in any order.
            num_nodes: ``N``; by default it is read from ``x``, ``batch`` or the connectivity.
            batch_size: number of graphs.
            level: position of this level in a schedule. Different levels use different random numbers.
            keep_link: store the arrays of the engine in the result, for the connector.
            **kwargs: attributes in :attr:`needs`, such as ``pos``. Others are ignored.

        Raises:
            InputError: if there is no connectivity, or an attribute that the method needs is missing or not valid.
        """
        check_connectivity(edge_index, "this selection")
        if num_nodes is None and batch is None and x is not None:
            num_nodes = x.size(0)
        dtype = None if x is None else x.dtype
        needed = needed_attributes(self.spec, x, kwargs)
        source = to_block(
            edge_index, edge_weight, batch, num_nodes, batch_size, dtype=dtype, attributes=needed
        )
        assignment = assign_level(source.block, self.spec, RandomKey(self.seed, level))
        so = to_select_output(assignment, source, self.s_inv_op, batch, batch_size, self.representative)
        if keep_link:
            so._link = (source, assignment)
        return so


class FixedKSelect(LevelSelect):
    """Selector that gives every graph ``k`` supernodes and returns a dense assignment (NMF, EigenPool).

    The last supernodes of a graph with fewer than ``k`` nodes are empty. They are kept in a batch, so that all graphs
    have the same number of columns. For a single graph they are removed unless ``fixed_k`` is set.
    """

    is_dense = True

    k = MethodParameter("Number of supernodes per graph.")

    @opaque
    def forward(
        self,
        x: Tensor | None = None,
        edge_index: Any = None,
        edge_weight: Tensor | None = None,
        *,
        batch: Tensor | None = None,
        num_nodes: int | None = None,
        fixed_k: bool = False,
        keep_link: bool = False,
        **kwargs: Any,
    ) -> SelectOutput:
        """Assign the nodes of every graph.

        Args:
            x, edge_index, edge_weight, batch, num_nodes, keep_link: see :meth:`~tgp.select.LevelSelect.forward`.
            **kwargs: further arguments of that method.
            fixed_k: always return ``k`` columns.
        """
        so = super().forward(
            x, edge_index, edge_weight, batch=batch, num_nodes=num_nodes, keep_link=True, **kwargs
        )
        source, assignment = so._link
        width = max(1, min(self.k, source.block.num_nodes))
        if not fixed_k and source.block.num_graphs == 1 and width < self.k:
            assignment = _remove_empty_supernodes(assignment, width)
            so = to_select_output(assignment, source, self.s_inv_op, batch, so.batch_size)
        so._link = (source, assignment) if keep_link else None
        return so


def to_select_output(
    assignment: Assignment,
    source: TorchBlock | None = None,
    s_inv_op: SinvType = "transpose",
    batch: Tensor | None = None,
    batch_size: int | None = None,
    representative: str | None = None,
    *,
    node_ptr: npt.NDArray[np.int64] | None = None,
) -> SelectOutput:
    """Convert an assignment of the engine or of a store to a :class:`SelectOutput`.

    Args:
        assignment: of the nodes of a block.
        source: the block, the order of the input nodes, and the device of the result. ``None`` if the input nodes have
            the order of the block and the result stays on the CPU; tensors then share memory with the arrays.
        s_inv_op: ``transpose`` or ``inverse``.
        batch: kept as ``so.batch``.
        batch_size: kept as ``so.batch_size``.
        representative: name of an extra for the node that represents each supernode.
        node_ptr: ``[B + 1]`` offsets of the nodes, for a one-hot assignment without ``source``.
    """
    entries = _node_entries(assignment, node_ptr if source is None else source.block.node_ptr)
    if source is not None:
        for name, values in entries.items():
            rows = source.rows(values)
            entries[name] = source.reals(rows) if rows.dtype.kind == "f" else rows
    cluster = entries.get("cluster_index")
    if cluster is not None and cluster.size and cluster.min() < 0:
        nodes = np.flatnonzero(cluster >= 0)
        entries |= {name: entries[name][nodes] for name in ("cluster_index", "weight") if name in entries}
        entries["node_index"] = nodes
    if representative is not None and assignment.representative is not None:
        chosen = assignment.representative
        entries[representative] = _widen(chosen) if source is None else source.node_ids(chosen)
    given: dict[str, Any]
    if source is None:
        given, dtype = {name: torch.from_numpy(values) for name, values in entries.items()}, None
    else:
        given, dtype = dict(zip(entries, source.tensors(*entries.values()), strict=True)), source.dtype
    given["s_inv_op"], given["batch"], given["batch_size"] = s_inv_op, batch, batch_size
    if assignment.kind == "soft":
        so = SelectOutput(**given)
    elif assignment.kind == "onehot":
        so = SelectOutput.onehot(k=assignment.width or 0, dtype=dtype, **given)
    else:
        so = SelectOutput.hard(
            num_supernodes=assignment.num_supernodes, num_nodes=assignment.num_nodes, dtype=dtype, **given
        )
    if representative is not None:
        so._node_id_extras = frozenset({representative})
    return so


def _node_entries(
    assignment: Assignment, node_ptr: npt.NDArray[np.int64] | None
) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays with one row per node, by the names that :class:`SelectOutput` gives them."""
    cluster = assignment.cluster
    if assignment.kind == "soft":
        assert assignment.soft is not None, "a soft assignment has a matrix"
        entries: dict[str, npt.NDArray[Any]] = {"s": assignment.soft}
    elif assignment.kind == "onehot":
        assert cluster is not None and node_ptr is not None, "columns are counted in each graph"
        start = np.repeat(assignment.super_ptr[:-1], np.diff(node_ptr))
        entries = {"column": np.where(cluster < 0, -1, cluster - start)}
    else:
        assert cluster is not None, "a hard assignment has clusters"
        entries = {"cluster_index": _widen(cluster)}
        if assignment.weight is not None:
            entries["weight"] = assignment.weight
    if assignment.theta is not None:
        entries["theta"] = assignment.theta
    return entries


def _widen(ids: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return ids if ids.dtype == np.int64 else ids.astype(np.int64)


def _remove_empty_supernodes(assignment: Assignment, width: int) -> Assignment:
    """Return the assignment of one graph to its first ``width`` supernodes."""
    soft = assignment.soft
    return replace(
        assignment,
        super_ptr=np.array([0, width], np.int64),
        soft=None if soft is None else np.ascontiguousarray(soft[:, :width]),
    )
