"""Import the public names of a package on first access (PEP 562).

A package lists its names once, as ordinary imports that only type checkers execute::

    if TYPE_CHECKING:
        from tgp.data.dataset import PooledDataset

    __all__ = ["PooledDataset"]

    lazy_package(__name__)

Type checkers and editors see normal imports. At run time :func:`lazy_package` reads the same lines from the source of
the package and imports a module when one of its names is used for the first time.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

__all__ = ["lazy_package"]


class _LazyPackage(ModuleType):
    """A package whose exported names take precedence over submodules of the same name.

    The import system binds a submodule as an attribute of its package. ``tgp.reduce.get_aggr`` is an exported function
    and also the submodule that defines it. Importing the submodule must not replace the function.
    """

    _exports: Mapping[str, str]

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and name in self._exports:
            return
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        target = self._exports.get(name)
        if target is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = _load(*target.split(":"))
        super().__setattr__(name, value)
        return value

    def __dir__(self) -> list[str]:
        hidden = {"TYPE_CHECKING", "annotations", "lazy_package"}
        return sorted({*super().__dir__(), *self._exports} - hidden)


def lazy_package(package: str, table: Mapping[str, str] | None = None) -> None:
    """Resolve the public names of ``package`` on first access.

    Args:
        package: ``__name__`` of the package that calls this function at the end of its ``__init__``.
        table: Exported names and their ``"module:attribute"``. By default the imports under ``if TYPE_CHECKING:`` in
            the source of the package.
    """
    module = sys.modules[package]
    module.__dict__["_exports"] = dict(_type_checking_imports(package)) if table is None else table
    module.__class__ = _LazyPackage


def _load(module: str, attribute: str) -> Any:
    """Import ``attribute`` of ``module``, which may be one of its submodules."""
    loaded = importlib.import_module(module)
    if attribute in loaded.__dict__:
        return loaded.__dict__[attribute]
    try:
        return importlib.import_module(f"{module}.{attribute}")
    except ModuleNotFoundError as error:
        if error.name != f"{module}.{attribute}":
            raise
    return getattr(loaded, attribute)


def _type_checking_imports(package: str) -> Iterator[tuple[str, str]]:
    """Yield each name that ``package`` imports under ``if TYPE_CHECKING:`` with its ``"module:attribute"``."""
    spec = sys.modules[package].__spec__
    get_source = getattr(spec.loader if spec else None, "get_source", None)
    source = get_source(package) if get_source else None
    if source is None:
        raise ImportError(
            f"{package} cannot resolve its names: expected its source file, got none", name=package
        )
    for block in ast.parse(source).body:
        if (
            isinstance(block, ast.If)
            and isinstance(block.test, ast.Name)
            and block.test.id == "TYPE_CHECKING"
        ):
            for statement in block.body:
                if isinstance(statement, ast.ImportFrom):
                    for alias in statement.names:
                        yield alias.asname or alias.name, f"{statement.module}:{alias.name}"
