"""The border between torch and the engine: tensors in, ``BlockCSR`` across, tensors out.

Nothing is copied on the CPU where dtypes agree; tensors of another device travel to main memory and back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.ragged import Assignment, BlockCSR
from tgp.utils.ops.connectivity import Container, connectivity_to_edge_index, infer_num_nodes

__all__ = ["TorchBlock", "pooled_batch", "to_adjacency", "to_block"]

_CPU = torch.device("cpu")
_EDGE_LIST = Container("edge_index")


@dataclass(frozen=True, eq=False)
class TorchBlock:
    """A block made of tensors, and what is needed to bring results back in their form.

    Args:
        block: the graphs, nodes grouped by graph.
        order: ``[N]`` input node at each place of the block; ``None`` if the input was grouped already.
        rank: ``[N]`` place of each input node; inverse of ``order``.
        container: form of the connectivity.
        device: where results go.
        weight_dtype: type of coarse weights.
    """

    block: BlockCSR
    order: npt.NDArray[np.int64] | None
    rank: npt.NDArray[np.int64] | None
    container: Container
    device: torch.device
    weight_dtype: type

    def tensor(self, array: npt.NDArray[Any]) -> Tensor:
        """An array as a tensor on the input's device, sharing memory on the CPU."""
        out = torch.from_numpy(array)
        return out if self.device == _CPU else out.to(self.device)

    def per_node(self, array: npt.NDArray[Any]) -> Tensor:
        """One row per node of the block as one row per input node."""
        return self.tensor(array if self.rank is None else array[self.rank])

    def node_ids(self, ids: npt.NDArray[Any]) -> Tensor:
        """Node ids of the block as input node ids."""
        return self.tensor(ids.astype(np.int64) if self.order is None else self.order[ids])


def to_block(
    edge_index: Any,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
    num_nodes: int | None = None,
    batch_size: int | None = None,
) -> TorchBlock:
    """Any sparse connectivity as a block.

    Args:
        edge_index: edge list, sparse matrix or ``SparseTensor``.
        edge_weight: ``[E]`` or ``[E, 1]``; gradients do not pass.
        batch: ``[N]`` graph ids in any order, with or without gaps; one graph if absent.
        num_nodes: ``N``; default from ``batch``, else from the connectivity.
        batch_size: number of graphs; default largest id + 1.
    """
    container = _EDGE_LIST
    index, weight = edge_index, edge_weight
    if (
        not isinstance(edge_index, Tensor)
        or edge_index.layout is not torch.strided
        or index.dtype != torch.int64
    ):
        container = Container.of(edge_index)
    if container.kind != "edge_index" and num_nodes is None and batch is None:
        num_nodes = infer_num_nodes(edge_index)
    index, weight = connectivity_to_edge_index(edge_index, edge_weight)
    device = index.device
    edges = _numpy(index)
    values, weight_dtype = None, np.float32
    if weight is not None:
        weight = weight.detach()
        if weight.dtype == torch.float64:
            weight_dtype = np.float64
        elif weight.dtype != torch.float32:
            weight = weight.double()
        values = _numpy(weight)
    if batch is None:
        if batch_size is not None and batch_size > 1:
            raise InputError(f"{batch_size} graphs need a batch vector, got None", field="batch")
        block = BlockCSR.from_edge_index(edges, values, num_nodes=num_nodes)
        return TorchBlock(block, None, None, container, device, weight_dtype)
    node_ptr, order = _group(_numpy(batch), num_nodes, batch_size)
    rank = None
    if order is not None:
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        _check_ids(edges, len(order))
        edges = rank[edges]
    block = BlockCSR.from_edge_index(edges, values, node_ptr=node_ptr)
    return TorchBlock(block, order, rank, container, device, weight_dtype)


def _numpy(tensor: Tensor) -> npt.NDArray[Any]:
    return (tensor if tensor.device == _CPU else tensor.cpu()).numpy()


def _check_ids(edges: npt.NDArray[np.int64], num_nodes: int) -> None:
    if edges.size and (edges.min() < 0 or edges.max() >= num_nodes):
        bad = int(edges.min()) if edges.min() < 0 else int(edges.max())
        raise InputError(f"edge_index must hold ids in [0, {num_nodes}), got {bad}", field="edge_index")


def _group(
    ids: npt.NDArray[np.int64], num_nodes: int | None, batch_size: int | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64] | None]:
    """Offsets of the graphs, and the order that groups nodes by graph (``None``: they are)."""
    if num_nodes is not None and len(ids) != num_nodes:
        raise InputError(f"batch must hold {num_nodes} graph ids, got {len(ids)}", field="batch")
    if len(ids) and ids.min() < 0:
        raise InputError(f"batch must hold graph ids from 0 on, got {ids.min()}", field="batch")
    counts = np.bincount(ids, minlength=batch_size or 0)
    if batch_size is not None and len(counts) > batch_size:
        raise InputError(
            f"batch must hold graph ids in [0, {batch_size}), got {len(counts) - 1}", field="batch"
        )
    node_ptr = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=node_ptr[1:])
    if (ids[1:] >= ids[:-1]).all():
        return node_ptr, None
    return node_ptr, np.argsort(ids, kind="stable")


def to_adjacency(block: BlockCSR, source: TorchBlock) -> tuple[Any, Tensor | None]:
    """A coarse block as ``(adj, weight)`` in the container and on the device of ``source``."""
    edges = np.empty((2, block.num_edges), np.int64)
    edges[0] = block.rows()
    edges[1] = block.indices
    index = source.tensor(edges)
    weight = None if block.weight is None else source.tensor(block.weight.astype(source.weight_dtype))
    if source.container is _EDGE_LIST:
        return index, weight
    return source.container.pack(index, weight, block.num_nodes)


def pooled_batch(assignment: Assignment, source: TorchBlock) -> Tensor:
    """``[K]`` graph ids of the supernodes."""
    if assignment.num_graphs == 1:
        return torch.zeros(assignment.num_supernodes, dtype=torch.long, device=source.device)
    counts = np.diff(assignment.super_ptr)
    return source.tensor(np.repeat(np.arange(len(counts), dtype=np.int64), counts))
