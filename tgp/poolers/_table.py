"""The table of poolers: every fact that is known without importing one.

``pooler_map``, ``pooler_classes``, exports, the listing of ``tgp poolers``, the docs table and the
conformance tests are derived from it. The order is that of ``pooler_map`` in tgp 1.0.2.
"""

from __future__ import annotations

from tgp.registry import Entry

__all__ = ["POOLERS"]


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
