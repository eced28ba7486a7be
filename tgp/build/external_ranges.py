"""Call functions of ranges of one large graph on the workers of a cluster.

A task is a dictionary of plain values: the header of a job, the name of a range function of :mod:`tgp.engine.external`, its range, and the paths
of its arrays. All arrays travel through files in the shared folder. Each file is written once, under a name that no other
task uses, and gets this name when it is complete. A task can therefore run twice, and a worker that dies costs its tasks only.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tgp._version import __version__
from tgp.build import units
from tgp.build.cluster import ClusterError, worker_name
from tgp.build.executors import JobQueue, Pool, open_executor, wrap_executor
from tgp.build.jobs import accept_job, job_header, job_threads, portable_errors
from tgp.build.progress import Step
from tgp.build.units import ENGINE_LOCK
from tgp.build.worker_functions import describe_worker
from tgp.engine.external.levels import RANGE_FUNCTIONS
from tgp.engine.external.ranges import LOCAL, Job, Published, RangeFunction, RangeMap
from tgp.engine.external.row_files import map_file, read_array, write_array
from tgp.engine.threads import limit_threads
from tgp.kernels.array_types import Array
from tgp.store.io.failpoint import failpoint

__all__ = ["ClusterRanges", "open_ranges", "open_workers", "run_range"]

MIN_ENTRIES = 1 << 22
"""Number of entries from which a step runs on the workers. Below, it takes less time than sending the tasks."""

ENTRIES_PER_NODE = 2
"""Number of entries for each published element of an array of nodes from which a step runs on the workers."""

TASK_FORMAT = 3
"""Number that changes when the keys of tasks, or the temporary files that workers read and write, change."""

_ARRAY, _ANSWER = "array", "answer"
"""First parts of the names of the files of published arrays, and of arrays that tasks return."""

_FUNCTIONS: dict[str, RangeFunction] = {function.__name__: function for function in RANGE_FUNCTIONS}

Progress = Callable[[Step], None]


@contextlib.contextmanager
def open_workers(scheduler: str | None, executor: Executor | None) -> Iterator[Pool | None]:
    """Connect to the workers of a run for the duration of the block. Yield ``None`` if the run has no workers.

    Args:
        scheduler: Address or file of a Dask scheduler.
        executor: Executor of the caller, whose workers see the same files.

    Raises:
        InputError: If no Dask scheduler answers.
        MissingPackageError: If a scheduler is given and Dask is not installed.
    """
    if executor is not None:
        yield wrap_executor(executor)
    elif scheduler is not None:
        with open_executor(scheduler, 1) as pool:
            yield pool
    else:
        yield None


def open_ranges(pool: Pool | None, folder: Path, threads: int | None, progress: Progress) -> RangeMap:
    """Return the strategy that calls range functions. Arrays of an earlier run that was killed are deleted.

    Args:
        pool: Workers; ``None`` to stay in this process.
        folder: Scratch folder, which the workers must see.
        threads: Number of threads of each worker; ``None`` if its environment limits them.
        progress: Function that is called with a :class:`~tgp.build.progress.Step` while the run waits.

    Raises:
        ClusterError: If a worker has another engine or sees another folder.
    """
    for name in (_ARRAY, _ANSWER):
        for path in folder.glob(f"{name}-*"):  # of a run that was killed
            path.unlink(missing_ok=True)
    if pool is None:
        return LOCAL
    if pool.cluster is not None:
        progress(Step(f"checking the workers of {pool.cluster.address}"))
        pool.cluster.check_workers(folder)
    return ClusterRanges(pool, folder, threads, progress)


@dataclass(frozen=True)
class ClusterRanges:
    """Call range functions on the workers of a pool.

    Args:
        pool: Pool that runs the tasks.
        folder: Scratch folder, which all workers see under the same path.
        threads: Number of threads of each worker; ``None`` if its environment limits them.
        progress: Function that is called with a :class:`~tgp.build.progress.Step` while the run waits for workers.
    """

    pool: Pool
    folder: Path
    threads: int | None
    progress: Progress
    is_remote = True

    @property
    def num_ranges(self) -> int:
        """Number of ranges into which work should be cut: two for each thread of the cluster."""
        return max(2, self.pool.in_flight())

    def choose(self, num_entries: int, num_nodes: int) -> RangeMap:
        """Return this strategy for steps that take longer than sending their tasks."""
        enough = num_entries >= max(MIN_ENTRIES, ENTRIES_PER_NODE * num_nodes)
        return self if enough else LOCAL

    def publish(self, values: Array) -> Published:
        """Write an array to a file that the workers can map."""
        path = self.folder / f"{_ARRAY}-{secrets.token_hex(8)}"
        write_array(path, values)
        return Published(values, path)

    def run(
        self, function: RangeFunction, jobs: Sequence[Job], arrays: Mapping[str, Published] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the result of each job, in the order of the jobs. Tasks that were not needed are cancelled.

        Raises:
            ClusterError: If the cluster failed, or a worker does not see the files of the client. Errors of the function are raised
                unchanged.
        """
        base = job_header([], remote=True, threads=self.threads, per_machine=self.pool.per_machine())
        header = base | {
            "format": TASK_FORMAT,
            "function": function.__name__,
            "arrays": {name: _describe(array) for name, array in (arrays or {}).items()},
        }
        results: dict[int, dict[str, Any]] = {}
        waiting = itertools.count()
        following = next(waiting)
        for answer in self._answers(header, jobs):
            results[answer["number"]] = answer
            while following in results:
                yield self._take(results.pop(following))
                following = next(waiting)

    def _answers(self, header: dict[str, Any], jobs: Sequence[Job]) -> Iterator[dict[str, Any]]:
        """Yield the answers of the workers in the order in which they arrive."""
        with JobQueue(self.pool, run_range, self._show_waiting) as queue:
            for number, job in enumerate(jobs):
                task = {
                    **header,
                    "label": f"{header['function']} {number + 1} of {len(jobs)}",
                    "number": number,
                    "job": dict(job),
                    "answer": str(self.folder / f"{_ANSWER}-{secrets.token_hex(8)}"),
                }
                yield from queue.submit(task)
            yield from queue.drain()

    def _show_waiting(self, text: str, seconds: float) -> None:
        self.progress(Step(text, waited=seconds))

    def _take(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of a task, with the arrays that the worker has written. Their files are deleted."""
        result = dict(answer["numbers"])
        for name, (path, dtype, length) in answer["arrays"].items():
            _wait_for(Path(path), length * np.dtype(dtype).itemsize, "the client")
            result[name] = read_array(Path(path), dtype)
            Path(path).unlink(missing_ok=True)
        return result


def _describe(array: Published) -> tuple[str, str, int]:
    """Return path, type and length of a published array."""
    if array.path is None:
        raise ValueError("the array was published for this process only: expected an array of ClusterRanges")
    return str(array.path), array.values.dtype.str, len(array.values)


def run_range(task: Mapping[str, Any]) -> dict[str, Any]:
    """Call a range function on a worker.

    Args:
        task: Header of a job, and ``function``, ``number``, ``job``, ``arrays`` and ``answer``.

    Returns:
        ``number``, the numbers of the result, and path, type and length of each of its arrays.

    Raises:
        ClusterError: If this process has another revision of the engine, or does not see the files.
    """
    with portable_errors(task):
        accept_job(task)
        if task.get("format") != TASK_FORMAT:
            raise ClusterError(
                f"{worker_name(describe_worker())} has tgp {__version__} with other temporary files: expected format "
                f"{task.get('format')} of tgp {task['version']} of the client, got {TASK_FORMAT}",
                hint="install the same version of tgp on the client and on all workers",
            )
        arrays = {name: _map(*described) for name, described in task["arrays"].items()}
        _wait_for_rows(task["job"])
        with ENGINE_LOCK, limit_threads(job_threads(task)):
            result = _FUNCTIONS[task["function"]](task["job"], arrays)
        failpoint("range:computed")
        numbers, written = {}, {}
        for name, value in result.items():
            if not isinstance(value, np.ndarray):
                numbers[name] = value
                continue
            path = Path(f"{task['answer']}.{name}")
            write_array(path, value)
            written[name] = (str(path), value.dtype.str, len(value))
        return {"number": task["number"], "numbers": numbers, "arrays": written}


def _map(path: str, dtype: str, length: int) -> Array:
    _wait_for(Path(path), length * np.dtype(dtype).itemsize)
    return map_file(Path(path), dtype, length)


def _wait_for_rows(job: Job) -> None:
    """Wait until the file system shows the files of a job that the client or other workers have written."""
    if "rows" in job:
        rows = job["rows"]
        sizes = {"indptr": 8 * (rows["num_nodes"] + 1), "indices": 4 * rows["num_entries"]}
        sizes |= {"weight": 8 * rows["num_entries"]} if rows["weighted"] else {}
        for suffix, size in sizes.items():
            _wait_for(Path(rows["folder"]) / f"{rows['name']}.{suffix}", size)
    for name in ("cluster", "rank"):
        if name in job:
            _wait_for(Path(job[name]), 4 * job["rows"]["num_nodes"])
    for name, suffix in itertools.product(job.get("chunks", ()), ("keys", "parts")):
        _wait_for(Path(job["folder"]) / f"{name}.{suffix}", 0)


def _wait_for(path: Path, size: int, who: str | None = None) -> None:
    """Wait until a file is at least as long as expected. Network file systems may show it late.

    Args:
        path: File.
        size: Number of bytes.
        who: Name of this process for the message; by default it is the worker.

    Raises:
        ClusterError: If it is not after :data:`tgp.build.units.VISIBLE_TIMEOUT` seconds.
    """
    deadline = time.monotonic() + units.VISIBLE_TIMEOUT
    while True:
        try:
            found = path.stat().st_size
            if found >= size:
                return
            reason = f"it has {found:,} bytes there, expected {size:,}"
        except OSError as error:
            reason = str(error)
        if time.monotonic() > deadline:
            raise ClusterError(
                f"{who or worker_name(describe_worker())} does not see a temporary file of this run: {reason}",
                hint="the client and all workers must see the directory of the store and the folder beside it, NAME.scratch, under "
                "the same path; run the same command again: it continues",
            )
        time.sleep(0.2)
