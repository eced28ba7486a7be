"""Where units run: a thread of this process, worker processes, or a Dask cluster."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import types
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tgp.errors import InputError, MissingPackageError, TgpError
from tgp.build.cores import usable_cores
from tgp.build.worker import UNIT_THREAD, start_worker

__all__ = ["Pool", "given_executor", "open_executor"]

CONNECT_TIMEOUT = 10.0
"""Seconds to wait for a Dask scheduler."""

CLOSE_TIMEOUT = 1.0
"""Seconds to wait for the workers of a pool to end, before and after they are killed."""


@dataclass(frozen=True)
class Pool:
    """Where units run.

    Args:
        executor: runs them.
        in_flight: how many to hand over at a time; asked again and again, because clusters grow and shrink.
        processes: worker processes that are still to be started.
    """

    executor: Executor
    in_flight: Callable[[], int]
    processes: int = 1


@contextlib.contextmanager
def open_executor(scheduler: str | None, workers: int) -> Iterator[Pool]:
    """Workers of a Dask scheduler, so many processes, or a thread of this process if ``workers`` is 1.

    When the block is left by an error or an interrupt, running units are abandoned: whatever they would
    have written is written again by the next run.
    """
    if scheduler is not None:
        with _dask(scheduler) as executor:
            yield given_executor(executor)
    elif workers > 1:
        with _processes(workers) as executor:
            yield Pool(executor, lambda: 2 * workers, workers)
    else:
        # Work happens in threads so that the main thread hears signals while kernels run, and in two of them so
        # that one computes while the other writes: kernels themselves take turns.
        threads = ThreadPoolExecutor(2, thread_name_prefix=UNIT_THREAD)
        try:
            yield Pool(threads, lambda: 3)
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
        threads.shutdown()


def given_executor(executor: Executor) -> Pool:
    """An executor that somebody else made: twice as many units in flight as it has workers, now."""
    client = getattr(executor, "_client", None)
    if hasattr(client, "nthreads"):  # Dask's: its workers are elsewhere, so this machine's cores say nothing
        return Pool(executor, lambda: max(2, 2 * sum(client.nthreads().values())))
    # Executors do not publish their size; those of the standard library keep it here.
    workers = int(getattr(executor, "_max_workers", None) or usable_cores())
    return Pool(executor, lambda: 2 * workers)


class _Processes(ProcessPoolExecutor):
    """Workers are started by ``submit`` and take over the state of this process at that moment."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        with _ctrl_c_is_ours(), _no_main_module():
            return super().submit(fn, *args, **kwargs)


@contextlib.contextmanager
def _ctrl_c_is_ours() -> Iterator[None]:
    """Workers inherit the signal mask: Ctrl-C is for the parent alone."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _no_main_module() -> Iterator[None]:
    """A spawned worker imports the main module of its parent, unless there is none.

    Workers need nothing of it. For them it means seconds of imports, and a second run if it is a script that
    does not ask for its name.
    """
    main = sys.modules["__main__"]
    try:
        sys.modules["__main__"] = types.ModuleType("__main__")
        yield
    finally:
        sys.modules["__main__"] = main


@contextlib.contextmanager
def _processes(workers: int) -> Iterator[Executor]:
    before = set(multiprocessing.active_children())
    # Spawned, not forked: torch, numba and HDF5 do not survive a fork of a busy process.
    pool = _Processes(workers, mp_context=multiprocessing.get_context("spawn"), initializer=start_worker)
    # All results are in when the block is left: what workers do after that is of no use to anyone.
    closing = threading.Thread(target=pool.shutdown, kwargs={"cancel_futures": True}, daemon=True)
    try:
        yield pool
        closing.start()
        closing.join(CLOSE_TIMEOUT)
    finally:
        # A worker that died at the wrong moment keeps the lock the others wait for, so they may never end alone.
        for child in set(multiprocessing.active_children()) - before:
            child.kill()
        # The pool's own thread now closes its pipes. Leaving earlier makes the interpreter complain at exit,
        # waiting for ever is no way to leave either: a full pipe may keep that thread.
        if closing.ident is None:
            closing.start()
        closing.join(CLOSE_TIMEOUT)


@contextlib.contextmanager
def _dask(scheduler: str) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingPackageError(
            "a scheduler needs the package 'distributed'", hint="pip install 'tgp-coarsen[dask]'"
        ) from error
    target: dict[str, Any] = (
        {"scheduler_file": scheduler} if os.path.exists(scheduler) else {"address": scheduler}
    )
    try:
        client = Client(**target, timeout=CONNECT_TIMEOUT, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {scheduler!r}: {error}",
            field="scheduler",
            hint="start one with 'dask scheduler', or name its scheduler file",
        ) from error
    with client:
        if not client.nthreads():
            raise TgpError(
                f"the Dask scheduler at {scheduler!r} has no workers", hint=f"dask worker {scheduler}"
            )
        # Units have side effects (files), so equal calls must not be taken for one.
        executor = client.get_executor(pure=False)
        try:
            yield executor
        finally:
            executor.shutdown(wait=False)
