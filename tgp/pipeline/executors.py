"""Where units run: a thread of this process, worker processes, or a Dask cluster."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

from tgp.errors import InputError, MissingPackageError, TgpError
from tgp.pipeline.config import CoarsenConfig
from tgp.pipeline.threads import UNIT_THREAD, start_worker

__all__ = ["open_executor"]

CONNECT_TIMEOUT = 10.0
"""Seconds to wait for a Dask scheduler."""

CLOSE_TIMEOUT = 1.0
"""Seconds to wait for the workers of a pool to end, before and after they are killed."""


@contextlib.contextmanager
def open_executor(config: CoarsenConfig) -> Iterator[tuple[Executor, int]]:
    """An executor for a configuration and how many units to keep in flight.

    When the block is left by an error or an interrupt, running units are abandoned: whatever they would
    have written is written again by the next run.
    """
    if config.scheduler is not None:
        with _dask(config.scheduler) as found:
            yield found
    elif config.workers > 1:
        with _processes(config.workers) as pool:
            yield pool, 2 * config.workers
    else:
        # Work happens in a thread so that the main thread hears signals while kernels run.
        pool = ThreadPoolExecutor(1, thread_name_prefix=UNIT_THREAD)
        try:
            yield pool, 2
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        pool.shutdown()


class _Pool(ProcessPoolExecutor):
    """Workers are started by ``submit`` and inherit its signal mask: Ctrl-C is for the parent alone."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if not hasattr(signal, "pthread_sigmask"):
            return super().submit(fn, *args, **kwargs)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(fn, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _processes(workers: int) -> Iterator[Executor]:
    before = set(multiprocessing.active_children())
    # Spawned, not forked: torch, numba and HDF5 do not survive a fork of a busy process.
    pool = _Pool(workers, mp_context=multiprocessing.get_context("spawn"), initializer=start_worker)
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
def _dask(scheduler: str) -> Iterator[tuple[Executor, int]]:
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
        threads = sum(client.nthreads().values())
        if not threads:
            raise TgpError(
                f"the Dask scheduler at {scheduler!r} has no workers", hint=f"dask worker {scheduler}"
            )
        # Units have side effects (files), so equal calls must not be taken for one.
        executor = client.get_executor(pure=False)
        try:
            yield executor, 2 * threads
        finally:
            executor.shutdown(wait=False)
