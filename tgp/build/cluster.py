"""Dask clusters: check the workers before the first task, watch the cluster, and explain its failures.

Nothing of tgp is pickled. Each call sends the source text of :mod:`tgp.build.worker_functions` and plain values, so a worker without
tgp, or with another version, answers with its name instead of failing to unpickle the call.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import Any, TypeVar

from tgp._version import __version__
from tgp.build import worker_functions
from tgp.engine.revision import ENGINE_REVISION
from tgp.errors import InputError, TgpError
from tgp.store.format.codec import HDF5_VERSION

__all__ = ["ClusterError", "DaskCluster", "LostFilesError", "mismatch", "refusal", "worker_name"]

REQUEST_TIMEOUT = 10.0
"""Seconds to wait for one answer of a scheduler."""

ANSWER_TIMEOUT = 60.0
"""Seconds after which a scheduler that does not answer counts as lost."""

WORKER_TIMEOUT = 300.0
"""Seconds to wait for a worker while a cluster has none. ``TGP_WORKER_TIMEOUT`` sets another number."""

CHECK_TIMEOUT = 60.0
"""Seconds to wait for the answers of all workers to the check before the first job."""

PROBE_DELAYS = (0.0, 0.5, 2.0)
"""Seconds before each attempt to see the file of another machine. Network file systems may show it late."""

_EXPRESSION = "(exec(source, names), names[function](*arguments))[1]"
"""Expression that runs a function of :mod:`tgp.build.worker_functions` from its source text."""

_SHOWN_WORKERS = 8


T = TypeVar("T")


class ClusterError(TgpError, RuntimeError):
    """Failure of a cluster: its scheduler, its workers, or what they see of the store."""

    exit_status = 5
    """Exit status of the command line."""


class LostFilesError(ClusterError):
    """Files that workers reported as written and that are not in the store."""

    exit_status = 3


def worker_name(found: Mapping[str, Any]) -> str:
    """Return the name of a worker for messages.

    Args:
        found: Result of :func:`tgp.build.worker_functions.describe_worker`.
    """
    address = f"{found['address']} " if found.get("address") else ""
    return f"worker {address}(host {found['host']}, process {found['pid']})"


def mismatch(found: Mapping[str, Any]) -> str | None:
    """Return why a worker must not compute for this client, or ``None`` if it may.

    Args:
        found: Result of :func:`tgp.build.worker_functions.describe_worker`.
    """
    expected = f"expected revision {ENGINE_REVISION}, as in tgp {__version__} of the client"
    if found["version"] is None:
        return f"cannot import tgp ({found['problem']})"
    if found["engine"] is None:
        return f"has tgp {found['version']} without a revision of the engine: {expected}"
    if found["engine"] != ENGINE_REVISION:
        return f"has tgp {found['version']} with engine revision {found['engine']}: {expected}"
    if found["hdf5"] != HDF5_VERSION:
        return (
            f"writes files with HDF5 {found['hdf5']}: expected HDF5 {HDF5_VERSION}, as the client. "
            "Files of other versions have other bytes"
        )
    return None


def refusal(found: Mapping[str, Any]) -> ClusterError:
    """Return the error for a worker that cannot import the function of a job.

    Args:
        found: Result of :func:`tgp.build.worker_functions.describe_worker`.
    """
    reason = mismatch(found) or f"cannot run jobs of tgp {__version__} ({found['problem']})"
    return ClusterError(
        f"{worker_name(found)} {reason}",
        hint="install the same version of tgp and h5py on the client and on all workers",
    )


class DaskCluster:
    """Connection to a Dask cluster.

    Args:
        client: Client of the cluster.
        workers: Addresses of the workers that run jobs; ``None`` for all workers.
    """

    def __init__(self, client: Any, workers: Collection[str] | None = None) -> None:
        self._client = client
        self._workers = workers
        self.address = str(getattr(getattr(client, "scheduler", None), "address", "the scheduler"))
        self._threads: dict[str, int] = {}
        """Number of threads of each worker, by address."""
        self._asked = float("-inf")
        self._answered = time.monotonic()
        self._idle_since: float | None = None
        self._source = inspect.getsource(worker_functions)

    # State --------------------------------------------------------------------------------------

    def num_threads(self) -> int:
        """Return the number of threads of all workers. The scheduler is asked at most once per second.

        Raises:
            ClusterError: If the scheduler does not answer any more.
        """
        now = time.monotonic()
        if now - self._asked >= 1.0:
            self._asked = now
            self.check_connection()
            try:
                self._threads = dict(self._client.nthreads(callback_timeout=REQUEST_TIMEOUT))
                self._answered = time.monotonic()
            except _no_answer() as error:
                self.check_connection(error)
                if time.monotonic() - self._answered > ANSWER_TIMEOUT:
                    raise self._lost(f"it has not answered for {ANSWER_TIMEOUT:.0f} s") from error
            if self._threads:
                self._idle_since = None
            elif self._idle_since is None:
                self._idle_since = time.monotonic()
        return sum(self._threads.values())

    def workers_per_machine(self) -> int:
        """Return the largest number of worker processes that run jobs on one machine, at least 1."""
        self.num_threads()
        # Workers of one process have addresses such as inproc://10.0.0.7/1203/1.
        hosts = [address.rpartition(":")[0] for address in self._threads if not address.startswith("inproc:")]
        return max(Counter(hosts).values(), default=1)

    def check_connection(self, cause: BaseException | None = None) -> None:
        """Check that the scheduler is connected.

        Args:
            cause: Error that led to the check.

        Raises:
            ClusterError: If the connection is lost.
        """
        if getattr(self._client, "status", "running") not in ("running", "newly-created"):
            raise self._lost("the connection was closed") from cause

    def _lost(self, reason: str) -> ClusterError:
        return ClusterError(
            f"lost the Dask scheduler at {self.address}: {reason}",
            hint="start the scheduler and its workers, and run the same command again: it continues",
        )

    def waiting(self) -> tuple[str, float] | None:
        """Return what a run that gets no results is waiting for, and for how many seconds.

        Returns:
            ``None`` if the cluster has workers.

        Raises:
            ClusterError: If the scheduler is lost, or if the cluster has had no workers for too long.
        """
        if self.num_threads() or self._idle_since is None:
            return None
        seconds, limit = time.monotonic() - self._idle_since, _worker_timeout()
        if seconds > limit:
            raise ClusterError(
                f"the Dask scheduler at {self.address} has had no workers for {limit:.0f} s",
                hint=f"start workers with 'dask worker {self.address}' and run the same command again; "
                "TGP_WORKER_TIMEOUT sets the number of seconds to wait",
            )
        return f"waiting for workers of {self.address}", seconds

    # Calls --------------------------------------------------------------------------------------

    def script(self, function: str, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Return the arguments of ``eval`` that run a function of :mod:`tgp.build.worker_functions` on a worker.

        Args:
            function: Name of the function.
            arguments: Its arguments, which are plain values.
        """
        names = {"__name__": "tgp_remote"}
        values = {
            "source": self._source,
            "names": names,
            "function": function,
            "arguments": tuple(arguments),
        }
        return _EXPRESSION, values

    def explain(self, error: BaseException) -> BaseException:
        """Return the error to raise for an error of a task.

        Args:
            error: Error of Dask or of the task. An error of the task is returned unchanged.
        """
        name, module = type(error).__name__, type(error).__module__.partition(".")[0]
        if isinstance(error, CancelledError) or name in ("CancelledError", "FutureCancelledError"):
            with contextlib.suppress(ClusterError):
                self.check_connection()
                return ClusterError(
                    f"the Dask scheduler at {self.address} cancelled the tasks of this run",
                    hint="the scheduler was restarted, or another client cancelled them: run the same command again",
                )
            return self._lost("the connection was closed")
        if module == "distributed" and name == "KilledWorker":
            last = getattr(getattr(error, "last_worker", None), "address", "unknown")
            attempts = getattr(error, "allowed_failures", 0) + 1
            return ClusterError(
                f"the job {_job_of_key(error)!r} failed, because the Dask workers that ran it died ({attempts} in a row, "
                f"the last one was {last})",
                hint="they may have run out of memory: use a smaller shard size or workers with more memory; "
                "the logs of the workers show the reason",
            )
        if module == "distributed":
            return ClusterError(f"the Dask cluster at {self.address} failed: {name}: {error}")
        return error

    # Checks -------------------------------------------------------------------------------------

    def check_workers(self, folder: Path) -> int:
        """Check that every worker has the same engine as this client and sees the same directory.

        Args:
            folder: Directory of the store.

        Returns:
            Number of workers that were checked.

        Raises:
            ClusterError: If a worker does not match. The message names the workers.
        """
        from tgp.store import LocalFiles

        found: dict[str, Mapping[str, Any]] = {}
        files = LocalFiles(folder)
        with files.writing("probe"), files.temporary("probe") as file:
            content = uuid.uuid4().hex
            os.write(file.descriptor, content.encode())
            os.fsync(file.descriptor)
            for delay in PROBE_DELAYS:
                time.sleep(delay)
                found |= self._probe(file.path, content, found)
                if all(answer["unseen"] is None for answer in found.values()):
                    break
        problems = _group_problems(found, folder)
        if problems:
            count = len(problems)
            shown = [*problems[:_SHOWN_WORKERS], *(["..."] if count > _SHOWN_WORKERS else [])]
            raise ClusterError(
                f"{count} of {len(found)} workers of {self.address} cannot work on this store:\n  "
                + "\n  ".join(shown),
                hint="stop these workers, or give them the same version of tgp and the same shared directory",
            )
        return len(found)

    def _job_workers(self) -> list[str] | None:
        """Return the addresses of the workers that run jobs, or ``None`` for all workers."""
        if self._workers is None:
            return None
        known = self._client.nthreads(callback_timeout=REQUEST_TIMEOUT)
        return [address for address in self._workers if address in known] or None

    def _probe(
        self, path: Path, content: str, known: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, dict[str, Any]]:
        """Ask the workers that have not seen the file yet, and look for their answers."""
        asked = [address for address, answer in known.items() if answer["unseen"] is not None]
        arguments = self.script("probe", (str(path.parent), path.name, content))

        def ask() -> dict[str, Any]:
            workers = asked or self._job_workers()
            return dict(self._client.run(eval, *arguments, workers=workers, on_error="return"))

        try:
            answers = _call_with_timeout(ask, CHECK_TIMEOUT)
        except _no_answer() as error:
            self.check_connection(error)
            raise ClusterError(
                f"not all workers of {self.address} answered within {CHECK_TIMEOUT:.0f} s",
                hint="a worker may be stopped, or the file system of the store may not respond on it",
            ) from error
        found = {}
        for address, answer in answers.items():
            if not isinstance(answer, Mapping):
                continue  # the worker has just ended; a worker that takes a job is checked again
            found[address] = {**answer, "address": address}
            if answer["answer"] is not None and not _read_answer(path.parent / answer["answer"], content):
                found[address]["unseen"] = "the client does not see the files that the worker writes there"
        return found


def _call_with_timeout(function: Callable[[], T], seconds: float) -> T:
    """Call a function in a thread and return its result.

    Args:
        function: Function without arguments. The thread is abandoned if the function does not return.
        seconds: Time limit.

    Raises:
        TimeoutError: If the function takes longer.
    """
    outcome: Future[T] = Future()

    def call() -> None:
        try:
            outcome.set_result(function())
        except BaseException as error:  # noqa: BLE001 - raised in the thread of the caller
            outcome.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    try:
        return outcome.result(seconds)
    except FutureTimeoutError as error:
        raise TimeoutError(*error.args) from error


def _worker_timeout() -> float:
    text = os.environ.get("TGP_WORKER_TIMEOUT")
    if text is None:
        return WORKER_TIMEOUT
    try:
        return float(text)
    except ValueError:
        raise InputError(
            f"TGP_WORKER_TIMEOUT must be a number of seconds, got {text!r}", field="TGP_WORKER_TIMEOUT"
        ) from None


def _job_of_key(error: BaseException) -> str:
    """Return the text that :class:`tgp.build.dask_client.RemoteExecutor` has put in front of the key of a task."""
    key = str(getattr(error, "task", "unknown"))
    return (key.rpartition("-")[0] or key).removeprefix("tgp ")


def _read_answer(path: Path, content: str) -> bool:
    """Return True if the answer of a worker has the right content, and delete it."""
    try:
        text = path.read_text(encoding="ascii")
        path.unlink()
    except (OSError, ValueError):
        return False
    return text == content


def _group_problems(found: Mapping[str, Mapping[str, Any]], folder: Path) -> list[str]:
    """Return one line for each worker that does not match."""
    lines = []
    for answer in found.values():
        reason = mismatch(answer)
        if reason is None and answer["unseen"] is not None:
            reason = f"does not share {folder} with the client: {answer['unseen']}"
        if reason is not None:
            lines.append(f"{worker_name(answer)} {reason}")
    return sorted(lines)


def _no_answer() -> tuple[type[Exception], ...]:
    """Return the errors of a request to a scheduler that does not answer. They are different classes in Python 3.10."""
    import asyncio  # takes longer to import than the rest of this module

    return OSError, TimeoutError, asyncio.TimeoutError
