"""Bar charts of docs/performance.md and other pages, drawn from the tables of these pages.

A chart names a table by its header and chooses rows and columns of it. The figures are in the tables only.
"""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from svg import COLOURS, FAINT, document, element, text

DOCS = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Chart:
    """A bar chart of some rows of a table.

    Attributes:
        title: title of the chart, with the unit.
        columns: first columns of the table; they identify it.
        label: column or columns with the label of a group of bars.
        bars: columns with the values of the bars of a group, and the names of the bars in the legend.
        where: values that a row must have, by column.
        names: label to show instead of one of the table.
        log: True for a logarithmic axis.
        better: which bars are better, ``"longer"`` or ``"shorter"``.
        ours: word in the labels of the bars of this library; other bars have another colour.
        page: path of the page with the table, relative to the folder of the pages.
    """

    title: str
    columns: tuple[str, ...]
    label: str | tuple[str, ...]
    bars: dict[str, str]
    where: dict[str, tuple[str, ...]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    log: bool = False
    better: str = "longer"
    ours: str = ""
    page: str = "performance.md"


SCHEDULE = ("set", "schedule", "graphs/s")
POOLERS = ("pooler", "ms tgp 2.0.0", "ms tgp 1.0.2")
EXTERNAL = ("edges", "nodes", "--memory", "cpu s")
EDGES = {f"2 * 10{power}": f"2 * 10{power} edges" for power in "⁶⁷⁸"}
LARGER = "guide/larger-than-memory.md"
NY = ("ndp", "graclus", "kmis", "sep", "nmf:k=8", "eigen:k=8")
CHARTS: dict[str, Chart] = {
    "engine": Chart(
        "Coarsening NCI1 on one core, graphs/s",
        SCHEDULE, "schedule", {"graphs/s": "tgp"}, {"set": ("NCI1",)}, log=True,
    ),
    "transform": Chart(
        "PreCoarsening on MUTAG, graph by graph, graphs/s",
        ("transform", "tgp 2.0.0", "tgp 1.0.2"), "transform",
        {"tgp 2.0.0": "tgp 2.0.0", "tgp 1.0.2": "tgp 1.0.2"},
    ),
    "large": Chart(
        "One level of the roads of New York, seconds",
        ("graph", "edges", "method", "wall s"), "method", {"wall s": "tgp"}, {"graph": ("NY",)}, log=True, better="shorter",
    ),
    "before-store": Chart(
        "Loading NCI1, three levels, graphs/s",
        ("graphs per second from a store", "before", "after"), "graphs per second from a store",
        {"before": "before", "after": "after"},
        {"graphs per second from a store": tuple(f"NCI1, levels 3, batch {size}, workers 0" for size in (32, 128, 512))},
        {f"NCI1, levels 3, batch {size}, workers 0": f"batches of {size}" for size in (32, 128, 512)},
    ),
    "before-large": Chart(
        "One level of the roads of New York, processor s",
        ("one level on large graphs, processor s", "before", "after"), "one level on large graphs, processor s",
        {"before": "before", "after": "after"},
        {"one level on large graphs, processor s": tuple(f"NY, {name}" for name in NY)},
        {f"NY, {name}": name for name in NY}, log=True, better="shorter",
    ),
    "threads": Chart(
        "One large graph with one and two threads, ms",
        ("graph", "step", "1 thread, ms"), ("step", "graph"), {"1 thread, ms": "1 thread", "2 threads, ms": "2 threads"},
        {"step": ("contraction", "hem")}, better="shorter", log=True,
    ),
    "carry": Chart(
        "A million nodes, graclus*3: processor seconds",
        ("graph", "version", "coarsening, s"), "graph",
        {"coarsening, s": "coarsening", "+ pos, s": "+ pos", "+ edge_attr, s": "+ edge_attr", "+ both, s": "+ both"},
        {"version": ("now",)}, {"random": "random edges", "local": "edges between near nodes"}, better="shorter",
    ),
    "first-run": Chart(
        "tgp coarsen on 500 molecules, wall seconds",
        ("first run", "version", "cold: wall s"), ("first run", "version"),
        {"cold: wall s": "nothing compiled", "warm: wall s": "compiled kernels on disk"}, log=True, better="shorter",
    ),
    "communities": Chart(
        "Communities of Physics, million edges/s",
        ("graph", "step", "library"), "library", {"M edges/s": "speed"},
        {"graph": ("Physics",), "step": ("communities",)}, ours="tgp",
    ),
    "contraction": Chart(
        "Weighted contraction, processor time in ms",
        ("graph", "edges", "gather", "tgp", "scipy"), "graph",
        {"tgp": "tgp", "scipy": "scipy", "scipy, S.T given": "scipy, S.T given"}, better="shorter", log=True,
    ),
    "workers": Chart(
        "tgp coarsen with one and two processes, wall s",
        ("schedule", "graphs", "one: wall s"), "schedule",
        {"one: wall s": "one process", "two: wall s": "two processes"}, better="shorter",
    ),
    "external-memory": Chart(
        "Five levels of RMAT graphs: anonymous memory",
        EXTERNAL, "edges", {"anonymous memory": "with --memory", "in memory": "in memory"},
        names=EDGES, better="shorter", log=True, page=LARGER,
    ),
    "external-time": Chart(
        "Five levels of RMAT graphs: processor seconds",
        EXTERNAL, "edges", {"cpu s": "with --memory", "in memory: cpu s": "in memory"},
        names=EDGES, better="shorter", log=True, page=LARGER,
    ),
    "peers": Chart(
        "A grid of a million nodes, million edges/s",
        ("graph", "step", "library"), ("step", "library"), {"M edges/s": "speed"},
        {"graph": ("grid 1000000",), "step": ("contraction", "match + contract")}, ours="tgp",
    ),
    "training": Chart(
        "NCI1, two levels of NDP: seconds per epoch",
        ("levels", "s per epoch"), "levels", {"s per epoch": "time"},
        names={"store": "levels from a store", "online": "levels computed in every step",
               "no levels": "no levels, all layers on the input graphs"},
        better="shorter", ours="store",
    ),
    "loading": Chart(
        "Loading NCI1, batches of 128, no workers, graphs/s",
        ("data", "levels", "batch", "workers"), "levels",
        {"store (disk)": "store", "list with levels": "list with levels", "PyG, no levels": "PyG without levels",
         "PyG OnDisk, no levels": "PyG OnDisk without levels"},
        {"data": ("NCI1",), "batch": ("128",), "workers": ("0",)}, {"1": "1 level", "3": "3 levels"},
    ),
    "trainable": Chart(
        "Forward and backward, 64 graphs, ms",
        POOLERS, "pooler", {"ms tgp 2.0.0": "tgp 2.0.0", "ms tgp 1.0.2": "tgp 1.0.2"}, better="shorter",
        where={"pooler": ("topk", "sag", "asap", "ec", "maxcut", "diff", "mincut", "dmon", "jb", "hosc", "bnpool", "acc", "lap")},
    ),
    "pyg": Chart(
        "Forward and backward on Cora, ms",
        ("tgp / PyG", "tgp ms", "PyG ms"), "tgp / PyG", {"Cora: tgp ms": "tgp", "Cora: PyG ms": "PyG"}, better="shorter", log=True,
    ),
    "flat": Chart(
        "256 graphs, forward and backward, ms",
        ("256 graphs", "flat ms", "loop ms"), "256 graphs", {"flat ms": "flat", "loop ms": "loop over the graphs"}, better="shorter",
    ),
}  # fmt: skip
"""Charts of the pages, by file name."""


SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def _cells(line: str) -> list[str]:
    line = re.sub(r"<sup>(\d+)</sup>", lambda power: power[1].translate(SUPERSCRIPTS), line.replace("`", ""))
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def find_table(page: str, columns: tuple[str, ...], name: str = "docs/performance.md") -> list[list[str]]:
    """Return the table whose header starts with the given columns: the header, then its rows.

    Args:
        page: text of the page.
        columns: first columns of the table.
        name: name of the page for error messages.

    Raises:
        SystemExit: If there is not exactly one such table.
    """
    blocks = re.findall(r"(?:^\|.*\n?)+", page, flags=re.M)
    tables = [[_cells(line) for line in block.splitlines()] for block in blocks]
    found = [table for table in tables if tuple(table[0][: len(columns)]) == columns]
    if len(found) != 1:
        raise SystemExit(f"{name} must have one table with the columns {columns}, got {len(found)}")
    return [found[0][0], *found[0][2:]]


def read_chart(chart: Chart, page: str) -> list[tuple[str, list[str]]]:
    """Return label and cells of each group of bars.

    Raises:
        SystemExit: If a column or row is missing.
    """
    head, *rows = find_table(page, chart.columns, f"docs/{chart.page}")
    # A header may repeat a name; the last column of that name belongs to the second half of the table.
    column = {name: place for place, name in enumerate(head)}
    label = [column[name] for name in ([chart.label] if isinstance(chart.label, str) else chart.label)]
    groups = []
    for row in rows:
        if all(row[column[name]] in allowed for name, allowed in chart.where.items()):
            words = ": ".join(chart.names.get(row[place], row[place]) for place in label)
            groups.append((words.removesuffix(", per graph"), [row[column[name]] for name in chart.bars]))
    if not groups:
        raise SystemExit(f"docs/{chart.page} has no row for the chart {chart.title!r}")
    return groups


UNITS = {None: 1.0, " kB": 1e-3, " MB": 1.0, " GB": 1e3}


def value_of(cell: str) -> float | None:
    """Return the number of a cell, in megabytes if it is a size, or ``None`` if there is none."""
    match = re.fullmatch(r"([\d,]+(?:\.\d+)?)( kB| MB| GB)?", cell)
    return float(match[1].replace(",", "")) * UNITS[match[2]] if match else None


LEFT, RIGHT, BAR, GAP, WIDTH = 8, 58, 13, 9, 400


def _length(value: float, low: float, high: float, log: bool, span: float) -> float:
    if log:
        return span * (math.log10(value) - math.log10(low)) / (math.log10(high) - math.log10(low))
    return span * value / high


def draw_chart(chart: Chart, page: str) -> str:
    """Return a chart as SVG. Labels stand above their bars, so that bars have the full width of a narrow page."""
    groups = read_chart(chart, page)
    values = [value for _, cells in groups for cell in cells if (value := value_of(cell)) is not None]
    high = max(values)
    low = 10 ** math.floor(math.log10(min(values)) - 0.3) if chart.log else 0.0
    longest = max(len(cell) for _, cells in groups for cell in cells if value_of(cell) is not None)
    span = float(WIDTH - LEFT - max(RIGHT, 8 * longest + 4))
    body, y = [text(chart.title, LEFT, 16, font_size=13, font_weight=600)], 26.0
    if len(chart.bars) > 1:
        body.append(_legend(list(chart.bars.values()), y + 12))
        y += 20 if len(chart.bars) == 2 else 38
    note = f"{chart.better} bars are better" + (", logarithmic axis" if chart.log else "")
    body.append(text(note, LEFT, y + 10, font_size=11))
    y += 16
    top = y
    for label, cells in groups:
        y += GAP + 15
        body.append(text(label, LEFT, y - 4))
        for place, cell in enumerate(cells):
            value = value_of(cell)
            long = max(_length(value, low, high, chart.log, span), 1.0) if value is not None else 0.0
            colour = COLOURS[place] if len(chart.bars) > 1 or chart.ours in label else COLOURS[1]
            body.append(element("rect", x=LEFT, y=y, width=float(long), height=BAR, rx=2, fill=colour))
            body.append(text(cell, LEFT + long + 4, y + BAR - 2.5, font_size=11.5))
            y += BAR + 2
    ticks = _ticks(low, high, chart.log)
    lines = [
        element("path", d=f"M{LEFT + _length(t, low, high, chart.log, span):.1f} {top:g}V{y + 2:g}")
        for t in ticks
    ]
    body.insert(1, element("g", "".join(lines), stroke=FAINT, stroke_opacity="0.3"))
    return document(WIDTH, y + 8, f"{chart.title}; the table below has the figures", body, shown=520)


def _ticks(low: float, high: float, log: bool) -> list[float]:
    """Return the values of the grid lines."""
    if log:
        return [10.0**e for e in range(round(math.log10(low)), math.floor(math.log10(high)) + 1)]
    step = 10 ** math.floor(math.log10(high))
    step = step if high / step >= 4 else step / 2
    return [step * i for i in range(int(high / step) + 1)]


def _legend(names: list[str], y: float) -> str:
    """Return squares with the names of the bars, two per line."""
    parts = []
    for place, name in enumerate(names):
        x, down = LEFT + 196 * (place % 2), y + 17 * (place // 2)
        parts.append(element("rect", x=x, y=down - 10, width=11, height=11, rx=2, fill=COLOURS[place]))
        parts.append(text(name, x + 16, down))
    return "".join(parts)


def chart_file(name: str) -> str:
    """Return the chart of the given name as SVG."""
    chart = CHARTS[name]
    return draw_chart(chart, (DOCS / chart.page).read_text())
