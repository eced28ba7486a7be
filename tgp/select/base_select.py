"""``SelectOutput``: an assignment of nodes to supernodes; ``Select``: what makes one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.select import _entries, collate
from tgp.select._moves import TensorHolder
from tgp.utils.operator import Operator
from tgp.utils.ops.assign import get_assignments, pseudo_inverse
from tgp.utils.ops.batching import get_mask_from_dense_s
from tgp.utils.ops.connectivity import connectivity_to_edge_index
from tgp.utils.typing import SinvType

__all__ = ["Select", "SelectOutput", "cluster_to_s"]


def cluster_to_s(
    cluster_index: Tensor,
    node_index: Tensor | None = None,
    weight: Tensor | None = None,
    as_edge_index: bool = False,
    num_nodes: int | None = None,
    num_supernodes: int | None = None,
) -> Tensor | tuple[Tensor, Tensor | None]:
    """The COO matrix ``[N, K]`` with one entry per item of ``cluster_index``; duplicates are summed.

    Args:
        cluster_index: supernode of each entry.
        node_index: node of each entry; default ``0, 1, ...``.
        weight: value of each entry; default ones.
        as_edge_index: return ``(stack([node_index, cluster_index]), weight)`` as it is instead.
        num_nodes: ``N``; default the number of entries.
        num_supernodes: ``K``; default largest id + 1.
    """
    if as_edge_index:
        rows = (
            node_index
            if node_index is not None
            else torch.arange(cluster_index.numel(), device=cluster_index.device)
        )
        return torch.stack([rows, cluster_index]), weight
    entries = _entries.checked(cluster_index, node_index, weight, num_nodes, num_supernodes)
    return _entries.matrix(*entries)


class SelectOutput(TensorHolder):
    r"""An assignment :math:`\mathbf{S}` of ``N`` nodes to ``K`` supernodes.

    A sparse assignment keeps its entries as flat vectors and builds the COO matrix ``s`` only if somebody
    reads it; so does a one-hot one (:meth:`onehot`) with its dense ``[N, K]``. ``s_inv`` is built on
    first use, too.

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
        **extra_args: further attributes that travel along; their names are in ``_extra_args``.
    """

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
                raise _entries.AssignmentError(
                    "cluster_index must be given when s is None", field="cluster_index"
                )
            parts = _entries.checked(cluster_index, node_index, weight, num_nodes, num_supernodes)
            self._set_parts(*parts)
        elif not isinstance(s, Tensor):
            raise InputError(f"s must be a Tensor, got {type(s).__name__}", field="s")
        elif s.layout is torch.strided:
            more = {"num_nodes": num_nodes, "num_supernodes": num_supernodes, "weight": weight}
            _entries.refuse({**given, **more}, "s is dense")
            self._set_parts(None, None, None, s.size(-2) if s.dim() > 1 else s.numel(), s.size(-1), s=s)
        else:
            _entries.refuse(given, "s is a sparse matrix")
            self._set_parts(*_entries.from_matrix(s, weight, num_nodes, num_supernodes))
        _entries.check_inverse_op(s_inv_op)
        self._finish(s_inv, s_inv_op, batch, batch_size, extra_args)
        if in_mask is not None:
            self.in_mask = _entries.checked_mask(in_mask, self)
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
        self._covers_all: bool | None = None

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
        **extra_args: Any,
    ) -> SelectOutput:
        """A sparse assignment from entries that are known to be right: nothing is checked or sorted.

        ``node_index`` must ascend without repeats; ``None`` says that every node has one entry.
        """
        self = cls.__new__(cls)
        size = cluster_index.numel() if num_nodes is None else num_nodes
        self._set_parts(node_index, cluster_index, weight, size, num_supernodes)
        self._finish(None, s_inv_op, batch, batch_size, extra_args)
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
        **extra_args: Any,
    ) -> SelectOutput:
        """A dense ``[N, k]`` one-hot assignment, kept as one column per node (``-1``: a zero row)."""
        self = cls.__new__(cls)
        self._set_parts(None, column, None, column.numel(), k, dense=True)
        self._finish(None, s_inv_op, batch, batch_size, extra_args)
        return self

    @property
    def s(self) -> Tensor:
        """``S``: COO ``[N, K]``, or dense ``[N, K]`` / ``[B, N, K]``."""
        if self._s is None:
            if self._dense:
                self._s = _entries.onehot_matrix(self._cluster_index, self._num_supernodes)
            else:
                self._s = _entries.matrix(*self._entries())
        return self._s

    @s.setter
    def s(self, value: Tensor) -> None:
        if value.layout is torch.strided:
            self._set_parts(None, None, None, value.size(-2), value.size(-1), s=value)
        else:
            self._set_parts(*_entries.from_matrix(value, None, None, None))
        if not self._given_s_inv:
            self._s_inv = None

    @property
    def s_inv(self) -> Tensor:
        """``[..., K, N]``: as given, else made from ``s`` by ``s_inv_op``."""
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
        """Make ``s_inv`` anew by ``transpose`` or ``inverse``."""
        _entries.check_inverse_op(method)
        self.s_inv_op = method
        self._s_inv = None
        self._given_s_inv = False

    def _entries(self) -> tuple[Tensor | None, Tensor, Tensor | None, int, int]:
        return self._node_index, self._cluster_index, self._weight, self._num_nodes, self._num_supernodes

    @property
    def is_sparse(self) -> bool:
        """``s`` is a COO matrix."""
        return not self._dense

    @property
    def is_dense(self) -> bool:
        """``s`` is a strided tensor."""
        return self._dense

    @property
    def num_nodes(self) -> int:
        """``N``; the padded number per graph for ``[B, N, K]``."""
        return self._num_nodes

    @property
    def num_supernodes(self) -> int:
        """``K``: all supernodes of a sparse assignment, those of one graph for a dense one."""
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
            return torch.ones(self._cluster_index.numel(), device=self._cluster_index.device)
        return self._weight

    @property
    def covers_all(self) -> bool:
        """Every node has exactly one entry."""
        if self._dense:
            return False
        if self._covers_all is None:
            rows = self._node_index
            full = rows is None or rows.numel() == self._num_nodes
            self._covers_all = full and (rows is None or bool((rows[1:] != rows[:-1]).all()))
        return self._covers_all

    @property
    def cluster(self) -> Tensor | None:
        """``[N]`` supernode of each node over the whole batch, ``-1`` if dropped; ``None`` if soft.

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
        if bool((rows[1:] == rows[:-1]).any()):
            return None
        out = torch.full((self._num_nodes,), -1, dtype=torch.long, device=rows.device)
        return out.index_copy(0, rows, self._cluster_index)

    @property
    def out_mask(self) -> Tensor | None:
        """``[B, K]`` supernodes with any non-zero entry; ``None`` for a sparse assignment."""
        if not self._dense or (self._s is not None and self._s.dim() not in (2, 3)):
            return None
        return get_mask_from_dense_s(self.s, self.batch, self.batch_size)

    @property
    def is_expressive(self) -> bool:
        """All row sums equal one non-zero constant: pooling keeps the power to tell graphs apart."""
        return _entries.is_expressive(self)

    @staticmethod
    def cat(items: Sequence[SelectOutput]) -> SelectOutput:
        """One assignment over the graphs of all ``items``: block-diagonal, or rows of a dense ``S``."""
        return collate.cat(items)

    def split(
        self, node_ptr: Sequence[int] | None = None, super_ptr: Sequence[int] | None = None
    ) -> list[SelectOutput]:
        """The parts :meth:`cat` joined, or those between the given offsets of nodes and supernodes."""
        return collate.split(self, node_ptr, super_ptr)

    def assign_all_nodes(
        self,
        adj: Any = None,
        weight: Tensor | None = None,
        max_iter: int = 5,
        batch: Tensor | None = None,
        closest_node_assignment: bool = True,
    ) -> SelectOutput:
        """A new assignment in which every node belongs to a supernode; numbering is kept.

        Args:
            adj: connectivity; needed for ``closest_node_assignment``.
            weight: ``[N]`` values of the new entries; default ones.
            max_iter: rounds of propagation from assigned nodes to their neighbours.
            batch: ``[N]`` graph ids for nodes that nothing reaches; default ``self.batch``.
            closest_node_assignment: propagate along edges; else spread nodes at random.
        """
        if self._dense:
            raise InputError("assign_all_nodes needs a sparse assignment, got a dense one", field="s")
        if self.covers_all:
            return self
        batch = self.batch if batch is None else batch
        edge_index = _entries.check_propagation(adj, max_iter, batch, closest_node_assignment)
        if weight is not None and weight.numel() != self.num_nodes:
            raise InputError(
                f"Weight tensor size ({weight.numel()}) must match the number of nodes ({self.num_nodes})",
                field="weight",
            )
        if edge_index is not None:
            edge_index, _ = connectivity_to_edge_index(edge_index)
        rounds = max_iter if closest_node_assignment else 0
        kept, first = _entries.first_of_each(self.node_index)
        leader = get_assignments(kept, edge_index, rounds, batch, self.num_nodes)[1]
        extras = {name: getattr(self, name) for name in self._extra_args - {"in_mask"} if hasattr(self, name)}
        return SelectOutput.hard(
            self._cluster_index[first][leader],
            self.num_supernodes,
            weight=None if weight is None else weight.reshape(-1),
            s_inv_op=self.s_inv_op,
            batch=batch,
            batch_size=self.batch_size,
            **extras,
        )

    def __repr__(self) -> str:
        extra = f", extra={self._extra_args}" if self._extra_args else ""
        return f"SelectOutput(num_nodes={self.num_nodes}, num_supernodes={self.num_supernodes}{extra})"


class Select(Operator):
    """Base of selectors. ``is_dense`` says whether the assignment is a dense matrix."""

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
        """Make an assignment; subclasses implement it."""
        raise NotImplementedError(f"{type(self).__name__} must implement forward")
