"""Show a store in the browser: a web server of this machine with all graphs of the store. Needs neither torch nor numba.

Names are imported on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgp._lazy import lazy_package

if TYPE_CHECKING:
    from tgp.inspect.view.application import StoreApplication
    from tgp.inspect.view.search import GraphIndex, Query
    from tgp.inspect.view.server import ViewServer

__all__ = [
    "ViewServer",
    "StoreApplication",
    "GraphIndex",
    "Query",
]

lazy_package(__name__)
