"""Verify a store by recomputing: coarsen sampled input graphs again and compare with the stored levels."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.build.units import coarsen_unit, needed_fields, topology
from tgp.engine.carry import CarryRules, CarryStep, resolve
from tgp.engine.external.levels import check_external
from tgp.engine.schedule import Schedule
from tgp.engine.typed_table import resolve_types
from tgp.errors import InputError, StoreDamagedError, TgpError
from tgp.kernels.array_types import LongArray
from tgp.ragged import Field, Level
from tgp.ragged.offsets import run_ids
from tgp.store import Finding, StoreReader
from tgp.store.format import constants as store_format
from tgp.store.locations import Location, open_store
from tgp.store.read.memory_need import check_memory, graph_bytes, has_large_graph

__all__ = ["DEFAULT_SAMPLE", "check_recompute", "verify_by_recompute"]

DEFAULT_SAMPLE = 100
"""Number of graphs that are recomputed by default."""

BATCH = 64
"""Number of graphs that are recomputed at a time."""


def verify_by_recompute(
    path: Location,
    *,
    sample: int | None = DEFAULT_SAMPLE,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Finding]:
    """Recompute graphs spread evenly over a store and compare them with the stored levels.

    Args:
        path: directory or URL of the store.
        sample: number of graphs to check; ``None`` for all.
        progress: function called with (stage, done, total).

    Returns:
        One finding per graph and array that differs. Empty if the store is correct.

    Raises:
        InputError: if ``sample`` is less than 1, or a graph needs more memory than this process may use.
    """
    if sample is not None and sample < 1:
        raise InputError(f"the sample must contain at least 1 graph, got {sample}", field="sample")
    reader = open_store(path)
    ids = _sampled_graphs(reader, sample)
    found: list[Finding] = []
    spec = reader.manifest.spec
    total = len(ids) * len(reader.hierarchies)
    done = 0
    for name, info in reader.hierarchies.items():
        try:
            schedule = Schedule.from_json(info.schedule)
            steps = _carry_steps(reader, info.carry)
            needed = needed_fields(steps, spec.types, schedule.needs)
            names = {"edge_index", "edge_weight", *needed} & reader.fields.keys()
        except TgpError as error:
            found.append(
                Finding(store_format.MANIFEST, "schedule", None, f"{name} cannot be recomputed: {error}")
            )
            continue
        _check_memory(reader, ids, name, schedule)
        for low in range(0, len(ids), BATCH):
            batch = ids[low : low + BATCH]
            try:
                graphs = topology(reader.gather_graphs(batch, sorted(names)), 0, len(batch), names)
                hierarchy, _, _ = coarsen_unit(graphs, schedule, spec, name, steps=steps)
                for position, level in enumerate(hierarchy.levels):
                    stored = reader.gather_level(batch, name, position)
                    found += _findings(reader, batch, name, position, level, stored)
            except (StoreDamagedError, InputError) as error:
                if isinstance(error, InputError):  # types that do not fit together
                    error = StoreDamagedError(str(error), item=error.field)
                found.append(Finding(PurePath(error.path or name).name, error.item, None, str(error)))
            done += len(batch)
            if progress is not None:
                progress("recomputing", done, total)
    return found


def check_recompute(path: Location, sample: int | None = DEFAULT_SAMPLE) -> None:
    """Check that :func:`verify_by_recompute` has enough memory, before the files of a large store are read.

    Args:
        path: directory or URL of the store.
        sample: number of graphs to check; ``None`` for all.

    Raises:
        InputError: if a graph needs more memory than this process may use.
        StoreError: if the store cannot be read.
    """
    reader = open_store(path)
    for name, info in reader.hierarchies.items() if has_large_graph(reader) else ():
        _check_memory(reader, _sampled_graphs(reader, sample), name, Schedule.from_json(info.schedule))


def _sampled_graphs(reader: StoreReader, sample: int | None) -> LongArray:
    """Return the ids of graphs that are spread evenly over a store."""
    count = reader.num_graphs if sample is None else min(sample, reader.num_graphs)
    return np.unique(np.linspace(0, reader.num_graphs - 1, count).round().astype(np.int64))


def _check_memory(reader: StoreReader, ids: LongArray, name: str, schedule: Schedule) -> None:
    """Check that the largest graph can be coarsened in memory."""
    if not has_large_graph(reader):
        return
    sizes = reader.sizes()[1][ids]
    graph = int(ids[sizes.argmax()])
    levels = range(1, reader.hierarchy(name).depth + 1)
    need = 2 * graph_bytes(reader, graph, name, levels)  # the stored levels and the new ones
    way = "use a machine with more memory"
    with contextlib.suppress(InputError):
        check_external(schedule)
        way = (
            "coarsen the store again, `tgp coarsen --dataset STORE --pooler ... --memory 4GB --out OTHER`, and compare the checksums of the "
            "levels in both manifests"
        )
    hint = f"`tgp verify` without --deep checks all values in pieces. To recompute them, {way}"
    check_memory(need, f"recomputing {name} of graph {graph}", hint)


def _carry_steps(reader: StoreReader, carry: str | None) -> tuple[CarryStep, ...]:
    """Return the attributes of the levels that the rules of a store mean, from all of its graphs."""
    if carry is None:
        return ()
    rules, graphs = CarryRules.parse(carry), reader.gather_graphs(np.arange(reader.num_graphs))
    types = reader.manifest.spec.types
    return resolve(rules, graphs) if types is None else resolve_types(rules, graphs, types)


def _findings(
    reader: StoreReader, ids: LongArray, name: str, position: int, level: Level, stored: Level
) -> Iterator[Finding]:
    bounds = reader.manifest.spec.bounds
    for field, wrong in _differences(level, stored):
        for row in np.flatnonzero(wrong):
            graph = int(ids[row])
            unit = int(np.searchsorted(bounds, graph, side="right")) - 1
            yield Finding(
                store_format.part_file(unit, name),
                f"/levels/{position}/{field}",
                graph,
                f"{name}, level {position + 1}: {field} of graph {graph} differs from the result of {level.method}",
            )


def _differences(level: Level, stored: Level) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """Yield the name of each array that differs and ``[B]`` True for the graphs in which it differs.

    If the sizes differ, the contents are not compared.
    """
    supers = np.diff(stored.super_ptr) != np.diff(level.super_ptr)
    edges = np.diff(stored.edge_ptr) != np.diff(level.edge_ptr)
    if supers.any():
        yield "super_ptr", supers
        return
    if edges.any():
        yield "edge_ptr", edges
        return
    ptrs = {"edge_index": stored.edge_ptr, "edge_weight": stored.edge_ptr, "representative": stored.super_ptr}
    old, new = stored.arrays(), level.arrays()
    old["edge_index"], new["edge_index"] = stored.edge_index.T, level.edge_index.T
    for field in dict.fromkeys([*old, *new]):
        wrong = _rows_differ(old.get(field), new.get(field), ptrs.get(field, stored.node_ptr))
        if wrong.any():
            yield field, wrong
    for name in sorted(stored.fields.keys() | level.fields.keys()):
        wrong = _field_differs(stored.fields.get(name), level.fields.get(name), level.num_graphs)
        if wrong.any():
            yield f"fields/{name}", wrong


def _field_differs(old: Field | None, new: Field | None, graphs: int) -> npt.NDArray[np.bool_]:
    """Return ``[B]`` True for the graphs in which an attribute differs in any bit. NaN equals NaN."""
    if old is None or new is None or (old.values.dtype, old.form) != (new.values.dtype, new.form):
        return np.ones(graphs, bool)
    return np.array(
        [
            old.item(graph).shape != new.item(graph).shape
            or old.item(graph).tobytes() != new.item(graph).tobytes()
            for graph in range(graphs)
        ],
        bool,
    )


def _rows_differ(
    old: npt.NDArray[Any] | None, new: npt.NDArray[Any] | None, ptr: LongArray
) -> npt.NDArray[np.bool_]:
    graphs = len(ptr) - 1
    wrong = np.zeros(graphs, bool)
    if old is None and new is None:
        return wrong
    if old is None or new is None:
        # An array of ones may be omitted.
        given = old if new is None else new
        assert given is not None
        old, new = given, np.ones_like(given)
    unequal = old != new.astype(old.dtype)
    if unequal.ndim > 1:
        unequal = unequal.any(axis=1)
    wrong[run_ids(ptr)[unequal]] = True
    return wrong
