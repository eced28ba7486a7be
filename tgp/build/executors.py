"""Run jobs in threads of this process, in worker processes, or on a Dask cluster."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
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
    InvalidStateError,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Generic, Literal, TypeVar

from tgp.build.cluster import DaskCluster
from tgp.build.compilation import Compilation, read_compilation
from tgp.build.dask_client import RemoteExecutor, connect
from tgp.build.workers import UNIT_THREAD, start_worker, usable_cores
from tgp.errors import TgpError

__all__ = ["JobQueue", "Pool", "open_executor", "wrap_executor"]

WATCH_INTERVAL = 1.0
"""Seconds between two looks at the state of a cluster while no job finishes."""

TICK_INTERVAL = 0.25
"""Seconds between two updates of the progress while no job of this machine finishes."""

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
        kind: ``"threads"`` of this process, ``"processes"`` of this machine, or ``"remote"``: workers that may run on
            other machines.
        cluster: Dask cluster of the executor; ``None`` for other executors.
        compilation: Function that returns which kernel the workers compile, or ``None``.
        per_machine: Function that returns the largest number of remote worker processes that share a machine.
    """

    executor: Executor
    in_flight: Callable[[], int]
    processes: int = 1
    kind: Literal["threads", "processes", "remote"] = "threads"
    cluster: DaskCluster | None = None
    compilation: Callable[[], Compilation | None] = lambda: None
    per_machine: Callable[[], int] = lambda: 1


class JobQueue(Generic[T, R]):
    """Calls of one function in a pool, with a limited number of calls in flight.

    Use it as a context manager: leaving the block cancels the calls that have not started.

    Args:
        pool: Pool that runs the calls.
        function: Function of one argument. It has to be picklable if the pool uses other processes.
        on_wait: Function that is called with a text and a number of seconds while the queue waits for workers.
        on_tick: Function that is called from time to time while calls run.
    """

    def __init__(
        self,
        pool: Pool,
        function: Callable[[T], R],
        on_wait: Callable[[str, float], None] | None = None,
        on_tick: Callable[[], None] | None = None,
    ) -> None:
        self._pool = pool
        self._function = function
        self._on_wait = on_wait
        self._on_tick = on_tick
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
            TgpError: If a worker process died.
            ClusterError: If a cluster failed. An error of the function is raised unchanged.
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
            TgpError: If a worker process died.
            ClusterError: If a cluster failed. An error of the function is raised unchanged.
        """
        while self._pending:
            yield self._wait_for_result()

    def _wait_for_result(self) -> R:
        interval = WATCH_INTERVAL if self._pool.cluster is not None else TICK_INTERVAL
        while not wait(self._pending, interval, FIRST_COMPLETED).done:
            waiting = None if self._pool.cluster is None else self._pool.cluster.waiting()
            if waiting is not None and self._on_wait is not None:
                self._on_wait(*waiting)
            elif self._on_tick is not None:
                self._on_tick()
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
def open_executor(scheduler: str | None, workers: int, threads: int = 1) -> Iterator[Pool]:
    """Open the executor of a run and close it at the end of the block.

    If the block ends with an error or an interrupt, running jobs are abandoned. The next run writes their files.

    Args:
        scheduler: Address or scheduler file of a Dask scheduler; ``None`` to run on this machine.
        workers: Number of worker processes. With 1, jobs run in threads of this process.
        threads: Number of threads of the engine in each worker process.

    Raises:
        InputError: If no Dask scheduler answers.
        MissingPackageError: If a scheduler is given and Dask is not installed.
    """
    if scheduler is not None:
        with connect(scheduler) as (executor, cluster):
            yield _cluster_pool(executor, cluster)
    elif workers > 1:
        with _open_processes(workers, threads) as (processes, connection):
            compilation = functools.partial(read_compilation, connection)
            yield Pool(processes, lambda: 2 * workers, workers, "processes", compilation=compilation)
    else:
        # Jobs run in threads so that the main thread can handle signals while kernels run. There are two threads so
        # that one computes while the other writes; a lock keeps two kernels from running at the same time.
        local = ThreadPoolExecutor(2, thread_name_prefix=UNIT_THREAD)
        try:
            yield Pool(local, lambda: 3, compilation=read_compilation)
        except BaseException:
            local.shutdown(wait=False, cancel_futures=True)
            raise
        local.shutdown()


def wrap_executor(executor: Executor) -> Pool:
    """Wrap an executor supplied by the caller. The pool keeps two jobs in flight per worker.

    Args:
        executor: Any ``concurrent.futures.Executor``, for example of a Dask client.
    """
    client: Any = getattr(executor, "_client", None)
    if hasattr(client, "nthreads"):
        restricted = getattr(executor, "_kwargs", {}).get("workers")
        workers = [restricted] if isinstance(restricted, str) else restricted
        cluster = DaskCluster(client, workers)
        return _cluster_pool(RemoteExecutor(executor, cluster), cluster)
    # Executors do not publish their size; those of the standard library keep it in this attribute.
    size = int(getattr(executor, "_max_workers", None) or usable_cores())
    if isinstance(executor, ThreadPoolExecutor):
        return Pool(executor, lambda: 2 * size, compilation=read_compilation)
    per_machine = size if isinstance(executor, ProcessPoolExecutor) else 1
    return Pool(executor, lambda: 2 * size, kind="remote", per_machine=lambda: per_machine)


def _cluster_pool(executor: RemoteExecutor, cluster: DaskCluster) -> Pool:
    # The workers run elsewhere, so the cores of this machine do not matter.
    return Pool(
        executor,
        lambda: max(2, 2 * cluster.num_threads()),
        kind="remote",
        cluster=cluster,
        per_machine=cluster.workers_per_machine,
    )


class _SpawnedProcesses(ProcessPoolExecutor):
    """Process pool whose ``submit`` starts workers with SIGINT blocked and without a main module."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        with _block_signals(), _hide_main_module():
            return super().submit(fn, *args, **kwargs)


@contextlib.contextmanager
def _block_signals() -> Iterator[None]:
    """Block SIGINT and SIGHUP. Child processes inherit the signal mask, so that only the parent handles them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
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
def _ignore_cancelled_futures() -> Iterator[None]:
    """Hide the traceback of a pool that finds cancelled futures when its workers die (Python 3.10 to 3.12)."""
    original = threading.excepthook

    def hook(args: threading.ExceptHookArgs) -> None:
        from_pool = type(args.thread).__module__ == ProcessPoolExecutor.__module__
        if not (from_pool and issubclass(args.exc_type, InvalidStateError)):
            original(args)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = original


@contextlib.contextmanager
def _open_processes(workers: int, threads: int) -> Iterator[tuple[Executor, Connection]]:
    """Start worker processes. Yield the executor and the pipe on which they send the state of their compilation."""
    before = set(multiprocessing.active_children())
    # Spawned, not forked: torch, numba and HDF5 do not survive a fork of a busy process.
    spawn = multiprocessing.get_context("spawn")
    incoming, outgoing = spawn.Pipe(duplex=False)
    with _block_signals():  # also for the resource tracker of multiprocessing, which starts here
        pool = _SpawnedProcesses(
            workers, mp_context=spawn, initializer=start_worker, initargs=(outgoing, threads)
        )
    # All results have arrived when the block ends, so workers may be killed.
    closing = threading.Thread(target=pool.shutdown, kwargs={"cancel_futures": True}, daemon=True)
    with _ignore_cancelled_futures():  # a signal to the process group kills workers at any time
        try:
            yield pool, incoming
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
            incoming.close()
            outgoing.close()
