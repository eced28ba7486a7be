"""Page of the leaderboard, made from the results."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from _protocol import settings_of
from _tables import markdown

PAGE = Path(__file__).resolve().parents[2] / "docs" / "leaderboard.md"
INTRO = """\
# Leaderboard of graph reduction

A network is trained on a coarse graph and tested on the **original** graph. The tables contain accuracies in percent, mean ± standard
deviation over runs. c is the share of nodes that are kept. No method of ours uses labels: coarsening gets edges, and features if the method needs
them. [Training on a reduced graph](guide/reduction.md) shows how to do this with your own graph.

```bash
python examples/reduction/leaderboard.py --root DATA
```

`DATA` is a folder of raw files in the layout of PyTorch Geometric. The command continues where it stopped, and writes this page from
`examples/reduction/results/leaderboard.json`.

## Protocol

The protocol is that of SCAL (Huang et al., KDD 2021):

- Components with more than 10 nodes are coarsened on their own. Smaller ones are kept whole if they have a node for training or validation, else left out.
- Features of a supernode are the sum of its members, with rows scaled to the sum 1. The network gets edges without weights and without self-loops.
- A supernode is used for training if all its training nodes have the same label, and likewise for validation.
- GCN: two layers, 64 hidden channels, dropout 0.5; Adam with rate 0.01, decay 0.0005. APPNP: the same with 10 steps, alpha 0.1 (our choice).
- 60 epochs for Cora, 50 for DBLP, 200 for the others. Physics has rate 0.001 without decay.
- The weights of the lowest validation loss in the second half of the epochs are used. Training stops there if the loss exceeds the mean of the last 10.
- Cora and CiteSeer have the public split. The others have 20 nodes per class for training and 30 for validation, drawn again for each run.
- SCAL has no settings for Photo, Computers and CS. They use those of CiteSeer with the other split.

Methods without a ratio, such as `graclus*8`, show the level nearest to c, with the real share in parentheses. **The best method of a column
is chosen by validation accuracy** among graphs of at most 1.1 c of the nodes. The test accuracy of that method is shown, even if another
one is higher. "Used for training" is the number of supernodes whose training nodes have one label. Seconds are processor time of one core, without
compilation, and for a schedule those of all its levels. MB is the memory beyond that of the input. The errors compare the 100 lowest eigenvalues of the normalized
Laplacian of the largest component, or the 10 lowest if it has more than 5,000 nodes; "restricted" ignores how the coarse graph is connected. "REE high" is the relative error of
as many highest eigenvalues of D - A, and RSA the constant of the restricted spectral approximation. `tgp inspect --spectral` prints these and further figures,
see [Inspecting and verifying](guide/command-line.md#inspecting-and-verifying). A dash means that a figure was not computed when the cell was.
"""
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
    "STPGC": "all, also of test nodes, in the published code (commit 1661966; read, not run)",
    "UGC": "all, for one factor",
    "GEC": "not checked",
    "full": "none",
}
SPECTRAL = {
    "eigenvalue_error": "eigenvalue error",
    "eigenvalue_error_restricted": "restricted",
    "combinatorial_error_highest": "REE high",
    "restricted_approximation": "RSA",
}
"""Figures of the largest component and their columns."""
DIFFERENCES = """\
Differences: published values are runs of the authors of STPGC. Their c counts all nodes; ours counts those of the coarsened
components, as SCAL does. Their code splits DBLP 70/10/20 instead of 20 + 30 nodes per class, so DBLP cannot be compared.
"""


def render(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page. Cells of another protocol are left out. The newest revision of a method counts, then the number of runs."""
    chosen: dict[tuple[str, str, float, str], Mapping[str, Any]] = {}
    for result in sorted(results.values(), key=lambda r: (r["settings"]["revision"], len(r["test"]))):
        settings, dataset = result["settings"], result["cell"].split("/")[0]
        if not settings_of(dataset).items() <= settings.items():
            continue
        key = (dataset, settings["method"], settings["ratio"], settings["model"])
        chosen[key] = result
    names = list(dict.fromkeys(key[0] for key in sorted(chosen, key=_order)))
    return "\n".join([INTRO, *(_dataset(name, chosen) for name in names)])


def _order(key: tuple[str, ...]) -> int:
    known = ("Cora", "CiteSeer", "DBLP", "Photo", "Computers", "CS", "Physics")
    return known.index(key[0]) if key[0] in known else len(known)


def _dataset(name: str, chosen: Mapping[tuple[str, str, float, str], Mapping[str, Any]]) -> str:
    here = {key[1:]: result for key, result in chosen.items() if key[0] == name}
    ratios = sorted({key[1] for key in here if key[0] != "full"}, reverse=True)
    methods = sorted({key[0] for key in here}, key=lambda method: (method != "full", method))
    parts = [f"## {name}\n"]
    for model in sorted({key[2] for key in here}, reverse=True):
        rows = [
            [_show(method), "none", *(_score(here, method, ratio, model) for ratio in ratios)]
            for method in methods
        ]
        best = ["**best by validation**", "none", *(_best(here, ratio, model) for ratio in ratios)]
        runs = sorted({len(result["test"]) for key, result in here.items() if key[2] == model})
        counts = " or ".join(map(str, runs))
        parts.append(f"### {name}, {model}: {counts} runs\n")
        parts.append(
            markdown(["method", "labels used", *(f"c = {ratio:g}" for ratio in ratios)], [*rows, best])
        )
    parts.append(_published(name))
    parts.append(f"### {name}: cost and spectral error\n")
    parts.append(_costs(here, methods, ratios))
    return "\n".join(part for part in parts if part)


def _show(method: str) -> str:
    return "full graph" if method == "full" else f"`{method}`"


def _score(here: Mapping[Any, Mapping[str, Any]], method: str, ratio: float, model: str) -> str:
    result = here.get((method, 1.0 if method == "full" else ratio, model))
    if result is None:
        return "-"
    real = f" ({result['kept']:.2f})" if abs(result.get("kept", ratio) - ratio) > 0.01 else ""
    return _spread(result["test"]) + real


def _spread(values: Iterable[float]) -> str:
    values = list(values)
    return f"{statistics.fmean(values):.1f} ± {statistics.pstdev(values):.1f}"


def _best(here: Mapping[Any, Mapping[str, Any]], ratio: float, model: str) -> str:
    """Return the test accuracy of the method of highest validation accuracy whose size is near to the ratio."""
    found = [
        (statistics.fmean(result["val"]), key[0])
        for key, result in here.items()
        if key[1:] == (ratio, model) and key[0] != "full" and result["kept"] <= 1.1 * ratio
    ]
    if not found:
        return "-"
    method = max(found)[1]
    return f"{_spread(here[method, ratio, model]['test'])} {_show(method)}"


def _published(name: str) -> str:
    if name not in PUBLISHED:
        return ""
    rows = [
        [method, LABELS.get(method, "none known"), *(values * 3 if len(values) == 1 else values)]
        for method, values in PUBLISHED[name].items()
    ]
    table = markdown(["published: GCN / APPNP", "labels used", "c = 0.5", "c = 0.3", "c = 0.1"], rows)
    seconds = markdown(["published", "c = 0.5", "c = 0.3", "c = 0.1"], [[k, *v] for k, v in SECONDS.items()])
    more = f"\nSeconds to coarsen DBLP in the same paper:\n\n{seconds}" if name == "DBLP" else ""
    return f"### {name}: published\n\n{table}\n{DIFFERENCES}{more}"


def _costs(here: Mapping[Any, Mapping[str, Any]], methods: list[str], ratios: list[float]) -> str:
    rows = []
    for method in methods:
        for ratio in ratios:
            result = next((here[k] for k in here if k[:2] == (method, ratio)), None)
            if result is None:
                continue
            rows.append(
                [
                    _show(method),
                    f"{result['kept']:.3f}",
                    f"{statistics.fmean(result['supernodes']):.0f}",
                    f"{statistics.fmean(result['train_supernodes']):.0f}",
                    f"{result['coarsen_seconds']:.3f}",
                    f"{result['coarsen_mb']:.1f}" if "coarsen_mb" in result else "-",
                    *(_figure(result, key) for key in SPECTRAL),
                ]
            )
    head = ["method", "c", "supernodes", "used for training", "s", "MB", *SPECTRAL.values()]
    return markdown(head, rows)


def _figure(result: Mapping[str, Any], key: str) -> str:
    value = result.get(key)
    return "-" if value is None else f"{value:.3f}"
