"""Conversion between tensors and the arrays of the engine (``BlockCSR``).

On the CPU, arrays share the memory of tensors if the dtypes agree. Tensors on an accelerator are packed into one buffer,
so that a graph needs one copy to main memory and a result one copy back. Both copies use pinned memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.offsets import offsets
from tgp.utils.checks import check_array_ids
from tgp.utils.ops.connectivity import Container, connectivity_to_edge_index, infer_num_nodes
from tgp.utils.tracing import read_array

__all__ = ["TorchBlock", "pooled_batch", "to_adjacency", "to_block", "to_host"]

_CPU = torch.device("cpu")
_EDGE_LIST = Container("edge_index")
_ALIGNMENT = 16
"""Alignment in bytes of the parts of a packed buffer, so that each part can be viewed in its dtype."""


@dataclass(frozen=True, eq=False)
class TorchBlock:
    """Graphs as arrays, with the information that is needed to return results as tensors of the same form.

    Args:
        block: The graphs, with nodes grouped by graph.
        order: ``[N]`` input node at each position of the block; ``None`` if the nodes were already grouped.
        rank: ``[N]`` position of each input node in the block; the inverse of ``order``.
        container: Form of the connectivity.
        device: Device of the results.
        weight_dtype: Numpy type of coarse weights.
        dtype: Type of real numbers of the assignment; ``None`` for the float32 of the engine.
        node_values: ``[N]`` one number per node, in the order of the block.
    """

    block: BlockCSR
    order: npt.NDArray[np.int64] | None
    rank: npt.NDArray[np.int64] | None
    container: Container
    device: torch.device
    weight_dtype: type
    dtype: torch.dtype | None = None
    node_values: npt.NDArray[np.float64] | None = None

    def tensor(self, array: npt.NDArray[Any]) -> Tensor:
        """Return an array as a tensor on the device of the input. On the CPU it shares the memory of the array."""
        return self.tensors(array)[0]

    def tensors(self, *arrays: npt.NDArray[Any]) -> list[Tensor]:
        """Return arrays as tensors on the device of the input, with one copy for all of them."""
        parts = [torch.from_numpy(array) for array in arrays]
        return parts if _is_main_memory(self.device) else _to_device(parts, self.device)

    def rows(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return one row per node of the block as one row per input node."""
        return array if self.rank is None else array[self.rank]

    def node_ids(self, ids: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return node ids of the block as input node ids."""
        return ids.astype(np.int64) if self.order is None else self.order[ids]

    def reals(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return real numbers of an assignment in float64 if the features are float64."""
        return array.astype(np.float64) if self.dtype is torch.float64 else array

    def pooled(self, block: BlockCSR) -> TorchBlock:
        """Return a copy for a coarse block, whose nodes are grouped by graph."""
        return replace(self, block=block, order=None, rank=None, node_values=None)


def to_block(
    edge_index: Any,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
    num_nodes: int | None = None,
    batch_size: int | None = None,
    *,
    dtype: torch.dtype | None = None,
    node_values: Tensor | None = None,
    attributes: Mapping[str, Tensor] | None = None,
) -> TorchBlock:
    """Convert any sparse connectivity to a block.

    Args:
        edge_index: Edge list, sparse matrix or ``SparseTensor``.
        edge_weight: ``[E]`` or ``[E, 1]``. The result carries no gradients.
        batch: ``[N]`` graph ids in any order, with or without gaps; one graph if ``None``.
        num_nodes: ``N``; the default is taken from ``batch``, else from the connectivity.
        batch_size: Number of graphs; default is the largest id + 1.
        dtype: Type of the features. If it is float64, results are float64 instead of float32.
        node_values: ``[N]`` one number per node that the method needs, copied together with the graph.
        attributes: ``[N]`` or ``[N, D]`` attributes of the nodes that the method needs, by name.

    Returns:
        The graphs as arrays.

    Raises:
        InputError: If ids, lengths or shapes do not fit.
    """
    container = _EDGE_LIST
    if (
        not isinstance(edge_index, Tensor)
        or edge_index.layout is not torch.strided
        or edge_index.dtype != torch.int64
    ):
        container = Container.of(edge_index)
    if container.kind != "edge_index" and num_nodes is None and batch is None:
        num_nodes = infer_num_nodes(edge_index)
    index, weight = connectivity_to_edge_index(edge_index, edge_weight)
    device = index.device
    dtype = torch.float64 if dtype is torch.float64 else None
    if not _is_main_memory(device):
        index, weight, batch, node_values = to_host(index, weight, batch, node_values)
    edges = read_array(index)
    values = None if weight is None else _weights(weight)
    wide = dtype if weight is None else weight.dtype
    weight_dtype = np.float64 if wide is torch.float64 else np.float32
    numbers = None if node_values is None else read_array(node_values.detach().double())
    if batch is None:
        if batch_size is not None and batch_size > 1:
            raise InputError(
                f"batch is missing: expected a batch vector for {batch_size} graphs, got None.", field="batch"
            )
        block = _with_attributes(
            BlockCSR.from_edge_index(edges, values, num_nodes=num_nodes), attributes, None
        )
        return TorchBlock(block, None, None, container, device, weight_dtype, dtype, numbers)
    node_ptr, order = _group(read_array(batch), num_nodes, batch_size)
    rank = None
    if order is not None:
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        check_array_ids(edges, len(order), "edge_index")
        edges = rank[edges]
        numbers = None if numbers is None else numbers[order]
    block = _with_attributes(BlockCSR.from_edge_index(edges, values, node_ptr=node_ptr), attributes, order)
    return TorchBlock(block, order, rank, container, device, weight_dtype, dtype, numbers)


def _with_attributes(
    block: BlockCSR, attributes: Mapping[str, Tensor] | None, order: npt.NDArray[np.int64] | None
) -> BlockCSR:
    """Return the block with attributes of its nodes, in the order of the block."""
    if not attributes:
        return block
    rows = {}
    for name, tensor in attributes.items():
        values = tensor.detach()
        is_known = values.dtype in (torch.float32, torch.float64) or not values.is_floating_point()
        array = read_array(to_host(values if is_known else values.float())[0])
        # A wrong number of rows is reported by the block.
        rows[name] = array if order is None or len(array) != len(order) else array[order]
    return block.with_values(**rows)


def _weights(weight: Tensor) -> npt.NDArray[Any]:
    """Return weights as float32 or float64. Other types (half, bool, integers) are converted to float64."""
    weight = weight.detach()
    return read_array(weight if weight.dtype in (torch.float32, torch.float64) else weight.double())


def to_host(*tensors: Tensor | None) -> list[Any]:
    """Return detached tensors in main memory, with one copy for all that are on an accelerator.

    Args:
        *tensors: Tensors of one device or of main memory; ``None`` stays ``None``.
    """
    parts: list[Tensor | None] = [
        part.detach() if part is not None and part.requires_grad else part for part in tensors
    ]
    remote = {
        i: part for i, part in enumerate(parts) if part is not None and not _is_main_memory(part.device)
    }
    if remote:
        sent = list(remote.values())
        starts = _starts(sent)
        packed = torch.zeros(starts[-1], dtype=torch.uint8, device=sent[0].device)
        for part, start in zip(sent, starts, strict=False):
            raw = part.contiguous().reshape(-1).view(torch.uint8)
            packed[start : start + raw.numel()] = raw
        for i, copied in zip(remote, _unpack(_download(packed), sent, starts), strict=True):
            parts[i] = copied
    return parts


def _to_device(parts: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    starts = _starts(parts)
    packed = _pinned(starts[-1])
    for part, view in zip(parts, _unpack(packed, parts, starts), strict=True):
        view.copy_(part)
    return _unpack(packed.to(device, non_blocking=True), parts, starts)


def _starts(parts: Sequence[Tensor]) -> list[int]:
    """Return the offset of each part in a packed buffer, and the size of the buffer."""
    starts = [0]
    for part in parts:
        size = part.numel() * part.element_size()
        starts.append(starts[-1] + -(-size // _ALIGNMENT) * _ALIGNMENT)
    return starts


def _unpack(packed: Tensor, like: Sequence[Tensor], starts: Sequence[int]) -> list[Tensor]:
    """Return views of a packed buffer with the dtypes and shapes of the given tensors."""
    return [
        packed[start : start + part.numel() * part.element_size()].view(part.dtype).view(part.shape)
        for part, start in zip(like, starts, strict=False)
    ]


def _is_main_memory(device: torch.device) -> bool:
    return device == _CPU


def _pinned(size: int) -> Tensor:
    return torch.empty(size, dtype=torch.uint8, pin_memory=True)


def _download(packed: Tensor) -> Tensor:
    """Copy a buffer to pinned main memory, and return when the copy is complete."""
    return _pinned(packed.numel()).copy_(packed)


def _group(
    ids: npt.NDArray[np.int64], num_nodes: int | None, batch_size: int | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64] | None]:
    """Return offsets of the graphs, and the order that groups nodes by graph or ``None`` if they are grouped."""
    if num_nodes is not None and len(ids) != num_nodes:
        raise InputError(f"batch has the wrong length: expected {num_nodes}, got {len(ids)}.", field="batch")
    if len(ids) and ids.min() < 0:
        raise InputError(
            f"batch has a negative graph id: expected ids from 0 on, got {ids.min()}.", field="batch"
        )
    counts = np.bincount(ids, minlength=batch_size or 0)
    if batch_size is not None and len(counts) > batch_size:
        raise InputError(
            f"batch has an id out of range: expected ids in [0, {batch_size}), got {len(counts) - 1}.",
            field="batch",
        )
    node_ptr = offsets(counts)
    if (ids[1:] >= ids[:-1]).all():
        return node_ptr, None
    return node_ptr, np.argsort(ids, kind="stable")


def to_adjacency(block: BlockCSR, source: TorchBlock) -> tuple[Any, Tensor | None]:
    """Return a coarse block as ``(adj, weight)`` in the container and on the device of ``source``."""
    edges = np.empty((2, block.num_edges), np.int64)
    edges[0] = block.rows()
    edges[1] = block.indices
    if block.weight is None:
        index, weight = source.tensor(edges), None
    else:
        index, weight = source.tensors(edges, block.weight.astype(source.weight_dtype))
    if source.container is _EDGE_LIST:
        return index, weight
    return source.container.pack(index, weight, block.num_nodes)


def pooled_batch(assignment: Assignment, source: TorchBlock) -> Tensor:
    """Return ``[K]`` graph ids of the supernodes."""
    if assignment.num_graphs == 1:
        return torch.zeros(assignment.num_supernodes, dtype=torch.long, device=source.device)
    counts = np.diff(assignment.super_ptr)
    return source.tensor(np.repeat(np.arange(len(counts), dtype=np.int64), counts))
