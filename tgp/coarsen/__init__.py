"""The engine: blocks of graphs in, hierarchies out. Arrays only, no torch.

Names load on first access, so that listing methods or reading a schedule stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tgp.registry import load

if TYPE_CHECKING:
    from tgp.coarsen.methods import METHODS, register_method
    from tgp.coarsen.run import Failure, coarsen, coarsen_safe
    from tgp.coarsen.schedule import LevelSpec, Schedule, parse_schedule

__all__ = [
    "METHODS",
    "Failure",
    "LevelSpec",
    "Schedule",
    "coarsen",
    "coarsen_safe",
    "parse_schedule",
    "register_method",
]

_HOMES = {
    "METHODS": "tgp.coarsen.methods",
    "register_method": "tgp.coarsen.methods",
    "Failure": "tgp.coarsen.run",
    "coarsen": "tgp.coarsen.run",
    "coarsen_safe": "tgp.coarsen.run",
    "LevelSpec": "tgp.coarsen.schedule",
    "Schedule": "tgp.coarsen.schedule",
    "parse_schedule": "tgp.coarsen.schedule",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tgp.coarsen' has no attribute {name!r}")
    return load(f"{_HOMES[name]}:{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
