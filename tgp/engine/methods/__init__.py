"""Table of the level methods, one line each. A method is imported when it is first used."""

from __future__ import annotations

from tgp.engine.level_method import LevelMethod
from tgp.errors import PackageError, UnknownNameError
from tgp.registry import Entry, LazyRegistry

__all__ = ["METHODS", "contracts_edges", "external_methods", "register_method", "representative_name"]


def _entry(alias: str, summary: str) -> Entry:
    return Entry(alias, f"tgp.engine.methods.{alias}:METHOD", summary)


# The fallback finds poolers of users that can precompute levels. The engine does not import them.
METHODS: LazyRegistry[LevelMethod] = LazyRegistry(
    "pooler",
    (
        _entry("ndp", "Node decimation: keep one side of a spectral max-cut, Kron reduction"),
        _entry("graclus", "Greedy heavy-edge matching: merge pairs of nodes"),
        _entry("kmis", "k-hop maximal independent set and its clusters"),
        _entry("lv", "Local variation: merge pairs that change the lowest eigenvectors least"),
        _entry("sep", "Structural-entropy coding tree, one tree for a run of levels"),
        _entry("nmf", "Non-negative matrix factorisation: soft clusters"),
        _entry("eigen", "Spectral clusters with eigenvector features (EigenPool)"),
        _entry("leiden", "Connected communities of high modularity (Leiden), all levels of one run"),
        _entry("louvain", "Communities of high modularity (Louvain), all levels of one run"),
        _entry("affinity", "Matching by algebraic distance, to any ratio or number of supernodes"),
        _entry("bistride", "Every second front of a breadth-first search, links over two hops"),
        _entry("hem", "Heavy-edge matching to any ratio or number of supernodes"),
        _entry("collapse", "Merge nodes whose neighbourhood lies in that of a neighbour, to any ratio"),
        _entry("simmatch", "Matching by the cosine of smoothed features, to any ratio; needs x"),
        _entry("ugc", "Merge neighbours in a list that is sorted by projected features; needs x"),
        _entry("amg", "Algebraic multigrid: centers and interpolation weights, or any ratio; needs pyamg"),
        _entry("voxel", "Cells of a regular grid in space; needs pos"),
        _entry("fps", "Farthest-point sampling, other nodes to the nearest center; needs pos"),
        _entry("partition", "Exactly k balanced clusters of a small cut, by recursive bisection"),
        _entry("nopool", "Identity: every node is its own supernode"),
        _entry("random", "Random partition at a chosen ratio: a baseline"),
    ),
    group="tgp.methods",
    of=LevelMethod,
    fallback="tgp.poolers.factory:method_entry",
)


def register_method(alias: str, target: str, summary: str = "", *, replace: bool = False) -> Entry:
    """Register a level method for ``get_pooler``, ``PreCoarsening`` and schedules.

    Args:
        alias: name of the method, in lower case.
        target: ``"package.module:NAME"`` of the :class:`~tgp.engine.level_method.LevelMethod`. Worker processes import
            it from there.
        summary: one line for listings.
        replace: replace a method of the same alias. Without it, an alias that is taken is an error.

    Returns:
        The entry of the method table.

    Raises:
        ParameterError: if the alias or the target is not valid, or the alias is taken.
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


def contracts_edges(method: str) -> bool:
    """Return True if the coarse edges of a level stand for edges of the level before.

    Args:
        method: alias of a method, or several that are joined by ``+``, as a composed level names them. Methods that are
            absent do not count.

    Returns:
        True if :attr:`LevelMethod.contracts <tgp.engine.level_method.LevelMethod>` is true for all of them.

    Examples:
        >>> contracts_edges("graclus+graclus"), contracts_edges("ndp")
        (True, False)
    """
    try:
        return all(METHODS[name].contracts for name in method.split("+"))
    except (UnknownNameError, PackageError):
        return False


def external_methods() -> tuple[str, ...]:
    """Return the methods of tgp that can coarsen a graph larger than memory.

    Returns:
        Aliases of the methods whose :attr:`LevelMethod.external <tgp.engine.level_method.LevelMethod>` is given.

    Examples:
        >>> external_methods()
        ('graclus', 'kmis', 'hem')
    """
    return tuple(alias for alias in METHODS.entries if METHODS[alias].external is not None)
