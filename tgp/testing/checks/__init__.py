"""Functions ``check_*``: requirements that every pooler meets, for poolers of tgp and of other packages.

Each takes a :class:`~tgp.testing.cases.Case`. It raises ``AssertionError`` with what went wrong, or
:class:`~tgp.testing.cases.Skip` with the reason why it does not apply. Whether it applies follows from the class:
from its constructor, its parameters and its results, never from its name.

>>> from tgp.testing.cases import pooler_cases
>>> from tgp.testing.checks import CHECKS
>>> CHECKS["shapes"](next(pooler_cases("topk")))
"""

from __future__ import annotations

from collections.abc import Callable

from tgp.testing.batches import GraphBatch, mixed_batch
from tgp.testing.cases import Case
from tgp.testing.checks import basic, caches, compiled, contract, inputs, modes, precision, refusals, syncs

__all__ = ["CHECKS", "GraphBatch", "ONCE", "SLOW", "mixed_batch"]

_MODULES = (basic, modes, precision, inputs, caches, contract, compiled, syncs, refusals)

CHECKS: dict[str, Callable[[Case], None]] = {
    name.removeprefix("check_"): function
    for module in _MODULES
    for name, function in vars(module).items()
    if name.startswith("check_")
}
"""Name -> check."""

ONCE: frozenset[str] = frozenset().union(*(module.ONCE for module in _MODULES))
"""Checks that compare modes themselves, or that do not depend on the mode: they run in the default mode only."""

SLOW: frozenset[str] = frozenset().union(*(module.SLOW for module in _MODULES))
"""Checks that take seconds."""
