"""Lift: features of supernodes back to nodes. Names resolve on first access."""

from tgp._lazy import lazy_package

_CLASSES = {"Lift": "base_lift", "BaseLift": "base_lift", "EigenPoolLift": "eigenpool_lift"}

lift_classes = list(_CLASSES)

__all__ = [*lazy_package(__name__, _CLASSES), "lift_classes"]
