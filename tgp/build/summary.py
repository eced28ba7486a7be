"""What a run did, for people and programs."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from tgp.store import FailureRecord, Manifest

__all__ = ["BreakEven", "HierarchyReport", "LevelReport", "RunPlan", "Summary", "describe_manifest"]


@dataclass(frozen=True)
class LevelReport:
    """Totals of one level."""

    level: int
    method: str
    nodes: int
    edges: int
    bytes: int
    ratio: float
    """Nodes over nodes of the level before."""


@dataclass(frozen=True)
class HierarchyReport:
    """One hierarchy of a store."""

    name: str
    schedule: list[dict[str, Any]]
    seed: int
    levels: list[LevelReport]
    bytes: int
    failures: int


@dataclass(frozen=True)
class BreakEven:
    """Whether it pays to compute hierarchies before training, measured on a sample.

    Args:
        online: seconds per epoch to coarsen every batch anew.
        reading: seconds per epoch to read the same levels from the store.
        spent: seconds this run took.
        sample: graphs measured.
        batch_size: graphs per batch.
    """

    online: float
    reading: float
    spent: float
    sample: int
    batch_size: int

    @property
    def saved(self) -> float:
        """Seconds saved per epoch; negative if reading costs more."""
        return self.online - self.reading

    @property
    def epochs(self) -> float | None:
        """Epochs until the run is paid back; ``None`` if never."""
        return self.spent / self.saved if self.saved > 0 else None


@dataclass(frozen=True)
class Summary:
    """The result of a run.

    Args:
        path: the store.
        status: ``"complete"``, ``"up to date"`` or ``"incomplete"`` (units of other jobs are missing).
        num_graphs: graphs in the store.
        num_units: shards per part.
        units_done: parts written by this run.
        units_missing: parts that are still to be written.
        workers: processes that worked; 1 also stands for this one.
        seconds: wall time of the run without opening the dataset and without compiling.
        open_seconds: time to open the dataset and digest it.
        compile_seconds: time to compile kernels or load them from the cache.
        graphs_per_second: graphs and hierarchies done per second; ``None`` if nothing was to do.
        bytes: size of the store's files.
        hierarchies: what the store holds; empty while it is incomplete.
        failures: graphs that could not be coarsened, of all hierarchies asked for.
        break_even: see :class:`BreakEven`.
    """

    path: str
    status: str
    num_graphs: int
    num_units: int
    units_done: int = 0
    units_missing: int = 0
    workers: int = 1
    seconds: float = 0.0
    open_seconds: float = 0.0
    compile_seconds: float = 0.0
    graphs_per_second: float | None = None
    bytes: int = 0
    hierarchies: list[HierarchyReport] = field(default_factory=list)
    failures: list[tuple[str, FailureRecord]] = field(default_factory=list)
    break_even: BreakEven | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        values = dataclasses.asdict(self)
        values["failures"] = [{"hierarchy": name, **dataclasses.asdict(f)} for name, f in self.failures]
        if self.break_even is not None:
            values["break_even"] |= {"saved": self.break_even.saved, "epochs": self.break_even.epochs}
        return values


@dataclass(frozen=True)
class RunPlan:
    """What a run would do (``--dry-run``)."""

    path: str
    dataset: dict[str, Any]
    num_graphs: int
    num_nodes: int
    num_edges: int
    hierarchies: list[dict[str, Any]]
    num_units: int
    pending: int
    """Parts to be written."""
    workers: int
    """Processes that would work."""
    estimated_seconds: float
    """Work of one core; a guess within a factor of three."""
    estimated_bytes: int
    """Size of the finished store."""
    peak_memory: int
    """Memory of all processes together."""
    profile: str
    up_to_date: bool

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return dataclasses.asdict(self)


def describe_manifest(manifest: Manifest) -> tuple[list[HierarchyReport], int]:
    """The hierarchies of a store, and the bytes of all its shards."""
    graphs = manifest.shards["graphs"]
    reports = []
    for name, info in manifest.hierarchies.items():
        shards = manifest.shards[name]
        before = sum(s.nodes[0] for s in graphs)
        levels = []
        for number, level in enumerate(info.levels):
            nodes = sum(s.nodes[number] for s in shards)
            edges, size = sum(s.edges[number] for s in shards), sum(s.bytes[number] for s in shards)
            levels.append(
                LevelReport(number, level.method, nodes, edges, size, nodes / before if before else 1.0)
            )
            before = nodes
        size = sum(s.size for s in shards)
        reports.append(HierarchyReport(name, list(info.schedule), info.seed, levels, size, info.failures))
    return reports, sum(s.size for part in manifest.shards.values() for s in part)
