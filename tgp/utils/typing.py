"""Names of the options that several operators share."""

from __future__ import annotations

from typing import Literal

__all__ = ["ConnectionType", "LiftType", "ReduceType", "SinvType"]

SinvType = Literal["transpose", "inverse"]
"""How ``s_inv`` is made from ``s``."""

LiftType = Literal["transpose", "inverse", "precomputed"]
"""Which matrix lifts pooled features."""

ConnectionType = Literal["sum", "mean", "min", "max", "mul"]
"""How parallel coarse edges merge."""

ReduceType = str
"""Any scatter reduction known to PyG."""
