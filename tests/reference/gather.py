"""Gather batches graph by graph: the plain version of ``tgp.kernels.gather`` and ``tgp.store.read.batch_plan``."""

import numpy as np

from tgp.ragged import Assignment, EdgeList, Field, GraphTable, Level
from tgp.store.format.codec import restore

__all__ = ["gather_graphs", "gather_levels", "gather_rows", "shift_ids"]


def gather_rows(arrays, ptrs, bounds, ids, axis=0):
    """Return the rows of each graph of ``ids`` and their offsets.

    Args:
        arrays: One array per shard.
        ptrs: Offsets of the graphs in each shard; ``None`` for one row per graph.
        bounds: First graph of each shard.
        ids: Graphs, in any order.
        axis: Axis of the rows.
    """
    pieces = [np.moveaxis(arrays[0], axis, 0)[:0]]
    for graph in ids:
        unit = next(u for u in range(len(arrays)) if bounds[u] <= graph < bounds[u + 1])
        row = graph - bounds[unit]
        low, high = (row, row + 1) if ptrs[unit] is None else (int(ptrs[unit][row]), int(ptrs[unit][row + 1]))
        pieces.append(np.moveaxis(arrays[unit], axis, 0)[low:high])
    rows = np.moveaxis(np.concatenate(pieces), 0, axis)
    return np.ascontiguousarray(rows), np.cumsum([len(piece) for piece in pieces])


def shift_ids(local, ptr, target):
    """Return ids that count through the batch; -1 stays -1."""
    out = local.astype(np.int64)
    for graph in range(len(ptr) - 1):
        part = out[..., ptr[graph] : ptr[graph + 1]]
        part[part >= 0] += target[graph]
    return out


def gather_graphs(reader, ids):
    """Return what ``StoreReader.gather_graphs`` returns."""
    parts = [reader._graphs_part(unit) for unit in range(reader.num_shards)]
    bounds = reader.manifest.spec.bounds
    fields = {}
    for name, info in reader.fields.items():
        arrays = [restore(np.array(part.array(part.path(name))), info.dtype) for part in parts]
        ptrs = [part.array(part.ptrs[name]) if part.ptrs[name] else None for part in parts]
        values, ptr = gather_rows(arrays, ptrs, bounds, ids, info.axis)
        fields[name] = Field(name, values, ptr, info.axis, info.form, info.shifted)
    return GraphTable(_offsets([part.node_ptr for part in parts], bounds, ids), fields)


def gather_levels(reader, ids, hierarchy):
    """Return what ``StoreReader.gather_levels`` returns."""
    parts = [reader._hierarchy_part(hierarchy, unit) for unit in range(reader.num_shards)]
    bounds = reader.manifest.spec.bounds
    levels = []
    for number, info in enumerate(reader.hierarchy(hierarchy).levels):
        nodes, supers = ([part.node_ptrs[step] for part in parts] for step in (number, number + 1))
        edges = [part.edge_ptrs[number] for part in parts]
        node_ptr, super_ptr = (_offsets(ptrs, bounds, ids) for ptrs in (nodes, supers))
        shapes = {"soft": (info.width or 0,), "theta": (info.modes or 0,)}
        fills = {"edge_weight": 1, "weight": 1, "cluster": -1}
        rows = {"edge_index": edges, "edge_weight": edges, "representative": supers}
        targets = {"edge_index": super_ptr, "cluster": super_ptr, "representative": node_ptr}
        found = {}
        for name in ("edge_index", *info.arrays):
            dtype = np.int64 if name in targets else np.float32
            if name == "edge_weight":
                dtype = info.weight_dtype
            ptrs = rows.get(name, nodes)
            arrays = [
                part.array(f"/levels/{number}/{name}").astype(dtype)
                if f"/levels/{number}/{name}" in part.present
                else np.full((int(ptr[-1]), *shapes.get(name, ())), fills.get(name, 0), dtype)
                for part, ptr in zip(parts, ptrs, strict=True)
            ]
            found[name], ptr = gather_rows(arrays, ptrs, bounds, ids, -1 if name == "edge_index" else 0)
            if name in targets:
                found[name] = shift_ids(found[name], ptr, targets[name])
        edge_list = EdgeList(
            _offsets(edges, bounds, ids), found.pop("edge_index"), found.pop("edge_weight", None)
        )
        levels.append(Level(info.method, node_ptr, Assignment(info.kind, super_ptr, **found), edge_list))
    return levels


def _offsets(ptrs, bounds, ids):
    rows = [np.zeros(int(ptr[-1])) for ptr in ptrs]
    return gather_rows(rows, ptrs, bounds, ids)[1]
