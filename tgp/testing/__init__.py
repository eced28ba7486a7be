"""Tests for poolers and methods, those of tgp and those of other packages.

Toy graphs, hypothesis strategies, and the checks that every pooler and every method passes. Names load on first
access: ``tgp.testing.graphs`` needs no torch, and only ``tgp.testing.strategies`` needs hypothesis.
"""

from __future__ import annotations

from tgp._lazy import lazy_package

__all__ = lazy_package(
    __name__,
    {
        "Skip": "cases",
        "check_method": "conformance",
        "check_pooler": "conformance",
        "count_host_syncs": "syncs",
        "method_checks": "conformance",
        "pooler_checks": "conformance",
    },
)
