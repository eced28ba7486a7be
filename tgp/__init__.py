"""Graph-pooling hierarchies: compute them once, store them, stream them into training.

Importing :mod:`tgp` is fast: subpackages are imported on first access, so this module imports neither torch nor numba.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgp._lazy import lazy_package
from tgp._version import __version__

if TYPE_CHECKING:
    from tgp import (
        build,
        connect,
        data,
        datasets,
        engine,
        errors,
        imports,
        inspect,
        lift,
        mp,
        poolers,
        ragged,
        reduce,
        select,
        sources,
        src,
        store,
        testing,
        utils,
    )
    from tgp.build.api import coarsen
    from tgp.data import transforms

eps: float = 1e-8
"""Small constant that prevents division by zero."""

__all__ = [
    "__version__",
    "build",
    "coarsen",
    "connect",
    "data",
    "datasets",
    "engine",
    "eps",
    "errors",
    "imports",
    "inspect",
    "lift",
    "mp",
    "poolers",
    "ragged",
    "reduce",
    "select",
    "sources",
    "src",
    "store",
    "testing",
    "transforms",
    "utils",
]

lazy_package(__name__)
