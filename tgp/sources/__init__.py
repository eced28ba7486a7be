"""Open graphs by name, from files or from a Python function.

Names are imported on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgp._lazy import lazy_package

if TYPE_CHECKING:
    from tgp.sources.source import Source, load_graphs, open_source

__all__ = [
    "Source",
    "open_source",
    "load_graphs",
]

lazy_package(__name__)
