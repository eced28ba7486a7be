"""Coarsen a dataset into a store: configuration, plan, worker processes and summary.

Names are imported on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgp._lazy import lazy_package

if TYPE_CHECKING:
    from tgp.build.config import CoarsenConfig, load_config
    from tgp.build.findings import Finding, find_problems
    from tgp.build.merge import merge_store, store_status
    from tgp.build.progress import Step
    from tgp.build.run import coarsen_dataset, plan_run
    from tgp.build.summary import RunPlan, Summary

__all__ = [
    "CoarsenConfig",
    "load_config",
    "Finding",
    "find_problems",
    "coarsen_dataset",
    "plan_run",
    "Step",
    "RunPlan",
    "Summary",
    "merge_store",
    "store_status",
]

lazy_package(__name__)
