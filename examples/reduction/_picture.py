"""Picture of the leaderboard: accuracy by the share of kept nodes, one panel per dataset."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path

from _published import RATIOS, published
from _results import Result, Results

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs" / "_tools"))

from svg import COLOURS, FAINT, INK, document, element, number, text

NAME = "leaderboard.svg"
WIDTH, HEIGHT, LEFT, TOP, COLUMNS = 200, 170, 26, 24, 4
"""Size of a panel with its margins, space for labels, and panels per row."""
PLACE = {0.5: 0.0, 0.3: 0.5, 0.1: 1.0}
"""Position of a ratio on the horizontal axis."""
MODEL = "GCN"
LOWEST = 0.7
"""The axis starts at this share of the accuracy on the full graph. Lower values are drawn at the lower edge."""
OTHER_SPLIT = ("DBLP",)
"""Datasets whose published values cannot be compared."""
FULL: dict[str, object] = {"stroke": INK, "stroke_width": 1.5, "stroke_dasharray": "5 3"}
BEST: dict[str, object] = {"stroke": COLOURS[0], "stroke_width": 2.6}
METHOD: dict[str, object] = {"stroke": FAINT, "stroke_width": 1.2, "stroke_opacity": 0.5}
RANDOM: dict[str, object] = {"stroke": COLOURS[1], "stroke_width": 1.4, "stroke_dasharray": "1.5 3"}
GRID: dict[str, object] = {"stroke": FAINT, "stroke_width": 1, "stroke_opacity": 0.35}


def draw(cells: Mapping[str, Result]) -> str:
    """Return the picture as SVG."""
    results = Results(cells)
    names = [name for name in results.datasets if results.full(name, MODEL)]
    body = []
    for place, name in enumerate(names):
        x, y = WIDTH * (place % COLUMNS), HEIGHT * (place // COLUMNS)
        body.append(element("g", _panel(results, name), transform=f"translate({x} {y})"))
    x, y = WIDTH * (len(names) % COLUMNS), HEIGHT * (len(names) // COLUMNS)
    body.append(element("g", _legend(), transform=f"translate({x} {y})"))
    height = HEIGHT * (len(names) // COLUMNS + 1)
    return document(WIDTH * COLUMNS, height, "Accuracy of a GCN trained on coarse graphs", body)


def _legend() -> str:
    """Return the lines with their meaning, in a panel of its own."""
    lines = {
        "best by validation": BEST,
        "other methods": METHOD,
        "random clusters": RANDOM,
        "full graph": FULL,
    }
    parts, y = [], TOP + 10.0
    for name, style in lines.items():
        parts += [_path([(LEFT, y - 4), (LEFT + 24, y - 4)], style), text(name, LEFT + 32, y)]
        y += 20
    return "".join([*parts, _diamond(LEFT + 12, y - 4), text("best published", LEFT + 32, y)])


def _panel(results: Results, dataset: str) -> str:
    full = results.full(dataset, MODEL)
    assert full is not None
    level = statistics.fmean(full["test"])
    high = 10 * math.ceil(max(level, *_values(results, dataset)) / 10)
    low = 10 * math.floor(LOWEST * level / 10)
    right, bottom = WIDTH - 14, HEIGHT - 26

    def point(ratio: float, value: float) -> tuple[float, float]:
        share = (min(max(value, low), high) - low) / (high - low)
        return LEFT + 8 + PLACE[ratio] * (right - LEFT - 16), bottom - share * (bottom - TOP)

    parts = [text(dataset, LEFT, TOP - 8, font_weight=600)]
    for value in range(low, high + 1, 10):
        y = point(0.5, value)[1]
        parts.append(_path([(LEFT, y), (right, y)], GRID))
        parts.append(text(str(value), LEFT - 4, y + 4, text_anchor="end", font_size=10))
    for ratio in PLACE:
        parts.append(
            text(f"{ratio:g}", point(ratio, low)[0], bottom + 14, text_anchor="middle", font_size=10)
        )
    y = point(0.5, level)[1]
    parts.append(_path([(LEFT, y), (right, y)], FULL))
    for method in results.methods(dataset):
        line = [
            point(ratio, statistics.fmean(result["test"]))
            for ratio in PLACE
            if (result := results.runs.get((dataset, method, ratio, MODEL)))
        ]
        parts.append(_path(line, RANDOM if method == "random" else METHOD))
    best = {ratio: results.best(dataset, ratio, MODEL) for ratio in PLACE}
    chosen = [point(ratio, statistics.fmean(found[1]["test"])) for ratio, found in best.items() if found]
    parts.append(_path(chosen, BEST))
    parts += [element("circle", cx=x, cy=y, r=3.2, fill=COLOURS[0]) for x, y in chosen]
    for ratio in RATIOS if dataset not in OTHER_SPLIT else ():
        if found := published(dataset, ratio, MODEL, with_labels=False):
            parts.append(_diamond(*point(ratio, found[0])))
    return "".join(parts)


def _values(results: Results, dataset: str) -> list[float]:
    """Return the accuracies of the best methods, which must be inside of the panel."""
    found = [results.best(dataset, ratio, MODEL) for ratio in PLACE]
    return [statistics.fmean(best[1]["test"]) for best in found if best] or [0.0]


def _diamond(x: float, y: float) -> str:
    shape = f"M{number(x)} {number(y - 4.5)}l4.5 4.5l-4.5 4.5l-4.5 -4.5z"
    return element("path", d=shape, fill="none", stroke=COLOURS[3], stroke_width=1.4)


def _path(points: list[tuple[float, float]], style: Mapping[str, object]) -> str:
    """Return a line through points."""
    if not points:
        return ""
    shape = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)
    return element("path", d=shape, fill="none", stroke_linejoin="round", **style)
