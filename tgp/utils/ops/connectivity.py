"""Conversion between edge lists, sparse matrices and ``SparseTensor``, and merging of parallel edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np
import torch
from torch import Tensor

from tgp import imports
from tgp.errors import InputError, MissingPackageError
from tgp.utils.checks import check_ids, check_length
from tgp.utils.tracing import on_host

__all__ = [
    "Container",
    "EdgeEntries",
    "MissingConnectivityError",
    "check_and_filter_edge_weights",
    "check_connectivity",
    "connectivity_to_edge_index",
    "connectivity_to_sparsetensor",
    "connectivity_to_torch_coo",
    "count_entries",
    "infer_num_nodes",
    "is_dense_adj",
    "mark_merged_entries",
    "merge_entries",
    "real_weights",
]

_COMPRESSED = (torch.sparse_csr, torch.sparse_csc)


class _ShapeError(InputError, RuntimeError):
    """Wrong shape of the weights. Also a ``RuntimeError``, which tgp 1.0.2 raised."""


class _KindError(InputError, NotImplementedError):
    """Unknown container. Also a ``NotImplementedError``, which tgp 1.0.2 raised."""


class MissingConnectivityError(InputError, NotImplementedError):
    """There is no connectivity. Also a ``NotImplementedError``, which tgp 1.0.2 raised."""


def check_connectivity(edge_index: Any, purpose: str) -> None:
    """Check that a connectivity is given.

    Args:
        edge_index: Connectivity, or ``None``.
        purpose: Step that needs it, for the message.

    Raises:
        MissingConnectivityError: If it is ``None``.
    """
    if edge_index is None:
        raise MissingConnectivityError(
            f"edge_index cannot be None for {purpose}: expected an edge list, a sparse matrix or a SparseTensor, got None",
            field="edge_index",
        )


def _is_sparse_matrix(adj: Any) -> bool:
    return isinstance(adj, Tensor) and adj.layout is not torch.strided


def is_dense_adj(edge_index: Any) -> bool:
    """Return True if ``edge_index`` is a dense adjacency: 3-D, or a square 2-D floating-point tensor.

    An int64 ``[2, 2]`` is an edge list, a float ``[2, 2]`` is an adjacency.
    """
    if not isinstance(edge_index, Tensor) or edge_index.layout is not torch.strided:
        return False
    if edge_index.dim() == 3:
        return True
    square = edge_index.dim() == 2 and edge_index.size(0) == edge_index.size(1)
    return square and edge_index.is_floating_point()


@overload
def check_and_filter_edge_weights(edge_weight: None) -> None: ...


@overload
def check_and_filter_edge_weights(edge_weight: Tensor) -> Tensor: ...


@overload
def check_and_filter_edge_weights(edge_weight: Tensor | None) -> Tensor | None: ...


def check_and_filter_edge_weights(edge_weight: Tensor | None) -> Tensor | None:
    """Return weights of shape ``[E]`` or ``[E, 1]`` as ``[E]``, and ``None`` as ``None``.

    Raises:
        InputError: If the weights have another shape (also a ``RuntimeError``).
    """
    if edge_weight is None:
        return None
    if not isinstance(edge_weight, Tensor):
        raise InputError(
            f"edge_weight must be a Tensor, got {type(edge_weight).__name__}", field="edge_weight"
        )
    if edge_weight.dim() == 1:
        return edge_weight
    if edge_weight.dim() == 2 and edge_weight.size(1) == 1:
        return edge_weight[:, 0]
    raise _ShapeError(
        f"edge_weight must have shape [E] or [E, 1], got {list(edge_weight.shape)}", field="edge_weight"
    )


def real_weights(edge_weight: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return weights as floating-point numbers.

    Args:
        edge_weight: Weights of any real type.
        dtype: Type for bool and integer weights; default is the default type of torch.
    """
    if edge_weight.is_floating_point():
        return edge_weight
    return edge_weight.to(
        dtype if dtype is not None and dtype.is_floating_point else torch.get_default_dtype()
    )


def _check_edge_list(edge_index: Tensor) -> Tensor:
    if edge_index.dim() == 2 and edge_index.size(0) != 2 and edge_index.size(1) == 2:
        raise InputError(
            f"edge_index must have shape [2, E], got {list(edge_index.shape)}. "
            "Transpose it: edge_index.t().contiguous().",
            field="edge_index",
        )
    if edge_index.dim() == 3 or (edge_index.dim() == 2 and edge_index.size(0) != 2):
        raise InputError(
            f"Dense adjacency matrices are not supported here: expected edge_index of shape [2, E], "
            f"got {list(edge_index.shape)}",
            field="edge_index",
        )
    if edge_index.dim() != 2:
        raise InputError(
            f"edge_index must have shape [2, E], got a Tensor with {edge_index.dim()} dimensions",
            field="edge_index",
        )
    if edge_index.dtype is torch.int64:
        return edge_index
    if edge_index.dtype is torch.int32:
        return edge_index.long()
    raise InputError(f"edge_index must hold int64 ids, got dtype={edge_index.dtype}", field="edge_index")


def _matrix_to_coo(adj: Tensor) -> Tensor:
    coo = adj.to_sparse_coo() if adj.layout in _COMPRESSED else adj
    return coo.coalesce()


def connectivity_to_edge_index(
    edge_index: Any, edge_weight: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Return any sparse connectivity as ``(edge_index [2, E] int64, weight [E] or None)``.

    For matrices (COO, CSR, CSC, ``SparseTensor``) the weights are the stored values, and ``edge_weight`` is ignored.
    Duplicate entries of a matrix are summed.
    """
    if _is_sparse_matrix(edge_index):
        coo = _matrix_to_coo(edge_index)
        return coo.indices().clone(), check_and_filter_edge_weights(coo.values().clone())
    if isinstance(edge_index, Tensor):
        return _check_edge_list(edge_index), check_and_filter_edge_weights(edge_weight)
    if imports.is_sparsetensor(edge_index):
        row, col, value = edge_index.coo()
        return torch.stack([row, col]), value
    raise _KindError(
        f"edge_index must be a Tensor or a SparseTensor, got {type(edge_index).__name__}", field="edge_index"
    )


def infer_num_nodes(edge_index: Any, num_nodes: int | None = None) -> int:
    """Return ``num_nodes`` if it is given, else the size of a matrix or the largest id + 1."""
    if num_nodes is not None:
        return int(num_nodes)
    if _is_sparse_matrix(edge_index):
        return int(max(edge_index.shape))
    if imports.is_sparsetensor(edge_index):
        return int(max(edge_index.sizes()))
    return int(edge_index.max()) + 1 if edge_index.numel() > 0 else 0


def connectivity_to_torch_coo(
    edge_index: Any,
    edge_weight: Tensor | None = None,
    num_nodes: int | None = None,
    *,
    dtype: torch.dtype | None = None,
    checked: bool = False,
) -> Tensor:
    """Return any sparse connectivity as a coalesced COO matrix ``[N, N]``. Duplicates are summed.

    Args:
        edge_index: Edge list, sparse matrix or ``SparseTensor``. A coalesced COO matrix is returned without a copy.
        edge_weight: ``[E]`` or ``[E, 1]`` weights of an edge list.
        num_nodes: ``N``; default largest id + 1.
        dtype: Type of weights of one if there are no weights; default is float32.
        checked: True if the ids are known to be below ``num_nodes``.

    Raises:
        InputError: If ``edge_index`` has another type, an id is out of range, or the number of weights is wrong.
    """
    if _is_sparse_matrix(edge_index):
        return _matrix_to_coo(edge_index)
    if not isinstance(edge_index, Tensor) and not imports.is_sparsetensor(edge_index):
        raise InputError(
            f"Edge index must be of type Tensor or SparseTensor, got {type(edge_index).__name__}",
            field="edge_index",
        )
    index, weight = connectivity_to_edge_index(edge_index, edge_weight)
    size = infer_num_nodes(index if isinstance(edge_index, Tensor) else edge_index, num_nodes)
    if not checked:  # torch does not check ids and would write out of bounds
        check_ids(index, size, "edge_index")
        check_length(weight, index.size(1), "edge_weight")
    if weight is None:
        weight = torch.ones(index.size(1), dtype=dtype or torch.float32, device=index.device)
    matrix = torch.sparse_coo_tensor(index, weight, (size, size), check_invariants=False)
    return matrix.coalesce()


def connectivity_to_sparsetensor(
    edge_index: Any, edge_weight: Tensor | None = None, num_nodes: int | None = None
) -> Any:
    """Return any sparse connectivity as a ``torch_sparse.SparseTensor`` ``[N, N]``."""
    if imports.is_sparsetensor(edge_index):
        return edge_index
    index, weight = connectivity_to_edge_index(edge_index, edge_weight)
    if not imports.HAS_TORCH_SPARSE:
        raise MissingPackageError(
            "Cannot convert connectivity to sparse tensor: torch_sparse is not installed",
            hint="pip install torch_sparse",
        )
    size = infer_num_nodes(edge_index if _is_sparse_matrix(edge_index) else index, num_nodes)
    check_ids(index, size, "edge_index")
    return imports.SparseTensor(row=index[0], col=index[1], value=weight, sparse_sizes=(size, size))


@dataclass(frozen=True)
class Container:
    """Form of a connectivity. Results are returned in the form of the input."""

    kind: str

    @classmethod
    def of(cls, adj: Any) -> Container:
        """Return the form of ``adj``: ``edge_index``, ``coo``, ``csr``, ``csc`` or ``sparsetensor``."""
        if isinstance(adj, Tensor):
            if adj.layout is torch.strided:
                return cls("edge_index")
            names = {torch.sparse_coo: "coo", torch.sparse_csr: "csr", torch.sparse_csc: "csc"}
            return cls(names[adj.layout])
        return cls("sparsetensor" if imports.is_sparsetensor(adj) else "edge_index")

    def pack(
        self, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int
    ) -> tuple[Any, Tensor | None]:
        """Return ``(adj, weight)`` in this form. For a matrix, which contains its weights, ``weight`` is ``None``.

        The ids are not checked, because they come from the library.
        """
        if self.kind == "edge_index":
            return edge_index, edge_weight
        if self.kind == "sparsetensor":
            return connectivity_to_sparsetensor(edge_index, edge_weight, num_nodes), None
        matrix = connectivity_to_torch_coo(edge_index, edge_weight, num_nodes, checked=True)
        if self.kind == "csr":
            return matrix.to_sparse_csr(), None
        if self.kind == "csc":
            return matrix.to_sparse_csc(), None
        return matrix, None


class EdgeEntries(NamedTuple):
    """Edges as flat vectors: row positions of source and target in a view, weights, and graph ids."""

    source: Tensor
    target: Tensor
    weight: Tensor
    graph: Tensor


def merge_entries(
    source: Tensor, target: Tensor, weight: Tensor, size: int, *, positive: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Merge parallel edges and remove entries of weight 0. The size of the result depends on the values.

    Args:
        source: ``[E]`` rows.
        target: ``[E]`` columns.
        weight: ``[E]``.
        size: Number of rows and columns.
        positive: True if all weights are known to be positive, so that no sum is 0.

    Returns:
        Sources, targets and weights of the non-zero entries. If nothing changes, these are the arguments.
    """
    size = max(size, 1)
    key = source * size + target
    if not bool((key[1:] > key[:-1]).all()):  # most edge lists are sorted and have no parallel edges
        key, group = torch.unique(key, return_inverse=True)
        weight = weight.new_zeros(key.numel()).index_add(0, group, weight)
        source, target = key // size, key % size
    if not positive and not bool(weight.all()):
        source, target, weight = (part[weight != 0] for part in (source, target, weight))
    return source, target, weight


def count_entries(source: Tensor, target: Tensor, weight: Tensor | None, size: int) -> Tensor:
    """Return the number of non-zero entries in each row of an adjacency. Parallel edges are one entry.

    Args:
        source: ``[E]`` rows, in range.
        target: ``[E]`` columns, in range.
        weight: ``[E]`` or ``None`` for ones.
        size: Number of rows and columns.

    Returns:
        ``[size]`` int64.
    """
    if not on_host(source, weight):
        weights = torch.ones_like(source) if weight is None else weight
        rows, _, _, present = mark_merged_entries(source, target, weights, size)
        return source.new_zeros(size).index_add(0, rows, present.long())
    key = source * max(size, 1) + target
    if bool((key[1:] > key[:-1]).all()):  # most edge lists are sorted and have no parallel edges
        present = source if weight is None else source[weight.detach() != 0]
        return torch.bincount(present, minlength=size)
    from scipy.sparse import coo_matrix

    values = np.ones(source.numel(), np.float32) if weight is None else weight.detach().numpy()
    matrix = coo_matrix((values, (source.numpy(), target.numpy())), shape=(size, size)).tocsr()
    if weight is not None:
        matrix.eliminate_zeros()
    return torch.from_numpy(np.diff(matrix.indptr).astype(np.int64))


def mark_merged_entries(
    source: Tensor, target: Tensor, weight: Tensor, size: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Merge parallel edges in tensors of fixed length, without reading a value on the host.

    Args:
        source: ``[E]`` rows.
        target: ``[E]`` columns.
        weight: ``[E]``.
        size: Number of rows and columns.

    Returns:
        Sources, targets and weights ``[E]`` in sorted order, and a mask of the non-zero entries. The first of several
        parallel edges has the sum of their weights, the others have weight 0.
    """
    size = max(size, 1)
    key, order = (source * size + target).sort()
    repeated = key[1:] == key[:-1]
    first = torch.cat([torch.ones_like(key[:1], dtype=torch.bool), ~repeated])
    group = first.long().cumsum(0) - 1
    total = torch.zeros_like(weight).index_add(0, group, weight.index_select(0, order))
    merged = total.index_select(0, group) * first
    return key // size, key % size, merged, merged != 0
