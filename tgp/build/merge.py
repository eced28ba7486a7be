"""Stores that several jobs write: what is missing, and publishing the rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tgp.errors import InputError, StoreMissingError
from tgp.build.summary import Summary, describe_manifest
from tgp.store import StoreWriter, read_spec

__all__ = ["StoreStatus", "array_expression", "merge_store", "store_status"]


@dataclass(frozen=True)
class StoreStatus:
    """How far a store is.

    Args:
        path: the store.
        complete: whether the manifest is published and its files are there.
        num_graphs: graphs.
        num_units: shards per part.
        parts: part -> units that are missing.
        missing: units of which anything is missing.
        jobs: numbers of the jobs of ``--shard i/N`` that have something to do.
        array: ``jobs`` as an array expression such as ``3,7-9``.
        failures: part -> graphs that could not be coarsened, where that is known.
    """

    path: str
    complete: bool
    num_graphs: int
    num_units: int
    parts: dict[str, list[int]]
    missing: list[int]
    jobs: list[int]
    array: str
    failures: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def array_expression(numbers: Iterable[int]) -> str:
    """Ascending numbers in the notation of job arrays.

    >>> array_expression([3, 7, 8, 9])
    '3,7-9'
    """
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def store_status(path: Path, jobs: int | None = None) -> StoreStatus:
    """What is missing of a store.

    Args:
        path: the store.
        jobs: the ``N`` of ``--shard i/N``; default one job per unit.
    """
    writer = _writer(path)
    spec = writer.spec
    if jobs is not None and jobs < 1:
        raise InputError(f"the number of jobs must be at least 1, got {jobs}", field="jobs")
    parts: dict[str, list[int]] = {part: [] for part in writer.parts}
    failures = dict.fromkeys(writer.parts, 0)
    for task in writer.pending():
        parts[task.part].append(task.unit)
    for part in writer.parts:
        for unit in set(range(spec.num_units)) - set(parts[part]):
            record = writer.record(unit, part)
            failures[part] += record.shard.failures if record is not None else 0
    missing = sorted({unit for units in parts.values() for unit in units})
    todo = sorted({unit % (jobs or spec.num_units) for unit in missing})
    return StoreStatus(
        str(path),
        writer.is_complete,
        spec.num_graphs,
        spec.num_units,
        parts,
        missing,
        todo,
        array_expression(todo),
        {part: count for part, count in failures.items() if count},
    )


def merge_store(path: Path) -> Summary:
    """Publish the manifest of a store whose units are all written.

    Raises:
        StoreError: some are missing; the text names the first.
    """
    writer = _writer(path)
    status = "up to date" if writer.is_complete else "complete"
    manifest = writer.publish()
    hierarchies, size = describe_manifest(manifest)
    return Summary(
        str(path), status, manifest.num_graphs, manifest.spec.num_units, bytes=size, hierarchies=hierarchies
    )


def _writer(path: Path) -> StoreWriter:
    spec = read_spec(path)
    if spec is None:
        raise StoreMissingError(
            f"there is no store at {path}, not even an unfinished one",
            path=path,
            hint="'tgp coarsen' makes one",
        )
    return StoreWriter(path, spec)
