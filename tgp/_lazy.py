"""Packages that list names now and import them on first access (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

__all__ = ["lazy_package"]


class _LazyPackage(ModuleType):
    """A package whose exported names win over sub-modules of the same name.

    The import system binds a sub-module on its package. ``tgp.reduce.get_aggr`` is both an exported
    function and the sub-module that defines it; whoever imports the sub-module first must not
    hide the function.
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
        module, _, attribute = target.partition(":")
        value = getattr(importlib.import_module(module), attribute or name)
        super().__setattr__(name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._exports})


def lazy_package(package: str, table: Mapping[str, str]) -> list[str]:
    """Make ``package`` resolve names from ``table`` on access; returns the names for ``__all__``.

    Args:
        package: ``__name__`` of the package that calls this at the end of its ``__init__``.
        table: exported name -> sub-module holding it, relative to the package
            (``"base_select"``), or an absolute ``"module:attribute"``.
    """
    module = sys.modules[package]
    exports = {name: at if ":" in at else f"{package}.{at}:{name}" for name, at in table.items()}
    module.__dict__["_exports"] = exports
    module.__class__ = _LazyPackage
    return list(exports)
