"""Statistics, table and figure of the study."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _tables import markdown
from scipy.stats import t

LEVEL = 0.95
BASELINE = "flat"
INK = "#7d828a"
COLOURS = {"no pooling": INK, "stored levels": "#3a86d8", "trainable pooler": "#d9731a"}
"""Colours that are readable on white and on dark pages."""
STYLE: dict[str, Any] = {
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "tgp",
}
"""Text is stored as text, and the file is reproducible."""


@dataclass(frozen=True)
class Row:
    """Results of one method.

    Args:
        name: Name of the method.
        kind: How it pools.
        runs: Results by seed.
        cost: Measured cost, empty if it was not measured.
    """

    name: str
    kind: str
    runs: Mapping[int, Mapping[str, Any]]
    cost: Mapping[str, Any]


def interval(values: Sequence[float], overlap: float = 0.0) -> tuple[float, float]:
    """Return the mean and half the width of its 95 % confidence interval.

    The interval is mean ± t * s * sqrt(1 / n + overlap). t is the quantile of Student's distribution with n - 1 degrees of
    freedom, and s the sample standard deviation.

    Args:
        values: One value per run.
        overlap: Correction of Nadeau and Bengio (2003) for runs whose training graphs overlap: number of test graphs
            divided by the number of training graphs. 0 gives the usual interval for independent runs.

    Returns:
        Mean and half width. The half width of a single value is NaN.
    """
    n, mean = len(values), statistics.fmean(values)
    if n < 2:
        return mean, math.nan
    spread = statistics.stdev(values) * math.sqrt(1 / n + overlap)
    return mean, float(t.ppf(0.5 + LEVEL / 2, n - 1)) * spread


def choose(trials: Sequence[Mapping[str, Any]]) -> int:
    """Return the position of the trial with the lowest validation loss, the first one if there are several."""
    return min(range(len(trials)), key=lambda place: trials[place]["val_loss"])


def differences(row: Row, baseline: Row) -> tuple[list[float], float]:
    """Return the differences to the baseline over common seeds, and the overlap for :func:`interval`."""
    pairs = [(run, baseline.runs[seed]) for seed, run in row.runs.items() if seed in baseline.runs]
    overlap = statistics.fmean(run["num_test"] / run["num_train"] for run, _ in pairs)
    return [run["value"] - other["value"] for run, other in pairs], overlap


def table(rows: Sequence[Row]) -> str:
    """Return a table of accuracies, a line that counts differences, and a table of costs. Methods without runs are left out."""
    rows = [row for row in rows if row.runs]
    if not rows:
        return "No run is finished yet.\n"
    baseline = next((row for row in rows if row.name == BASELINE), None)
    gaps = {row.name: interval(*differences(row, baseline)) for row in compared(rows, baseline)}
    lines = []
    for row in rows:
        runs = list(row.runs.values())
        settings = Counter(", ".join(map(str, run["setting"].values())) for run in runs)
        chosen, count = settings.most_common(1)[0]
        accuracy, gap = _show(interval([run["value"] for run in runs])), _show(gaps.get(row.name), "+")
        validation = f"{statistics.fmean(run['val'] for run in runs):.1f}"
        lines.append([row.name, row.kind, accuracy, gap, validation, f"{chosen} ({count})", len(runs)])
    head = [
        "method",
        "pooling",
        "test accuracy, %",
        f"difference to {BASELINE}, points",
        "validation accuracy, %",
    ]
    head += [f"{', '.join(runs[0]['setting'])} chosen most often", "runs"]
    clear = sum(abs(mean) > half for mean, half in gaps.values())
    note = f"{clear} of {len(gaps)} intervals of the difference to {BASELINE} exclude 0.\n"
    return "\n".join([markdown(head, lines), *([note] if gaps else []), _costs(rows)])


def compared(rows: Sequence[Row], baseline: Row | None) -> list[Row]:
    """Return the rows that have a run in common with the baseline, without the baseline."""
    others = [row for row in rows if baseline is not None and row is not baseline]
    return [row for row in others if baseline is not None and row.runs.keys() & baseline.runs.keys()]


def _show(found: tuple[float, float] | None, sign: str = "") -> str:
    if found is None:
        return "-"
    mean, half = found
    return f"{mean:{sign}.1f}" + ("" if math.isnan(half) else f" ± {half:.1f}")


def _costs(rows: Sequence[Row]) -> str:
    lines = [
        [
            row.name,
            f"{row.cost['epoch_s']:.3f}",
            f"{row.cost['step_mb']:.1f}",
            f"{row.cost['parameters']:,}",
            f"{row.cost['level_s']:.2f}" if row.cost["level_s"] else "-",
            f"{sum(run['seconds'] for run in row.runs.values()):,.0f}",
        ]
        for row in rows
        if row.cost
    ]
    head = ["method", "s per epoch", "MB per step", "parameters", "levels of all graphs, s", "all runs, s"]
    return markdown(head, lines) if lines else ""


def figure(rows: Sequence[Row], path: Path) -> None:
    """Draw accuracies, differences to the baseline, and seconds per epoch.

    Raises:
        ImportError: If matplotlib is not installed (``pip install 'tgp-coarsen[plot]'``).
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    rows = [row for row in rows if row.runs]
    baseline = next((row for row in rows if row.name == BASELINE), None)
    with rc_context(STYLE):
        made = Figure(figsize=(9, 1.3 + 0.32 * len(rows)), layout="constrained")
        panels = made.subplots(1, 3, sharey=True, width_ratios=(1.2, 1.2, 0.8))
        for place, row in enumerate(rows):
            colour, values = COLOURS[row.kind], [run["value"] for run in row.runs.values()]
            panels[0].plot(values, [place] * len(values), "o", color=colour, alpha=0.3, ms=4, mew=0)
            points = [interval(values)]
            if baseline is not None and compared([row], baseline):
                points.append(interval(*differences(row, baseline)))
            for axes, (mean, half) in zip(panels, points, strict=False):
                axes.errorbar(
                    mean, place, xerr=0 if math.isnan(half) else half, fmt="o", color=colour, capsize=3, ms=5
                )
            if row.cost:
                panels[2].barh(place, row.cost["epoch_s"], color=colour, height=0.6)
        panels[0].set(yticks=range(len(rows)), yticklabels=[row.name for row in rows])
        panels[0].invert_yaxis()
        panels[1].axvline(0, color=INK, lw=0.8, ls=":")
        titles = ("test accuracy, %", f"difference to {BASELINE}, points", "processor s per epoch")
        for axes, title in zip(panels, titles, strict=True):
            axes.set_xlabel(title)
        patches = [Patch(color=COLOURS[kind], label=kind) for kind in dict.fromkeys(row.kind for row in rows)]
        made.legend(handles=patches, loc="outside upper center", ncols=len(patches), frameon=False)
        title = f"Accuracy, difference to {BASELINE} and time of an epoch"
        metadata = {"Date": None, "Title": title} if path.suffix == ".svg" else None
        made.savefig(path, transparent=True, metadata=metadata)
