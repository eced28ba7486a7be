"""Flow charts of docs/architecture.md: boxes with names of modules, and arrows with the data that they pass on.

The pictures need no script of another site, so they can be read without a network, on paper, and on a narrow page.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from svg import FAINT, INK, document, element, line, text

WIDTH, ROW, HEIGHT, LETTER = 400, 62, 26, 6.3


@dataclass(frozen=True)
class Flow:
    """A flow chart.

    Attributes:
        title: description of the picture.
        boxes: text, horizontal place of the middle and number of the row, by the name of the box.
        arrows: names of two boxes and the text beside the arrow.
    """

    title: str
    boxes: dict[str, tuple[str, float, float]]
    arrows: tuple[tuple[str, str, str], ...]


FLOWS: dict[str, Flow] = {
    "coarsen": Flow(
        "Modules of tgp coarsen and the data that they pass on",
        {
            "cli": ("tgp_cli/commands/coarsen", 150, 0), "source": ("sources/source", 330, 0),
            "run": ("build/run", 150, 1), "prepare": ("build/prepare", 330, 1),
            "manifest": ("store/format/manifest", 76, 2.3), "writer": ("store/write", 198, 2.3),
            "jobs": ("build/units (workers)", 324, 2.3),
            "engine": ("engine/coarsening", 324, 3.5), "method": ("engine/methods, kernels", 86, 3.5),
        },
        (
            ("cli", "run", "CoarsenConfig"), ("run", "prepare", ""), ("prepare", "run", "Schedule, units"),
            ("prepare", "source", "name"), ("source", "prepare", "GraphTable"), ("run", "manifest", "publish"),
            ("run", "writer", "graphs"), ("run", "jobs", "UnitWork"), ("jobs", "writer", ""),
            ("jobs", "engine", "BlockCSR, Schedule"), ("engine", "jobs", "Hierarchy"), ("engine", "method", "per level"),
        ),
    ),
    "batch": Flow(
        "Modules that make a batch and the data that they pass on",
        {
            "loader": ("data/loaders", 270, 0), "dataset": ("data/dataset", 270, 1),
            "plan": ("store/read/batch_plan", 270, 2), "kernels": ("kernels/gather", 58, 2),
            "batch": ("data/batch, data/attributes", 270, 3), "model": ("model", 270, 4),
        },
        (
            ("loader", "dataset", "ids from data/sampler"), ("dataset", "plan", ""),
            ("plan", "kernels", "addresses"), ("kernels", "plan", "one buffer"),
            ("plan", "batch", "fields, Level"), ("batch", "model", "PooledBatch"),
        ),
    ),
    "forward": Flow(
        "Steps of a forward pass and the data that they pass on",
        {
            "call": ("pooler(x, adj, batch=...)", 98, 0), "inputs": ("src/inputs: check arguments", 98, 1),
            "execution": ("src/execution: choose", 98, 2), "select": ("pooler.select", 310, 2),
            "reduce": ("pooler.reduce", 310, 3), "connect": ("pooler.connect", 310, 4),
            "loss": ("pooler.compute_loss", 310, 5), "result": ("result", 98, 5),
        },
        (
            ("call", "inputs", ""), ("inputs", "execution", "PoolInputs"), ("execution", "select", "padded or flat"),
            ("select", "reduce", "SelectOutput"), ("reduce", "connect", ""), ("connect", "loss", ""),
            ("loss", "result", "PoolingOutput"),
        ),
    ),
}  # fmt: skip
"""Flow charts of the page, by file name."""


def _middle(flow: Flow, name: str) -> tuple[float, float]:
    _, x, row = flow.boxes[name]
    return x, 30 + ROW * row


def _half_width(flow: Flow, name: str) -> float:
    return (len(flow.boxes[name][0]) * LETTER + 14) / 2


def _border(flow: Flow, name: str, toward: tuple[float, float]) -> tuple[float, float]:
    """Return the point where the line from the middle of a box toward another point leaves the box."""
    x, y = _middle(flow, name)
    right, down = toward[0] - x, toward[1] - y
    scale = min(
        _half_width(flow, name) / abs(right) if right else float("inf"),
        HEIGHT / 2 / abs(down) if down else float("inf"),
    )
    return x + right * scale, y + down * scale


def _arrow(flow: Flow, source: str, target: str, words: str) -> list[str]:
    """Return an arrow and its text. Two arrows between the same boxes are drawn beside one another."""
    start = _border(flow, source, _middle(flow, target))
    end = _border(flow, target, _middle(flow, source))
    right, down = end[0] - start[0], end[1] - start[1]
    long = (right**2 + down**2) ** 0.5
    both = any((first, second) == (target, source) for first, second, _ in flow.arrows)
    shift = 5.0 if both else 0.0
    aside = (-down / long * shift, right / long * shift)
    start, end = (start[0] + aside[0], start[1] + aside[1]), (end[0] + aside[0], end[1] + aside[1])
    level = abs(down) < 1
    middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    if level:
        below = right > 0 and both
        label = text(words, middle[0], middle[1] + (15 if below else -5), font_size=10, text_anchor="middle")
    elif both and aside[0] < 0:
        label = text(words, middle[0] - 5, middle[1] + 4, font_size=10, text_anchor="end")
    else:
        steep = abs(down) > abs(right)
        label = text(words, middle[0] + 6, middle[1] + (4 if steep else -2), font_size=10)
    head = element(
        "path",
        d=f"M{end[0]:.1f} {end[1]:.1f}l{-6 * right / long - 3 * down / long:.1f} {-6 * down / long + 3 * right / long:.1f}"
        f"l{6 * down / long:.1f} {-6 * right / long:.1f}z",
        fill=INK,
    )
    return [line(start, end, stroke=INK), head, *([label] if words else [])]


def draw_flow(flow: Flow) -> str:
    """Return a flow chart as SVG."""
    body = []
    for name, (words, _, _) in flow.boxes.items():
        x, y = _middle(flow, name)
        half = _half_width(flow, name)
        body.append(
            element(
                "rect", x=x - half, y=y - HEIGHT / 2, width=2 * half, height=float(HEIGHT), rx=4, fill="none",
                stroke=FAINT,
            )
        )  # fmt: skip
        body.append(text(words, x, y + 4, font_size=11, text_anchor="middle"))
    for arrow in flow.arrows:
        body += _arrow(flow, *arrow)
    last = max(row for _, _, row in flow.boxes.values())
    return document(WIDTH, 60 + ROW * last, flow.title, body, shown=560)


def flow_file(name: str) -> str:
    """Return the flow chart of the given name as SVG."""
    return draw_flow(FLOWS[name])
