"""Deep verification: coarsen sampled graphs again from the stored input and compare with what is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.build.jobs import topology
from tgp.engine.coarsening import coarsen_safe
from tgp.engine.level_selection import keep_levels, unfold
from tgp.errors import InputError, StoreDamagedError, TgpError
from tgp.ragged import Level
from tgp.sources.source import table_block, weight_type
from tgp.store import Finding, LevelArrays, StoreReader
from tgp.store.format import constants as store_format
from tgp.store.locations import Place, open_store

__all__ = ["DEFAULT_SAMPLE", "verify_by_recompute"]

DEFAULT_SAMPLE = 100
BATCH = 64

Ints = npt.NDArray[np.int64]


def verify_by_recompute(
    path: Place,
    *,
    sample: int | None = DEFAULT_SAMPLE,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Finding]:
    """Recompute graphs spread evenly over a store; every difference is a finding.

    Args:
        path: directory or URL of the store.
        sample: graphs to check; ``None`` for all.
        progress: called with (stage, done, total).
    """
    if sample is not None and sample < 1:
        raise InputError(f"the sample must hold at least 1 graph, got {sample}", field="sample")
    reader = open_store(path)
    count = reader.num_graphs if sample is None else min(sample, reader.num_graphs)
    ids = np.unique(np.linspace(0, reader.num_graphs - 1, count).round().astype(np.int64))
    fields = [f for f in ("edge_index", "edge_weight") if f in reader.fields]
    found: list[Finding] = []
    total = len(ids) * len(reader.hierarchies)
    done = 0
    for name, info in reader.hierarchies.items():
        try:
            schedule, lengths = unfold(info.schedule)
        except TgpError as error:
            found.append(
                Finding(store_format.MANIFEST, "schedule", None, f"{name} cannot be recomputed: {error}")
            )
            continue
        for low in range(0, len(ids), BATCH):
            batch = ids[low : low + BATCH]
            try:
                graphs = reader.gather_graphs(batch, fields)
                block = table_block(topology(graphs, 0, len(batch)))
                hierarchy, _ = coarsen_safe(block, schedule, info.seed, weight_dtype=weight_type(graphs))
                for number, level in enumerate(keep_levels(hierarchy, lengths).levels):
                    stored = reader.gather_level(batch, name, number)
                    found += _findings(reader, batch, name, number, level, stored)
            except StoreDamagedError as error:
                found.append(Finding(PurePath(error.path or name).name, error.item, None, str(error)))
            done += len(batch)
            if progress is not None:
                progress("recomputing", done, total)
    return found


def _findings(
    reader: StoreReader, ids: Ints, name: str, number: int, level: Level, stored: LevelArrays
) -> Iterator[Finding]:
    bounds = reader.manifest.spec.bounds
    for field, wrong in _differences(level, stored):
        for position in np.flatnonzero(wrong):
            graph = int(ids[position])
            unit = int(np.searchsorted(bounds, graph, side="right")) - 1
            shard = store_format.part_file(unit, name)
            where = f"/levels/{number}/{field}"
            yield Finding(
                shard,
                where,
                graph,
                f"{name}, level {number}: {field} of graph {graph} is not what {level.method} gives",
            )


def _differences(level: Level, stored: LevelArrays) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """(array, ``[B]`` whether it differs); after a difference in size, contents are not compared."""
    assignment, block = level.assignment, level.block
    supers = np.diff(stored.super_ptr) != np.diff(assignment.super_ptr)
    edges = np.diff(stored.edge_ptr) != np.diff(block.edge_ptr)
    if supers.any():
        yield "super_ptr", supers
        return
    if edges.any():
        yield "edge_ptr", edges
        return
    pairs: list[tuple[str, Any, Any, Ints]] = [
        ("edge_index", stored.edge_index.T, block.edge_index().T, stored.edge_ptr),
        ("edge_weight", stored.edge_weight, block.weight, stored.edge_ptr),
        ("cluster", stored.cluster, assignment.cluster, stored.node_ptr),
        ("weight", stored.weight, assignment.weight, stored.node_ptr),
        ("soft", stored.soft, assignment.soft, stored.node_ptr),
        ("theta", stored.theta, assignment.theta, stored.node_ptr),
        ("representative", stored.representative, assignment.representative, stored.super_ptr),
    ]
    for field, old, new, ptr in pairs:
        wrong = _rows_differ(old, new, ptr)
        if wrong.any():
            yield field, wrong


def _rows_differ(
    old: npt.NDArray[Any] | None, new: npt.NDArray[Any] | None, ptr: Ints
) -> npt.NDArray[np.bool_]:
    graphs = len(ptr) - 1
    wrong = np.zeros(graphs, bool)
    if old is None and new is None:
        return wrong
    if old is None or new is None:
        # An array of ones need not be stored.
        given = old if new is None else new
        assert given is not None
        old, new = given, np.ones_like(given)
    unequal = old != new.astype(old.dtype)
    if unequal.ndim > 1:
        unequal = unequal.any(axis=1)
    wrong[np.repeat(np.arange(graphs), np.diff(ptr))[unequal]] = True
    return wrong
