"""Named points at which the reliability tests kill a writer."""

from __future__ import annotations

import os
import signal

__all__ = ["failpoint"]

_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
"""Signal that ends a process at once. On Windows ``os.kill`` does that with SIGTERM."""

_passed: dict[str, int] = {}


def failpoint(name: str) -> None:
    """Kill this process if the environment variable ``TGP_FAILPOINT`` names this point.

    ``TGP_FAILPOINT=shard:renamed`` kills when the point is passed for the first time.
    ``TGP_FAILPOINT=shard:renamed@3`` kills at the third pass in this process.

    Args:
        name: Name of the point.
    """
    wanted = os.environ.get("TGP_FAILPOINT")
    if not wanted:
        return
    point, _, turn = wanted.partition("@")
    if point != name:
        return
    _passed[name] = _passed.get(name, 0) + 1
    if _passed[name] >= int(turn or 1):
        os.kill(os.getpid(), _KILL)
