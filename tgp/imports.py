"""Optional packages: whether they are there, and one clear error when they are not."""

from __future__ import annotations

import importlib
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
    "require",
    "torch_cluster",
    "torch_scatter",
    "torch_sparse",
]


def _optional(name: str) -> Any:
    # A compiled extension built for another torch fails with OSError or RuntimeError: as good as absent.
    try:
        return importlib.import_module(name)
    except (ImportError, OSError, RuntimeError):
        return None


torch_cluster = _optional("torch_cluster")
torch_sparse = _optional("torch_sparse")
torch_scatter = _optional("torch_scatter")
pygsp = _optional("pygsp")

HAS_TORCH_CLUSTER = torch_cluster is not None
HAS_TORCH_SPARSE = torch_sparse is not None
HAS_TORCH_SCATTER = torch_scatter is not None
HAS_PYGSP = pygsp is not None

SparseTensor: Any = torch_sparse.SparseTensor if torch_sparse is not None else "SparseTensor"


def require(name: str, for_: str) -> Any:
    """Import an optional package or raise :class:`~tgp.errors.MissingPackageError` that names it."""
    module = _optional(name)
    if module is None:
        raise MissingPackageError(_missing(name, for_), hint=f"pip install {name}")
    return module


def _missing(name: str, for_: str = "this operation") -> str:
    return f"The '{name}' package is required for {for_} and is not installed."


def check_torch_cluster_available() -> None:
    """Raise ``ImportError`` if torch_cluster is absent."""
    if not HAS_TORCH_CLUSTER:
        raise MissingPackageError(_missing("torch_cluster"), hint="pip install torch_cluster")


def check_torch_sparse_available() -> None:
    """Raise ``ImportError`` if torch_sparse is absent."""
    if not HAS_TORCH_SPARSE:
        raise MissingPackageError(_missing("torch_sparse"), hint="pip install torch_sparse")


def check_pygsp_available() -> None:
    """Raise ``ImportError`` if PyGSP is absent."""
    if not HAS_PYGSP:
        raise MissingPackageError(_missing("pygsp"), hint="pip install PyGSP")


def is_sparsetensor(obj: Any) -> bool:
    """Whether ``obj`` is a ``torch_sparse.SparseTensor``; ``False`` when that package is absent."""
    return HAS_TORCH_SPARSE and isinstance(obj, SparseTensor)
