"""Count host synchronizations, without an accelerator, and check their number."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tgp.testing.batches import is_dense_output, mixed_batch
from tgp.testing.cases import Case, Skip
from tgp.testing.patching import replaced_attribute
from tgp.utils import tracing

__all__ = ["count_host_syncs"]

ONCE: frozenset[str] = frozenset()
SLOW: frozenset[str] = frozenset()


def check_host_syncs(case: Case) -> None:
    """Check that a forward does not synchronize with an accelerator more often than documented."""
    limit = case.sync_limit
    if limit is None:
        raise Skip("no number of host synchronizations is documented for this pooler")
    data, pooler = mixed_batch(), case.build()
    sizes = {"batch_size": 4}
    if case.options.get("batched"):
        sizes["max_num_nodes"] = 6
    out = data(pooler, **sizes)
    if out.so.is_dense and not is_dense_output(out):
        raise Skip("the number of edges of a sparse result must be known on the host")
    counts = count_host_syncs(
        lambda: pooler(x=data.x, adj=data.adj, edge_weight=data.edge_weight, batch=data.batch, **sizes)
    )
    total = sum(counts.values())
    assert total <= limit, f"{total} host synchronizations, {limit} documented: {dict(counts)}"


_ALWAYS = {
    "_local_scalar_dense",
    "nonzero",
    "masked_select",
    "unique_dim",
    "unique_consecutive",
    "unique_dim_consecutive",
    "_unique",
    "_unique2",
    "bincount",
    "equal",
    "is_nonzero",
}
"""Operations whose result or result size must be known on the host."""

_READS = ("tolist", "numpy")
"""Methods of a tensor that read all of its values."""


def count_host_syncs(function: Callable[[], Any]) -> Counter[str]:
    """Count the operations of a call that would wait for an accelerator.

    Code of tgp calls ``on_host`` before it reads values. During the call this function returns False, as on an
    accelerator.

    Args:
        function: Function without arguments, which is called once.

    Returns:
        Number of calls by name of the operation.

    Examples:
        >>> import torch
        >>> count_host_syncs(lambda: torch.arange(3).sum().item())
        Counter({'_local_scalar_dense': 1})
    """
    mode = _Syncs()
    with _without_host_access(), _counted_reads(mode.counts), mode:
        function()
    return mode.counts


class _Syncs(TorchDispatchMode):
    """Mode that counts synchronizing operations."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if name in _ALWAYS or _needs_size(name, func, args, kwargs):
            self.counts[name] += 1
        return func(*args, **kwargs)


def _needs_size(name: str, func: Any, args: Any, kwargs: Any) -> bool:
    """Return True for an operation that reads values to find the size of its result."""
    if name == "repeat_interleave":
        return kwargs.get("output_size") is None
    if name in ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"):
        return any(t is not None and t.dtype in (torch.bool, torch.uint8) for t in args[1])
    return False


@contextmanager
def _without_host_access() -> Iterator[None]:
    """Let ``on_host`` return False in every module that imported it."""
    real = tracing.on_host
    with ExitStack() as stack:
        for module in list(sys.modules.values()):
            for name, value in list(getattr(module, "__dict__", {}).items()):
                if value is real:
                    stack.enter_context(replaced_attribute(module, name, lambda *tensors: False))
        yield


@contextmanager
def _counted_reads(counts: Counter[str]) -> Iterator[None]:
    with ExitStack() as stack:
        for name in _READS:
            real = getattr(torch.Tensor, name)

            def counted(
                self: torch.Tensor, *args: Any, _real: Any = real, _name: str = name, **kwargs: Any
            ) -> Any:
                counts[_name] += 1
                return _real(self, *args, **kwargs)

            stack.enter_context(replaced_attribute(torch.Tensor, name, counted))
        yield
