"""PANConv: path-integral convolution without torch-sparse."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.dense.linear import Linear

from tgp.imports import is_sparsetensor
from tgp.utils.checks import check_ids
from tgp.utils.ops.connectivity import Container, connectivity_to_edge_index, real_weights
from tgp.utils.ops.products import sparse_product
from tgp.utils.precision import widen

__all__ = ["PANConv"]


class PANConv(MessagePassing):
    r"""Layer of `"Path Integral Based Convolution and Pooling for Graph Neural Networks"
    <https://arxiv.org/abs/2006.16811>`_.

    .. math::
        X' = M X W + b, \quad M = Z^{-1/2} \Big(\sum_{n=0}^{L} \big(\prod_{m \le n} w_m\big) A^n\Big) Z^{-1/2}

    :math:`A_{ij}` is the edge from :math:`j` to :math:`i`, :math:`w` are learned weights, and the diagonal matrix
    :math:`Z` holds the number of entries of each row. Constructor, parameters and results are those of PyG's layer of
    the same name, which needs torch-sparse.

    Args:
        in_channels: Size of the input features; -1 to derive it from the first input.
        out_channels: Size of the output features.
        filter_size: Length :math:`L` of the longest path.
        **kwargs: Arguments of :class:`torch_geometric.nn.MessagePassing`.
    """

    def __init__(self, in_channels: int, out_channels: int, filter_size: int, **kwargs: Any) -> None:
        kwargs.setdefault("aggr", "add")
        super().__init__(**kwargs)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.filter_size = filter_size
        self.lin = Linear(in_channels, out_channels)
        self.weight = torch.nn.Parameter(torch.empty(filter_size + 1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset all learnable parameters."""
        super().reset_parameters()
        self.lin.reset_parameters()
        with torch.no_grad():
            self.weight.fill_(0.5)

    def forward(self, x: Tensor, edge_index: Any) -> tuple[Tensor, Any]:
        """Return the output features and the matrix :math:`M`.

        Args:
            x: ``[N, F]``.
            edge_index: Edge list, sparse matrix or ``SparseTensor``. A matrix has targets in rows. The values of a
                ``SparseTensor`` are ignored.

        Returns:
            Features ``[N, F']``, and ``M [N, N]`` with targets in rows. ``M`` is a ``SparseTensor`` or a CSR matrix if
            ``edge_index`` is one, otherwise a coalesced COO matrix.

        Raises:
            InputError: If a node id is out of range.
        """
        container = Container.of(edge_index)
        index, values = self._path_entries(self._adjacency(edge_index, container, x))
        sources_first = index if self.flow == "target_to_source" else index.flip(0)
        out = self.propagate(sources_first, x=x, edge_weight=values.to(x.dtype), size=None)
        form = Container("coo") if container.kind == "edge_index" else container
        matrix, _ = form.pack(index, values.to(x.dtype), x.size(0))
        return self.lin(out), matrix

    def message(self, x_j: Tensor, edge_weight: Tensor) -> Tensor:
        """Return the messages of the edges of ``M``.

        Args:
            x_j: ``[E, F]`` features of the sources.
            edge_weight: ``[E]`` values of ``M``.
        """
        return edge_weight.view(-1, 1) * x_j

    def _adjacency(self, edge_index: Any, container: Container, x: Tensor) -> Tensor:
        """Return ``A`` as a coalesced COO matrix with targets in rows, in float32 or wider."""
        size, dtype = x.size(0), widen(x).dtype
        index, values = connectivity_to_edge_index(edge_index)
        index = index.flip(0) if container.kind == "edge_index" else index
        check_ids(index, size, "edge_index")
        if values is None or is_sparsetensor(edge_index):
            values = torch.ones(index.size(1), dtype=dtype, device=index.device)
        values = widen(real_weights(values, dtype)).to(dtype)
        return torch.sparse_coo_tensor(index, values, (size, size), check_invariants=False).coalesce()

    def _path_entries(self, adj: Tensor) -> tuple[Tensor, Tensor]:
        """Return the indices ``[2, E]`` and values ``[E]`` of ``M``, sorted by row, then by column."""
        size = adj.size(0)
        nodes = torch.arange(size, device=adj.device)
        power = torch.sparse_coo_tensor(
            torch.stack([nodes, nodes]),
            torch.ones(size, dtype=adj.dtype, device=adj.device),
            (size, size),
            is_coalesced=True,
            check_invariants=False,
        )
        scale = self.weight.to(adj.dtype).cumprod(0)
        indices, values = [power.indices()], [power.values() * scale[0]]
        for length in range(1, self.filter_size + 1):
            power = sparse_product(power, adj)
            indices.append(power.indices())
            values.append(power.values() * scale[length])
        total = torch.sparse_coo_tensor(
            torch.cat(indices, dim=1), torch.cat(values), (size, size), check_invariants=False
        ).coalesce()
        row, col = total.indices()
        count = torch.zeros(size, dtype=adj.dtype, device=adj.device)
        norm = count.index_add(0, row, torch.ones_like(row, dtype=adj.dtype)).rsqrt()
        return total.indices(), norm[row] * total.values() * norm[col]

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.out_channels}, filter_size={self.filter_size})"
        )
