"""Base class of the stages: a module whose repr shows its constructor arguments."""

from __future__ import annotations

from functools import cache
from typing import Any

from torch import nn

from tgp.utils.signature import foo_signature

__all__ = ["Operator"]


@cache
def _argument_names(cls: type[nn.Module]) -> tuple[str, ...]:
    return tuple(foo_signature(cls).args)


class Operator(nn.Module):
    """Base class of selectors, reducers, connectors and lifters."""

    def reset_parameters(self) -> None:
        """Reset all learnable parameters. Most operators have none."""

    def options(self) -> dict[str, Any]:
        """Return the values of the constructor arguments that are attributes of the same name."""
        names = _argument_names(type(self))  # type: ignore[arg-type]  # mypy takes this class for unhashable
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value}" for name, value in self.options().items())
        return f"{type(self).__name__}({shown})"
