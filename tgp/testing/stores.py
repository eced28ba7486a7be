"""Small and large stores for tests and benchmarks, built with numpy only.

The hierarchies merge consecutive nodes in pairs. They do not need the engine and can be computed quickly for a million
graphs. They are contractions, so every check of a store applies to them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from tgp.ragged import Assignment, BlockCSR, Field, GraphTable, Hierarchy, Level
from tgp.ragged.offsets import offsets, run_ids, run_positions
from tgp.store import HierarchySpec, PartWriter, StoreSpec, StoreWriter, data_digest
from tgp.store.format.strict_json import seal

__all__ = [
    "build_store",
    "forge_manifest",
    "forge_shard",
    "halving",
    "halving_spec",
    "random_hierarchy",
    "random_level_fields",
    "random_table",
    "readmit_shard",
    "store_spec",
    "write_store",
]

_PARAMS = {
    "connect_red_op": "sum",
    "remove_self_loops": True,
    "degree_norm": False,
    "edge_weight_norm": False,
}


def random_table(
    num_graphs: int,
    *,
    seed: int = 0,
    min_nodes: int = 8,
    max_nodes: int = 28,
    features: int = 7,
    weighted: bool = False,
) -> GraphTable:
    """Return random graphs of the size of molecules: rings with chords, ``x``, ``y`` and ``train_mask``.

    Args:
        num_graphs: Number of graphs.
        seed: Seed of the random number generator.
        min_nodes: Smallest number of nodes of a graph.
        max_nodes: Largest number of nodes of a graph.
        features: Number of features of a node.
        weighted: Add ``edge_weight``.
    """
    rng = np.random.default_rng(seed)
    counts = rng.integers(min_nodes, max_nodes + 1, num_graphs)
    node_ptr = offsets(counts)
    size = np.repeat(counts, counts)
    node = run_positions(node_ptr)
    chord = rng.random(len(node)) < 0.2
    ends = np.stack(
        [
            np.concatenate([node, node[chord]]),
            np.concatenate([(node + 1) % size, (node[chord] * 7 + 3) % size[chord]]),
        ]
    )
    graph = np.repeat(np.arange(num_graphs), counts)
    owner = np.concatenate([graph, graph[chord]])
    both = np.concatenate([ends, ends[::-1]], axis=1)
    owner = np.concatenate([owner, owner])
    order = np.argsort(owner, kind="stable")
    edge_ptr = offsets(np.bincount(owner, minlength=num_graphs))
    fields = {
        "edge_index": Field("edge_index", both[:, order], edge_ptr, axis=-1, shifted=True),
        "x": Field("x", np.asarray(rng.standard_normal((len(node), features), dtype=np.float32)), node_ptr),
        "y": Field("y", rng.integers(0, 2, num_graphs), np.arange(num_graphs + 1)),
        "train_mask": Field("train_mask", rng.random(len(node)) < 0.5, node_ptr),
    }
    if weighted:
        # Sums of quarters are exact.
        weight = np.asarray(rng.integers(1, 9, both.shape[1]) / 4, np.float32)
        fields["edge_weight"] = Field("edge_weight", weight, edge_ptr)
    return GraphTable(node_ptr, fields)


def _csr(
    ends: npt.NDArray[np.int64], weight: npt.NDArray[np.float64] | None, node_ptr: npt.NDArray[np.int64]
) -> BlockCSR:
    order = np.lexsort((ends[1], ends[0]))
    indptr = offsets(np.bincount(ends[0], minlength=int(node_ptr[-1])))
    indices = ends[1][order].astype(np.int32)
    return BlockCSR(indptr, indices, None if weight is None else weight[order], node_ptr)


def halving(table: GraphTable, num_levels: int = 3) -> Hierarchy:
    """Return a hierarchy in which nodes ``2i`` and ``2i + 1`` of a graph form supernode ``i``."""
    block = table.to_block()
    levels = []
    for _ in range(num_levels):
        counts = np.diff(block.node_ptr)
        super_ptr = offsets((counts + 1) // 2)
        local = run_positions(block.node_ptr)
        cluster = local // 2 + np.repeat(super_ptr[:-1], counts)
        first = np.repeat(block.node_ptr[:-1], np.diff(super_ptr))
        inside = run_positions(super_ptr)
        assignment = Assignment(
            "hard",
            super_ptr,
            cluster.astype(np.int32),
            representative=(first + 2 * inside).astype(np.int32),
        )
        coarse = _contract(block, cluster, super_ptr)
        levels.append(Level("halve", block.node_ptr, assignment, coarse))
        block = coarse
    return Hierarchy(table.node_ptr, tuple(levels))


def _contract(block: BlockCSR, cluster: npt.NDArray[np.int64], super_ptr: npt.NDArray[np.int64]) -> BlockCSR:
    rows = run_ids(block.indptr)
    ends = np.stack([cluster[rows], cluster[block.indices]])
    kept = ends[0] != ends[1]
    width = max(int(super_ptr[-1]), 1)
    keys, place = np.unique(ends[0, kept] * width + ends[1, kept], return_inverse=True)
    weight = None
    if block.weight is not None:
        weight = np.bincount(place, block.weight[kept], minlength=len(keys)).astype(np.float64)
    return _csr(np.stack([keys // width, keys % width]), weight, super_ptr)


def random_hierarchy(node_ptr: npt.NDArray[np.int64], kinds: Sequence[str], seed: int = 0) -> Hierarchy:
    """Return a hierarchy of random levels with dropped nodes, failed graphs, weights and eigenvector modes.

    The coarse edges are random and do not follow from the assignments.

    Args:
        node_ptr: Offsets of the nodes of each graph.
        kinds: Kind of the assignment of each level: ``hard``, ``onehot`` or ``soft``.
        seed: Seed of the random number generator.
    """
    rng = np.random.default_rng(seed)
    levels, before = [], node_ptr
    for kind in kinds:
        assignment = _random_assignment(rng, before, kind)
        levels.append(Level(f"any-{kind}", before, assignment, _random_block(rng, assignment.super_ptr)))
        before = assignment.super_ptr
    return Hierarchy(node_ptr, tuple(levels))


def random_level_fields(hierarchy: Hierarchy, seed: int = 0) -> Hierarchy:
    """Return a hierarchy whose levels have random attributes of many types, and texts.

    Args:
        hierarchy: Levels.
        seed: Seed of the random number generator.
    """
    rng = np.random.default_rng(seed)
    levels = []
    for number, level in enumerate(hierarchy.levels):
        nodes, edges = level.super_ptr, level.edge_ptr
        count, links = int(nodes[-1]), int(edges[-1])
        values: dict[str, tuple[npt.NDArray[Any], npt.NDArray[np.int64]]] = {
            "pos": (rng.standard_normal((count, 3), dtype=np.float32), nodes),
            "half": (rng.standard_normal((count, 2)).astype(np.float16), nodes),
            "num_members": (rng.integers(1, 300, count), nodes),
            "y": (rng.integers(-3, 100, count), nodes),
            "short": (rng.integers(-3, 100, count).astype(np.int16), nodes),
            "train_mask": (rng.random(count) < 0.5, nodes),
            "z": ((rng.random(count) + 1j).astype(np.complex64), nodes),
            "no_columns": (np.zeros((count, 0), np.float32), nodes),
            "edge_attr": (rng.standard_normal((links, 2)), edges),
            "a/b.c": (rng.random(links) < 0.5, edges),
        }
        fields = {name: Field(name, array, ptr) for name, (array, ptr) in values.items()}
        texts = [json.dumps([f"n{number}-{i}" for i in range(n)]).encode() for n in np.diff(nodes).tolist()]
        joined = np.frombuffer(b"".join(texts), np.uint8)
        fields["title"] = Field("title", joined, offsets([len(text) for text in texts]), form="json")
        levels.append(replace(level, fields=fields))
    return Hierarchy(hierarchy.node_ptr, tuple(levels))


def _random_assignment(rng: np.random.Generator, node_ptr: npt.NDArray[np.int64], kind: str) -> Assignment:
    sizes, nodes = np.diff(node_ptr), int(node_ptr[-1])
    failed = rng.random(len(sizes)) < 0.15
    if kind == "hard":
        supers = np.where(failed, 0, np.ceil(sizes * rng.random(len(sizes)))).astype(np.int64)
    else:
        supers = np.where(failed, 0, 3)
    super_ptr = offsets(supers)
    theta = rng.standard_normal((nodes, 2), dtype=np.float32) if kind == "onehot" else None
    if kind == "soft":
        return Assignment("soft", super_ptr, soft=rng.random((nodes, 3), dtype=np.float32))
    limit = np.repeat(supers, sizes)
    local = np.where(rng.random(nodes) < 0.2, -1, (rng.random(nodes) * limit).astype(np.int64))
    cluster = np.where((local < 0) | (limit == 0), -1, local + np.repeat(super_ptr[:-1], sizes)).astype(
        np.int32
    )
    weight = rng.random(nodes, dtype=np.float32)
    if kind == "onehot":
        return Assignment("onehot", super_ptr, cluster, weight, theta=theta)
    inside = (rng.random(int(super_ptr[-1])) * np.repeat(sizes, supers)).astype(np.int64)
    representative = (inside + np.repeat(node_ptr[:-1], supers)).astype(np.int32)
    return Assignment("hard", super_ptr, cluster, weight, representative=representative)


def _random_block(rng: np.random.Generator, node_ptr: npt.NDArray[np.int64]) -> BlockCSR:
    sizes = np.diff(node_ptr)
    counts = np.where(sizes > 0, rng.integers(0, 6, len(sizes)), 0)
    ends = (rng.random((2, int(counts.sum()))) * np.repeat(sizes, counts)).astype(np.int64)
    ends += np.repeat(node_ptr[:-1], counts)
    weight = rng.standard_normal(ends.shape[1]).astype(np.float32).astype(np.float64)
    return _csr(ends, weight, node_ptr)


def halving_spec(name: str = "halve", num_levels: int = 3, seed: int = 0) -> HierarchySpec:
    """Return the specification of :func:`halving`."""
    return HierarchySpec(
        name, [{"method": "halve", "params": dict(_PARAMS)} for _ in range(num_levels)], seed
    )


def store_spec(
    table: GraphTable,
    num_units: int = 2,
    profile: str = "fast",
    hierarchies: Sequence[HierarchySpec] | None = None,
) -> StoreSpec:
    """Return the specification of a store of ``table``, divided into units of equal size."""
    bounds = np.linspace(0, table.num_graphs, num_units + 1).astype(int).tolist()
    chosen = (halving_spec(),) if hierarchies is None else tuple(hierarchies)
    return StoreSpec({"name": "random"}, data_digest(table), table.num_graphs, tuple(bounds), profile, chosen)


def write_store(writer: PartWriter, table: GraphTable) -> None:
    """Write all pending parts of a store, with hierarchies of :func:`halving`, and publish it."""
    bounds = writer.spec.bounds
    for task in writer.pending():
        unit = table.take(np.arange(bounds[task.unit], bounds[task.unit + 1]))
        if task.part == "graphs":
            writer.write_graphs(task.unit, unit)
        else:
            depth = len(writer.spec.hierarchy(task.part).schedule)
            metrics = {f"{level}/nodes": np.diff(unit.node_ptr) for level in range(depth)}
            writer.write_hierarchy(task.unit, task.part, halving(unit, depth), metrics=metrics)
    writer.publish()


def forge_manifest(path: str | os.PathLike[str], edit: Callable[[dict[str, Any]], None]) -> None:
    """Change the manifest and update its checksum, as an attacker would."""
    file = Path(path) / "manifest.json"
    values = json.loads(file.read_bytes())
    del values["checksum"]
    edit(values)
    file.write_bytes(seal(values))


def forge_shard(
    path: str | os.PathLike[str], edit: Callable[[h5py.File], None], part: str = "graphs", unit: int = 0
) -> None:
    """Change a shard and update its size and checksums in the manifest, as an attacker would."""
    name = f"shard-{unit:05d}.{part}.h5"
    with h5py.File(Path(path) / name, "r+") as file:
        edit(file)
    readmit_shard(path, part, unit)


def readmit_shard(path: str | os.PathLike[str], part: str = "graphs", unit: int = 0) -> None:
    """Update the size and the checksums of a shard file in the manifest."""
    file = Path(path) / f"shard-{unit:05d}.{part}.h5"
    data = file.read_bytes()

    def edit(values: dict[str, Any]) -> None:
        owner = values if part == "graphs" else next(h for h in values["hierarchies"] if h["name"] == part)
        owner["shards"][unit].update(
            size=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
            ends=hashlib.sha256(data[:4096] + data[-4096:]).hexdigest(),
        )

    forge_manifest(path, edit)


def build_store(
    path: str | os.PathLike[str], table: GraphTable, num_units: int = 2, profile: str = "fast"
) -> StoreSpec:
    """Build a complete store of ``table`` with one hierarchy ``"halve"`` of three levels."""
    spec = store_spec(table, num_units, profile)
    write_store(StoreWriter.open(path, spec), table)
    return spec
