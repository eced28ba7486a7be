"""Attributes that are computed on first access."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

__all__ = ["lazy_attribute"]

T = TypeVar("T")


class lazy_attribute(Generic[T]):
    """Method whose result is computed on first access and then stored as a plain attribute.

    ``functools.cached_property`` takes a lock on Python 3.11 and older, which ``torch.compile`` cannot trace.
    This descriptor takes none. The attribute can be assigned before or after its first access.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> lazy_attribute[T]: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        value = self._compute(instance)
        setattr(instance, self._name, value)
        return value
