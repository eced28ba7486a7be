"""Optional packages: flags that tell if they are installed, and errors that name a missing one."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from tgp.errors import MissingPackageError

__all__ = [
    "HAS_PYGSP",
    "HAS_TORCH_CLUSTER",
    "HAS_TORCH_SCATTER",
    "HAS_TORCH_SPARSE",
    "SparseTensor",
    "check_pygsp_available",
    "check_torch_cluster_available",
    "check_torch_sparse_available",
    "is_sparsetensor",
    "pygsp",
    "torch_cluster",
    "torch_scatter",
    "torch_sparse",
]


def _import_optional(name: str) -> Any:
    """Return a module, or ``None`` if it cannot be imported."""
    # A compiled extension that was built for another version of torch fails with OSError or RuntimeError.
    try:
        return importlib.import_module(name)
    except (ImportError, OSError, RuntimeError):
        return None


torch_sparse = _import_optional("torch_sparse")
HAS_TORCH_SPARSE = torch_sparse is not None

_ON_ACCESS = ("pygsp", "torch_cluster", "torch_scatter")
"""Packages that are imported on first access to their name or flag. tgp itself uses neither torch extension."""

HAS_PYGSP: bool
HAS_TORCH_CLUSTER: bool
HAS_TORCH_SCATTER: bool
pygsp: Any
torch_cluster: Any
torch_scatter: Any


def __getattr__(name: str) -> Any:
    package = name.removeprefix("HAS_").lower() if name.startswith("HAS_") else name
    if package not in _ON_ACCESS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = globals()[package] = _import_optional(package)
    flag = globals()[f"HAS_{package.upper()}"] = module is not None
    return flag if name.startswith("HAS_") else module


SparseTensor: Any = torch_sparse.SparseTensor if torch_sparse is not None else "SparseTensor"


def check_torch_cluster_available() -> None:
    """Check that torch_cluster is installed.

    Raises:
        MissingPackageError: if it is not.
    """
    _check_available("torch_cluster", "torch_cluster")


def check_torch_sparse_available() -> None:
    """Check that torch_sparse is installed.

    Raises:
        MissingPackageError: if it is not.
    """
    _check_available("torch_sparse", "torch_sparse")


def check_pygsp_available() -> None:
    """Check that PyGSP is installed.

    Raises:
        MissingPackageError: if it is not.
    """
    _check_available("pygsp", "PyGSP")


def _check_available(name: str, distribution: str) -> None:
    if not getattr(sys.modules[__name__], f"HAS_{name.upper()}"):
        raise MissingPackageError(
            f"The '{name}' package is required for this operation and is not installed.",
            hint=f"pip install {distribution}",
        )


def is_sparsetensor(obj: Any) -> bool:
    """Return True if ``obj`` is a ``torch_sparse.SparseTensor``.

    Args:
        obj: any object. Without torch_sparse the result is always False.
    """
    return HAS_TORCH_SPARSE and isinstance(obj, SparseTensor)
