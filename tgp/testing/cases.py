"""Build poolers for the conformance checks, in every mode that their constructor has."""

from __future__ import annotations

import inspect
import itertools
import unittest
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tgp.errors import ParameterError
from tgp.poolers.table import POOLERS
from tgp.registry import Entry

__all__ = ["ARGUMENTS", "Case", "EXCEPTIONS", "HOST_SYNCS", "IN_CHANNELS", "Skip", "pooler_cases"]

IN_CHANNELS = 4
ARGUMENTS: dict[str, Any] = {"in_channels": IN_CHANNELS, "k": 3, "ratio": 0.5, "scorer": "degree"}
"""Default of a constructor argument, by its name. A pooler with other required arguments gets them from its author."""

MODES = ("batched", "sparse_output")
"""Boolean constructor arguments that change how a pooler runs and not what it computes."""

EXCEPTIONS: dict[tuple[str, str], str] = {
    ("ec", "permutation"): "equal scores go to the smaller node ids",
    ("graclus", "permutation"): "the visiting order is drawn from node indices",
    ("nmf", "permutation"): "the starting point is drawn from node indices",
    ("eigen", "permutation"): "k-means starts are drawn from node indices",
    ("maxcut", "permutation"): "nodes that no edge reaches are assigned at random",
    ("maxcut", "single"): "nodes that no edge reaches are assigned at random",
    ("maxcut", "order"): "nodes that no edge reaches are assigned at random",
    (
        "lap",
        "fullgraph",
    ): "the number of leaders, and so of supernodes, depends on the values of the features",
    ("lap", "export"): "the number of leaders, and so of supernodes, depends on the values of the features",
    ("eigen", "lift_values"): "features are lifted by eigenvector modes",
}
"""(alias, check) -> why the check does not hold for this pooler. A test fails when an exception is not needed."""

HOST_SYNCS: dict[str, int] = {
    **dict.fromkeys(("acc", "diff", "dmon", "hosc", "jb", "mincut", "nopool"), 0),
    "bnpool": 1,
    **dict.fromkeys(("pan", "sag", "topk"), 5),
    "asap": 8,
    "ec": 8,
    "lap": 5,
    "maxcut": 7,
}
"""Alias -> host synchronizations of one forward on an accelerator, with ``batch_size``, for the graphs of the check.

``bnpool`` has none in padded mode; in flat mode it reads the size of the largest graph, unless ``max_num_nodes`` is given.
Those of ``ec`` and ``lap`` grow with the number of rounds. Poolers that are not listed copy the graph to the host once.
"""


class Skip(unittest.SkipTest):
    """Raised by a check that does not apply; pytest and unittest report the test as skipped with this reason."""


@dataclass(frozen=True)
class Case:
    """A pooler in one mode.

    Args:
        alias: Alias in the table of poolers or of methods, or the name of ``cls``.
        entry: Line of the table, if there is one.
        options: Constructor arguments of this mode.
        arguments: Further constructor arguments; they win over :data:`ARGUMENTS`.
        cls: Class to build instead of the one behind ``alias``.
        host_syncs: Host synchronizations that the author documents; ``None`` looks into :data:`HOST_SYNCS`.
    """

    alias: str
    entry: Entry | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    cls: type | None = None
    host_syncs: int | None = None

    def build(self, cls: type | None = None, *, seed: int = 7, **overrides: Any) -> Any:
        """Return a new pooler in evaluation mode; equal arguments give equal parameters.

        Args:
            cls: Subclass to build in place of the class of the case.
            seed: Seed of the initial parameters.
            **overrides: Constructor arguments that win over those of the case.
        """
        import torch

        given = {**ARGUMENTS, **self.arguments, **self.options, **overrides}
        make, names, required = _constructor(self.alias, cls or self.cls)
        missing = sorted(required - given.keys())
        if missing:
            raise ParameterError(
                f"{self.alias} needs constructor arguments that the checks do not know: expected values for "
                f"{', '.join(missing)}, got none. Pass them: pooler_checks({self.alias!r}, {missing[0]}=...)",
                field=missing[0],
            )
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(seed)
            pooler = make(**{name: value for name, value in given.items() if name in names})
            return pooler.to(torch.get_default_device()).eval()

    def takes(self, name: str) -> bool:
        """Return True if the constructor has an argument ``name``."""
        return name in _constructor(self.alias, self.cls)[1]

    def modes(self) -> list[Case]:
        """Return this pooler in every mode it has; the first is the default one."""
        flags = [name for name in MODES if self.takes(name)]
        start = self.build()
        order = [
            sorted((True, False), key=lambda value, name=name: value != _flag(start, name)) for name in flags
        ]
        found = []
        for values in itertools.product(*order):
            options = dict(zip(flags, values, strict=True))
            # A pooler that does not have a mode says so in the attribute of its name.
            pooler = self.build(**options)
            if all(_flag(pooler, name) == value for name, value in options.items()):
                found.append(Case(self.alias, self.entry, options, self.arguments, self.cls, self.host_syncs))
        return found

    def exempt(self, check: str) -> str | None:
        """Return why ``check`` does not hold for this pooler, or ``None``."""
        return EXCEPTIONS.get((self.alias, check)) if self.cls is None else None

    def __str__(self) -> str:
        return "-".join([self.alias, *(f"{name}={value}" for name, value in self.options.items())])


def pooler_cases(
    pooler: str | type | None = None, *, host_syncs: int | None = None, **arguments: Any
) -> Iterator[Case]:
    """Yield a pooler in every mode that its constructor has.

    Args:
        pooler: Alias or class; ``None`` yields all poolers of tgp.
        host_syncs: Host synchronizations of one forward that the author promises.
        **arguments: Constructor arguments; those in :data:`ARGUMENTS` have a default.
    """
    if pooler is None:
        for entry in POOLERS:
            yield from Case(entry.alias, entry, arguments=arguments).modes()
    elif isinstance(pooler, str):
        yield from Case(pooler, _entry(pooler), {}, arguments, None, host_syncs).modes()
    else:
        yield from Case(pooler.__name__, None, {}, arguments, pooler, host_syncs).modes()


def _entry(alias: str) -> Entry | None:
    from tgp.poolers import pooler_map

    return pooler_map.entry(alias) if alias in pooler_map else None


def _flag(pooler: Any, name: str) -> bool:
    value = getattr(pooler, name, None)
    return bool(getattr(pooler.selector, name, False) if value is None else value)


@cache
def _constructor(alias: str, cls: type | None) -> tuple[Callable[..., Any], frozenset[str], frozenset[str]]:
    """Return the constructor, the names of its arguments, and those without a default."""
    from tgp.poolers import get_pooler, pooler_map

    if cls is None and alias not in pooler_map:
        import dataclasses

        from tgp.engine.methods import METHODS

        names = [f.name for f in dataclasses.fields(METHODS[alias].params)]
        return lambda **given: get_pooler(alias, **given), frozenset([*names, "cached", "seed"]), frozenset()
    found = pooler_map[alias] if cls is None else cls
    known = {
        name: p.default is p.empty
        for name, p in inspect.signature(found).parameters.items()
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    }
    return found, frozenset(known), frozenset(name for name, needed in known.items() if needed)
