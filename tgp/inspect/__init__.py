"""Inspect stores: summaries, comparison, verification by recomputing, export, report and plots.

Names are imported on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgp._lazy import lazy_package

if TYPE_CHECKING:
    from tgp.inspect.compare import compare_stores
    from tgp.inspect.export import export_store
    from tgp.inspect.overview import inspect_store
    from tgp.inspect.recompute import verify_by_recompute

__all__ = [
    "inspect_store",
    "compare_stores",
    "verify_by_recompute",
    "export_store",
]

lazy_package(__name__)
