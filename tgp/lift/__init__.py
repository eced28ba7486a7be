"""Lift: map the features of supernodes back to nodes.

Names are imported on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgp._lazy import lazy_package

if TYPE_CHECKING:
    from tgp.lift.base_lift import BaseLift, Lift
    from tgp.lift.eigenpool_lift import EigenPoolLift

lift_classes: list[str] = ["Lift", "BaseLift", "EigenPoolLift"]
"""Names of the classes of this package."""

__all__ = [
    "Lift",
    "BaseLift",
    "EigenPoolLift",
    "lift_classes",
]

lazy_package(__name__)
