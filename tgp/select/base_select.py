"""``SelectOutput``, an assignment of nodes to supernodes, and ``Select``, the base class of selectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tgp.display import repr_html
from tgp.errors import InputError
from tgp.imports import is_sparsetensor as is_sparsetensor
from tgp.select import _sparse_entries
from tgp.select._sparse_entries import cluster_to_s
from tgp.select._tensor_container import TensorContainer, arguments_from_1_0_2
from tgp.utils.operator import Operator
from tgp.utils.ops.assign import get_assignments as get_assignments
from tgp.utils.ops.assign import pseudo_inverse
from tgp.utils.ops.batching import get_mask_from_dense_s
from tgp.utils.ops.connectivity import connectivity_to_edge_index as connectivity_to_edge_index
from tgp.utils.typing import SinvType

__all__ = ["Select", "SelectOutput", "cluster_to_s"]


class SelectOutput(TensorContainer):
    r"""An assignment :math:`\mathbf{S}` of ``N`` nodes to ``K`` supernodes.

    A sparse assignment stores its entries as flat vectors. The COO matrix ``s`` is built on first access. A one-hot
    assignment (:meth:`onehot`) stores one column per node. Its dense ``[N, K]`` matrix is built on first access, too.
    ``s_inv`` is always built on first access unless it is given.

    Args:
        s: COO ``[N, K]``, or dense ``[N, K]`` / ``[B, N, K]``; ``None`` to build it from ``cluster_index``.
        s_inv: ``[..., K, N]``; by default it is computed from ``s`` by ``s_inv_op``.
        node_index: node of each entry; by default ``0, 1, ...``. Entries are sorted by node.
        num_nodes: ``N``; by default the number of entries.
        cluster_index: supernode of each entry.
        num_supernodes: ``K``; by default the largest id + 1.
        weight: value of each entry; by default ones.
        s_inv_op: ``transpose`` or ``inverse`` (Moore-Penrose).
        batch: ``[N]`` graph ids of the nodes.
        in_mask: ``[B, N]`` mask of the real nodes of a dense ``[B, N, K]`` assignment.
        batch_size: number of graphs. Needed if the last graphs may be empty.
        **extra_args: further attributes, stored under their names.

    Raises:
        InputError: if the arguments contradict each other or an id is out of range.

    Examples:
        >>> so = SelectOutput(cluster_index=torch.tensor([0, 0, 1]))
        >>> so.s.to_dense().tolist()
        [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    """

    if TYPE_CHECKING:
        # Extra attributes have any name.
        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

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
            self._set_parts(
                *_sparse_entries.checked(cluster_index, node_index, weight, num_nodes, num_supernodes)
            )
        elif not isinstance(s, Tensor):
            raise InputError(f"{_sparse_entries.NO_MATRIX}, got {type(s).__name__}", field="s")
        elif s.layout is torch.strided:
            more = {"num_nodes": num_nodes, "num_supernodes": num_supernodes, "weight": weight}
            _sparse_entries.refuse({**given, **more}, "a dense Tensor")
            if s.dim() < 2:
                raise InputError(f"{_sparse_entries.NO_COLUMNS}, got {list(s.shape)}", field="s")
            self._set_parts(None, None, None, s.size(-2), s.size(-1), s=s)
        else:
            _sparse_entries.refuse(given, "not None")
            self._set_parts(*_sparse_entries.from_matrix(s, weight, num_nodes, num_supernodes))
        _sparse_entries.check_inverse_op(s_inv_op)
        self._set_options(s_inv, s_inv_op, batch, batch_size, extra_args)
        if in_mask is not None:
            self.in_mask = _sparse_entries.checked_mask(in_mask, self)
            self._extra_args.add("in_mask")

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
        """Return a sparse assignment from valid, sorted entries. The entries are not checked.

        Args:
            cluster_index: supernode of each entry.
            num_supernodes: ``K``.
            node_index: node of each entry, strictly ascending; ``None`` if every node has one entry.
            num_nodes: ``N``; by default the number of entries.
            weight: value of each entry; by default ones.
            s_inv_op: ``transpose`` or ``inverse``.
            batch: ``[N]`` graph ids of the nodes.
            batch_size: number of graphs.
            dtype: type of the weights if ``weight`` is ``None``.
            **extra_args: further attributes.
        """
        self = cls.__new__(cls)
        size = cluster_index.numel() if num_nodes is None else num_nodes
        self._set_parts(node_index, cluster_index, weight, size, num_supernodes)
        self._distinct = True
        self._set_options(None, s_inv_op, batch, batch_size, extra_args)
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
        """Return a dense ``[N, k]`` one-hot assignment, stored as one column per node.

        Args:
            column: ``[N]`` supernode of each node inside its graph; ``-1`` gives a row of zeros.
            k: number of supernodes per graph.
            s_inv_op: ``transpose`` or ``inverse``.
            batch: ``[N]`` graph ids of the nodes.
            batch_size: number of graphs.
            dtype: type of ``s``.
            **extra_args: further attributes.
        """
        self = cls.__new__(cls)
        self._set_parts(None, column, None, column.numel(), k, dense=True)
        self._set_options(None, s_inv_op, batch, batch_size, extra_args)
        self._dtype = dtype
        return self

    @property
    def s(self) -> Tensor:
        """Assignment matrix: COO ``[N, K]``, or dense ``[N, K]`` / ``[B, N, K]``."""
        if self._s is None:
            index = self._stored_index()
            size = self._num_nodes, self._num_supernodes
            if self._dense:
                self._s = _sparse_entries.onehot_matrix(index, self._num_supernodes, self._dtype)
            else:
                self._s = _sparse_entries.matrix(
                    self._node_index, index, self._weight, *size, dtype=self._dtype
                )
        return self._s

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
        """Inverse ``[..., K, N]``: the given matrix, or one computed from ``s`` by ``s_inv_op``."""
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
        """Replace ``s_inv`` by the transpose or the Moore-Penrose inverse of ``s``.

        Args:
            method: ``transpose`` or ``inverse``.
        """
        _sparse_entries.check_inverse_op(method)
        self.s_inv_op = method
        self._s_inv = None
        self._given_s_inv = False

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
        """Number of nodes; for ``[B, N, K]`` the padded number per graph."""
        return self._num_nodes

    @property
    def num_supernodes(self) -> int:
        """Number of supernodes: of the whole batch for a sparse assignment, per graph for a dense one."""
        return self._num_supernodes

    @property
    def node_index(self) -> Tensor | None:
        """Node of each entry, ascending; ``None`` for a dense assignment."""
        if self._dense:
            return None
        if self._node_index is None:
            return torch.arange(self._num_nodes, device=self._stored_index().device)
        return self._node_index

    @property
    def cluster_index(self) -> Tensor | None:
        """Supernode of each entry; ``None`` for a dense assignment."""
        return None if self._dense else self._cluster_index

    @property
    def weight(self) -> Tensor | None:
        """Value of each entry; ``None`` for a dense assignment."""
        return None if self._dense else self._entry_weights()

    @property
    def covers_all(self) -> bool:
        """True if every node has exactly one entry."""
        if self._dense:
            return False
        rows = self._node_index
        return rows is None or (rows.numel() == self._num_nodes and self._has_distinct_nodes())

    @property
    def cluster(self) -> Tensor | None:
        """Supernode ``[N]`` of each node, ``-1`` if the node is dropped; ``None`` for a soft assignment.

        Supernodes are numbered over the whole batch: supernode ``c`` of graph ``b`` of a one-hot assignment with ``K``
        columns has the number ``b * K + c``.
        """
        if self._cluster_index is None:
            return None
        if self._dense:
            column = self._cluster_index
            if self.batch is None:
                return column
            return torch.where(column < 0, column, self.batch * self._num_supernodes + column)
        rows = self._node_index
        if rows is None or self.covers_all:
            return self._cluster_index
        if not self._has_distinct_nodes():
            return None
        out = torch.full((self._num_nodes,), -1, dtype=torch.long, device=rows.device)
        return out.index_copy(0, rows, self._cluster_index)

    @property
    def out_mask(self) -> Tensor | None:
        """Mask ``[B, K]`` of the supernodes with a non-zero entry; ``None`` for a sparse assignment."""
        if not self._dense or (self._s is not None and self._s.dim() not in (2, 3)):
            return None
        if self._cluster_index is not None:
            return _sparse_entries.onehot_mask(
                self._cluster_index, self._num_supernodes, self.batch, self.batch_size
            )
        return get_mask_from_dense_s(self.s, self.batch, self.batch_size)

    @property
    def is_expressive(self) -> bool:
        """True if all row sums equal one non-zero constant. Pooling then keeps the expressive power of the GNN."""
        return _sparse_entries.is_expressive(self)

    @staticmethod
    def cat(items: Sequence[SelectOutput]) -> SelectOutput:
        """Join assignments into one.

        Args:
            items: all sparse, or all dense with the same number of supernodes.

        Returns:
            A block-diagonal sparse assignment, or the rows (for ``[B, N, K]`` the graphs) of all dense ones.
        """
        from tgp.select.concat import cat

        return cat(items)

    def split(
        self, node_ptr: Sequence[int] | None = None, super_ptr: Sequence[int] | None = None
    ) -> list[SelectOutput]:
        """Return the assignments that :meth:`cat` joined, or the parts between the given offsets.

        Args:
            node_ptr: offsets of the nodes; by default those of the joined assignments.
            super_ptr: offsets of the supernodes. Needed to split a sparse assignment by ``node_ptr``.
        """
        from tgp.select.concat import split

        return split(self, node_ptr, super_ptr)

    def to_nodes(self, x: Tensor) -> Tensor:
        """Return the rows of a padded tensor in the order of the input nodes.

        Lifting from a padded assignment gives ``[B, N, F]``. This method removes the padding and restores the
        order that the nodes had before padding, even if the graph ids were not sorted.

        Args:
            x: ``[B, N, ...]``, padded like this assignment. If the assignment is not padded, ``x`` is returned
                unchanged.

        Returns:
            ``[num_nodes, ...]`` with one row per input node.

        Raises:
            InputError: if the shape of ``x`` does not fit this assignment.
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
        """Return a new assignment in which every node has a supernode. Supernodes keep their numbers.

        Args:
            adj: connectivity. Needed for ``closest_node_assignment``.
            weight: ``[N]`` values of the new entries; by default ones.
            max_iter: rounds of propagation from assigned nodes to their neighbours.
            batch: ``[N]`` graph ids; by default ``self.batch``. A node that is not reached gets a random supernode of
                its graph.
            closest_node_assignment: propagate supernodes along the edges. Otherwise all nodes without a supernode
                get a random one.
        """
        return _sparse_entries.assign_all_nodes(self, adj, weight, max_iter, batch, closest_node_assignment)

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_dense" in state:
            self.__dict__.update(state)
        else:
            SelectOutput.__init__(self, **arguments_from_1_0_2(state))

    _repr_html_ = repr_html

    def __repr__(self) -> str:
        extra = f", extra={self._extra_args}" if self._extra_args else ""
        return f"SelectOutput(num_nodes={self.num_nodes}, num_supernodes={self.num_supernodes}{extra})"


class Select(Operator):
    """Base class of selectors, which assign nodes to supernodes."""

    is_dense: bool = False
    """True if the assignment is a dense matrix."""

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
        """Return an assignment. Subclasses implement this method and may name other arguments."""
        raise NotImplementedError(f"{type(self).__name__} must implement forward")
