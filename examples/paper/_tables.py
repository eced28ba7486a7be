"""Markdown tables that compare our results with the paper."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from _harness import Cell

Paper = Mapping[str, Mapping[str, tuple[float, float]]]
"""Values of the paper: ``{dataset: {pooler: (mean, standard deviation)}}``."""


def comparison(paper: Paper) -> Callable[[Sequence[Cell], Mapping[str, dict[str, Any]]], str]:
    """Return a function that renders a table per dataset: mean ± std of the paper, ours, and their difference."""

    def render(cells: Sequence[Cell], results: Mapping[str, dict[str, Any]]) -> str:
        groups: dict[str, dict[str, list[dict[str, Any]]]] = {}
        for cell in cells:
            runs = groups.setdefault(cell.dataset, {}).setdefault(cell.pooler, [])
            if cell.key in results:
                runs.append(results[cell.key])
        tables = [_one_dataset(name, rows, paper.get(name, {})) for name, rows in groups.items()]
        return "\n".join(table for table in tables if table)

    return render


def _one_dataset(name: str, rows: Mapping[str, Sequence[dict[str, Any]]], paper: Mapping[str, Any]) -> str:
    lines, distances = [], []
    for pooler, runs in rows.items():
        if not runs:
            continue
        values = [run["value"] for run in runs]
        mean, std = statistics.fmean(values), statistics.pstdev(values)
        published, difference = "-", "-"
        if pooler in paper:
            expected, spread = paper[pooler]
            published = f"{expected:g} ± {spread:g}"
            # The paper prints no decimals, so a standard deviation of 0 means less than 0.5.
            distances.append((mean - expected) / max(spread, 0.5))
            difference = f"{distances[-1]:+.1f}"
        seconds = statistics.fmean(run["seconds"] for run in runs)
        lines.append([pooler, published, f"{mean:.1f} ± {std:.1f}", difference, len(runs), f"{seconds:.1f}"])
    if not lines:
        return ""
    head = ["pooler", "paper", "ours", "difference in paper's stds", "runs", "s per run"]
    near = sum(abs(distance) <= 2 for distance in distances)
    line = f"{near} of {len(distances)} within two of the paper's standard deviations.\n"
    return f"### {name}\n\n{markdown(head, lines)}" + (f"\n{line}" if distances else "")


def markdown(head: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in [head, *rows]]
    lines.insert(1, "|" + "---|" * len(head))
    return "\n".join(lines) + "\n"
