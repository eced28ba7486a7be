"""Histograms and line charts as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.inspect.report.markup import Markup, number, tag
from tgp.inspect.report.numbers import count_text, figure_text, share_text
from tgp.inspect.report.palette import COLOURS

__all__ = ["Histogram", "count_histogram", "curves", "draw_histogram", "named_histogram", "share_histogram"]

_BINS = 24
_WIDTH, _HEIGHT, _BASE, _TOP = 240, 92, 72, 17
_SKEW = 8
"""A largest value so many times the median calls for a logarithmic axis."""

_WIDEST = 36
"""Bars are no wider, so that two of them do not fill the chart."""

_LETTER = 0.036
"""Width of a letter of a label as a share of the axis, on narrow pages, where letters are largest."""

_LABELLED = 8
"""So many bars have room for a short label each."""

Tick = tuple[float, str]


@dataclass(frozen=True)
class Histogram:
    """Counts per bin, what each bin is called, labels of the axis at places between 0 and 1, a note on the axis."""

    counts: tuple[int, ...]
    names: tuple[str, ...]
    ticks: tuple[Tick, ...]
    scale: str = ""


def named_histogram(counts: Sequence[int], names: Sequence[str]) -> Histogram:
    """A bar for each name, with the name below it."""
    ticks = tuple(((i + 0.5) / len(names), name) for i, name in enumerate(names))
    return Histogram(tuple(counts), tuple(names), ticks)


def count_histogram(values: npt.NDArray[Any]) -> Histogram | None:
    """Whole numbers in at most 24 bins, ``None`` if there is nothing to see.

    Bins have equal width, or equal ratio where some values are far larger than most.
    """
    if values.size < 2:
        return None
    low, high = int(values.min()), int(values.max())
    # Edges that are stored in both directions come in even numbers: bins for odd ones would all be empty.
    stride = max(int(np.gcd.reduce(values - low)), 1)
    steps = (high - low) // stride + 1
    skewed = steps > _BINS and high > _SKEW * max(float(np.median(values)), 1.0)
    if skewed:
        starts = np.unique(np.geomspace(low + 1, high + 2, _BINS + 1).astype(np.int64) - 1)[:-1]
    else:
        starts = np.arange(low, high + 1, stride * -(-steps // _BINS))
    counts = np.bincount(np.searchsorted(starts, values, side="right") - 1, minlength=len(starts)).tolist()
    ends = [*(starts[1:] - stride).tolist(), high]
    names = [
        count_text(a) if a >= b else f"{count_text(a)}–{count_text(b)}"
        for a, b in zip(starts.tolist(), ends, strict=True)
    ]
    if len(names) == 1 or (len(names) <= _LABELLED and all(len(name) <= 3 for name in names)):
        return named_histogram(counts, names)
    bounds = np.append(starts, starts[-1] + (starts[-1] - starts[-2]) if not skewed else high + 1)

    def place(value: float) -> float:
        # The middle of the values that round to it.
        return float(np.interp(value + (0 if skewed else stride / 2), bounds, np.arange(len(bounds)))) / len(
            names
        )

    between = 10 ** np.arange(1, 18, dtype=np.float64) if skewed else _round_values(low, high)
    ticks = _ticks([(place(v), count_text(v)) for v in between if low < v < high], low, high)
    return Histogram(tuple(counts), tuple(names), ticks, "log scale" if skewed else "")


def _round_values(low: float, high: float) -> npt.NDArray[np.float64]:
    """Round numbers between ``low`` and ``high``, about four of them."""
    raw = max((high - low) / 4, 1e-9)
    unit = 10 ** np.floor(np.log10(raw))
    step = unit * next(m for m in (1, 2, 5, 10) if m * unit >= raw)
    return np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step


def _ticks(between: Sequence[Tick], low: int, high: int) -> tuple[Tick, ...]:
    """The ends, and what fits between them without touching."""
    first, last = count_text(low), count_text(high)
    found: list[Tick] = [(0.0, first)]
    end = _LETTER * (len(first) + 1)
    for at, name in between:
        half = _LETTER * len(name) / 2
        if at - half >= end and at + half <= 1 - _LETTER * (len(last) + 1):
            found.append((at, name))
            end = at + half + _LETTER
    return (*found, (1.0, last))


def share_histogram(values: npt.NDArray[Any]) -> Histogram | None:
    """Shares between 0 and 1 in 20 bins; larger ones go into the last."""
    if values.size < 2:
        return None
    bins = 20
    counts = np.bincount(
        np.minimum((np.clip(values, 0, 1) * bins).astype(np.int64), bins - 1), minlength=bins
    )
    names = [f"{100 * i // bins}–{100 * (i + 1) // bins} %" for i in range(bins)]
    ticks = ((0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %"))
    return Histogram(tuple(counts.tolist()), tuple(names), ticks)


def draw_histogram(histogram: Histogram | None, title: str, unit: str) -> Markup | None:
    """Bars over a line; each tells its count when pointed at. A single value is a sentence instead."""
    if histogram is None or not any(histogram.counts):
        return None
    top = max(histogram.counts)
    if len(histogram.counts) == 1:
        alone = tag("p", tag("b", histogram.names[0]), f" in all {count_text(top)} {unit}", class_="alone")
        return tag("figure", tag("figcaption", title), alone, class_="chart")
    step = min(_WIDTH / len(histogram.counts), _WIDEST)
    across = step * len(histogram.counts)
    gap = min(2.0, step * 0.15)
    bars = []
    for i, (count, name) in enumerate(zip(histogram.counts, histogram.names, strict=True)):
        if count:
            height = max(1.5, (_BASE - _TOP) * count / top)
            bar = tag("title", f"{name}: {count_text(count)} {unit}")
            bars.append(
                tag("rect", bar, x=number(i * step + gap / 2), y=number(_BASE - height),
                    width=number(max(step - gap, 1)), height=number(height), rx=1)
            )  # fmt: skip
    low, high = histogram.ticks[0][1], histogram.ticks[-1][1]
    svg = tag(
        "svg",
        tag("title", f"{title}: from {low} to {high}, at most {count_text(top)} {unit}"),
        tag("line", x1=0, x2=number(across), y1=_TOP, y2=_TOP, class_="grid"),
        tag("text", f"{count_text(top)} {unit}", x=0, y=_TOP - 5, class_="top"),
        tag("g", bars, class_="bars"),
        tag("line", x1=0, x2=number(across), y1=_BASE, y2=_BASE, class_="axis"),
        [_tick(place, name, across) for place, name in histogram.ticks],
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        class_="histogram",
    )
    note = tag("small", f", {histogram.scale}") if histogram.scale else None
    return tag("figure", tag("figcaption", title, note), svg, class_="chart")


def _tick(place: float, name: str, across: float) -> Markup:
    """A label below the axis, kept inside the chart at its ends."""
    anchor = {0.0: None, 1.0: "end"}.get(place, "middle")
    return tag("text", name, x=number(place * across), y=_BASE + 15, text_anchor=anchor)


def curves(title: str, series: Sequence[tuple[str, Sequence[float | None]]]) -> Markup | None:
    """Shares by level, one line per hierarchy, from 100 % at the input graphs."""
    lines = [(i, name, values) for i, (name, values) in enumerate(series) if _known(values) > 1]
    if not lines:
        return None
    steps = max(len(values) for _, _, values in lines) - 1
    top = max(1.0, max(v for _, _, values in lines for v in values if v is not None))
    left, right, high, base = 46, 494, 14, 190

    def at(step: int, value: float) -> tuple[float, float]:
        return left + (right - left) * step / steps, base - (base - high) * value / top

    parts = []
    for share in _round_values(0.0, top).tolist() if top > 1 else (0.0, 0.25, 0.5, 0.75, 1.0):
        _, y = at(0, share)
        parts.append(tag("line", x1=left, x2=right, y1=number(y), y2=number(y), class_="grid"))
        label = f"{100 * share:.0f} %"
        parts.append(tag("text", label, x=left - 8, y=number(y + 4), text_anchor="end"))
    for step in range(steps + 1):
        label = "input" if step == 0 else str(step - 1) if steps > 6 else f"level {step - 1}"
        parts.append(tag("text", label, x=number(at(step, 0)[0]), y=base + 18, text_anchor="middle"))
    for place, name, values in lines:
        points = [(step, *at(step, v), v) for step, v in enumerate(values) if v is not None]
        path = "L".join(f"{number(x)} {number(y)}" for _, x, y, _ in points)
        dots = [
            tag("circle", tag("title", f"{name}, {_level_name(step)}: {share_text(v)}"),
                cx=number(x), cy=number(y), r=4)
            for step, x, y, v in points
        ]  # fmt: skip
        parts.append(tag("g", tag("path", d=f"M{path}"), dots, class_=_series(place)))
    last = ", ".join(f"{name} ends at {figure_text(100 * (v[-1] or 0))} %" for _, name, v in lines)
    svg = tag(
        "svg", tag("title", f"{title}: {last}"), parts, viewBox="0 0 520 216", role="img", class_="curves"
    )
    key = tag("ul", [tag("li", _sample(place), name) for place, name, _ in lines], class_="key")
    return tag("figure", tag("figcaption", title), svg, key, class_="chart wide")


def _known(values: Sequence[float | None]) -> int:
    return sum(value is not None for value in values)


def _series(place: int) -> str:
    """Classes of a line. Dashes change faster than colours come back: lines that coincide or share a colour differ."""
    return f"series c{place % COLOURS} d{place % 3}"


def _sample(place: int) -> Markup:
    """A piece of a line for the key."""
    drawn = tag("g", tag("path", d="M2 6H28"), tag("circle", cx=15, cy=6, r=4), class_=_series(place))
    return tag("svg", drawn, viewBox="0 0 30 12", aria_hidden="true")


def _level_name(step: int) -> str:
    return "input" if step == 0 else f"level {step - 1}"
