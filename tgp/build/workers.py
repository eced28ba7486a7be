"""Worker processes: their number and their configuration.

This module imports nothing heavy, because :func:`start_worker` has to run before numpy counts the cores.
"""

from __future__ import annotations

import math
import os
import signal
import threading
from pathlib import Path
from typing import Any

__all__ = [
    "THREAD_LIMITS",
    "UNIT_THREAD",
    "choose_threads",
    "choose_workers",
    "connections",
    "start_worker",
    "usable_cores",
]

UNIT_THREAD = "tgp-unit"
"""Name prefix of the threads that coarsen if there are no worker processes."""

SECONDS_PER_WORKER = 1.0
"""Estimated work in seconds that justifies a worker process. Starting one (Python, numpy, numba, cached kernels) takes
0.8 s of processor time, so fewer processes finish less work than this sooner."""

THREAD_LIMITS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
"""Environment variables that limit the threads of numeric libraries."""

_CGROUPS = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")


def choose_workers(num_units: int, seconds: float) -> int:
    """Return the number of worker processes for a run.

    Args:
        num_units: Number of units that can run at the same time.
        seconds: Estimated work of one core.

    Returns:
        1 if the work should run in the current process.
    """
    return max(1, min(usable_cores(), num_units, int(seconds / SECONDS_PER_WORKER)))


def choose_threads(requested: int | None, processes: int) -> int:
    """Return the number of threads of each process, such that all of them together use no more than the usable cores.

    Args:
        requested: Number of threads that the user asked for; ``None`` for all cores in one process, and one thread in several.
        processes: Number of processes that compute at the same time.
    """
    cores = usable_cores()
    if requested is None:
        requested = cores if processes == 1 else 1
    return max(1, min(requested, cores // processes))


def usable_cores() -> int:
    """Return the number of cores of the CPU affinity, limited by the quota of the control group (containers, jobs)."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        cores = os.cpu_count() or 1
    return max(1, math.ceil(min(cores, _cgroup_quota())))


def _cgroup_quota() -> float:
    """Return the smallest CPU quota of the control groups of this process and their parents; infinity if none."""
    quota = math.inf
    for line in _read_text(_MEMBERSHIP).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = _CGROUPS / "cpu" if controllers else _CGROUPS
        folder = root / group.strip("/")
        # A container may see its own group as the root of the tree.
        for parent in (folder, *folder.parents):
            if parent != root and root not in parent.parents:
                break
            quota = min(quota, _folder_quota(parent))
    return quota


def _folder_quota(folder: Path) -> float:
    words = _read_text(folder / "cpu.max").split()
    if len(words) != 2:
        words = [_read_text(folder / name).strip() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")]
    try:
        quota, period = (float(word) for word in words)
    except ValueError:  # "max", or the file does not exist
        return math.inf
    return quota / period if quota > 0 and period > 0 else math.inf


def _read_text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


connections: list[Any] = []
"""Pipe to the parent process, in a worker process. It carries the state of the compilation."""


def start_worker(connection: Any = None, threads: int = 1) -> None:
    """Configure a worker process.

    Limits its compute threads, ignores SIGINT and SIGHUP (the parent handles them), and ends the process when the
    parent ends.

    Args:
        connection: Pipe to the parent process, or ``None``.
        threads: Number of threads of the engine. Other numeric libraries use one.
    """
    connections[:] = [] if connection is None else [connection]
    for name in THREAD_LIMITS:
        os.environ[name] = str(threads) if name == "NUMBA_NUM_THREADS" else "1"
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGHUP"):  # not on Windows
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    """Wait for the end of the parent process and exit. A killed parent cannot stop its workers itself."""
    import multiprocessing
    from multiprocessing.connection import wait

    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
