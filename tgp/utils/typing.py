"""Names of the options that several operators share."""

from __future__ import annotations

from typing import Literal

__all__ = ["ConnectionType", "LiftType", "ReduceType", "SinvType"]

SinvType = Literal["transpose", "inverse"]
"""Method that makes ``s_inv`` from ``s``."""

LiftType = Literal["transpose", "inverse", "precomputed"]
"""Matrix that lifts pooled features."""

ConnectionType = Literal["sum", "mean", "min", "max", "mul"]
"""Reduction that merges parallel coarse edges."""

ReduceType = str
"""Any scatter reduction known to PyG."""
