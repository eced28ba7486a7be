"""Sizes of the graphs and levels of a :class:`~tgp.data.PooledDataset`, as PyG's ``Summary``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from torch_geometric.data.summary import Stats, Summary

from tgp.engine.schedule import Schedule
from tgp.errors import TgpError
from tgp.store.format.schema import HierarchyInfo
from tgp.text import inert_text

if TYPE_CHECKING:
    from tgp.data.dataset import PooledDataset

__all__ = ["LevelSizes", "PooledSummary", "schedule_text", "summarize_dataset"]


class LevelSizes(NamedTuple):
    """Sizes of the graphs at one level.

    Args:
        level: 0 for the input graphs, 1 for the first pooled graphs, and so on.
        method: Name of the method that made the level; ``"input"`` for level 0.
        num_nodes: Statistics of the number of nodes.
        num_edges: Statistics of the number of edges.
    """

    level: int
    method: str
    num_nodes: Stats
    num_edges: Stats


@dataclass(repr=False)
class PooledSummary(Summary):  # type: ignore[misc]  # PyG has no types
    """Summary of a dataset with the sizes of all levels of all hierarchies.

    Args:
        schedules: Schedule of each hierarchy, as the command line accepts it.
        levels: Sizes of the input graphs and of each level, by hierarchy.
        chosen: Hierarchy that the dataset reads.
    """

    schedules: dict[str, str] = field(default_factory=dict)
    levels: dict[str, list[LevelSizes]] = field(default_factory=dict)
    chosen: str | None = None

    def format(self, fmt: str = "plain") -> str:
        """Return the summary as text.

        Args:
            fmt: Ignored. PyG passes the name of a table format of another package.
        """
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        return self.format()

    def _lines(self) -> Iterator[str]:
        yield f"{self.name} (#graphs={self.num_graphs:,})"
        if not self.levels:
            yield from _table([LevelSizes(0, "input", self.num_nodes, self.num_edges)])
        for name, sizes in self.levels.items():
            note = "" if name == self.chosen else " (not read by this dataset)"
            yield f"hierarchy {inert_text(name)}: {inert_text(self.schedules[name])}{note}"
            yield from _table(sizes)


def _table(sizes: list[LevelSizes]) -> Iterator[str]:
    rows = [("level", "method", "nodes per graph", "edges per graph")]
    rows += [
        (str(row.level), inert_text(row.method), _range(row.num_nodes), _range(row.num_edges))
        for row in sizes
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _range(stats: Stats) -> str:
    """Return mean, smallest and largest value as text."""
    return f"{stats.mean:,.1f} ({stats.min:,.0f} to {stats.max:,.0f})"


def summarize_dataset(dataset: PooledDataset) -> PooledSummary:
    """Return the sizes of the graphs and of all levels of all hierarchies, without reading the graphs.

    Args:
        dataset: Dataset, or a subset of one.
    """
    base = _level_sizes(dataset, None, 0, "input")
    found = {
        name: [base]
        + [_level_sizes(dataset, name, number, level.method) for number, level in enumerate(info.levels, 1)]
        for name, info in dataset.reader.hierarchies.items()
    }
    return PooledSummary(
        type(dataset).__name__,
        len(dataset),
        base.num_nodes,
        base.num_edges,
        schedules=dataset.schedules,
        levels=found,
        chosen=dataset.hierarchy,
    )


def _level_sizes(dataset: PooledDataset, hierarchy: str | None, level: int, method: str) -> LevelSizes:
    nodes, edges = dataset.reader.sizes(hierarchy, level)
    ids = dataset._ids()
    return LevelSizes(level, method, _stats(nodes[ids]), _stats(edges[ids]))


def _stats(values: npt.NDArray[Any]) -> Stats:
    """Return the statistics that PyG computes, for any number of values."""
    if not len(values):
        return Stats(*[float("nan")] * 7)
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    spread = values.std(ddof=1) if len(values) > 1 else 0.0
    figures = (values.mean(), spread, values.min(), low, middle, high, values.max())
    return Stats(*map(float, figures))


def schedule_text(info: HierarchyInfo) -> str:
    """Return the schedule of a hierarchy in the grammar of the command line.

    A schedule with methods that are not installed is given by the names of its methods.

    Args:
        info: Description of the hierarchy in the manifest.
    """
    try:
        return str(Schedule.from_json(info.schedule))
    except TgpError:
        return ",".join(level.method for level in info.levels)
