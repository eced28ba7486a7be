"""Coarsen blocks of graphs on arrays. Does not import torch.

Names are imported on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgp._lazy import lazy_package

if TYPE_CHECKING:
    from tgp.engine.coarsening import GraphFailure, coarsen, coarsen_with_failures
    from tgp.engine.contraction import ConnectParams, ContractOptions, contract, edge_map
    from tgp.engine.level_method import LevelEstimate, LevelMethod, RandomKey
    from tgp.engine.methods import METHODS, register_method
    from tgp.engine.schedule import LevelSpec, Schedule, parse_schedule

__all__ = [
    "METHODS",
    "ConnectParams",
    "ContractOptions",
    "GraphFailure",
    "LevelEstimate",
    "LevelMethod",
    "LevelSpec",
    "RandomKey",
    "Schedule",
    "coarsen",
    "coarsen_with_failures",
    "contract",
    "edge_map",
    "parse_schedule",
    "register_method",
]

lazy_package(__name__)
