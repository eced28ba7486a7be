"""Compute histograms and line charts: bins, labels and coordinates. Templates turn them into SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tgp.inspect.numbers import count_text, figure_text, share_text
from tgp.inspect.report.palette import COLOURS

__all__ = [
    "Bar",
    "CurveChart",
    "CurveLine",
    "CurvePoint",
    "Histogram",
    "count_histogram",
    "coordinate",
    "curve_chart",
    "level_name",
    "named_histogram",
    "share_histogram",
]

_BINS = 24
"""Largest number of bins of a histogram of counts."""

_SKEW = 8
"""Ratio of the largest value to the median from which on the axis is logarithmic."""

_WIDEST = 36
"""Largest width of a bar, so that two bars do not fill the chart."""

_LETTER = 0.036
"""Width of a letter as a share of the axis, on narrow pages, where letters are largest."""

_LABELLED = 8
"""Largest number of bars that have a label each."""

Tick = tuple[float, str]
"""Place on the axis between 0 and 1, and label."""


def coordinate(value: float) -> str:
    """Format a coordinate with at most one decimal.

    Examples:
        >>> coordinate(2.0), coordinate(-0.04), coordinate(1.25)
        ('2', '0', '1.2')
    """
    text = f"{value:.1f}"
    return "0" if text == "-0.0" else text.removesuffix(".0")


def level_name(level: int) -> str:
    """Return the name of a level: ``level 0 (input)`` for the input graph, ``level 1`` for the first pooled graph."""
    return "level 0 (input)" if level == 0 else f"level {level}"


@dataclass(frozen=True)
class Bar:
    """A bar of a histogram: its rectangle, the name of its bin and the count."""

    x: float
    y: float
    width: float
    height: float
    name: str
    count: int


@dataclass(frozen=True)
class Histogram:
    """A histogram.

    Args:
        counts: count of each bin; at least one is positive.
        names: name of each bin.
        ticks: labels of the axis.
        scale: note about the scale of the axis.
    """

    WIDTH: ClassVar[int] = 240
    HEIGHT: ClassVar[int] = 98
    AXIS: ClassVar[int] = 78
    """Height of the horizontal axis."""
    CEILING: ClassVar[int] = 23
    """Height of the top of the highest bar."""

    counts: tuple[int, ...]
    names: tuple[str, ...]
    ticks: tuple[Tick, ...]
    scale: str = ""

    @property
    def top(self) -> int:
        """Largest count."""
        return max(self.counts)

    @property
    def left(self) -> float:
        """Left end of the horizontal axis. The largest count stands left of it."""
        return self.WIDTH * _LETTER * len(count_text(self.top)) + 6

    @property
    def width(self) -> float:
        """Width of all bars."""
        return self._step * len(self.counts)

    @property
    def _step(self) -> float:
        return min((self.WIDTH - self.left) / len(self.counts), _WIDEST)

    def bars(self) -> list[Bar]:
        """Return the bars that are not empty."""
        step = self._step
        gap = min(2.0, step * 0.15)
        found = []
        for i, (count, name) in enumerate(zip(self.counts, self.names, strict=True)):
            if count:
                height = max(1.5, (self.AXIS - self.CEILING) * count / self.top)
                x = self.left + i * step + gap / 2
                bar = Bar(x, self.AXIS - height, max(step - gap, 1), height, name, count)
                found.append(bar)
        return found


def named_histogram(counts: Sequence[int], names: Sequence[str]) -> Histogram:
    """Make a histogram with one labelled bar per name."""
    ticks = tuple(((i + 0.5) / len(names), name) for i, name in enumerate(names))
    return Histogram(tuple(counts), tuple(names), ticks)


def count_histogram(values: npt.NDArray[Any]) -> Histogram | None:
    """Make a histogram of whole numbers.

    Bins have equal width, or equal ratio if some values are far larger than most.

    Args:
        values: whole numbers.

    Returns:
        A histogram with at most 24 bins, or ``None`` if there are fewer than two values.
    """
    if values.size < 2:
        return None
    low, high = int(values.min()), int(values.max())
    # Edges that are stored in both directions have even counts; bins for odd counts would all be empty.
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
    half = 0 if skewed else stride / 2  # a label belongs to the middle of the values of its bin

    def place(value: float) -> float:
        return float(np.interp(value + half, bounds, np.arange(len(bounds)))) / len(names)

    between = 10 ** np.arange(1, 18, dtype=np.float64) if skewed else _round_values(low, high)
    ticks = _ticks([(place(v), count_text(v)) for v in between.tolist() if low < v < high], low, high)
    return Histogram(tuple(counts), tuple(names), ticks, "log scale" if skewed else "")


def _round_values(low: float, high: float) -> npt.NDArray[np.float64]:
    """Return about four round numbers between ``low`` and ``high``."""
    target = max((high - low) / 4, 1e-9)
    unit = float(10 ** np.floor(np.log10(target)))
    step = unit * next(m for m in (1, 2, 5, 10) if m * unit >= target)
    return np.arange(np.ceil(low / step), np.floor(high / step) + 1, dtype=np.float64) * step


def _ticks(between: Sequence[Tick], low: int, high: int) -> tuple[Tick, ...]:
    """Return the labels of both ends and those labels between them that do not overlap others."""
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
    """Make a histogram of shares between 0 and 1 with 20 bins. Larger values are counted in the last bin."""
    if values.size < 2:
        return None
    bins = 20
    counts = np.bincount(
        np.minimum((np.clip(values, 0, 1) * bins).astype(np.int64), bins - 1), minlength=bins
    )
    names = [f"{100 * i // bins}–{100 * (i + 1) // bins} %" for i in range(bins)]
    ticks = ((0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %"))
    return Histogram(tuple(counts.tolist()), tuple(names), ticks)


@dataclass(frozen=True)
class CurvePoint:
    """A point of a line, with the text that describes it."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class CurveLine:
    """A line of a chart.

    Args:
        name: name in the key.
        style: CSS classes. Dashes repeat after three lines and colours after eight, so lines that coincide or share a
            colour look different.
        points: points from left to right.
    """

    name: str
    style: str
    points: tuple[CurvePoint, ...]

    @property
    def path(self) -> str:
        """Path data of the SVG."""
        return "M" + "L".join(f"{coordinate(p.x)} {coordinate(p.y)}" for p in self.points)


@dataclass(frozen=True)
class CurveChart:
    """A line chart.

    Args:
        title: title.
        description: one sentence for readers who cannot see the chart.
        shares: height and label of each horizontal line.
        levels: place and label of each level.
        lines: the lines.
    """

    LEFT: ClassVar[int] = 46
    RIGHT: ClassVar[int] = 494
    CEILING: ClassVar[int] = 14
    AXIS: ClassVar[int] = 190
    HEIGHT: ClassVar[int] = 232

    title: str
    description: str
    shares: tuple[tuple[float, str], ...]
    levels: tuple[tuple[float, str], ...]
    lines: tuple[CurveLine, ...]


def curve_chart(title: str, series: Sequence[tuple[str, Sequence[float | None]]]) -> CurveChart | None:
    """Make a chart of shares by level with one line per hierarchy.

    Args:
        title: title of the chart.
        series: name and shares of each hierarchy; the first share is that of the input graphs.

    Returns:
        The chart, or ``None`` if no hierarchy has two known shares.
    """
    shown = [(i, name, values) for i, (name, values) in enumerate(series) if _count_known(values) > 1]
    if not shown:
        return None
    last = max(len(values) for _, _, values in shown) - 1
    top = max(1.0, max(v for _, _, values in shown for v in values if v is not None))

    def x(level: int) -> float:
        return CurveChart.LEFT + (CurveChart.RIGHT - CurveChart.LEFT) * level / last

    def y(share: float) -> float:
        return CurveChart.AXIS - (CurveChart.AXIS - CurveChart.CEILING) * share / top

    shares = _round_values(0.0, top).tolist() if top > 1 else [0.0, 0.25, 0.5, 0.75, 1.0]
    lines = []
    for place, name, values in shown:
        points = [
            CurvePoint(x(level), y(v), f"{name}, {level_name(level)}: {share_text(v)}")
            for level, v in enumerate(values)
            if v is not None
        ]
        lines.append(CurveLine(name, f"series c{place % COLOURS} d{place % 3}", tuple(points)))
    ends = ", ".join(f"{name} ends at {figure_text(100 * (v[-1] or 0))} %" for _, name, v in shown)
    return CurveChart(
        title,
        f"{title}: {ends}",
        tuple((y(share), f"{100 * share:.0f} %") for share in shares),
        tuple((x(n), "0 (input)" if n == 0 else str(n)) for n in range(last + 1)),
        tuple(lines),
    )


def _count_known(values: Sequence[float | None]) -> int:
    return sum(value is not None for value in values)
