"""Coarsen blocks of graphs on arrays. Does not import torch.

Names are imported on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgp._lazy import lazy_package

if TYPE_CHECKING:
    from tgp.engine.coarsening import Failure, coarsen, coarsen_safe
    from tgp.engine.methods import METHODS, register_method
    from tgp.engine.schedule import LevelSpec, Schedule, parse_schedule

__all__ = [
    "METHODS",
    "register_method",
    "Failure",
    "coarsen",
    "coarsen_safe",
    "LevelSpec",
    "Schedule",
    "parse_schedule",
]

lazy_package(__name__)
