"""Histograms and line charts as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.report.markup import Markup, number, tag
from tgp.report.numbers import count_text, figure_text, share_text

__all__ = ["Histogram", "count_histogram", "curves", "draw_histogram", "share_histogram"]

_BINS = 24
_WIDTH, _HEIGHT, _BASE = 240, 88, 68
_SKEW = 8
"""A largest value so many times the median calls for a logarithmic axis."""

_WIDEST = 30
"""Bars are no wider, so that two of them do not fill the chart."""


@dataclass(frozen=True)
class Histogram:
    """Counts per bin, what each bin is called, the labels under the first and the last bar, and a note on the axis."""

    counts: tuple[int, ...]
    names: tuple[str, ...]
    low: str
    high: str
    scale: str = ""


def count_histogram(values: npt.NDArray[Any]) -> Histogram | None:
    """Whole numbers in at most 24 bins, ``None`` if there is nothing to see.

    Bins have equal width, or equal ratio where some values are far larger than most.
    """
    if values.size < 2:
        return None
    low, high = int(values.min()), int(values.max())
    skewed = high - low > _BINS and high > _SKEW * max(float(np.median(values)), 1.0)
    if skewed:
        starts = np.unique(np.geomspace(low + 1, high + 2, _BINS + 1).astype(np.int64) - 1)[:-1]
    else:
        starts = np.arange(low, high + 1, -(-(high - low + 1) // _BINS))
    counts = np.bincount(np.searchsorted(starts, values, side="right") - 1, minlength=len(starts))
    ends = [*(starts[1:] - 1).tolist(), high]
    names = [
        count_text(a) if a == b else f"{count_text(a)}–{count_text(b)}"
        for a, b in zip(starts.tolist(), ends, strict=True)
    ]
    scale = "log scale" if skewed else ""
    return Histogram(tuple(counts.tolist()), tuple(names), count_text(low), count_text(high), scale)


def share_histogram(values: npt.NDArray[Any]) -> Histogram | None:
    """Shares between 0 and 1 in 20 bins; larger ones go into the last."""
    if values.size < 2:
        return None
    bins = 20
    counts = np.bincount(
        np.minimum((np.clip(values, 0, 1) * bins).astype(np.int64), bins - 1), minlength=bins
    )
    names = [f"{share_text(i / bins)} to {share_text((i + 1) / bins)}" for i in range(bins)]
    return Histogram(tuple(counts.tolist()), tuple(names), "0", "1")


def draw_histogram(histogram: Histogram | None, title: str, unit: str) -> Markup | None:
    """Bars over a line; each tells its count when pointed at."""
    if histogram is None or not any(histogram.counts):
        return None
    top = max(histogram.counts)
    step = min(_WIDTH / len(histogram.counts), _WIDEST)
    gap = min(2.0, step * 0.15)
    bars = []
    for i, (count, name) in enumerate(zip(histogram.counts, histogram.names, strict=True)):
        if count:
            height = max(1.5, (_BASE - 16) * count / top)
            bar = tag("title", f"{name}: {count_text(count)} {unit}")
            bars.append(
                tag("rect", bar, x=number(i * step + gap / 2), y=number(_BASE - height),
                    width=number(max(step - gap, 1)), height=number(height), rx=1)
            )  # fmt: skip
    labels = _labels(histogram, step)
    labels.append(tag("text", count_text(top), x=_WIDTH, y=9, text_anchor="end", class_="top"))
    svg = tag(
        "svg",
        tag("title", f"{title}: from {histogram.low} to {histogram.high}, at most {count_text(top)} {unit}"),
        tag("line", x1=0, x2=_WIDTH, y1=_BASE, y2=_BASE, class_="axis"),
        tag("g", bars, class_="bars"),
        labels,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        class_="histogram",
    )
    note = tag("small", f", {histogram.scale}") if histogram.scale else None
    return tag("figure", tag("figcaption", title, note), svg, class_="chart")


def _labels(histogram: Histogram, step: float) -> list[Markup]:
    """Below the axis: every bar if they are few and wide, else the ends."""
    y, names = _BASE + 15, histogram.names
    if step == _WIDEST and all(len(name) <= 3 for name in names):
        return [
            tag("text", name, x=number((i + 0.5) * step), y=y, text_anchor="middle")
            for i, name in enumerate(names)
        ]
    first = tag("text", histogram.low, x=0, y=y)
    if histogram.high == histogram.low:
        return [first]
    return [first, tag("text", histogram.high, x=number(step * len(names)), y=y, text_anchor="end")]


def curves(title: str, series: Sequence[tuple[str, Sequence[float | None]]]) -> Markup | None:
    """Shares by level, one line per hierarchy, from 100 % at the input graphs."""
    lines = [(name, values) for name, values in series if len(values) > 1]
    if not lines:
        return None
    steps = max(len(values) for _, values in lines) - 1
    top = max(1.0, max(v for _, values in lines for v in values if v is not None))
    left, right, high, base = 44, 496, 14, 190

    def at(step: int, value: float) -> tuple[float, float]:
        return left + (right - left) * step / steps, base - (base - high) * value / top

    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0) if top <= 1.2 else np.linspace(0, top, 5).tolist():
        _, y = at(0, share)
        parts.append(tag("line", x1=left, x2=right, y1=number(y), y2=number(y), class_="grid"))
        label = f"{100 * share:.0f} %"
        parts.append(tag("text", label, x=left - 8, y=number(y + 4), text_anchor="end"))
    for step in range(steps + 1):
        label = "input" if step == 0 else str(step - 1)
        parts.append(tag("text", label, x=number(at(step, 0)[0]), y=base + 18, text_anchor="middle"))
    for place, (name, values) in enumerate(lines):
        points = [(step, *at(step, v), v) for step, v in enumerate(values) if v is not None]
        path = "L".join(f"{number(x)} {number(y)}" for _, x, y, _ in points)
        dots = [
            tag("circle", tag("title", f"{name}, {_level_name(step)}: {share_text(v)}"),
                cx=number(x), cy=number(y), r=4)
            for step, x, y, v in points
        ]  # fmt: skip
        parts.append(tag("g", tag("path", d=f"M{path}"), dots, class_=f"series s{place % 10}"))
    last = ", ".join(f"{name} ends at {figure_text(100 * (v[-1] or 0))} %" for name, v in lines)
    svg = tag(
        "svg", tag("title", f"{title}: {last}"), parts, viewBox="0 0 520 216", role="img", class_="curves"
    )
    key = tag(
        "ul",
        [tag("li", tag("i", class_=f"s{i % 10}"), name) for i, (name, _) in enumerate(lines)],
        class_="key",
    )
    return tag("figure", tag("figcaption", title), svg, key, class_="chart wide")


def _level_name(step: int) -> str:
    return "input" if step == 0 else f"level {step - 1}"
