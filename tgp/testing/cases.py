"""Poolers for the conformance checks, in every mode that their constructor has."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import unittest
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from tgp.engine.methods import METHODS
from tgp.errors import ParameterError
from tgp.poolers.table import pooler_map
from tgp.registry import Entry

__all__ = [
    "ARGUMENTS",
    "Case",
    "EXCEPTIONS",
    "HOST_SYNCS",
    "IN_CHANNELS",
    "Skip",
    "pooler_aliases",
    "pooler_cases",
]

IN_CHANNELS = 4
ARGUMENTS: dict[str, Any] = {"in_channels": IN_CHANNELS, "k": 3, "ratio": 0.5, "scorer": "degree"}
"""Values of constructor arguments, by name. The author of a pooler passes other required arguments to the checks."""

MODES = ("batched", "sparse_output")
"""Boolean constructor arguments that change how a pooler runs, but not its results."""

EXCEPTIONS: dict[tuple[str, str], str] = {
    ("ec", "permutation"): "among equal scores, the smaller node id wins",
    ("graclus", "permutation"): "the visiting order depends on node ids",
    ("nmf", "permutation"): "the starting point depends on node ids",
    ("eigen", "permutation"): "the starting points of k-means depend on node ids",
    ("maxcut", "permutation"): "nodes without edges are assigned at random",
    ("maxcut", "single"): "nodes without edges are assigned at random",
    ("maxcut", "order"): "nodes without edges are assigned at random",
    (
        "lap",
        "fullgraph",
    ): "the number of supernodes depends on the values of the features",
    ("lap", "export"): "the number of supernodes depends on the values of the features",
    ("eigen", "lift_values"): "features are lifted by eigenvector modes",
}
"""Reasons why a check does not hold for a pooler, by alias and check. A test fails if an exception is not needed."""

HOST_SYNCS: dict[str, int] = {
    "bnpool": 1,
    **dict.fromkeys(("lap", "pan", "sag", "topk"), 5),
    "maxcut": 7,
    "nopool": 0,
}
"""Number of host synchronizations of one forward on an accelerator, by alias, for the graphs of the check.

The calls pass ``batch_size``. ``bnpool`` has no synchronization in padded mode; in flat mode it reads the size of the
largest graph, unless ``max_num_nodes`` is given. The numbers of ``ec`` and ``lap`` grow with the number of rounds.
Precoarsenable poolers copy the graph to the host once and are not listed. Other poolers of tgp that are not listed have the
number 0 if they are dense, else :data:`SPARSE_HOST_SYNCS`.
"""

SPARSE_HOST_SYNCS = 8
"""Number of host synchronizations that a sparse pooler of tgp may have without an entry in :data:`HOST_SYNCS`."""


class Skip(unittest.SkipTest):
    """Exception of a check that does not apply. pytest and unittest report the test as skipped with its reason."""


@dataclass(frozen=True)
class Case:
    """A pooler in one mode.

    Args:
        alias: Alias in the table of poolers or of methods, or the name of ``cls``.
        entry: Entry in the table of poolers, if there is one.
        options: Constructor arguments of this mode.
        arguments: Further constructor arguments. They override :data:`ARGUMENTS`.
        cls: Class to build instead of the one of ``alias``.
        host_syncs: Documented number of host synchronizations; ``None`` for the number of :attr:`sync_limit`.
    """

    alias: str
    entry: Entry | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    cls: type | None = None
    host_syncs: int | None = None

    @property
    def sync_limit(self) -> int | None:
        """Documented number of host synchronizations, or ``None``."""
        if self.host_syncs is not None or self.alias in HOST_SYNCS:
            return HOST_SYNCS[self.alias] if self.host_syncs is None else self.host_syncs
        entry = self.entry
        if entry is None or not entry.target.startswith("tgp.") or entry.traits["precoarsenable"]:
            return None
        return 0 if entry.traits["dense"] else SPARSE_HOST_SYNCS

    def build(self, cls: type | None = None, /, *, seed: int = 7, **overrides: Any) -> Any:
        """Return a new pooler in evaluation mode. Equal arguments give equal parameters.

        Args:
            cls: Subclass to build instead of the class of the case.
            seed: Seed of the initial parameters.
            **overrides: Constructor arguments that override those of the case.

        Raises:
            ParameterError: If a required argument has no value.
        """
        import torch

        given = {**ARGUMENTS, **self.arguments, **self.options, **overrides}
        make, names, required = _constructor(self.alias, cls or self.cls)
        missing = sorted(required - given.keys())
        if missing:
            raise ParameterError(
                f"constructor arguments of {self.alias} are missing: expected values for {', '.join(missing)}, got none. "
                f"Pass them: pooler_checks({self.alias!r}, {missing[0]}=...)",
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
        """Return this pooler in every mode. The first one is the default mode."""
        flags = [name for name in MODES if self.takes(name)]
        start = self.build()
        order = [(True, False) if _flag(start, name) else (False, True) for name in flags]
        found = []
        for values in itertools.product(*order):
            options = dict(zip(flags, values, strict=True))
            # A pooler without a mode has another value in the attribute of this name.
            pooler = self.build(None, **options)
            if all(_flag(pooler, name) == value for name, value in options.items()):
                found.append(replace(self, options=options))
        return found

    def exempt(self, check: str) -> str | None:
        """Return the reason why ``check`` does not hold for this pooler, or ``None``."""
        return EXCEPTIONS.get((self.alias, check)) if self.cls is None else None

    def __str__(self) -> str:
        return "-".join([self.alias, *(f"{name}={value}" for name, value in self.options.items())])


def pooler_cases(
    pooler: str | type | None = None, *, host_syncs: int | None = None, **arguments: Any
) -> Iterator[Case]:
    """Yield a pooler in every mode that its constructor has.

    Args:
        pooler: Alias or class; ``None`` yields all poolers of tgp and all registered ones.
        host_syncs: Documented number of host synchronizations of one forward.
        **arguments: Constructor arguments; those in :data:`ARGUMENTS` have a default.

    Examples:
        >>> [str(case) for case in pooler_cases("topk")]
        ['topk']
    """
    if isinstance(pooler, type):
        yield from Case(pooler.__name__, None, {}, arguments, pooler, host_syncs).modes()
        return
    for alias in pooler_map.entries if pooler is None else [pooler]:
        entry = pooler_map.entry(alias) if alias in pooler_map else None
        yield from Case(alias, entry, {}, arguments, None, host_syncs).modes()


def pooler_aliases(**traits: bool) -> list[str]:
    """Return the aliases of all poolers of tgp and all registered ones that have the given traits.

    Args:
        **traits: Values of ``dense``, ``trainable``, ``loss`` and ``precoarsenable``; other traits may have any value.

    Examples:
        >>> pooler_aliases(dense=True, precoarsenable=True)
        ['eigen', 'nmf']
    """
    return [
        alias
        for alias, entry in pooler_map.entries.items()
        if all(entry.traits.get(name) == value for name, value in traits.items())
    ]


def _flag(pooler: Any, name: str) -> bool:
    value = getattr(pooler, name, None)
    return bool(getattr(pooler.selector, name, False) if value is None else value)


@cache
def _constructor(alias: str, cls: type | None) -> tuple[Callable[..., Any], frozenset[str], frozenset[str]]:
    """Return the constructor, the names of its arguments, and the names of those without a default."""
    if alias in METHODS and alias not in pooler_map:
        return _method_constructor(alias, cls)
    found = pooler_map[alias] if cls is None else cls
    required = {
        name: parameter.default is parameter.empty
        for name, parameter in inspect.signature(found).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    return found, frozenset(required), frozenset(name for name, needed in required.items() if needed)


def _method_constructor(
    alias: str, cls: type | None
) -> tuple[Callable[..., Any], frozenset[str], frozenset[str]]:
    """Return the constructor and the names of its arguments for a level method without a pooler class.

    Args:
        alias: Alias of the method.
        cls: Subclass of the class that ``get_pooler`` builds, or ``None`` for that class.
    """
    from tgp.poolers import get_pooler

    names = frozenset(field.name for field in dataclasses.fields(METHODS[alias].params))
    options = frozenset({"cached", "seed"})

    def build(**given: Any) -> Any:
        if cls is None:
            return get_pooler(alias, **given)
        params = {name: value for name, value in given.items() if name in names}
        return cls(alias, params, **{name: value for name, value in given.items() if name in options - names})

    return build, names | options, frozenset()
