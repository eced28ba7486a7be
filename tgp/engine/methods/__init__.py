"""The table of level methods: one line each. Names now, imports on access."""

from __future__ import annotations

from tgp.engine.level_method import LevelMethod
from tgp.errors import PackageError, UnknownNameError
from tgp.registry import Entry, LazyRegistry

__all__ = ["METHODS", "register_method", "representative_name"]


def _line(alias: str, summary: str) -> Entry:
    return Entry(alias, f"tgp.engine.methods.{alias}:METHOD", summary)


# Poolers that are not level methods may still be able to precompute their levels. The engine does not import them.
METHODS: LazyRegistry[LevelMethod] = LazyRegistry(
    "pooler",
    (
        _line("ndp", "Node decimation: keep one side of a spectral max-cut, Kron reduction"),
        _line("graclus", "Greedy heavy-edge matching: merge pairs of nodes"),
        _line("kmis", "k-hop maximal independent set and its clusters"),
        _line("sep", "Structural-entropy coding tree, one tree for a run of levels"),
        _line("nmf", "Non-negative matrix factorisation: soft clusters"),
        _line("eigen", "Spectral clusters with eigenvector features (EigenPool)"),
        _line("nopool", "Identity: every node its own supernode"),
        _line("random", "Random partition at a chosen ratio: the honest baseline"),
    ),
    group="tgp.methods",
    of=LevelMethod,
    fallback="tgp.poolers.factory:method_entry",
)


def register_method(alias: str, target: str, summary: str = "", *, replace: bool = False) -> Entry:
    """Register a level method for ``get_pooler``, ``PreCoarsening`` and schedules.

    Args:
        alias: its name, lower-case.
        target: ``"package.module:NAME"`` of the :class:`~tgp.engine.level_method.LevelMethod`; worker processes import
            it from there.
        summary: one line for listings.
        replace: replace a method of the same alias.
    """
    return METHODS.register(Entry(alias, target, summary), replace=replace)


def representative_name(method: str | None) -> str | None:
    """Return the name under which a ``SelectOutput`` exposes the representatives of ``method``.

    Args:
        method: alias of a method, as a store names it. The method may be absent: reading a store does not need the
            package that made it.

    Returns:
        :attr:`LevelMethod.representative <tgp.engine.level_method.LevelMethod>`, or ``None`` if the method is unknown.

    Examples:
        >>> representative_name("kmis")
        'mis'
    """
    if method is None:
        return None
    try:
        return METHODS[method].representative
    except (UnknownNameError, PackageError):
        return None
