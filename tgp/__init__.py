"""Graph-pooling hierarchies: compute them once, store them, stream them into training.

Importing :mod:`tgp` is light: sub-packages load on first access, so nothing here pulls in
torch or numba.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from tgp._version import __version__

eps: float = 1e-8
"""Guards divisions everywhere in the library."""

_SUBMODULES = {
    name: f"tgp.{name}"
    for name in (
        "poolers",
        "src",
        "select",
        "reduce",
        "lift",
        "connect",
        "datasets",
        "data",
        "mp",
        "utils",
        "coarsen",
        "store",
        "pipeline",
        "plot",
        "ragged",
        "report",
        "testing",
        "errors",
        "imports",
    )
}
_SUBMODULES["transforms"] = "tgp.data.transforms"

__all__ = ["__version__", "eps", *_SUBMODULES]


def __getattr__(name: str) -> ModuleType:
    try:
        target = _SUBMODULES[name]
    except KeyError:
        raise AttributeError(f"module 'tgp' has no attribute {name!r}") from None
    return importlib.import_module(target)


def __dir__() -> list[str]:
    return sorted(__all__)
