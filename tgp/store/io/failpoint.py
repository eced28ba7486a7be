"""Named places where the reliability tests kill a writer."""

from __future__ import annotations

import os
import signal

__all__ = ["ENVIRONMENT", "failpoint"]

ENVIRONMENT = "TGP_FAILPOINT"


def failpoint(name: str) -> None:
    """Kill this process here if the environment asks for it; nothing otherwise.

    ``TGP_FAILPOINT=shard:renamed`` kills at the first passage of that point,
    ``TGP_FAILPOINT=shard:renamed@3`` at the third one of this process.
    """
    wanted = os.environ.get(ENVIRONMENT)
    if not wanted:
        return
    point, _, turn = wanted.partition("@")
    if point != name:
        return
    _passed[name] = _passed.get(name, 0) + 1
    if _passed[name] >= int(turn or 1):
        os.kill(os.getpid(), signal.SIGKILL)


_passed: dict[str, int] = {}
