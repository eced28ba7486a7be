"""Functions ``check_*``: requirements for every pooler, of tgp and of other packages.

Each function takes a :class:`~tgp.testing.cases.Case`. It raises ``AssertionError`` if the pooler fails the check, or
:class:`~tgp.testing.cases.Skip` if the check does not apply. A check decides this from the constructor, the parameters
and the results of the pooler, never from its name.

Examples:
    >>> from tgp.testing.cases import pooler_cases
    >>> from tgp.testing.checks import CHECKS
    >>> CHECKS["shapes"](next(pooler_cases("topk")))
"""

from __future__ import annotations

from collections.abc import Callable

from tgp.testing.batches import GraphBatch, mixed_batch
from tgp.testing.cases import Case
from tgp.testing.checks import (
    basic,
    caches,
    compiled,
    dtypes,
    input_forms,
    modes,
    overrides,
    refusals,
    syncs,
)

__all__ = ["CHECKS", "GraphBatch", "ONCE", "SLOW", "mixed_batch"]

_MODULES = (
    basic,
    modes,
    dtypes,
    input_forms,
    caches,
    overrides,
    compiled,
    syncs,
    refusals,
)

CHECKS: dict[str, Callable[[Case], None]] = {
    name.removeprefix("check_"): function
    for module in _MODULES
    for name, function in vars(module).items()
    if name.startswith("check_")
}
"""Functions by name, without the prefix ``check_``."""

ONCE: frozenset[str] = frozenset().union(*(module.ONCE for module in _MODULES))
"""Names of checks that run in the default mode only: they compare the modes, or do not depend on the mode."""

SLOW: frozenset[str] = frozenset().union(*(module.SLOW for module in _MODULES))
"""Names of checks that take seconds."""
