"""Client of a Dask cluster as an executor."""

from __future__ import annotations

import contextlib
import logging
import os
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Executor, Future, InvalidStateError
from typing import Any

from tgp.build.cluster import DaskCluster, refusal
from tgp.errors import InputError, MissingPackageError

__all__ = ["RemoteExecutor", "connect"]

CONNECT_TIMEOUT = 10.0
"""Seconds to wait for a Dask scheduler."""

_LOGGERS = ("distributed", "tornado", "asyncio")
"""Packages of Dask and of its event loop, whose loggers have handlers of their own."""


class RemoteExecutor(Executor):
    """Executor of a Dask client that calls functions by name.

    Args:
        executor: Executor of the client.
        cluster: Cluster of the client.
    """

    def __init__(self, executor: Executor, cluster: DaskCluster) -> None:
        self._executor = executor
        self._cluster = cluster

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call a function of a module on a worker. The arguments are plain values."""
        cluster = self._cluster
        cluster.check_connection()
        label = _label(fn, args)
        script = cluster.script("call", (fn.__module__, fn.__qualname__, args))
        submit: Callable[..., Future[Any]] = self._executor.submit
        try:
            # A key of its own, because jobs write files: Dask must not merge equal calls.
            with _ignore_warnings():
                inner = submit(eval, *script, key=f"tgp {label}-{uuid.uuid4().hex}")
        except Exception as error:
            cluster.check_connection(error)
            raise
        outer: Future[Any] = Future()
        outer.add_done_callback(lambda done: inner.cancel() if done.cancelled() else None)
        inner.add_done_callback(lambda done: self._forward(done, outer))
        return outer

    def _forward(self, inner: Future[Any], outer: Future[Any]) -> None:
        """Give the outcome of a task to the future of the caller."""
        with contextlib.suppress(InvalidStateError):  # cancelled by the caller
            try:
                answer = inner.result()
            except (Exception, CancelledError) as error:  # noqa: BLE001 - given to the caller
                outer.set_exception(self._cluster.explain(error))
                return
            if "refused" in answer:
                outer.set_exception(refusal(answer["refused"]))
            else:
                outer.set_result(answer["result"])

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancel the tasks that have not finished."""
        with contextlib.suppress(Exception):  # the scheduler may be gone
            self._executor.shutdown(wait=False)


def _label(function: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
    """Return the name of a call in messages and on the dashboard of Dask."""
    job = arguments[0] if arguments and isinstance(arguments[0], Mapping) else {}
    if "label" in job:
        return str(job["label"])
    return f"{job['name']} of unit {job['unit']}" if "unit" in job else function.__name__


@contextlib.contextmanager
def connect(scheduler: str) -> Iterator[tuple[RemoteExecutor, DaskCluster]]:
    """Connect to a Dask scheduler for the duration of the block.

    Args:
        scheduler: Address or scheduler file.

    Raises:
        InputError: If no scheduler answers.
        MissingPackageError: If Dask is not installed.
    """
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
    with _quiet_dask():
        try:
            with _ignore_warnings():
                client = make_client(**target, timeout=CONNECT_TIMEOUT, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise InputError(
                f"no Dask scheduler answers at {scheduler!r}: {error}",
                field="scheduler",
                hint="start one with 'dask scheduler', or give the path of its scheduler file",
            ) from error
        cluster = DaskCluster(client)
        executor = RemoteExecutor(client.get_executor(pure=False), cluster)
        try:
            yield executor, cluster
        finally:
            executor.shutdown()
            with contextlib.suppress(Exception), _ignore_warnings():  # the scheduler may be gone
                client.close(timeout=CONNECT_TIMEOUT)


@contextlib.contextmanager
def _quiet_dask() -> Iterator[None]:
    """Keep log messages of Dask away from users. Failures are reported by :class:`DaskCluster`."""
    if os.environ.get("TGP_DEBUG"):
        yield
        return
    known = (name for name in [*logging.root.manager.loggerDict] if name.partition(".")[0] in _LOGGERS)
    loggers = [logging.getLogger(name) for name in {*known, *_LOGGERS}]
    before = [(logger, logger.handlers, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.handlers, logger.propagate = [logging.NullHandler()], False
    try:
        yield
    finally:
        for logger, handlers, propagate in before:
            logger.handlers, logger.propagate = handlers, propagate


@contextlib.contextmanager
def _ignore_warnings() -> Iterator[None]:
    """Ignore the warnings of a call of Dask, such as different versions of its packages."""
    with warnings.catch_warnings():
        if not os.environ.get("TGP_DEBUG"):
            warnings.simplefilter("ignore")
        yield
