"""Set-up of workers. Imports nothing heavy, so that it can run before numpy counts the cores."""

from __future__ import annotations

import os
import signal
import threading

__all__ = ["UNIT_THREAD", "start_worker"]

UNIT_THREAD = "tgp-unit"
"""Name of the thread that works where there are no worker processes."""

_LIMITS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


def start_worker() -> None:
    """One thread of computation per worker; Ctrl-C is the parent's business; no life after the parent."""
    for name in _LIMITS:
        os.environ[name] = "1"
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    """A killed parent cannot stop its workers, so they watch it."""
    import multiprocessing
    from multiprocessing.connection import wait

    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
