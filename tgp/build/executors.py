"""Run jobs in threads of this process, in worker processes, or on a Dask cluster."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import types
from collections.abc import Callable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tgp.build.workers import UNIT_THREAD, start_worker, usable_cores
from tgp.errors import InputError, MissingPackageError, TgpError

__all__ = ["JobQueue", "Pool", "open_executor", "wrap_executor"]

CONNECT_TIMEOUT = 10.0
"""Seconds to wait for a Dask scheduler."""

CLOSE_TIMEOUT = 1.0
"""Seconds to wait for the workers of a pool to end, before and after they are killed."""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Pool:
    """An executor and the number of jobs to keep in it.

    Args:
        executor: Executor that runs the jobs.
        in_flight: Function that returns the number of jobs to submit before the first has finished. It is called
            before each submission, because a cluster can grow and shrink.
        processes: Number of worker processes that the executor starts on demand.
    """

    executor: Executor
    in_flight: Callable[[], int]
    processes: int = 1


class JobQueue(Generic[T, R]):
    """Calls of one function in a pool, with a limited number of calls in flight.

    Use it as a context manager: leaving the block cancels the calls that have not started.

    Args:
        pool: Pool that runs the calls.
        function: Function of one argument. It has to be picklable if the pool uses other processes.
    """

    def __init__(self, pool: Pool, function: Callable[[T], R]) -> None:
        self._pool = pool
        self._function = function
        self._pending: list[Future[R]] = []

    def __enter__(self) -> JobQueue[T, R]:
        return self

    def __exit__(self, *exception: object) -> None:
        for future in self._pending:
            future.cancel()

    def submit(self, item: T) -> list[R]:
        """Submit a call. If the queue is full, wait until there is room.

        Args:
            item: Argument of the function.

        Returns:
            Results of the earlier calls that finished while this one waited for room.

        Raises:
            TgpError: If a worker process died. An error of the function is raised unchanged.
        """
        results = []
        while len(self._pending) >= max(1, self._pool.in_flight()):
            results.append(self._wait_for_result())
        with _explain_dead_worker():
            self._pending.append(self._pool.executor.submit(self._function, item))
        return results

    def drain(self) -> Iterator[R]:
        """Yield the results of all remaining calls in the order of completion.

        Raises:
            TgpError: If a worker process died. An error of the function is raised unchanged.
        """
        while self._pending:
            yield self._wait_for_result()

    def _wait_for_result(self) -> R:
        wait(self._pending, return_when=FIRST_COMPLETED)
        future = next(future for future in self._pending if future.done())
        self._pending.remove(future)
        with _explain_dead_worker():
            return future.result()


@contextlib.contextmanager
def _explain_dead_worker() -> Iterator[None]:
    try:
        yield
    except BrokenExecutor as error:
        raise TgpError(
            f"a worker process ended unexpectedly: {error}",
            hint="it may have run out of memory: run again with fewer workers or a smaller shard size",
        ) from error


@contextlib.contextmanager
def open_executor(scheduler: str | None, workers: int) -> Iterator[Pool]:
    """Open the executor of a run and close it at the end of the block.

    If the block ends with an error or an interrupt, running jobs are abandoned. The next run writes their files.

    Args:
        scheduler: Address or scheduler file of a Dask scheduler; ``None`` to run on this machine.
        workers: Number of worker processes. With 1, jobs run in threads of this process.

    Raises:
        InputError: If no Dask scheduler answers.
        MissingPackageError: If a scheduler is given and Dask is not installed.
        TgpError: If the Dask scheduler has no workers.
    """
    if scheduler is not None:
        with _connect_to_dask(scheduler) as executor:
            yield wrap_executor(executor)
    elif workers > 1:
        with _open_processes(workers) as executor:
            yield Pool(executor, lambda: 2 * workers, workers)
    else:
        # Jobs run in threads so that the main thread can handle signals while kernels run. There are two threads so
        # that one computes while the other writes; a lock keeps two kernels from running at the same time.
        threads = ThreadPoolExecutor(2, thread_name_prefix=UNIT_THREAD)
        try:
            yield Pool(threads, lambda: 3)
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
        threads.shutdown()


def wrap_executor(executor: Executor) -> Pool:
    """Wrap an executor supplied by the caller. The pool keeps two jobs in flight per worker.

    Args:
        executor: Any ``concurrent.futures.Executor``, for example of a Dask client.
    """
    client: Any = getattr(executor, "_client", None)
    if hasattr(
        client, "nthreads"
    ):  # Dask: its workers run elsewhere, so the cores of this machine do not matter
        return Pool(executor, lambda: max(2, 2 * sum(client.nthreads().values())))
    # Executors do not publish their size; those of the standard library keep it in this attribute.
    workers = int(getattr(executor, "_max_workers", None) or usable_cores())
    return Pool(executor, lambda: 2 * workers)


class _SpawnedProcesses(ProcessPoolExecutor):
    """Process pool whose ``submit`` starts workers with SIGINT blocked and without a main module."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        with _block_sigint(), _hide_main_module():
            return super().submit(fn, *args, **kwargs)


@contextlib.contextmanager
def _block_sigint() -> Iterator[None]:
    """Block SIGINT. Workers inherit the signal mask, so that only the parent handles Ctrl-C."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _hide_main_module() -> Iterator[None]:
    """Replace ``__main__`` by an empty module, so that spawned workers do not import the script of the parent.

    Workers do not need it. Importing it can take seconds, and it would run a script that has no
    ``if __name__ == "__main__"`` a second time.
    """
    main = sys.modules["__main__"]
    try:
        sys.modules["__main__"] = types.ModuleType("__main__")
        yield
    finally:
        sys.modules["__main__"] = main


@contextlib.contextmanager
def _open_processes(workers: int) -> Iterator[Executor]:
    before = set(multiprocessing.active_children())
    # Spawned, not forked: torch, numba and HDF5 do not survive a fork of a busy process.
    pool = _SpawnedProcesses(
        workers, mp_context=multiprocessing.get_context("spawn"), initializer=start_worker
    )
    # All results have arrived when the block ends, so workers may be killed.
    closing = threading.Thread(target=pool.shutdown, kwargs={"cancel_futures": True}, daemon=True)
    try:
        yield pool
        closing.start()
        closing.join(CLOSE_TIMEOUT)
    finally:
        # A worker that died while it held a lock blocks the others, so they may never end without a signal.
        for child in set(multiprocessing.active_children()) - before:
            child.kill()
        # The thread of the pool closes its pipes now. Without the wait, the interpreter complains at exit. The wait is
        # limited, because a full pipe can block that thread for ever.
        if closing.ident is None:
            closing.start()
        closing.join(CLOSE_TIMEOUT)


@contextlib.contextmanager
def _connect_to_dask(scheduler: str) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingPackageError(
            "a scheduler needs the package 'distributed'", hint="pip install 'tgp-coarsen[dask]'"
        ) from error
    target: dict[str, Any] = (
        {"scheduler_file": scheduler} if os.path.exists(scheduler) else {"address": scheduler}
    )
    make_client: Callable[..., Any] = Client  # Dask has no annotations
    try:
        client = make_client(**target, timeout=CONNECT_TIMEOUT, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {scheduler!r}: {error}",
            field="scheduler",
            hint="start one with 'dask scheduler', or give the path of its scheduler file",
        ) from error
    with client:
        if not client.nthreads():
            raise TgpError(
                f"the Dask scheduler at {scheduler!r} has no workers", hint=f"dask worker {scheduler}"
            )
        # Jobs write files, so Dask must not merge equal calls.
        executor = client.get_executor(pure=False)
        try:
            yield executor
        finally:
            executor.shutdown(wait=False)
