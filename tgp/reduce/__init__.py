"""Reduce: compute the features of supernodes, and graph-level readouts.

Names are imported on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgp._lazy import lazy_package

if TYPE_CHECKING:
    from tgp.reduce.aggr_reduce import AggrReduce
    from tgp.reduce.base_reduce import BaseReduce, Reduce
    from tgp.reduce.eigenpool_reduce import EigenPoolReduce
    from tgp.reduce.get_aggr import get_aggr
    from tgp.reduce.global_reduce import GlobalReduce

reduce_classes: list[str] = ["Reduce", "BaseReduce", "AggrReduce", "GlobalReduce", "EigenPoolReduce"]
"""Names of the classes of this package."""

reduce_functions: list[str] = ["get_aggr"]
"""Names of the functions of this package."""

__all__ = [
    "Reduce",
    "BaseReduce",
    "AggrReduce",
    "GlobalReduce",
    "EigenPoolReduce",
    "get_aggr",
    "reduce_classes",
    "reduce_functions",
]

lazy_package(__name__)
