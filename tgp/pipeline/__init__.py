"""From a dataset to a store: open, plan, coarsen, write, report. Names load on first access."""

from __future__ import annotations

from tgp._lazy import lazy_package

__all__ = lazy_package(
    __name__,
    {
        "CoarsenConfig": "config",
        "load_config": "config",
        "Source": "source",
        "open_source": "source",
        "coarsen_dataset": "run",
        "plan_run": "run",
        "Step": "progress",
        "RunPlan": "report",
        "Summary": "report",
        "inspect_store": "inspection",
        "compare_stores": "compare",
        "recheck": "recheck",
        "merge_store": "merge",
        "store_status": "merge",
        "export_store": "export",
    },
)
