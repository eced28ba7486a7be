"""Support for code that also runs under ``torch.compile``, ``torch.func`` and on accelerators."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar, overload

import numpy.typing as npt
import torch
from torch import Tensor

from tgp.errors import InputError

__all__ = ["lazy_attribute", "on_host", "opaque", "read_array"]

P = ParamSpec("P")
R = TypeVar("R")


def on_host(*tensors: Tensor | None) -> bool:
    """Return True if the values of all tensors can be read for free.

    Call this function before code that branches on values, calls numpy or scipy, or loops over chunks.
    If it returns False, use plain torch operations instead: reading a value would synchronize an
    accelerator, break a compiled graph, or fail on a fake tensor.

    Args:
        *tensors: Tensors to read; ``None`` is skipped.

    Returns:
        False under ``torch.compile`` and ``torch.export``, inside ``torch.func`` transforms, and for tensors
        on accelerators, fake tensors, meta tensors and tensor subclasses.
    """
    # A custom autograd Function fails inside a transform even if all of its arguments are plain tensors.
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():  # type: ignore[attr-defined]
        return False
    for tensor in tensors:
        if tensor is None:
            continue
        kind = type(tensor)
        if not tensor.is_cpu or (kind is not Tensor and kind is not torch.nn.Parameter):
            return False
    return True


def read_array(tensor: Tensor) -> npt.NDArray[Any]:
    """Return the values of a tensor in main memory as a numpy array, also inside ``torch.func`` transforms.

    Args:
        tensor: Tensor that does not require gradients.

    Raises:
        InputError: If ``vmap`` maps over the tensor: the array would need another shape.
    """
    functorch = torch._C._functorch
    if functorch.maybe_current_level() is None:
        return tensor.numpy()
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_batchedtensor(tensor):
            raise InputError(
                "vmap over edges or weights is not possible: a deterministic pooler reads the values of its "
                "graph. Call the pooler once per graph, or on a batch of graphs."
            )
        tensor = functorch.get_unwrapped(tensor)
    with torch._C._DisableFuncTorch():
        return tensor.detach().numpy()


def opaque(function: Callable[P, R]) -> Callable[P, R]:
    """Exclude a function from ``torch.compile``: it runs in eager mode, as one break of the compiled graph.

    Use it for functions that enter compiled kernels, or whose loops depend on values. It does the same as
    :func:`torch.compiler.disable`, at half of its cost in eager mode.
    """
    hidden: Callable[P, R] = torch.compiler.disable(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return (hidden if torch.compiler.is_compiling() else function)(*args, **kwargs)

    return call


class lazy_attribute(Generic[R]):
    """Method whose result is computed on first access and then stored as a plain attribute.

    ``functools.cached_property`` takes a lock on Python 3.11 and older, which ``torch.compile`` cannot trace.
    This descriptor takes no lock. The attribute can be assigned before or after its first access.
    """

    def __init__(self, compute: Callable[[Any], R]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> lazy_attribute[R]: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> R: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        value = self._compute(instance)
        setattr(instance, self._name, value)
        return value
