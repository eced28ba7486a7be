"""Page of the leaderboard, made from the results."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from _picture import NAME
from _published import LABELS, PUBLISHED, SECONDS, published
from _results import Result, Results, mean, spread
from _tables import markdown

PAGE = Path(__file__).resolve().parents[2] / "docs" / "leaderboard.md"
INTRO = f"""\
---
hide: [toc]
---

# Leaderboard of graph reduction

How well does a network work if it is trained on a smaller graph? This page compares methods of graph reduction: a network that classifies nodes is trained on a
coarse graph and tested on the **original** graph. The letter c is the share of nodes that the coarse graph keeps. Accuracies are in percent, as mean ± standard deviation
over runs.

No method of ours uses labels: coarsening gets the edges, and the features if the method needs
them. [Training on a reduced graph](guide/reduction.md) shows how to do this with your own graph. [Performance](performance.md) compares the speed of coarsening
with other libraries.

![Test accuracy of a GCN by the share of kept nodes, one panel per dataset](img/{NAME})

*Test accuracy of a GCN by c. Accuracies below a panel are drawn at its lower edge. Two kinds of published results are left out: those of methods that use the labels of
all nodes, and those of DBLP, which have another split.*

"""
SUMMARY = """\
## Summary

Each row has a dataset and a share c, and each network a column: GCN and APPNP. "Full" is the accuracy after training on the whole graph. "Best" is that of the
best method, which is chosen **by validation accuracy** among coarse graphs of at most 1.1 c of the nodes. Its test accuracy is shown, even if another method has a
higher one. The column s has the processor seconds of coarsening by the best method for the GCN.

With one or two runs per cell, differences between methods are mostly chance.{missing}

"""
PUBLISHED_NOTE = """\
The two "published" columns are the best values of Table 1 of STPGC (arXiv 2601.22943), for GCN / APPNP:

- The first one has methods that are not known to use the labels of all nodes. Whether GEC uses labels was not checked.
- The second one has methods that use them. The published code of STPGC uses the labels of all nodes, also of test nodes. UGC uses them for one factor.
- DBLP has another split in that table, so its values cannot be compared with ours.

"""
AIMS = {"Cora": {0.5: 81.5, 0.3: 81.0, 0.1: 78.0}, "CiteSeer": {0.5: 71.5, 0.3: 71.0, 0.1: 72.5}}
"""Test accuracies of a GCN that were aimed at before the methods were compared."""
PROTOCOL = """\
## Protocol

The protocol is that of SCAL (Huang et al., KDD 2021):

- **Components.** Connected components with more than 10 nodes are coarsened separately. Smaller ones are kept whole if they have a node for training or validation, and left out otherwise.
- **Features.** A supernode has the sum of the features of its members, scaled to the sum 1. We differ from SCAL in one point: the features of each member are scaled to the
  sum 1, too, before they are added. In 20 runs of a GCN on Cora and CiteSeer (`hem` at 0.5 and 0.1, `lv:balanced=true` at 0.1), this changed the mean accuracy by at
  most 0.3.
- **Edges.** The network gets edges without weights and without self-loops.
- **Labels.** A supernode is used for training if all its training nodes have the same label, and likewise for validation.
- **Networks.** GCN: two layers, 64 hidden channels, dropout 0.5, Adam with learning rate 0.01 and weight decay 0.0005. APPNP: the same with 10 steps and alpha 0.1 (our choice).
  Physics has learning rate 0.001 without weight decay.
- **Epochs.** 60 for Cora, 50 for DBLP, 200 for the others. The test uses the weights of the lowest validation loss in the second half of the epochs. In this half, training stops
  when the validation loss exceeds the mean of the last 10 epochs.
- **Splits.** Cora and CiteSeer have the public split. The others have 20 nodes per class for training and 30 for validation, drawn again for each run.
- **Photo, Computers and CS.** SCAL has no settings for them. They use those of CiteSeer, and the split of the other datasets.

Training computes the scores of labelled nodes only. This gives the same result as computing all scores, and is faster.

```bash
python examples/reduction/leaderboard.py --root DATA
python examples/reduction/leaderboard.py --root DATA --models facts   # only cost and spectral errors, without training
```

`DATA` is a folder of raw files in the layout of PyTorch Geometric. The command continues where it stopped, and writes this page and its picture from
`examples/reduction/results/leaderboard.json`.

## How to read the tables

Accuracies:

- Methods without a ratio, such as `graclus*8`, show the level nearest to c, with the real share of nodes in parentheses.
- A dash means that the cell was not computed.
- A number in brackets, such as `[2]`, is the number of runs of a cell that has fewer runs than the heading says.

Costs and errors. Three values with slashes between them belong to the three c of the header:

| column | meaning |
|---|---|
| used | number of supernodes that training can use, because their training nodes have one label |
| s | processor seconds of one core, without compilation; for a schedule those of all its levels |
| MB | memory beyond that of the input |
| eigenvalue error | relative error of the lowest eigenvalues of the normalized Laplacian of the largest component: 100 of them, or 10 if it has more than 5,000 nodes |
| restricted | the same error of the input graph, restricted to signals that are constant on supernodes: only the clusters count, not the edges of the coarse graph |
| REE high | relative error of as many highest eigenvalues of the Laplacian D - A |
| RSA | constant of the restricted spectral approximation |

`tgp inspect --spectral` prints these and further figures, see [Inspecting and verifying](guide/command-line.md#inspecting-and-verifying).
"""
SPECTRAL = {
    "eigenvalue_error": "eigenvalue error",
    "eigenvalue_error_restricted": "restricted",
    "combinatorial_error_highest": "REE high",
    "restricted_approximation": "RSA",
}
"""Figures of the largest component and their columns."""
DIFFERENCES = """\
The published values are runs of the authors of STPGC. They differ from ours in these points: their c counts all nodes, and ours counts those of the coarsened components,
as SCAL does. Their code splits DBLP into 70, 10 and 20 %, and ours takes 20 and 30 nodes per class, so DBLP cannot be compared. That STPGC uses labels was read in its published
code (commit 1661966), which was not run.
"""


def render(cells: Mapping[str, Result]) -> str:
    """Return the page. Cells of another protocol are left out."""
    results = Results(cells)
    summary = SUMMARY.format(missing=_missing(results)) + _summary(results)
    parts = [INTRO + summary, PUBLISHED_NOTE + _aims(results) + PROTOCOL]
    return "\n".join([*parts, *(_dataset(results, name) for name in results.datasets)])


def _missing(results: Results) -> str:
    """Return the sentence about datasets whose table lacks a cell that the table of another dataset has."""
    cells = {name: {key for key in results.of(name) if key[0] != "full"} for name in results.datasets}
    every = set().union(*cells.values())
    names = [name for name in results.datasets if every - cells[name]]
    if not names:
        return ""
    listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    tables, do = ("table", "does") if len(names) == 1 else ("tables", "do")
    return f" The {tables} of {listed} {do} not\ncontain all methods and networks."


def _summary(results: Results) -> str:
    rows = []
    for dataset in results.datasets:
        for ratio in results.ratios(dataset):
            row = [dataset, f"{ratio:g}"]
            for model in ("GCN", "APPNP"):
                full, best = results.full(dataset, model), results.best(dataset, ratio, model)
                row += ["-" if full is None else f"{mean(full):.1f}"]
                row += ["-" if best is None else f"**{spread(best[1]['test'])}** {_show(best[0])}"]
            best = results.best(dataset, ratio, "GCN")
            cost = best and results.facts.get((dataset, best[0], ratio))
            row.append(f"{cost['coarsen_seconds']:.2f}" if cost else "-")
            row += [_best_published(dataset, ratio, with_labels) for with_labels in (False, True)]
            counts = sorted({n for model in ("GCN", "APPNP") for n in results.counts(dataset, model)})
            rows.append([*row, _range(counts)])
    head = ["dataset", "c", "GCN full", "GCN best", "APPNP full", "APPNP best", "s"]
    return markdown([*head, "published GCN / APPNP", "published, all labels", "runs"], rows)


def _range(counts: list[int]) -> str:
    return "-".join(map(str, dict.fromkeys([counts[0], counts[-1]]))) if counts else "-"


def _best_published(dataset: str, ratio: float, with_labels: bool) -> str:
    found = [published(dataset, ratio, model, with_labels) for model in ("GCN", "APPNP")]
    return " / ".join(f"{value:.1f} {name}" for value, name in filter(None, found)) or "-"


def _aims(results: Results) -> str:
    """Return which aims are reached, in words and as a table."""
    rows, missed = [], []
    for dataset, aims in AIMS.items():
        for ratio, aim in aims.items():
            best = results.best(dataset, ratio, "GCN")
            if best is None:
                continue
            reached = mean(best[1]) >= aim
            rows.append(
                [
                    dataset,
                    f"{ratio:g}",
                    f"{aim:g}",
                    f"{spread(best[1]['test'])} {_show(best[0])}",
                    "yes" if reached else "no",
                ]
            )
            if not reached:
                better = sum(mean(result) >= aim for result in results.at(dataset, ratio, "GCN").values())
                got = f"{mean(best[1]):.1f} instead of {aim:g}. Methods that reach it but were not chosen: {better}"
                missed.append(f"- {dataset} at c = {ratio:g}: {got}.")
    if not rows:
        return ""
    words = (
        "Each aim is a test accuracy of a GCN, without labels in coarsening. It counts as reached only if the method that validation "
        f"accuracy\nchooses reaches it. {len(rows) - len(missed)} of {len(rows)} aims are reached."
    )
    if missed:
        words += " Not reached:\n\n" + "\n".join(missed)
    table = markdown(["dataset", "c", "aim", "best by validation", "reached"], rows)
    return f"## Aims\n\n{words}\n\n{table}\n"


def _dataset(results: Results, name: str) -> str:
    ratios, methods = results.ratios(name), results.methods(name)
    nets = [model for model in ("GCN", "APPNP") if results.counts(name, model)]
    most = {model: results.counts(name, model)[-1] for model in nets}
    columns = [(model, ratio) for model in nets for ratio in ratios]
    rows = []
    for method in ["full", *methods]:
        scores = [_score(results, (name, method, ratio, model), most[model]) for model, ratio in columns]
        rows.append([_show(method), "none", *scores])
    best = [
        "**best by validation**",
        "none",
        *(_best(results, name, ratio, model) for model, ratio in columns),
    ]
    runs = ", ".join(f"{model} {count} {'run' if count == 1 else 'runs'}" for model, count in most.items())
    head = ["method", "labels used", *(f"{model} {ratio:g}" for model, ratio in columns)]
    accuracies = markdown(head, [*rows, best])
    costs = _details(f"{name}: cost and spectral error", _costs(results, name, methods, ratios))
    return "\n".join([f"## {name}: {runs}\n", accuracies, _published(name) + costs])


def _details(title: str, text: str) -> str:
    return f'<details markdown="1">\n<summary>{title}</summary>\n\n{text}\n</details>\n'


def _show(method: str) -> str:
    return "full graph" if method == "full" else f"`{method}`"


def _score(results: Results, key: tuple[str, str, float, str], most: int) -> str:
    dataset, method, ratio, model = key
    result = results.full(dataset, model) if method == "full" else results.runs.get(key)
    if result is None:
        return "-"
    real = f" ({result['kept']:.2f})" if abs(result.get("kept", ratio) - ratio) > 0.01 else ""
    fewer = f" [{len(result['test'])}]" if len(result["test"]) < most else ""
    return spread(result["test"]) + real + fewer


def _best(results: Results, dataset: str, ratio: float, model: str) -> str:
    best = results.best(dataset, ratio, model)
    return "-" if best is None else f"{spread(best[1]['test'])} {_show(best[0])}"


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
    return _details(f"{name}: published", f"{table}\n{DIFFERENCES}{more}")


def _costs(results: Results, dataset: str, methods: list[str], ratios: list[float]) -> str:
    """Return one row per method. A column has a figure for each ratio."""
    rows = []
    for method in methods:
        trained = [
            next(
                (r for model in ("GCN", "APPNP") if (r := results.runs.get((dataset, method, ratio, model)))),
                {},
            )
            for ratio in ratios
        ]
        found = [results.facts.get((dataset, method, ratio), {}) for ratio in ratios]
        rows.append(
            [
                _show(method),
                _join(trained, "supernodes", lambda values: f"{statistics.fmean(values):.0f}"),
                _join(trained, "train_supernodes", lambda values: f"{statistics.fmean(values):.0f}"),
                _join(found, "coarsen_seconds", "{:.3f}".format),
                _join(found, "coarsen_mb", lambda value: f"{max(0.0, value):.0f}"),
                *(_join(found, key, "{:.2f}".format) for key in SPECTRAL),
            ]
        )
    columns = ["supernodes", "used", "s", "MB", *SPECTRAL.values()]
    return markdown([f"c = {' / '.join(f'{ratio:g}' for ratio in ratios)}", *columns], rows)


def _join(results: list[Result], key: str, show: Callable[[Any], str]) -> str:
    return " / ".join("-" if result.get(key) is None else show(result[key]) for result in results)
