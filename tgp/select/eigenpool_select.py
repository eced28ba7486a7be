"""Spectral clusters and their eigenvectors (EigenPool)."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tgp.engine.block_algebra import Rows
from tgp.engine.spectral_clusters import cluster_modes
from tgp.errors import InputError
from tgp.ragged.offsets import offsets
from tgp.select.base_select import Select as Select
from tgp.select.base_select import SelectOutput
from tgp.select.level_select import FixedKSelect, MethodParameter
from tgp.utils.ops.batching import is_multi_graph_batch as is_multi_graph_batch
from tgp.utils.ops.connectivity import connectivity_to_edge_index as connectivity_to_edge_index
from tgp.utils.typing import SinvType

__all__ = ["EigenPoolSelect", "build_pooling_matrix", "eigenpool_select", "eigenvectors", "laplacian"]

Matrix = TypeVar("Matrix", npt.NDArray[Any], Tensor)


class EigenPoolSelect(FixedKSelect):
    r"""Selector of spectral clusters with the first eigenvectors of each cluster, from `"Graph Convolutional Networks
    with EigenPooling" <https://arxiv.org/abs/1904.13107>`_.

    Nodes are clustered by k-means on the lowest eigenvectors of the normalised Laplacian of the graph. ``so.theta``
    has the shape ``[N, H]``: entry ``h`` of a node is its value in eigenvector ``h`` of the Laplacian of its cluster. A
    cluster with fewer than ``H`` nodes has zeros in the remaining entries. Eigenvectors have a canonical sign, and a
    canonical basis if an eigenvalue repeats. The result depends only on the graph and the seed.

    Args:
        k: number of supernodes per graph.
        s_inv_op: ``transpose`` or ``inverse``.
        num_modes: ``H``, number of eigenvectors per cluster.
        normalized: use the symmetric normalised Laplacian of the cluster instead of ``D - A``.
        restarts: number of initializations of k-means, at most 3 for more than 2,000 nodes. The best result is used.
        seed: seed of k-means.
        split_components: divide the supernodes of a graph with more than ``k`` components among them by size. Otherwise
            ``k - 1`` components are supernodes, and the rest is one supernode.
    """

    def __init__(
        self,
        k: int,
        s_inv_op: SinvType = "transpose",
        num_modes: int = 5,
        normalized: bool = True,
        *,
        restarts: int = 10,
        seed: int = 0,
        split_components: bool = True,
    ) -> None:
        params = {
            "k": k,
            "num_modes": num_modes,
            "normalized": normalized,
            "restarts": restarts,
            "split_components": split_components,
        }
        super().__init__("eigen", params, seed, s_inv_op)

    num_modes = MethodParameter("Number of eigenvectors per cluster.")
    normalized = MethodParameter("True if the modes are those of the normalised Laplacian.")


def eigenpool_select(
    edge_index: Any,
    k: int,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
    num_nodes: int | None = None,
    fixed_k: bool = False,
    s_inv_op: SinvType = "transpose",
    num_modes: int = 5,
    normalized: bool = True,
    *,
    restarts: int = 10,
    seed: int = 0,
    level: int = 0,
    split_components: bool = True,
) -> SelectOutput:
    """Run :class:`EigenPoolSelect`.

    Args:
        edge_index, edge_weight, batch, num_nodes, fixed_k, level: see :meth:`EigenPoolSelect.forward`.
        k, s_inv_op, num_modes, normalized, restarts, seed, split_components: see :class:`EigenPoolSelect`.
    """
    select = EigenPoolSelect(
        k, s_inv_op, num_modes, normalized, restarts=restarts, seed=seed, split_components=split_components
    )
    so: SelectOutput = select(
        edge_index=edge_index,
        edge_weight=edge_weight,
        batch=batch,
        num_nodes=num_nodes,
        fixed_k=fixed_k,
        level=level,
    )
    return so


def laplacian(adj: Matrix, normalized: bool = True) -> Matrix:
    r"""Return a dense Laplacian. Self loops count as edges.

    Args:
        adj: ``[N, N]`` array or tensor.
        normalized: return :math:`I - D^{-1/2} A D^{-1/2}` instead of :math:`D - A`. A node without edges then has 1 on
            the diagonal.

    Returns:
        ``[N, N]`` of the same type as ``adj``.

    Examples:
        >>> laplacian(np.array([[0.0, 1.0], [1.0, 0.0]]), normalized=False).tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
    """
    matrix = _square(adj, "adj")
    degree = matrix.sum(0)
    if normalized:
        root = np.where(degree > 0, 1.0 / np.sqrt(np.where(degree > 0, degree, 1.0)), 0.0)
        return _like(np.eye(len(matrix)) - root[:, None] * matrix * root, adj)
    return _like(np.diag(degree) - matrix, adj)


def eigenvectors(L: Matrix) -> tuple[npt.NDArray[Any], Matrix]:
    """Return eigenvalues and canonical eigenvectors of a symmetric matrix.

    In each vector, the entry of largest magnitude is positive; among equal entries the first one counts. If an
    eigenvalue repeats, :func:`tgp.kernels.spectral_basis.canonical_rows` defines the basis. Only the lower triangle is
    read.

    Args:
        L: ``[N, N]`` array or tensor.

    Returns:
        ``[N]`` ascending eigenvalues as an array, and ``[N, N]`` with the eigenvectors as columns, of the same type as
        ``L``.
    """
    from tgp.engine.laplacian_eigs import dense_eigenvectors

    lower = np.tril(_square(L, "L"))
    vectors = _like(dense_eigenvectors(lower + np.tril(lower, -1).T).T, L)
    values = np.linalg.eigvalsh(lower)
    return values.astype(vectors.numpy().dtype if isinstance(L, Tensor) else vectors.dtype), vectors


def build_pooling_matrix(
    adj_np: npt.ArrayLike | Tensor,
    cluster_labels: npt.ArrayLike | Tensor,
    num_modes: int,
    normalized: bool = True,
    expected_num_clusters: int | None = None,
) -> npt.NDArray[np.float32] | Tensor:
    r"""Return the pooling operator :math:`\Theta` of one graph as a dense ``[N, H * K]`` matrix, mode-major.

    Column ``h * K + c`` holds eigenvector ``h`` of cluster ``c``; rows of other clusters are zero. tgp 1.0.2 stores this
    matrix in ``so.theta``. The reducer and the lifter of EigenPool accept it, too.

    Args:
        adj_np: ``[N, N]`` dense adjacency.
        cluster_labels: ``[N]`` cluster of each node.
        num_modes: ``H``.
        normalized: use the normalised Laplacian of a cluster.
        expected_num_clusters: ``K``; by default the largest label + 1.

    Returns:
        A float32 array, or a tensor if ``adj_np`` is a tensor.

    Raises:
        InputError: if the adjacency is not square, or the labels do not fit it.
    """
    matrix = _square(adj_np, "adj_np")
    label = np.asarray(cluster_labels, dtype=np.int32).reshape(-1)
    if len(label) != len(matrix):
        raise InputError(
            f"cluster_labels must hold {len(matrix)} labels, got {len(label)}", field="cluster_labels"
        )
    k = expected_num_clusters or int(label.max(initial=-1)) + 1
    if label.size and (label.min() < 0 or label.max() >= k):
        raise InputError(
            f"cluster_labels must lie in [0, {k}), got values from {label.min()} to {label.max()}",
            field="cluster_labels",
        )
    theta = cluster_modes(
        _csr_rows(np.maximum((matrix + matrix.T) / 2, 0.0)), label, k, num_modes, normalized
    )
    wide = np.zeros((len(label), num_modes, k), np.float32)
    wide[np.arange(len(label)), :, label] = theta
    out = wide.reshape(len(label), num_modes * k)
    return torch.from_numpy(out).to(adj_np.device) if isinstance(adj_np, Tensor) else out


def _csr_rows(matrix: npt.NDArray[np.float64]) -> Rows:
    rows, cols = np.nonzero(matrix)
    indptr = offsets(np.bincount(rows, minlength=len(matrix)))
    return indptr, cols.astype(np.int32), matrix[rows, cols]


def _square(matrix: Any, name: str) -> npt.NDArray[np.float64]:
    """Return a matrix as an array and check that it is square."""
    if isinstance(matrix, Tensor):
        matrix = matrix.detach().cpu().numpy()
    out = np.asarray(matrix, dtype=np.float64)
    if out.ndim != 2 or out.shape[0] != out.shape[1]:
        raise InputError(f"{name} must be a square matrix, got shape {list(out.shape)}", field=name)
    return out


def _like(result: npt.NDArray[np.float64], given: Matrix) -> Matrix:
    """Convert ``result`` to the type, precision and device of ``given``."""
    if isinstance(given, Tensor):
        dtype = given.dtype if given.is_floating_point() else torch.get_default_dtype()
        return torch.from_numpy(np.ascontiguousarray(result)).to(given.device, dtype)
    kind = np.asarray(given).dtype
    return result.astype(kind) if np.issubdtype(kind, np.floating) else result
