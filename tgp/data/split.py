"""Levels of many graphs, taken apart into one ``Data`` per graph and level."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.data import Data

from tgp.data.attributes import LevelArrays, as_tensor, select_output
from tgp.data.fast_data import make_data, paused_gc
from tgp.engine.methods import representative_name
from tgp.select.base_select import SelectOutput

__all__ = ["levels_to_data"]

Array = npt.NDArray[Any]


def levels_to_data(levels: Sequence[LevelArrays], methods: Sequence[str]) -> list[list[Data]]:
    """``[graph][level]``: what :class:`~tgp.data.PreCoarsening` attaches to each graph.

    Tensors are views into the arrays of the whole block.
    """
    if not levels:
        return []
    if len(levels[0].super_ptr) == 2:
        return [_single(levels, methods)]
    with paused_gc():
        columns = [_split(level, method) for level, method in zip(levels, methods, strict=True)]
        return [list(row) for row in zip(*columns, strict=True)]


def _single(levels: Sequence[LevelArrays], methods: Sequence[str]) -> list[Data]:
    """One graph: its arrays are the block's."""
    out = []
    batch = None
    for level, method in zip(levels, methods, strict=True):
        if batch is None or batch.numel() != level.node_ptr[-1]:
            batch = torch.zeros(int(level.node_ptr[-1]), dtype=torch.int64)
        so = select_output(level, batch, method)
        size = int(level.super_ptr[-1])
        batch = torch.zeros(size, dtype=torch.int64)
        mapping: dict[str, Any] = {"edge_index": as_tensor(level.edge_index)}
        if level.edge_weight is not None:
            mapping["edge_weight"] = as_tensor(level.edge_weight)
        mapping["batch"] = batch
        if level.kind != "hard" and so is not None:
            mapping["mask"] = so.out_mask
        mapping["so"] = so
        mapping["num_nodes"] = size
        out.append(make_data(mapping))
    return out


def _split(level: LevelArrays, method: str) -> Iterable[Data]:
    nodes, supers, edges = (np.diff(p) for p in (level.node_ptr, level.super_ptr, level.edge_ptr))
    shift = np.repeat(level.super_ptr[:-1], edges)
    columns: dict[str, Iterable[Any]] = {"edge_index": _cut(level.edge_index - shift, edges, dim=1)}
    if level.edge_weight is not None:
        columns["edge_weight"] = _cut(level.edge_weight, edges)
    columns["batch"] = _zeros(supers)
    if level.kind != "hard":
        whole = select_output(level, torch.from_numpy(np.repeat(np.arange(len(nodes)), nodes)))
        columns["mask"] = whole.out_mask.split(1)
    columns["so"] = _assignments(level, method, nodes, supers)
    columns["num_nodes"] = supers.tolist()
    names = list(columns)
    return (
        make_data(dict(zip(names, values, strict=True))) for values in zip(*columns.values(), strict=True)
    )


def _assignments(level: LevelArrays, method: str, nodes: Array, supers: Array) -> Iterable[SelectOutput]:
    representative = None if level.representative is None else representative_name(method)
    parts = _select_outputs(level, representative, nodes, supers)
    return parts if representative is None else (_with_node_ids(so, representative) for so in parts)


def _with_node_ids(so: SelectOutput, extra: str) -> SelectOutput:
    so._node_id_extras = frozenset({extra})
    return so


def _select_outputs(
    level: LevelArrays, representative: str | None, nodes: Array, supers: Array
) -> Iterable[SelectOutput]:
    batches = _zeros(nodes)
    extras: dict[str, Iterable[Tensor]] = {}
    if level.theta is not None:
        extras["theta"] = _cut(level.theta, nodes)
    if representative is not None:
        local = level.representative - np.repeat(level.node_ptr[:-1], supers)
        extras[representative] = _cut(local, supers)
    rows = zip(*extras.values(), strict=True) if extras else ((),) * len(nodes)
    notes = [{"batch_size": 1, **dict(zip(extras, row, strict=True))} for row in rows]
    if level.kind == "soft":
        parts = zip(_cut(level.soft, nodes), batches, notes, strict=True)
        return (SelectOutput(s=s, batch=batch, **note) for s, batch, note in parts)
    local = level.cluster - np.repeat(level.super_ptr[:-1], nodes)
    local[level.cluster < 0] = -1
    counts = supers.tolist()
    if level.kind == "onehot":
        parts = zip(_cut(local, nodes), counts, batches, notes, strict=True)
        return (SelectOutput.onehot(column, k, batch=batch, **note) for column, k, batch, note in parts)
    return _hard(local, level, nodes, counts, batches, notes)


def _hard(
    local: Array,
    level: LevelArrays,
    nodes: Array,
    counts: list[int],
    batches: Sequence[Tensor],
    notes: Sequence[dict[str, Any]],
) -> Iterable[SelectOutput]:
    """Sparse assignments; a graph that drops nodes lists those it keeps."""
    kept = np.flatnonzero(local >= 0)
    graph = np.repeat(np.arange(len(nodes)), nodes)
    left = np.bincount(graph[kept], minlength=len(nodes))
    rows = _cut(kept - level.node_ptr[graph[kept]], left)
    clusters = _cut(local[kept], left)
    weights = [None] * len(nodes) if level.weight is None else _cut(level.weight[kept], left)
    whole = (left == nodes).tolist()
    parts = zip(clusters, counts, rows, whole, weights, batches, nodes.tolist(), notes, strict=True)
    return (
        SelectOutput.hard(
            cluster,
            k,
            node_index=None if all_kept else index,
            num_nodes=n,
            weight=weight,
            batch=batch,
            **note,
        )
        for cluster, k, index, all_kept, weight, batch, n, note in parts
    )


def _cut(array: Array, counts: Array, dim: int = 0) -> Sequence[Tensor]:
    return as_tensor(array).split(counts.tolist(), dim=dim)


def _zeros(counts: Array) -> Sequence[Tensor]:
    return torch.zeros(int(counts.sum()), dtype=torch.int64).split(counts.tolist())
