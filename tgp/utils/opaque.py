"""Regions that ``torch.compile`` does not trace."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import torch

__all__ = ["opaque"]

Function = TypeVar("Function", bound=Callable[..., Any])


def opaque(function: Function) -> Function:
    """Make ``torch.compile`` run a function as it is, as one break of the compiled graph.

    For functions that enter compiled kernels, or whose loops depend on values. Does the same as
    :func:`torch.compiler.disable`, at half of its cost in eager mode.
    """
    hidden = torch.compiler.disable(function)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return (hidden if torch.compiler.is_compiling() else function)(*args, **kwargs)

    return call  # type: ignore[return-value]
