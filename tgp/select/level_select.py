"""Selectors that run a method of the engine."""

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
from tgp.utils.signature import foo_signature
from tgp.utils.tracing import opaque
from tgp.utils.typing import SinvType

__all__ = ["LevelSelect", "MethodParameter", "to_select_output"]


class NoTopologyError(InputError, NotImplementedError):
    """Missing connectivity; also a ``NotImplementedError``, which tgp 1.0.2 raised."""


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
    """Selector that computes assignments from the topology by a level method, the same on every run.

    The method runs in compiled code outside of torch, so ``torch.compile`` does not trace it.

    Args:
        method: alias of the method (``graclus``, ``ndp``, ...).
        params: its parameters; others have their defaults.
        seed: seed of every random choice; may be assigned later.
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

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state if "spec" in state else self._adopted_state(state))

    def _adopted_state(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the state of a selector that tgp 1.0.2 pickled, in the form of this version."""
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
        """Name of the extra that holds the node that represents each supernode, for methods that have one."""
        return self.spec.level_method.representative

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
            x: read for the number of nodes and the type of real numbers.
            edge_index: edge list, sparse matrix or ``SparseTensor``.
            edge_weight: ``[E]`` or ``[E, 1]``.
            batch: ``[N]`` graph ids in any order.
            num_nodes: ``N``; default from ``x``, ``batch`` or the connectivity.
            batch_size: number of graphs.
            level: place of this step in a schedule; another level draws other random numbers.
            keep_link: store the arrays of the engine in the result, for the connector.
        """
        if edge_index is None:
            raise NoTopologyError(
                "edge_index cannot be None: this selection reads the topology", field="edge_index"
            )
        if num_nodes is None and batch is None and x is not None:
            num_nodes = x.size(0)
        dtype = None if x is None else x.dtype
        source = to_block(edge_index, edge_weight, batch, num_nodes, batch_size, dtype=dtype)
        assignment = assign_level(source.block, self.spec, RandomKey(self.seed, level))
        so = to_select_output(assignment, source, self.s_inv_op, batch, batch_size, self.representative)
        if keep_link:
            so._link = (source, assignment)
        return so


def to_select_output(
    assignment: Assignment,
    source: TorchBlock,
    s_inv_op: SinvType = "transpose",
    batch: Tensor | None = None,
    batch_size: int | None = None,
    representative: str | None = None,
) -> SelectOutput:
    """Convert an assignment of the engine to a :class:`SelectOutput`.

    Args:
        assignment: of the nodes of ``source.block``.
        source: the block and the order of its nodes.
        s_inv_op: ``transpose`` or ``inverse``.
        batch: kept as ``so.batch``.
        batch_size: kept as ``so.batch_size``.
        representative: name of an extra for the node that represents each supernode.
    """
    if assignment.kind == "soft":
        arrays = {"s": source.reals(source.rows(assignment.soft))}
    elif assignment.kind == "onehot":
        arrays = {"column": _columns(assignment, source)}
    else:
        arrays = _entries_of(assignment, source)
    if assignment.theta is not None:
        arrays["theta"] = source.reals(source.rows(assignment.theta))
    if representative is not None and assignment.representative is not None:
        arrays[representative] = source.node_ids(assignment.representative)
    given: dict[str, Any] = dict(zip(arrays, source.tensors(*arrays.values()), strict=True))
    given |= {"s_inv_op": s_inv_op, "batch": batch, "batch_size": batch_size}
    if assignment.kind == "soft":
        so = SelectOutput(**given)
    elif assignment.kind == "onehot":
        so = SelectOutput.onehot(k=assignment.width or 0, dtype=source.dtype, **given)
    else:
        size = len(assignment.cluster)
        so = SelectOutput.hard(
            num_supernodes=assignment.num_supernodes, num_nodes=size, dtype=source.dtype, **given
        )
    if representative is not None:
        so._node_id_extras = frozenset({representative})
    return so


def _columns(assignment: Assignment, source: TorchBlock) -> npt.NDArray[np.int64]:
    """Return the supernode of each input node inside its graph, ``-1`` for a dropped node."""
    cluster = assignment.cluster
    start = np.repeat(assignment.super_ptr[:-1], np.diff(source.block.node_ptr))
    return source.rows(np.where(cluster < 0, -1, cluster - start))


def _entries_of(assignment: Assignment, source: TorchBlock) -> dict[str, npt.NDArray[Any]]:
    """Return the entries of a hard assignment by the names that :meth:`SelectOutput.hard` gives them."""
    entries = {"cluster_index": source.rows(assignment.cluster.astype(np.int64))}
    if assignment.weight is not None:
        entries["weight"] = source.reals(source.rows(assignment.weight))
    cluster = assignment.cluster
    if cluster.size and cluster.min() < 0:
        nodes = np.flatnonzero(entries["cluster_index"] >= 0)
        entries = {name: values[nodes] for name, values in entries.items()}
        entries["node_index"] = nodes
    return entries
