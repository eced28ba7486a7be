"""Detection of user code in a module, before a fast path replaces a call of the module."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as _torch_module

__all__ = ["has_user_code", "is_library_code", "is_overridden"]

_LIBRARIES = frozenset({"torch", "torch_geometric", "tgp"})
_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_forward_hooks_with_kwargs",
)


def has_user_code(*modules: nn.Module | None, methods: Iterable[str] = ()) -> bool:
    """Return True if calling the modules may run code of the user.

    Every fast path that replaces calls of stages and layers must call this function first. A fast path computes the
    same result from the parameters, but it would skip code of the user.

    Args:
        *modules: Modules whose calls would be skipped, checked with all their submodules. ``None`` is
            skipped.
        methods: Names of further methods of the given modules that would be skipped.

    Returns:
        True if a class is defined outside of torch, PyG and tgp, if a method was replaced on a class or an
        instance, or if hooks or parametrizations are registered. Always True while a graph is traced, because
        compilers need plain calls.
    """
    if torch.compiler.is_compiling() or _has_global_hooks():
        return True
    for module in modules:
        if module is None:
            continue
        if any(is_overridden(module, name) for name in methods):
            return True
        if _runs_user_code(module):
            return True
        # ``modules`` is slow, and most stages have no submodules.
        if module._modules and any(_runs_user_code(part) for part in module.modules()):
            return True
    return False


def is_overridden(owner: Any, method: str) -> bool:
    """Return True if ``owner.method`` is overridden in a subclass of a user or replaced on the object."""
    return method in owner.__dict__ or not is_library_code(getattr(type(owner), method))


def _runs_user_code(module: nn.Module) -> bool:
    state = module.__dict__
    if "forward" in state or "parametrizations" in module._modules:
        return True
    for name in _HOOKS:
        if state.get(name):
            return True
    return not (is_library_code(type(module)) and is_library_code(type(module).forward))


def is_library_code(definition: Any) -> bool:
    """Return True if a class or function is defined in torch, PyG or tgp."""
    return definition.__module__.partition(".")[0] in _LIBRARIES


def _has_global_hooks() -> bool:
    return bool(
        _torch_module._global_forward_hooks
        or _torch_module._global_forward_pre_hooks
        or _torch_module._global_backward_hooks
        or _torch_module._global_backward_pre_hooks
    )
