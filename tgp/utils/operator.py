"""Base class of the stages: a module with a one-line repr taken from its constructor."""

from __future__ import annotations

from functools import cache
from typing import Any

from torch import nn

from tgp.utils.signature import foo_signature

__all__ = ["Operator"]


@cache
def _argument_names(cls: type) -> tuple[str, ...]:
    return tuple(foo_signature(cls).args)


class Operator(nn.Module):
    """Base of selectors, reducers, connectors and lifters."""

    def reset_parameters(self) -> None:
        """Reset all learnable parameters; most operators have none."""

    def options(self) -> dict[str, Any]:
        """Return the constructor arguments that are kept as attributes of the same name, with their values."""
        return {name: getattr(self, name) for name in _argument_names(type(self)) if hasattr(self, name)}

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value}" for name, value in self.options().items())
        return f"{type(self).__name__}({shown})"
