"""Checks for poolers and level methods, of tgp and of other packages.

Contains small graphs, hypothesis strategies, and the checks that every pooler and every level method passes. Names are
imported on first access: ``tgp.testing.graphs`` does not import torch, and only ``tgp.testing.strategies`` imports
hypothesis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgp._lazy import lazy_package

if TYPE_CHECKING:
    from tgp.testing.cases import Skip
    from tgp.testing.checks.syncs import count_host_syncs
    from tgp.testing.conformance import check_method, check_pooler, method_checks, pooler_checks

__all__ = [
    "Skip",
    "check_method",
    "check_pooler",
    "count_host_syncs",
    "method_checks",
    "pooler_checks",
]

lazy_package(__name__)
