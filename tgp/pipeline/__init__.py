"""From a dataset to a store: open, plan, coarsen, write, report. Names load on first access."""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS = {
    "CoarsenConfig": "config",
    "load_config": "config",
    "Source": "source",
    "open_source": "source",
    "coarsen_dataset": "run",
    "plan_run": "run",
    "Summary": "report",
    "RunPlan": "report",
    "recheck": "recheck",
    "merge_store": "merge",
    "store_status": "merge",
}

__all__ = [*_EXPORTS]


def __getattr__(name: str) -> Any:
    try:
        module = _EXPORTS[name]
    except KeyError:
        raise AttributeError(f"module 'tgp.pipeline' has no attribute {name!r}") from None
    return getattr(importlib.import_module(f"tgp.pipeline.{module}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
