"""How many processes a run should use: what the machine gives, and what the work is worth."""

from __future__ import annotations

import math
import os
from pathlib import Path

__all__ = ["choose_workers", "usable_cores"]

WORTH_A_PROCESS = 1.0
"""Seconds of estimated work per worker process. Starting one (Python, numpy, numba, cached kernels) takes 0.8 s of
processor time, so less work than this is done sooner by fewer processes."""

_CGROUPS = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")


def usable_cores() -> int:
    """Cores this process may use: its affinity, and the quota of its control group (containers, batch jobs)."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        cores = os.cpu_count() or 1
    return max(1, math.ceil(min(cores, _quota())))


def choose_workers(units: int, seconds: float) -> int:
    """Processes for so many units and so many seconds of estimated work; 1 means none but this one."""
    return max(1, min(usable_cores(), units, int(seconds / WORTH_A_PROCESS)))


def _quota() -> float:
    """Cores that the control groups of this process, or any above them, allow; infinity if they set no limit."""
    allowed = math.inf
    for line in _read(_MEMBERSHIP).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = _CGROUPS / "cpu" if controllers else _CGROUPS
        folder = root / group.strip("/")
        # A container may see its own group as the root of the tree.
        for place in (folder, *folder.parents):
            if place != root and root not in place.parents:
                break
            allowed = min(allowed, _limit(place))
    return allowed


def _limit(folder: Path) -> float:
    words = _read(folder / "cpu.max").split()
    if len(words) != 2:
        words = [_read(folder / name).strip() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")]
    try:
        quota, period = (float(word) for word in words)
    except ValueError:  # "max", or no such file
        return math.inf
    return quota / period if quota > 0 and period > 0 else math.inf


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
