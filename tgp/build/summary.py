"""Results of a run: the plan of a dry run, and the totals of a store."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tgp.build.findings import Finding
from tgp.build.progress import FEW_GRAPHS
from tgp.store import FailureRecord, Manifest
from tgp.store.format.schema import FieldInfo

__all__ = ["HierarchySummary", "LevelSummary", "RunPlan", "Summary", "describe_fields", "describe_manifest"]


@dataclass(frozen=True)
class LevelSummary:
    """Totals of one level over all graphs of a store, and figures that :func:`tgp.inspect.inspect_store` adds.

    Args:
        level: number of the level; the input graphs are level 0, the first pooled graphs level 1.
        method: name of the level method; ``"input"`` for level 0.
        nodes: number of nodes of all graphs.
        edges: number of edges of all graphs.
        bytes: size of the arrays of the level.
        ratio: nodes divided by the nodes of the level before; ``None`` if that level has no nodes.
        edge_ratio: the same for edges.
        stalled: True if the level keeps almost all nodes.
        stalled_graphs: number of graphs that keep almost all nodes.
        node_histogram: number of graphs per bin of graph sizes.
        cluster_mean: mean number of nodes of a supernode.
        cluster_largest: largest number of nodes of a supernode.
        cluster_histogram: number of supernodes with 1, 2, ... nodes, in a sample of the graphs.
        metrics: quality figures. Counts are summed over graphs; other figures are means over graphs with a value.
        node_range: number of nodes of the smallest and of the largest graph, the limits of ``node_histogram``.
        attributes: name, type, shape of a row, and ``"node"`` or ``"edge"`` of each attribute of the level.
    """

    level: int
    method: str
    nodes: int
    edges: int
    bytes: int
    ratio: float | None = None
    edge_ratio: float | None = None
    stalled: bool = False
    stalled_graphs: int = 0
    node_histogram: list[int] = field(default_factory=list)
    cluster_mean: float | None = None
    cluster_largest: int | None = None
    cluster_histogram: list[int] = field(default_factory=list)
    metrics: dict[str, float | None] = field(default_factory=dict)
    node_range: tuple[int, int] | None = None
    attributes: list[dict[str, Any]] = field(default_factory=list)


_TOTALS = ("level", "method", "nodes", "edges", "bytes", "ratio", "attributes")
"""Fields of a level that are known without reading a shard."""


@dataclass(frozen=True)
class HierarchySummary:
    """One hierarchy of a store.

    Args:
        name: name of the hierarchy.
        schedule: stored schedule, one entry per level.
        seed: seed of every random choice.
        failures: number of graphs that could not be coarsened.
        bytes: size of its files.
        levels: its levels, without the input graphs.
        carry: rules of the attributes of the levels; ``None`` if they have none.
    """

    name: str
    schedule: list[dict[str, Any]]
    seed: int
    failures: int
    bytes: int
    levels: list[LevelSummary]
    carry: str | None = None

    @property
    def methods(self) -> str:
        """Names of the methods in order, with repetitions counted: ``ndp,graclus*2``."""
        names = [str(level.get("method", "?")) for level in self.schedule]
        runs = [(name, len(list(run))) for name, run in itertools.groupby(names)]
        return ",".join(name if times == 1 else f"{name}*{times}" for name, times in runs)


@dataclass(frozen=True)
class Summary:
    """Result of a run.

    Args:
        path: Directory of the store.
        status: ``"complete"``, ``"up to date"`` or ``"incomplete"`` (files of other jobs are missing).
        num_graphs: Number of graphs in the store.
        num_units: Number of shard files of each part.
        units_done: Number of files written by this run.
        units_missing: Number of files that are still missing.
        workers: Number of worker processes; 1 if the run stayed in one process.
        seconds: Wall time of the run without opening the dataset and without compiling.
        open_seconds: Time to open the dataset and to compute its digest.
        compile_seconds: Time to compile kernels; 0 if all of them were in the cache.
        graphs_per_second: Graphs coarsened per second. Each hierarchy of a graph counts. ``None`` if no graph was
            coarsened.
        edges_per_second: Input edges coarsened per second, counted in the same way.
        bytes: Size of all files of the store.
        hierarchies: Hierarchies of the store; empty while the store is incomplete.
        failures: Graphs that could not be coarsened, each with the name of the hierarchy.
        names: Names of the hierarchies of this run. The store may have others.
        findings: Problems of the input graphs and of the hierarchies of this run.
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
    edges_per_second: float | None = None
    bytes: int = 0
    hierarchies: list[HierarchySummary] = field(default_factory=list)
    failures: list[tuple[str, FailureRecord]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def speed(self) -> tuple[float | None, str]:
        """Speed of the run and its unit: ``"graphs"``, or ``"edges"`` if there are only a few graphs."""
        if self.num_graphs < FEW_GRAPHS:
            return self.edges_per_second, "edges"
        return self.graphs_per_second, "graphs"

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        values = dataclasses.asdict(self)
        for hierarchy in values["hierarchies"]:
            hierarchy["levels"] = [{key: level[key] for key in _TOTALS} for level in hierarchy["levels"]]
        values["failures"] = [
            {"hierarchy": name, **dataclasses.asdict(f), "level": f.level + 1} for name, f in self.failures
        ]
        return values


@dataclass(frozen=True)
class RunPlan:
    """Result of a dry run (``--dry-run``).

    Args:
        path: Directory of the store.
        dataset: Description of the dataset.
        num_graphs: Number of graphs.
        num_nodes: Number of nodes of all graphs.
        num_edges: Number of edges of all graphs.
        hierarchies: Name, number of levels and seed of each hierarchy.
        num_units: Number of shard files of each part.
        pending: Number of files to write.
        workers: Number of worker processes; 1 if the run would stay in this process.
        estimated_seconds: Largest processor time of the run, without compiling kernels.
        estimated_bytes: Estimated size of the finished store.
        peak_memory: Largest memory of all processes in bytes.
        profile: Profile of the store.
        up_to_date: True if nothing has to be written.
        findings: Problems of the settings.
        at_most: True if time and memory are upper bounds. They are estimates if a method of another package has no bounds.
        carry: Attributes of the levels, see :class:`tgp.engine.carry.CarryStep`.
        scratch_bytes: Estimated size of temporary files; 0 if the graphs are coarsened in memory.
        sizes: Remark on the numbers of nodes and edges if they are not exact.
    """

    path: str
    dataset: dict[str, Any]
    num_graphs: int
    num_nodes: int
    num_edges: int
    hierarchies: list[dict[str, Any]]
    num_units: int
    pending: int
    workers: int
    estimated_seconds: float
    estimated_bytes: int
    peak_memory: int
    profile: str
    up_to_date: bool
    findings: list[Finding] = field(default_factory=list)
    at_most: bool = False
    carry: list[dict[str, str]] = field(default_factory=list)
    scratch_bytes: int = 0
    sizes: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return dataclasses.asdict(self)


def describe_fields(fields: Iterable[FieldInfo]) -> list[dict[str, Any]]:
    """Return the name, the type, the owner and the shape of a row of fields of the graphs or of a level.

    Args:
        fields: Schema of the fields.
    """
    return [{"name": f.name, "dtype": f.value_type, "per": f.ptr, "shape": list(f.tail)} for f in fields]


def describe_manifest(manifest: Manifest) -> tuple[list[HierarchySummary], int]:
    """Summarize a store from its manifest, without reading a shard.

    Args:
        manifest: manifest of a complete store.

    Returns:
        The hierarchies with the totals of their levels, and the size of all files in bytes.
    """
    graphs = manifest.shards["graphs"]
    found = []
    for name, info in manifest.hierarchies.items():
        shards = manifest.shards[name]
        before = sum(s.nodes[0] for s in graphs)
        levels = []
        for position, level in enumerate(info.levels):
            nodes = sum(s.nodes[position] for s in shards)
            edges, size = sum(s.edges[position] for s in shards), sum(s.bytes[position] for s in shards)
            ratio = nodes / before if before else None
            attributes = describe_fields(level.fields)
            levels.append(
                LevelSummary(position + 1, level.method, nodes, edges, size, ratio, attributes=attributes)
            )
            before = nodes
        size = sum(s.total_size for s in shards)
        found.append(
            HierarchySummary(name, list(info.schedule), info.seed, info.failures, size, levels, info.carry)
        )
    return found, sum(s.total_size for part in manifest.shards.values() for s in part)
