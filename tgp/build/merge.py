"""Stores that several jobs write: list the missing files, and publish a finished store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tgp.build.findings import find_problems
from tgp.build.mismatch import check_foreign_parts, foreign_parts
from tgp.build.scratch import Leftover, find_leftover
from tgp.build.summary import Summary, describe_manifest
from tgp.errors import InputError, StoreMissingError
from tgp.store import StoreWriter, read_spec

__all__ = ["StoreStatus", "array_expression", "merge_store", "store_status"]


@dataclass(frozen=True)
class StoreStatus:
    """State of a store.

    Args:
        path: Directory of the store.
        complete: True if the manifest is published and all of its files exist.
        num_graphs: Number of graphs.
        num_units: Number of shard files of each part.
        parts: Name of each part -> numbers of the units whose file is missing.
        missing: Numbers of the units that miss at least one file.
        jobs: Numbers of the jobs of ``--shard i/N`` that have files to write.
        array: ``jobs`` as a job array expression such as ``3,7-9``.
        failures: Name of a hierarchy -> number of graphs that could not be coarsened, in the units that are written.
        foreign: Name of a part -> numbers of its missing units that have a file of another engine or other settings, see
            :func:`tgp.build.mismatch.foreign_parts`.
        scratch: Temporary files of an unfinished run with ``--memory``; ``None`` if there are none.
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
    foreign: dict[str, list[int]] = field(default_factory=dict)
    scratch: Leftover | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)


def array_expression(numbers: Iterable[int]) -> str:
    """Return numbers in the notation of job arrays.

    Args:
        numbers: Numbers in any order.

    Examples:
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
    """Return the state of a store and its missing files.

    Args:
        path: Directory of the store.
        jobs: Number of jobs, the ``N`` of ``--shard i/N``. By default each unit is one job.

    Raises:
        StoreMissingError: If there is no store, not even an unfinished one.
    """
    writer = _open_writer(path)
    spec = writer.spec
    if jobs is not None and jobs < 1:
        raise InputError(f"the number of jobs must be at least 1, got {jobs}", field="jobs")
    records = writer.records()
    parts = {
        part: [unit for unit, record in enumerate(found) if record is None] for part, found in records.items()
    }
    failures = {
        part: sum(r.shard.failures for r in found if r is not None) for part, found in records.items()
    }
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
        foreign_parts(writer, records) if missing else {},
        find_leftover(path),
    )


def merge_store(path: Path) -> Summary:
    """Publish the manifest of a store whose files are all written.

    Args:
        path: Directory of the store.

    Raises:
        StoreError: If files are missing. The message names the first ones.
        StoreMismatchError: If files were written by another engine or with other settings.
        StoreMissingError: If there is no store, not even an unfinished one.
    """
    writer = _open_writer(path)
    status = "up to date" if writer.is_complete else "complete"
    if status == "complete":
        check_foreign_parts(writer)
    manifest = writer.publish()
    hierarchies, size = describe_manifest(manifest)
    return Summary(
        str(path),
        status,
        manifest.num_graphs,
        manifest.spec.num_units,
        bytes=size,
        hierarchies=hierarchies,
        names=[hierarchy.name for hierarchy in hierarchies],
        findings=find_problems(path),
    )


def _open_writer(path: Path) -> StoreWriter:
    spec = read_spec(path)
    if spec is None:
        left = find_leftover(path)
        raise StoreMissingError(
            f"there is no store at {path}, not even an unfinished one",
            path=path,
            hint="'tgp coarsen' builds a store"
            if left is None
            else f"an unfinished run has temporary files in {left.path}: run the same 'tgp coarsen' command again to continue",
        )
    return StoreWriter(path, spec)
