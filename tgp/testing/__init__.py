"""Tests for poolers and methods, those of tgp and those of other packages.

Toy graphs, hypothesis strategies, and the checks that every pooler and every method passes. Names load on first
access: ``tgp.testing.graphs`` needs no torch, and only ``tgp.testing.strategies`` needs hypothesis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgp._lazy import lazy_package

if TYPE_CHECKING:
    from tgp.testing.cases import Skip
    from tgp.testing.conformance import check_method, check_pooler, method_checks, pooler_checks
    from tgp.testing.syncs import count_host_syncs

__all__ = [
    "Skip",
    "check_method",
    "check_pooler",
    "count_host_syncs",
    "method_checks",
    "pooler_checks",
]

lazy_package(__name__)
