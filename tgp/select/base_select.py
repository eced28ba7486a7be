"""``SelectOutput``: an assignment of nodes to supernodes. ``Select``: base class of the selectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.imports import is_sparsetensor as is_sparsetensor
from tgp.select import _sparse_entries, _spread, collate
from tgp.select._release import dataclass_fields
from tgp.select._sparse_entries import cluster_to_s
from tgp.select._tensor_container import TensorHolder
from tgp.utils.operator import Operator
from tgp.utils.ops.assign import get_assignments as get_assignments
from tgp.utils.ops.assign import pseudo_inverse
from tgp.utils.ops.batching import GraphLayout, get_mask_from_dense_s
from tgp.utils.ops.connectivity import connectivity_to_edge_index as connectivity_to_edge_index
from tgp.utils.typing import SinvType

__all__ = ["Select", "SelectOutput", "cluster_to_s"]


class SelectOutput(TensorHolder):
    r"""An assignment :math:`\mathbf{S}` of ``N`` nodes to ``K`` supernodes.

    A sparse assignment stores its entries as flat vectors and builds the COO matrix ``s`` on first access. A
    one-hot assignment (:meth:`onehot`) builds its dense ``[N, K]`` matrix in the same way, and both build
    ``s_inv`` on first access.

    Args:
        s: COO ``[N, K]``, or dense ``[N, K]`` / ``[B, N, K]``; ``None`` to build from ``cluster_index``.
        s_inv: ``[..., K, N]``, kept as given; default made from ``s`` by ``s_inv_op``.
        node_index: node of each entry; default ``0, 1, ...``. Entries are sorted by node.
        num_nodes: ``N``; default the number of entries.
        cluster_index: supernode of each entry.
        num_supernodes: ``K``; default largest id + 1.
        weight: value of each entry; default ones.
        s_inv_op: ``transpose`` or ``inverse`` (Moore-Penrose).
        batch: ``[N]`` graph ids of the nodes.
        in_mask: ``[B, N]`` real nodes of a dense ``[B, N, K]`` assignment.
        batch_size: number of graphs, where trailing ones may be empty.
        **extra_args: further attributes, stored under their names, which are listed in ``_extra_args``.
    """

    __dataclass_fields__ = dataclass_fields()

    # Defaults for objects that older versions pickled.
    _dtype: torch.dtype | None = None  # of implicit ones; None: the default dtype
    _layout: GraphLayout | None = None  # graphs of a padded [B, N, K] assignment, for to_nodes
    _memo: Any = None  # views made by a pooler, valid for this object only
    _distinct: bool | None = None  # no node has two entries; None: not known yet
    _single: tuple[Tensor, Tensor] | None = None  # node and entry of each supernode, if it has one node
    # Extras that hold node ids, which grow when assignments are joined. tgp 1.0.2 has ``mis`` of k-MIS.
    _node_id_extras: frozenset[str] = frozenset({"mis"})

    def __init__(
        self,
        s: Tensor | None = None,
        s_inv: Tensor | None = None,
        node_index: Tensor | None = None,
        num_nodes: int | None = None,
        cluster_index: Tensor | None = None,
        num_supernodes: int | None = None,
        weight: Tensor | None = None,
        s_inv_op: SinvType = "transpose",
        batch: Tensor | None = None,
        in_mask: Tensor | None = None,
        batch_size: int | None = None,
        **extra_args: Any,
    ) -> None:
        given = {"cluster_index": cluster_index, "node_index": node_index}
        if s is None:
            if cluster_index is None:
                raise _sparse_entries.AssignmentError(_sparse_entries.NO_CLUSTERS, field="cluster_index")
            parts = _sparse_entries.checked(cluster_index, node_index, weight, num_nodes, num_supernodes)
            self._set_parts(*parts)
        elif not isinstance(s, Tensor):
            raise InputError(f"{_sparse_entries.NO_MATRIX}, got {type(s).__name__}", field="s")
        elif s.layout is torch.strided:
            more = {"num_nodes": num_nodes, "num_supernodes": num_supernodes, "weight": weight}
            _sparse_entries.refuse({**given, **more}, "a dense Tensor")
            self._set_parts(None, None, None, s.size(-2) if s.dim() > 1 else s.numel(), s.size(-1), s=s)
        else:
            _sparse_entries.refuse(given, "not None")
            self._set_parts(*_sparse_entries.from_matrix(s, weight, num_nodes, num_supernodes))
        _sparse_entries.check_inverse_op(s_inv_op)
        self._finish(s_inv, s_inv_op, batch, batch_size, extra_args)
        if in_mask is not None:
            self.in_mask = _sparse_entries.checked_mask(in_mask, self)
            self._extra_args.add("in_mask")

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
        # node_index None: entry i is node i. weight None: ones. s None: not built yet.
        self._node_index = node_index
        self._cluster_index = cluster_index
        self._weight = weight
        self._num_nodes = num_nodes
        self._num_supernodes = num_supernodes
        self._s = s
        self._dense = cluster_index is None if dense is None else dense
        self._distinct = True if node_index is None else None
        self._single = None

    def _finish(
        self,
        s_inv: Tensor | None,
        s_inv_op: SinvType,
        batch: Tensor | None,
        batch_size: int | None,
        extra_args: dict[str, Any],
    ) -> None:
        self.s_inv_op = s_inv_op
        self._s_inv = s_inv
        self._given_s_inv = s_inv is not None
        self.batch = batch
        self.batch_size = batch_size
        self.in_mask: Tensor | None = None
        self._parts: collate.Parts | None = None
        self._link: Any = None
        self._memo = None
        self._extra_args = set(extra_args)
        for name, value in extra_args.items():
            setattr(self, name, value)

    @classmethod
    def hard(
        cls,
        cluster_index: Tensor,
        num_supernodes: int,
        *,
        node_index: Tensor | None = None,
        num_nodes: int | None = None,
        weight: Tensor | None = None,
        s_inv_op: SinvType = "transpose",
        batch: Tensor | None = None,
        batch_size: int | None = None,
        dtype: torch.dtype | None = None,
        **extra_args: Any,
    ) -> SelectOutput:
        """Return a sparse assignment from valid entries. Nothing is checked or sorted.

        Args:
            cluster_index: supernode of each entry.
            num_supernodes: ``K``.
            node_index: node of each entry, ascending without repeats; ``None``: every node has one entry.
            num_nodes: ``N``; default the number of entries.
            weight: value of each entry; default ones.
            s_inv_op: ``transpose`` or ``inverse``.
            batch: ``[N]`` graph ids of the nodes.
            batch_size: number of graphs.
            dtype: type of the default ones.
            **extra_args: further attributes.
        """
        self = cls.__new__(cls)
        size = cluster_index.numel() if num_nodes is None else num_nodes
        self._set_parts(node_index, cluster_index, weight, size, num_supernodes)
        self._distinct = True
        self._finish(None, s_inv_op, batch, batch_size, extra_args)
        self._dtype = dtype
        return self

    @classmethod
    def onehot(
        cls,
        column: Tensor,
        k: int,
        *,
        s_inv_op: SinvType = "transpose",
        batch: Tensor | None = None,
        batch_size: int | None = None,
        dtype: torch.dtype | None = None,
        **extra_args: Any,
    ) -> SelectOutput:
        """Return a dense ``[N, k]`` one-hot assignment, stored as one column per node (``-1``: a zero row)."""
        self = cls.__new__(cls)
        self._set_parts(None, column, None, column.numel(), k, dense=True)
        self._finish(None, s_inv_op, batch, batch_size, extra_args)
        self._dtype = dtype
        return self

    @property
    def s(self) -> Tensor:
        """Assignment matrix: COO ``[N, K]``, or dense ``[N, K]`` / ``[B, N, K]``."""
        if self._s is None:
            self._s = (
                self._onehot() if self._dense else _sparse_entries.matrix(*self._entries(), dtype=self._dtype)
            )
        return self._s

    def _onehot(self) -> Tensor:
        return _sparse_entries.onehot_matrix(self._cluster_index, self._num_supernodes, self._dtype)

    @s.setter
    def s(self, value: Tensor) -> None:
        if value.layout is torch.strided:
            self._set_parts(None, None, None, value.size(-2), value.size(-1), s=value)
        else:
            self._set_parts(*_sparse_entries.from_matrix(value, None, None, None))
        self._memo = None
        if not self._given_s_inv:
            self._s_inv = None

    @property
    def s_inv(self) -> Tensor:
        """Inverse ``[..., K, N]``: as given, else made from ``s`` by ``s_inv_op``."""
        if self._s_inv is None:
            if self.s_inv_op == "inverse":
                self._s_inv = pseudo_inverse(self.s)
            else:
                self._s_inv = self.s.transpose(-1, -2) if self.s.dim() > 1 else self.s
        return self._s_inv

    @s_inv.setter
    def s_inv(self, value: Tensor | None) -> None:
        self._s_inv = value
        self._given_s_inv = value is not None

    def set_s_inv(self, method: SinvType) -> None:
        """Rebuild ``s_inv`` by ``transpose`` or ``inverse``."""
        _sparse_entries.check_inverse_op(method)
        self.s_inv_op = method
        self._s_inv = None
        self._given_s_inv = False

    def _entries(self) -> tuple[Tensor | None, Tensor, Tensor | None, int, int]:
        return self._node_index, self._cluster_index, self._weight, self._num_nodes, self._num_supernodes

    @property
    def is_sparse(self) -> bool:
        """True if ``s`` is a COO matrix."""
        return not self._dense

    @property
    def is_dense(self) -> bool:
        """True if ``s`` is a strided tensor."""
        return self._dense

    @property
    def num_nodes(self) -> int:
        """Number of nodes; the padded number per graph for ``[B, N, K]``."""
        return self._num_nodes

    @property
    def num_supernodes(self) -> int:
        """Number of supernodes: all those of a sparse assignment, those of one graph for a dense one."""
        return self._num_supernodes

    @property
    def node_index(self) -> Tensor | None:
        """Node of each entry, ascending; ``None`` for a dense assignment."""
        if self._dense:
            return None
        if self._node_index is None:
            return torch.arange(self._num_nodes, device=self._cluster_index.device)
        return self._node_index

    @property
    def cluster_index(self) -> Tensor | None:
        """Supernode of each entry; ``None`` for a dense assignment."""
        return None if self._dense else self._cluster_index

    @property
    def weight(self) -> Tensor | None:
        """Value of each entry; ``None`` for a dense assignment."""
        if self._dense:
            return None
        if self._weight is None:
            index = self._cluster_index
            return torch.ones(index.numel(), dtype=self._dtype, device=index.device)
        return self._weight

    @property
    def covers_all(self) -> bool:
        """True if every node has exactly one entry."""
        if self._dense:
            return False
        rows = self._node_index
        return rows is None or (rows.numel() == self._num_nodes and self._has_distinct_nodes())

    def _has_distinct_nodes(self) -> bool:
        if self._distinct is None:
            rows = self._node_index
            self._distinct = bool((rows[1:] != rows[:-1]).all())
        return self._distinct

    @property
    def cluster(self) -> Tensor | None:
        """Supernode ``[N]`` of each node over the whole batch, ``-1`` if dropped; ``None`` if soft.

        Supernode ``c`` of graph ``b`` in a one-hot assignment of width ``K`` is ``b * K + c``.
        """
        if self._cluster_index is None:
            return None
        if self._dense:
            column = self._cluster_index
            if self.batch is None:
                return column
            return torch.where(column < 0, column, self.batch * self._num_supernodes + column)
        if self.covers_all:
            return self._cluster_index
        rows = self._node_index
        if not self._has_distinct_nodes():
            return None
        out = torch.full((self._num_nodes,), -1, dtype=torch.long, device=rows.device)
        return out.index_copy(0, rows, self._cluster_index)

    @property
    def out_mask(self) -> Tensor | None:
        """Mask ``[B, K]`` of supernodes with any non-zero entry; ``None`` for a sparse assignment."""
        if not self._dense or (self._s is not None and self._s.dim() not in (2, 3)):
            return None
        if self._cluster_index is not None:
            return _sparse_entries.onehot_mask(
                self._cluster_index, self._num_supernodes, self.batch, self.batch_size
            )
        return get_mask_from_dense_s(self.s, self.batch, self.batch_size)

    @property
    def is_expressive(self) -> bool:
        """All row sums equal one non-zero constant, so pooling keeps the expressive power of the GNN."""
        return _sparse_entries.is_expressive(self)

    @staticmethod
    def cat(items: Sequence[SelectOutput]) -> SelectOutput:
        """Join the assignments of ``items``: block-diagonal, or stacked rows of a dense ``S``."""
        return collate.cat(items)

    def split(
        self, node_ptr: Sequence[int] | None = None, super_ptr: Sequence[int] | None = None
    ) -> list[SelectOutput]:
        """Return the parts that :meth:`cat` joined, or those between the given offsets."""
        return collate.split(self, node_ptr, super_ptr)

    def to_nodes(self, x: Tensor) -> Tensor:
        """Return rows of a padded tensor in the order of the input nodes.

        Lifting from a padded assignment gives ``[B, N, F]``. This method removes the padding and restores the
        order that the nodes had before padding, also if the graph ids were not sorted.

        Args:
            x: ``[B, N, ...]``, padded in the same way as this assignment; flat rows are returned unchanged.

        Returns:
            ``[num_nodes, ...]`` with one row per input node.

        Raises:
            InputError: if the shape of ``x`` does not belong to this assignment.
        """
        return _sparse_entries.to_nodes(self, x)

    def assign_all_nodes(
        self,
        adj: Any = None,
        weight: Tensor | None = None,
        max_iter: int = 5,
        batch: Tensor | None = None,
        closest_node_assignment: bool = True,
    ) -> SelectOutput:
        """Return a new assignment in which every node belongs to a supernode; numbering is kept.

        Args:
            adj: connectivity; needed for ``closest_node_assignment``.
            weight: ``[N]`` values of the new entries; default ones.
            max_iter: rounds of propagation from assigned nodes to their neighbours.
            batch: ``[N]`` graph ids for nodes that nothing reaches; default ``self.batch``.
            closest_node_assignment: propagate along edges; else spread nodes at random.
        """
        return _spread.assign_all_nodes(self, adj, weight, max_iter, batch, closest_node_assignment)

    def __repr__(self) -> str:
        extra = f", extra={self._extra_args}" if self._extra_args else ""
        return f"SelectOutput(num_nodes={self.num_nodes}, num_supernodes={self.num_supernodes}{extra})"


class Select(Operator):
    """Base class of selectors. ``is_dense`` is True if the assignment is a dense matrix."""

    is_dense: bool = False

    def forward(
        self,
        x: Tensor | None = None,
        edge_index: Any = None,
        edge_weight: Tensor | None = None,
        *,
        batch: Tensor | None = None,
        num_nodes: int | None = None,
        **kwargs: Any,
    ) -> SelectOutput:
        """Return an assignment; subclasses implement it."""
        raise NotImplementedError(f"{type(self).__name__} must implement forward")
