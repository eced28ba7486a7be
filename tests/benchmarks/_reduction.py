"""Graphs and programs of ``bench_reduction.py``, and the child process that measures one program on one graph."""

from __future__ import annotations

import hashlib
import multiprocessing as mp
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
# After PYTHONPATH, which can name another version of tgp to compare with.
sys.path.append(str(Path(__file__).resolve().parents[2]))

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from tests.benchmarks.bench_families import FAMILIES
from tests.benchmarks.bench_kmis_sep import added_memory, road_network, sparse_file
from tgp.engine import coarsen, parse_schedule
from tgp.engine.contraction import ContractOptions, contract
from tgp.engine.target_size import count_kept
from tgp.engine.threads import limit_threads
from tgp.ragged import BlockCSR, Hierarchy
from tgp.testing.graphs import grid2d, with_attributes

Labels = np.ndarray[Any, np.dtype[np.int64]]
Run = Callable[[], object]

ENOUGH = 0.5
"""Processor seconds that the runs of one program take at least."""

FILES = {
    "NY": ("RoadGraphs/NY.gr.xz", road_network),
    "Physics": ("Coauthor/Physics", sparse_file),
    "DBLP": ("CitationFull/dblp", sparse_file),
}
"""Path of the file and function that reads it, by name of the graph."""


def make_graph(name: str, data: Path | None, divide: int = 1) -> BlockCSR | None:
    """Return an unweighted graph, or ``None`` if its file does not exist.

    Args:
        name: Name of a file in :data:`FILES`; ``components N`` for ``N`` grids of 5 x 5 nodes; or a family and a number of nodes.
        data: Folder of the files.
        divide: Factor by which the numbers of nodes are divided. Files are always read as a whole.
    """
    if name in FILES:
        path, read = FILES[name]
        return read(data / path) if data is not None and (data / path).exists() else None
    family, _, size = name.rpartition(" ")
    nodes = max(int(size) // divide, 64)
    if family == "components":
        grids = BlockCSR.concat([grid2d(5, 5)] * nodes)
        return BlockCSR(grids.indptr, grids.indices, None, np.array([0, grids.num_nodes]))
    edges = {"grid": 2, "grid at random": 2, "BA": 5, "RMAT": 16, "star": 1}[family] * nodes
    block = FAMILIES[{"star": "star, distinct weights"}.get(family, family)](edges)
    return BlockCSR(block.indptr, block.indices, None, block.node_ptr)


def save_graph(block: BlockCSR, path: Path) -> None:
    """Write the arrays of an unweighted graph."""
    np.savez(path, indptr=block.indptr, indices=block.indices)


def load_graph(path: Path) -> BlockCSR:
    """Read a graph of :func:`save_graph`."""
    with np.load(path) as file:
        size = len(file["indptr"]) - 1
        return BlockCSR(file["indptr"], file["indices"], None, np.array([0, size]))


def read_features(folder: Path) -> np.ndarray:
    """Return the dense features of a node-level graph from its ``npz`` file."""
    [path] = (folder / "raw").glob("*.npz")
    with np.load(path) as z:
        arrays = z["attr_data"], z["attr_indices"], z["attr_indptr"]
        return sp.csr_array(arrays, shape=z["attr_shape"]).toarray().astype(np.float32)


# -- programs: functions that prepare a graph and return the run to measure ---------------------------------------------


def _prepare_ours(schedule: str) -> Callable[[BlockCSR], Run]:
    def prepare(block: BlockCSR) -> Run:
        for family in ("grid", "BA"):  # compile
            for edges in (600, 3000):
                coarsen(with_attributes(FAMILIES[family](edges)), schedule)
        arrays = block.indptr, block.indices, block.weight, block.node_ptr, block.attributes
        # Every call gets a new block, because a block caches what is known about it.
        return lambda: coarsen(BlockCSR(*arrays), schedule)

    return prepare


def _sparse_matrix(block: BlockCSR) -> sp.csr_matrix:
    ones = np.ones(block.num_edges)
    return sp.csr_matrix((ones, block.indices, block.indptr), shape=(block.num_nodes,) * 2)


def _graclus_step(block: BlockCSR) -> tuple[BlockCSR, Any]:
    """Return the graph with weights, and an assignment of ``graclus``."""
    found = coarsen(block, "graclus").levels[0].assignment
    return BlockCSR(block.indptr, block.indices, block.weights_or_ones(), block.node_ptr), found


def _contract_ours(block: BlockCSR) -> Run:
    weighted, found = _graclus_step(block)
    return lambda: contract(weighted, found, ContractOptions(remove_self_loops=False))


def _contract_scipy(block: BlockCSR) -> Run:
    found, matrix = _graclus_step(block)[1], _sparse_matrix(block)
    entries = np.ones(block.num_nodes), (np.arange(block.num_nodes), found.cluster)
    s = sp.csr_matrix(entries, shape=(block.num_nodes, found.num_supernodes))
    return lambda: s.T @ matrix @ s


def _multiply(block: BlockCSR) -> Run:
    matrix, vector = _sparse_matrix(block), np.ones(block.num_nodes)
    return lambda: matrix @ vector


def _networkit_graph(block: BlockCSR) -> Any:
    import networkit as nk

    nk.setNumberOfThreads(1)
    nk.engineering.setSeed(0, False)
    ends = block.edge_index()[:, block.rows() < block.indices].astype(np.uint64)
    values = np.ones(ends.shape[1]), tuple(np.ascontiguousarray(ends))
    return nk.GraphFromCoo(values, n=block.num_nodes, weighted=True, directed=False)


def _networkit_matching(block: BlockCSR) -> Run:
    import networkit as nk

    graph = _networkit_graph(block)

    def run() -> Run:
        matcher = nk.matching.PathGrowingMatcher(graph)
        matcher.run()
        matching = matcher.getMatching()
        coarsening = nk.coarsening.MatchingCoarsening(graph, matching, True)
        coarsening.run()
        coarsening.getCoarseGraph()
        # getFineToCoarseNodeMapping of version 11.2 returns no nodes, and ``mate`` the largest number if there is none.
        return lambda: [min(node, matching.mate(node)) for node in range(block.num_nodes)]

    return run


def _networkit_communities(name: str) -> Callable[[BlockCSR], Run]:
    def prepare(block: BlockCSR) -> Run:
        import networkit as nk

        graph = _networkit_graph(block)
        return lambda: getattr(nk.community, name)(graph).run().getPartition().getVector()

    return prepare


def _pyamg_aggregation(block: BlockCSR) -> Run:
    import pyamg

    matrix = _sparse_matrix(block)
    return lambda: pyamg.aggregation.standard_aggregation(matrix)[0].tocsr()


def _pyamg_lloyd(block: BlockCSR) -> Run:
    import pyamg

    matrix = _sparse_matrix(block)

    def run() -> object:
        np.random.seed(0)  # noqa: NPY002 - the library draws from this generator
        return pyamg.aggregation.lloyd_aggregation(matrix, ratio=0.1)[0].tocsr()

    return run


def _metis(k: int) -> Callable[[BlockCSR], Run]:
    def prepare(block: BlockCSR) -> Run:
        import pymetis

        rows = pymetis.CSRAdjacency(block.indptr.astype(np.int32), block.indices)
        options = pymetis.Options(seed=0, ufactor=30)  # an imbalance of 3 %, as that of ``partition``
        return lambda: pymetis.part_graph(k, rows, recursive=False, options=options)[1]

    return prepare


def _sknetwork(name: str) -> Callable[[BlockCSR], Run]:
    def prepare(block: BlockCSR) -> Run:
        from sknetwork import clustering

        matrix = _sparse_matrix(block)
        return lambda: getattr(clustering, name)(random_state=0).fit_predict(matrix)

    return prepare


def _igraph(name: str, **options: object) -> Callable[[BlockCSR], Run]:
    def prepare(block: BlockCSR) -> Run:
        import igraph

        random.seed(0)
        ends = block.edge_index()[:, block.rows() < block.indices]
        graph = igraph.Graph(block.num_nodes, ends.T.tolist())
        return lambda: getattr(graph, name)(**options).membership

    return prepare


@dataclass(frozen=True)
class Program:
    """A program that does one step.

    Args:
        step: What it computes. Programs with the same step are compared.
        library: Name of the library and of its function.
        prepare: Function of a graph that returns the run to measure.
        package: Package that must be installed.
        schedule: Schedule of this library that it runs; empty for other functions.
        compared: False if the result is not an assignment of nodes.
    """

    step: str
    library: str
    prepare: Callable[[BlockCSR], Run]
    package: str = "tgp"
    schedule: str = ""
    compared: bool = True


MATCH, COMMUNITIES, PARTITION = "match + contract", "communities", "partition, k = {}"
LABELS, TENTH = "aggregation (labels only)", "a tenth of the nodes + contract"
CLUSTERS = (16, 64)
RIVALS = {
    "louvain": ("networkit PLM", "igraph Louvain"),
    "leiden": ("networkit ParallelLeiden", "igraph Leiden"),
}
"""Libraries that look for the same kind of communities, by method."""


def ours(step: str, schedule: str) -> Program:
    """Return the program of a schedule of this library."""
    return Program(step, f"tgp {schedule}", _prepare_ours(schedule), schedule=schedule)


def _all_programs() -> list[Program]:
    return [
        Program("A x", "scipy", _multiply, compared=False),
        Program("contraction", "tgp", _contract_ours, compared=False),
        Program("contraction", "scipy SᵀAS", _contract_scipy, compared=False),
        *(ours(MATCH, name) for name in ("hem", "graclus", "affinity", "lv", "collapse", "simmatch")),
        Program(MATCH, "networkit", _networkit_matching, "networkit"),
        ours("lists of features + contract", "ugc"),
        ours("every second front + links", "bistride"),
        ours("aggregation + contract", "amg"),
        Program(LABELS, "pyamg standard", _pyamg_aggregation, "pyamg"),
        Program(LABELS, "pyamg Lloyd, 0.1", _pyamg_lloyd, "pyamg"),
        ours(TENTH, "hem:ratio=0.1"),
        *(ours(COMMUNITIES, name) for name in ("louvain", "leiden", "leiden:iterations=2")),
        *(
            Program(COMMUNITIES, f"networkit {name}", _networkit_communities(name), "networkit")
            for name in ("PLM", "ParallelLeiden")
        ),
        Program(COMMUNITIES, "igraph Louvain", _igraph("community_multilevel"), "igraph"),
        Program(
            COMMUNITIES,
            "igraph Leiden",
            _igraph("community_leiden", objective_function="modularity", n_iterations=2),
            "igraph",
        ),
        *(
            Program(COMMUNITIES, f"scikit-network {name}", _sknetwork(name), "sknetwork")
            for name in ("Louvain", "Leiden")
        ),
        *(ours(PARTITION.format(k), f"partition:k={k}") for k in CLUSTERS),
        *(Program(PARTITION.format(k), "METIS k-way", _metis(k), "pymetis") for k in CLUSTERS),
    ]


PROGRAMS = {program.library + " " + program.step: program for program in _all_programs()}
"""Programs by name, in the order of the table."""


# -- one measurement in a child process ----------------------------------------------------------------------------------


def labels_of(program: Program, result: Any) -> Labels | None:
    """Return the cluster of each node, from 0 on; ``None`` if nodes are dropped or belong to several clusters."""
    if not program.compared:
        return None
    if isinstance(result, Hierarchy):
        found = result.levels[0].assignment
        if found.kind != "hard" or found.cluster is None or found.cluster.min(initial=0) < 0:
            return None
        return np.asarray(found.cluster, np.int64)
    if callable(result):
        result = result()
    if sp.issparse(result):  # an aggregation: a node without neighbours belongs to no column
        alone = np.diff(result.indptr) == 0
        cluster = np.empty(result.shape[0], np.int64)
        cluster[~alone] = result.indices
        cluster[alone] = result.shape[1] + np.arange(alone.sum())
        return cluster
    return np.unique(np.asarray(result), return_inverse=True)[1]


def describe(block: BlockCSR, cluster: Labels) -> dict[str, float]:
    """Return the figures of clusters: cut, modularity, the largest cluster, and the number of connected parts of clusters."""
    rows, count = block.rows(), int(cluster.max(initial=-1)) + 1
    inside = cluster[rows] == cluster[block.indices]
    volume = np.bincount(cluster, np.diff(block.indptr), count) / max(block.num_edges, 1)
    ends = rows[inside], block.indices[inside]
    pattern = sp.coo_array((np.ones(len(ends[0]), np.int8), ends), shape=(block.num_nodes,) * 2)
    return {
        "cut": 1.0 - float(inside.mean()),
        "modularity": float(inside.mean()) - float(volume @ volume),
        "largest": int(np.bincount(cluster).max()),
        "parts": int(connected_components(pattern, directed=False)[0]),
    }


def _measure(run: Run) -> tuple[Any, float, float]:
    """Return the result, the processor seconds of a run, and the MB that the first run added at its peak.

    The clock of processor time of some systems has steps of 4 ms, so a short run is repeated, and its time is the mean without
    the first run, which also gets the memory from the system. A long run is repeated once, and the faster one counts.
    """
    kept: list[Any] = [None]

    def keep() -> None:
        kept[0] = run()

    start = time.process_time()
    memory = added_memory(keep)
    first = time.process_time() - start
    if first > 8 * ENOUGH:
        return kept[0], first, memory
    start, seconds, count = time.process_time(), 0.0, 0
    while seconds < ENOUGH:
        run()
        count += 1
        seconds = time.process_time() - start
    return kept[0], min(first, seconds) if first >= ENOUGH else seconds / count, memory


def _child(name: str, path: Path, features: Path | None, limit: float, pipe: Any) -> None:
    """Send the figures of one program. The system ends this process if it needs more processor time."""
    program, block = PROGRAMS[name] if name in PROGRAMS else ours("", name), load_graph(path)
    if features is not None:
        block = block.with_values(x=np.load(features))
    with limit_threads(1):
        run = program.prepare(block)
        signal.setitimer(signal.ITIMER_PROF, limit + ENOUGH)
        result, seconds, memory = _measure(run)
        signal.setitimer(signal.ITIMER_PROF, 0)
    found: dict[str, Any] = {"seconds": seconds, "memory": memory, "nodes": block.num_nodes}
    found["edges"], found["isolated"] = block.num_edges // 2, int((np.diff(block.indptr) == 0).sum())
    if isinstance(result, Hierarchy):
        found["kept"] = [level.block.num_nodes for level in result.levels]
        found["exact"] = has_exact_sizes(block, result, program.schedule)
    cluster = labels_of(program, result)
    if cluster is not None:
        found.setdefault("kept", [int(cluster.max(initial=-1)) + 1])
        found |= describe(block, cluster)
    pipe.send(found)
    pipe.close()


def has_exact_sizes(block: BlockCSR, result: Hierarchy, schedule: str) -> bool:
    """Return True if every component has the number of supernodes of the ratio at each level. False if there is no ratio."""
    params: Any = parse_schedule(schedule).levels[0].params
    ratios = getattr(params, "ratios", ()) or (getattr(params, "ratio", None),)
    if ratios[0] is None:
        return False
    matrix = _sparse_matrix(block)
    sizes = np.bincount(connected_components(matrix, directed=False)[1])
    cluster = np.arange(block.num_nodes)
    for level, ratio in zip(result.levels, ratios, strict=True):
        cluster = level.assignment.cluster[cluster]
        coarse = _sparse_matrix(level.block)
        found = np.bincount(connected_components(coarse, directed=False)[1])
        if not np.array_equal(np.sort(found), np.sort(count_kept(sizes, ratio))):
            return False
    return True


def measure(name: str, path: Path, features: Path | None, limit: float) -> dict[str, Any]:
    """Return the figures of one program on one graph, or the reason why there are none.

    Args:
        name: Name of a program, or a schedule.
        path: File of the graph.
        features: File of the features of the nodes, if the program needs them.
        limit: Processor seconds that one run may take.
    """
    context = mp.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(name, path, features, limit, sender))
    process.start()
    sender.close()
    try:
        found = receiver.recv()
    except EOFError:
        found = {}
    process.join()
    if found:
        return found
    if process.exitcode == -signal.SIGPROF:
        return {"failure": f"> {limit:.0f} s"}
    return {"failure": f"failed, exit code {process.exitcode}"}


def digest(block: BlockCSR, schedule: str, threads: int) -> str:
    """Return a checksum of all arrays of the levels, computed by a number of threads."""
    with limit_threads(threads):
        arrays = block.indptr, block.indices, block.weight, block.node_ptr, block.attributes
        result = coarsen(BlockCSR(*arrays), schedule)
    found = hashlib.sha256()
    for level in result.levels:
        for value in (
            level.assignment.cluster,
            level.assignment.weight,
            level.block.indptr,
            level.block.indices,
        ):
            found.update(b"-" if value is None else np.ascontiguousarray(value).tobytes())
        found.update(level.block.weights_or_ones().tobytes())
    return found.hexdigest()
