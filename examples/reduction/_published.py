"""Published results of graph reduction."""

from __future__ import annotations

RATIOS = (0.5, 0.3, 0.1)
"""Shares of kept nodes of the columns below."""
MODELS = ("GCN", "APPNP")
PUBLISHED: dict[str, dict[str, list[str]]] = {
    "Cora": {
        "full": ["80.1 / 81.7"],
        "Var. neigh.": ["81.7 / 81.4", "80.7 / 81.5", "73.3 / 66.6"],
        "Var. edges": ["81.0 / 82.1", "79.0 / 81.0", "48.6 / 57.3"],
        "Alg. JC": ["81.3 / 82.5", "79.5 / 80.1", "66.3 / 69.1"],
        "Aff. GS": ["81.3 / 82.4", "79.5 / 79.5", "75.2 / 73.5"],
        "Kron": ["81.4 / 82.6", "79.8 / 80.1", "65.0 / 66.7"],
        "FGC": ["79.9 / 78.7", "77.6 / 77.9", "71.1 / 68.5"],
        "UGC": ["80.5 / 84.2", "80.3 / 81.2", "76.9 / 78.5"],
        "MPG": ["80.2 / 79.6", "74.3 / 81.0", "73.0 / 75.0"],
        "GEC": ["80.7 / 81.3", "80.9 / 82.0", "80.8 / 81.7"],
        "STPGC": ["82.8 / 82.8", "82.3 / 82.9", "82.5 / 84.5"],
    },
    "CiteSeer": {
        "full": ["71.6 / 71.1"],
        "Var. neigh.": ["71.5 / 71.7", "70.4 / 71.1", "56.6 / 58.2"],
        "Var. edges": ["72.2 / 71.6", "70.1 / 71.6", "50.6 / 50.8"],
        "Alg. JC": ["71.2 / 71.4", "70.2 / 72.4", "60.7 / 60.9"],
        "Aff. GS": ["70.4 / 71.3", "70.3 / 71.2", "63.7 / 62.8"],
        "Kron": ["72.2 / 72.1", "70.3 / 71.7", "65.8 / 66.4"],
        "FGC": ["70.1 / 71.4", "69.1 / 70.5", "67.5 / 68.1"],
        "UGC": ["69.7 / 72.5", "68.4 / 70.4", "59.9 / 63.5"],
        "GEC": ["70.1 / 71.1", "71.1 / 71.0", "71.6 / 72.1"],
        "STPGC": ["72.3 / 72.3", "72.4 / 71.2", "73.2 / 73.5"],
    },
    "DBLP": {
        "full": ["79.9 / 81.8"],
        "Var. neigh.": ["82.5 / 83.4", "81.7 / 82.4", "79.6 / 80.4"],
        "Var. edges": ["82.2 / 84.2", "80.6 / 82.6", "79.4 / 81.9"],
        "Alg. JC": ["80.6 / 83.7", "80.2 / 82.0", "78.1 / 79.5"],
        "Aff. GS": ["82.1 / 84.6", "81.1 / 83.7", "79.2 / 80.2"],
        "Kron": ["80.6 / 84.0", "80.6 / 81.9", "77.8 / 78.8"],
        "FGC": ["82.0 / 83.9", "81.8 / 83.2", "81.8 / 82.1"],
        "UGC": ["84.5 / 85.6", "83.0 / 82.3", "74.3 / 72.1"],
        "GEC": ["83.0 / 84.3", "82.4 / 83.4", "80.5 / 78.9"],
        "STPGC": ["83.9 / 85.0", "84.5 / 85.2", "83.1 / 83.6"],
    },
}
"""GCN / APPNP at c = 0.5, 0.3, 0.1 in Table 1 of STPGC (arXiv 2601.22943); ``full``: the original graph."""
SECONDS = {
    "Var. neigh.": ["23.3", "33.9", "34.7"],
    "Var. edges": ["14.6", "15.9", "29.1"],
    "Alg. JC": ["22.0", "34.7", "44.3"],
    "Aff. GS": ["23.6", "18.4", "18.6"],
    "FGC": ["956", "473", "95"],
    "GEC": ["8.3", "18.8", "100"],
    "STPGC": ["3.6", "4.8", "6.4"],
}
"""Seconds to coarsen DBLP to c = 0.5, 0.3, 0.1, from the same paper."""
LABELS = {
    "STPGC": "all, also of test nodes",
    "UGC": "all, for one factor",
    "GEC": "not checked",
    "full": "none",
}
"""Labels that coarsening uses. That of STPGC was read in the published code (commit 1661966), not run."""


def published(dataset: str, ratio: float, model: str, with_labels: bool) -> tuple[float, str] | None:
    """Return the best published accuracy and its method.

    Args:
        dataset: name of the dataset.
        ratio: share of kept nodes.
        model: network.
        with_labels: True for methods that are known to use labels of all nodes, False for the others.
    """
    if dataset not in PUBLISHED or ratio not in RATIOS:
        return None
    found = [
        (float(values[RATIOS.index(ratio)].split(" / ")[MODELS.index(model)]), method)
        for method, values in PUBLISHED[dataset].items()
        if method != "full" and LABELS.get(method, "").startswith("all") == with_labels
    ]
    return max(found)
