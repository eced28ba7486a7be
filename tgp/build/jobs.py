"""The work of a worker: coarsen one unit under one schedule and write the hierarchy to a shard file.

A thread of this process gets a :class:`~tgp.build.units.UnitWork`. Another process gets a job, a dictionary of plain values (text, numbers,
lists), see :func:`make_job`. It can be sent to a process with another version of tgp, which refuses it with a message
instead of failing to unpickle it. The graphs are not part of a job: a worker reads them from the shard file that the client
has written before.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
import pickle
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from tgp._version import __version__
from tgp.build.cluster import ClusterError, worker_name
from tgp.build.compilation import kernels_of, watch_compilation
from tgp.build.units import ENGINE_LOCK, UnitWork, needed_fields, read_unit_graphs, run_unit
from tgp.build.worker_functions import describe_worker
from tgp.build.workers import choose_threads, usable_cores
from tgp.engine.carry import CarryStep
from tgp.engine.coarsening import coarsen_with_failures
from tgp.engine.methods import METHODS
from tgp.engine.revision import ENGINE_REVISION
from tgp.engine.schedule import Schedule
from tgp.errors import TgpError
from tgp.ragged import BlockCSR, GraphTable
from tgp.registry import Entry
from tgp.store import HierarchySpec, StoreSpec, StoreWriter
from tgp.store.format.codec import HDF5_VERSION
from tgp.store.format.strict_json import Document
from tgp.store.write.shard import load_kernels

__all__ = [
    "PROTOCOL",
    "accept_job",
    "figure_kernels",
    "job_header",
    "job_threads",
    "make_job",
    "portable_errors",
    "run_job",
    "spec_text",
    "warm_up",
]

PROTOCOL = 4
"""Number that changes when the keys of a job or of its result change. 2 adds the attributes of levels, 3 the number of threads, 4 the
number of worker processes on a machine."""

Job = dict[str, Any]


# Client -----------------------------------------------------------------------------------------


def job_header(
    schedules: Iterable[Schedule],
    *,
    metrics: bool = True,
    remote: bool = False,
    steps: Iterable[CarryStep] = (),
    threads: int | None = None,
    per_machine: int = 1,
) -> Job:
    """Return the values that all jobs of a run share.

    Args:
        schedules: Schedules of the run. Their methods of other packages are named, so that workers can import them.
        metrics: True to compute quality figures.
        remote: True if the jobs run in other processes.
        steps: Attributes of the levels.
        threads: Largest number of threads of the engine; ``None`` if only the environment of the worker limits them.
        per_machine: Number of remote worker processes that share the cores of a machine.
    """
    schedules = list(schedules)
    aliases = sorted({level.method for schedule in schedules for level in schedule})
    entries = [METHODS.entry(alias) for alias in aliases]
    return {
        "protocol": PROTOCOL,
        "version": __version__,
        "engine": ENGINE_REVISION,
        "hdf5": HDF5_VERSION,
        "schedules": [schedule.to_json() for schedule in schedules],
        "methods": [
            dataclasses.asdict(entry)
            for entry in entries
            if entry.package is not None or not entry.target.startswith("tgp.")
        ],
        "metrics": metrics,
        "remote": remote,
        "carry": [step.to_json() for step in steps],
        "threads": threads,
        "per_machine": per_machine,
    }


def spec_text(spec: StoreSpec) -> str:
    """Return the specification of a store as JSON, without its hierarchies and the description of the dataset.

    Args:
        spec: Specification of the store.
    """
    return json.dumps({**spec.base_json(), "dataset": {}})


def make_job(
    header: Job,
    writer: StoreWriter,
    spec: str,
    unit: int,
    name: str,
    graphs: str,
) -> Job:
    """Return a job of another process for one hierarchy of one unit.

    Args:
        header: Result of :func:`job_header` for the schedule of the hierarchy.
        writer: Writer of the store. Its path is absolute, because workers may have another working directory.
        spec: Result of :func:`spec_text`.
        unit: Number of the unit.
        name: Name of the hierarchy.
        graphs: SHA-256 of the shard file with the graphs.
    """
    return {
        **header,
        "path": str(writer.files.path),
        "spec": spec,
        "hierarchy": json.dumps(writer.spec.hierarchy(name).to_json()),
        "fingerprint": writer.spec.part_fingerprint(name),
        "unit": unit,
        "name": name,
        "graphs": graphs,
    }


def figure_kernels(table: GraphTable) -> dict[str, bool]:
    """Return the keys of the argument of :func:`warm_up` that depend on the graphs.

    Args:
        table: All graphs.
    """
    from tgp.engine.metrics import choose_kernels

    small, large = choose_kernels(table.node_ptr, "edge_weight" in table.fields)
    return {"small": small, "large": large}


# Worker -----------------------------------------------------------------------------------------


def run_job(job: Mapping[str, Any]) -> dict[str, Any]:
    """Run a job on a worker, see :func:`tgp.build.units.run_unit`. The graphs are read from the store.

    Args:
        job: Result of :func:`make_job`.

    Returns:
        The fields of :class:`~tgp.build.units.JobReport`.

    Raises:
        ClusterError: If this process has another revision of the engine, misses a package, or sees another store.
    """
    with portable_errors(job):
        (schedule,) = accept_job(job)
        writer, steps = _open_writer(job), _carry_steps(job)
        names = needed_fields(steps, writer.spec.types, schedule.needs)
        graphs = read_unit_graphs(writer, job["unit"], job["graphs"], names)
        threads = job_threads(job)
        return run_unit(
            UnitWork(job["unit"], job["name"], graphs, writer, schedule, steps, job["metrics"], threads)
        )


def job_threads(job: Mapping[str, Any]) -> int:
    """Return the largest number of threads of a job. The processes of a machine use no more threads than there are cores.

    Args:
        job: Job with the values of :func:`job_header`.
    """
    return choose_threads(job["threads"] or usable_cores(), job["per_machine"])


def warm_up(header: Mapping[str, Any]) -> float:
    """Compile the kernels of some schedules, or load them from the cache, by coarsening two tiny graphs.

    Missing kernels are compiled in parallel: by all workers of a pool, or with the help of other processes if the work runs
    in threads of this one.

    Args:
        header: Result of :func:`job_header`, and optionally of :func:`figure_kernels`.

    Returns:
        Seconds that were spent compiling; 0 if all kernels were in the cache.

    Raises:
        ClusterError: If this process has another revision of the engine, or misses a package.
    """
    from tgp.kernels.ahead import compile_ahead, find_missing, start_helpers

    with portable_errors(header):
        schedules = accept_job(header)
        small, large = header.get("small", True), header.get("large", False)
        kernels = kernels_of(
            schedules, metrics=header["metrics"], small=small, large=large, steps=_carry_steps(header)
        )
        missing = find_missing(kernels)
        helpers = 0 if header["remote"] else usable_cores() - 1
        with (
            ENGINE_LOCK,
            watch_compilation(kernels) as compile_seconds,
            start_helpers(missing, helpers),
        ):
            compile_ahead(missing)
            ring = np.arange(24, dtype=np.int32)
            # Edges are sorted, as most datasets are: other kernels sort edges.
            edges = np.stack(
                [np.repeat(ring, 2), np.sort([(ring - 1) % 24, (ring + 1) % 24], axis=0).T.ravel()]
            )
            # Two graphs, because methods can have other kernels for a single one.
            block = BlockCSR.from_local_edges(np.tile(edges, 2), [0, 48, 96], node_ptr=[0, 24, 48])
            for schedule in schedules:
                values = np.linspace(0.0, 1.0, 48)[:, None] * [1.0, 0.5, 0.25]
                graphs = block.with_values(**dict.fromkeys(schedule.needs, values))
                hierarchy, _ = coarsen_with_failures(graphs, schedule)
                if header["metrics"] and small:
                    from tgp.engine.metrics import hierarchy_metrics

                    hierarchy_metrics(block, hierarchy)
            load_kernels()
            return compile_seconds()


def accept_job(job: Mapping[str, Any]) -> list[Schedule]:
    """Check that this process computes the same bytes as the client, and return the schedules of a job.

    Args:
        job: Job with the values of :func:`job_header`.

    Raises:
        ClusterError: If this process has another revision of the engine, or misses a package.
    """
    if job.get("protocol") != PROTOCOL or job.get("engine") != ENGINE_REVISION:
        raise ClusterError(
            f"{worker_name(describe_worker())} has tgp {__version__} with engine revision {ENGINE_REVISION} and job "
            f"protocol {PROTOCOL}: expected tgp {job.get('version')} with engine revision {job.get('engine')} and job "
            f"protocol {job.get('protocol')}, as the client",
            hint="install the same version of tgp on the client and on all workers",
        )
    if job.get("hdf5") != HDF5_VERSION:
        raise ClusterError(
            f"{worker_name(describe_worker())} writes files with HDF5 {HDF5_VERSION}: expected HDF5 {job.get('hdf5')}, as "
            "the client. Files of other versions have other bytes",
            hint="install the same version of h5py on the client and on all workers",
        )
    try:
        for entry in job["methods"]:
            METHODS.add_missing(Entry(**entry))
        return [Schedule.from_json(schedule) for schedule in job["schedules"]]
    except ClusterError:
        raise
    except (ImportError, AttributeError) as error:
        missing = [entry["target"] for entry in job["methods"]]
        raise _missing_package(
            error, f"cannot import a method of the schedule ({', '.join(missing)})"
        ) from error
    except TgpError as error:
        raise _missing_package(error, "cannot use a method of the schedule") from error


def _missing_package(error: Exception, problem: str) -> ClusterError:
    return ClusterError(
        f"{worker_name(describe_worker())} {problem}: {error}",
        hint="install the package or the module of the method in the same version on all workers",
    )


def _carry_steps(job: Mapping[str, Any]) -> list[CarryStep]:
    return [CarryStep(**step) for step in job["carry"]]


def _open_writer(job: Mapping[str, Any]) -> StoreWriter:
    """Return a writer for the store of a job, and check that it has the same fingerprint as the writer of the client."""
    where = "specification of a job"
    entry = HierarchySpec.from_json(Document(json.loads(job["hierarchy"]), where))
    spec = StoreSpec.from_json(Document(json.loads(job["spec"]), where), (entry,))
    if spec.part_fingerprint(entry.name) != job["fingerprint"]:
        raise ClusterError(
            f"{worker_name(describe_worker())} reads the specification of hierarchy {entry.name!r} in another way than "
            "the client",
            hint="install the same version of tgp on the client and on all workers",
        )
    return StoreWriter(job["path"], spec)


@contextlib.contextmanager
def portable_errors(job: Mapping[str, Any]) -> Iterator[None]:
    """Replace an error that cannot be pickled, if it has to be sent to another process. A pool would break otherwise.

    Args:
        job: Job with the values of :func:`job_header`.
    """
    try:
        yield
    except Exception as error:
        if not job.get("remote") or _can_be_pickled(error):
            raise
        kind: type[Exception] = TgpError if isinstance(error, TgpError) else RuntimeError
        portable = kind(str(error) if isinstance(error, TgpError) else f"{type(error).__name__}: {error}")
        if isinstance(portable, TgpError):
            portable.hint = getattr(error, "hint", None)
        raise portable from None


def _can_be_pickled(error: Exception) -> bool:
    """Return True if an error can be sent to another process."""
    try:
        pickle.dumps(error)
        same = copy.copy(error)  # calls the constructor in the way that unpickling does
    except Exception:  # noqa: BLE001 - code of the class of the error
        return False
    return type(same) is type(error) and str(same) == str(error)
