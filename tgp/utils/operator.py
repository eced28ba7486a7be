"""What every stage has in common: a module with a one-line repr taken from its constructor."""

from __future__ import annotations

from typing import Any

from torch import nn

from tgp.utils.signature import foo_signature

__all__ = ["Operator"]


class Operator(nn.Module):
    """Base of selectors, reducers, connectors and lifters."""

    def reset_parameters(self) -> None:
        """Draw learnable parameters anew; nothing to do for most operators."""

    def options(self) -> dict[str, Any]:
        """Constructor arguments that are kept as attributes of the same name, with their values."""
        names = foo_signature(type(self)).args
        missing = object()
        values = {name: getattr(self, name, missing) for name in names}
        return {name: value for name, value in values.items() if value is not missing}

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value}" for name, value in self.options().items())
        return f"{type(self).__name__}({shown})"
