"""The table of poolers, and ``pooler_map``, the dictionary that is made from it.

The table holds every fact that is known without importing a pooler. ``pooler_map``, ``pooler_classes``, the exported
names, the listing of ``tgp poolers``, the table in the documentation and the conformance tests are derived from it.
The order is that of ``pooler_map`` in tgp 1.0.2.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from tgp.registry import Entry, LazyRegistry

__all__ = ["POOLERS", "PoolerMap", "pooler_classes", "pooler_map", "target_of"]


def _line(
    alias: str,
    module: str,
    cls: str,
    summary: str,
    *,
    dense: bool = False,
    trainable: bool = True,
    loss: bool = False,
    precoarsenable: bool = False,
) -> Entry:
    traits = {"dense": dense, "trainable": trainable, "loss": loss, "precoarsenable": precoarsenable}
    return Entry(alias, f"tgp.poolers.{module}:{cls}", summary, traits)


# fmt: off
POOLERS: tuple[Entry, ...] = (
    _line("asap", "asap", "ASAPooling", "Adaptive structure-aware pooling: attention over ego-nets, then top-k"),
    _line("acc", "asym_cheeger_cut", "AsymCheegerCutPooling", "Asymmetric Cheeger cut (total variation)", dense=True, loss=True),
    _line("bnpool", "bnpool", "BNPool", "Bayesian nonparametric pooling: stick-breaking clusters", dense=True, loss=True),
    _line("diff", "diffpool", "DiffPool", "Soft clusters with link-prediction loss", dense=True, loss=True),
    _line("dmon", "dmon", "DMoNPooling", "Deep modularity clusters", dense=True, loss=True),
    _line("ec", "edge_contraction", "EdgeContractionPooling", "Contract a matching of learned edge scores"),
    _line("eigen", "eigenpool", "EigenPooling", "Spectral clusters with eigenvector features", dense=True, trainable=False, precoarsenable=True),
    _line("graclus", "graclus", "GraclusPooling", "Greedy heavy-edge matching", trainable=False, precoarsenable=True),
    _line("hosc", "hosc", "HOSCPooling", "Higher-order (motif) clustering", dense=True, loss=True),
    _line("lap", "lapool", "LaPooling", "Laplacian leaders and cosine attention", dense=True, trainable=False),
    _line("jb", "just_balance", "JustBalancePooling", "Just Balance GNN: balanced clusters on a filtered graph", dense=True, loss=True),
    _line("kmis", "kmis", "KMISPooling", "k-hop maximal independent set", trainable=False, precoarsenable=True),
    _line("maxcut", "maxcut", "MaxCutPooling", "Learned max-cut scores, top-k and nearest-supernode assignment", loss=True),
    _line("mincut", "mincut", "MinCutPooling", "Relaxed normalised min-cut", dense=True, loss=True),
    _line("ndp", "ndp", "NDPPooling", "Node decimation with Kron reduction", trainable=False, precoarsenable=True),
    _line("nmf", "nmf", "NMFPooling", "Non-negative matrix factorisation", dense=True, trainable=False, precoarsenable=True),
    _line("nopool", "nopool", "NoPool", "Identity baseline", trainable=False, precoarsenable=True),
    _line("pan", "pan", "PANPooling", "Path-integral (PAN) scores, top-k"),
    _line("sag", "sag", "SAGPooling", "Self-attention (GNN) scores, top-k"),
    _line("sep", "sep", "SEPPooling", "Structural-entropy coding tree", trainable=False, precoarsenable=True),
    _line("topk", "topk", "TopkPooling", "Learned projection scores, top-k"),
)
# fmt: on


if TYPE_CHECKING:
    _Dictionary = dict[str, type]
else:

    class _Dictionary(MutableMapping, dict):
        """Dictionary whose methods (``update``, ``pop``, ...) all use the item methods of the subclass."""


class PoolerMap(LazyRegistry[type], _Dictionary):
    """Pooler classes by alias.

    A pooler map behaves like a dictionary. Assigning a class registers it, and deleting an alias removes it. ``copy``
    and ``|`` return plain dictionaries. Iterating over the aliases imports nothing; a class is imported on access.

    Attributes:
        own: Entries of tgp itself.
        revision: Number of changes since the map was made.
    """

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        super().__init__("pooler", entries, group="tgp.poolers", of=type)
        self.own = {entry.alias: entry for entry in entries}
        self.revision = 0

    def __setitem__(self, alias: str, pooler: type) -> None:
        if not isinstance(pooler, type):
            raise TypeError(
                f"pooler_map[{alias!r}] has the wrong type: expected a class, got {type(pooler).__name__}. "
                "Use get_pooler() to build an object."
            )
        entry = Entry(alias, target_of(pooler), "")
        own = self.own.get(alias)
        self._set(own if own is not None and own.target == entry.target else entry, pooler)

    def __delitem__(self, alias: str) -> None:
        if alias not in self.entries:
            raise KeyError(alias)
        self._drop(alias)

    def _drop(self, alias: str) -> None:
        super()._drop(alias)
        self.revision += 1

    def copy(self) -> dict[str, type]:
        """Return a plain dictionary. This imports all poolers."""
        return {alias: self[alias] for alias in self}

    def __or__(self, other: Any) -> Any:
        return self.copy() | dict(other) if isinstance(other, Mapping) else NotImplemented

    def __ror__(self, other: Any) -> Any:
        return dict(other) | self.copy() if isinstance(other, Mapping) else NotImplemented

    def __ior__(self, other: Any) -> Any:  # type: ignore[override,misc]
        self.update(other)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.copy(),)

    def __eq__(self, other: object) -> bool:
        return self.copy() == dict(other) if isinstance(other, Mapping) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


def target_of(pooler: type) -> str:
    """Return the import path of a class as ``"package.module:Class"``."""
    return f"{pooler.__module__}:{pooler.__qualname__}"


pooler_map = PoolerMap(POOLERS)
"""Dictionary from alias to pooler class. A class is imported on access; assigning a class registers it."""

pooler_classes: list[str] = [entry.attribute for entry in POOLERS]
"""Names of the pooler classes."""
