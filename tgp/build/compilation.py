"""Count the kernels that a process compiles, so that a first run can show its progress.

numba compiles a kernel when it is first called and no cached machine code exists. The number of kernels of a schedule cannot
be asked for in advance, so this module lists the kernels that each method calls. The list is only used for display: a
kernel that is missing in it is compiled all the same. ``tests/build/test_compilation.py`` compares it with a run.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tgp.build import workers
from tgp.build.progress import Step
from tgp.engine.carry import CarryStep
from tgp.engine.schedule import Schedule

__all__ = [
    "METHODS_WITH_KERNELS",
    "Compilation",
    "CompilationDisplay",
    "external_kernels_of",
    "kernels_of",
    "read_compilation",
    "watch_compilation",
]

_COMMON = ("local_ids._fill_local_edges", "local_ids._fill_local_ids", "local_ids.join_rows")
"""Kernels that every run calls."""

_SMALL_METRICS = ("quality.small_figures",)
_METRICS = ("quality.graph_figures",)
_LARGE_METRICS = (*_METRICS, "quality.count_components")
_CONTRACTION = ("contract._collect_entries", "contract.merge_rows")

_PAIRS = (
    "local_matching.fill_codes",
    "local_matching.find_anchors",
    "local_matching.fingerprint",
    "local_matching.pair_relatives",
    "local_matching.point",
    "local_matching.take_mutual",
    "matching.number_pairs",
)
"""Kernels of :mod:`tgp.engine.pair_matching`."""

_NEEDS = ("carry.add_rows",)
"""Kernels that reduce the attributes that a method needs."""

_GROUPS = ("carry.group_rows",)
_CARRY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("sum", "mean", "stats"), ("carry.add_rows",)),
    **dict.fromkeys(("max", "min", "any", "all"), _GROUPS),
    **dict.fromkeys(("majority", "purity", "mixed"), (*_GROUPS, "carry.count_majority")),
    "node": (),
    "edge": (*_GROUPS, "carry.find_edges"),
}
"""Kernels that attributes of levels need, by reduction and by owner."""

_COMMUNITIES = (
    *_CONTRACTION,
    "_prims.fill_transpose",
    "communities.move_nodes",
    "communities.number_labels",
    "communities.visiting_order",
    "csr.row_ids",
    "undirected._fill_undirected",
)

_METHODS: dict[str, tuple[str, ...]] = {
    "ndp": (
        "_prims.fill_transpose",
        "kron.eliminate",
        "kron.assemble_rows",
        "spectral_cut.cut_sides",
        "spectral_vector.component_vectors",
        "undirected._fill_undirected",
    ),
    "graclus": (*_CONTRACTION, "matching.match", "matching.number_pairs"),
    "hem": (*_CONTRACTION, *_PAIRS, "local_matching.divide_by_degree", "local_matching.weighted_degree"),
    "partition": (
        *_CONTRACTION,
        "bisection.grow_sides",
        "communities.number_labels",
        "csr.take_graphs",
        "local_matching.fingerprint",
        "partition.count_inside",
        "partition.fill_inside",
        "partition.move_between",
    ),
    "lv": (
        *_CONTRACTION,
        *_PAIRS,
        "csr._label_components",
        "local_matching.weighted_degree",
        "local_variation.edge_costs",
        "local_variation.orthonormalize",
        "spectral_basis._solve_parts",
    ),
    "kmis": (*_CONTRACTION, "mis.check_symmetry", "mis.cover_by_score", "mis.number_clusters"),
    "sep": (
        *_CONTRACTION,
        "_prims.fill_transpose",
        "coding_tree.merge_trees",
        "coding_tree_cut.cut_trees",
        "coding_tree_layers._row_sums",
        "contract._fill_degree_norm",
        "csr._label_components",
        "undirected._fill_undirected",
    ),
    "nmf": (
        "contract._fill_degree_norm",
        "contract._filter_entries",
        "nmf._factorize",
        "soft._multiply_soft",
    ),
    "eigen": (
        *_CONTRACTION,
        "_prims.fill_transpose",
        "contract._fill_degree_norm",
        "csr._merge_with_transpose",
        "csr._label_components",
        "kmeans._cluster",
        "spectral_basis._solve_parts",
    ),
    "affinity": (
        *_CONTRACTION,
        *_PAIRS,
        "node_vectors.edge_distances",
        "node_vectors.random_vectors",
        "node_vectors.relax",
    ),
    "bistride": (
        "bistride.collect_links",
        "bistride.count_links",
        "bistride.keep_fronts",
        "bistride.list_kept_neighbours",
        "contract.merge_rows",
        "mis.check_symmetry",
    ),
    "leiden": (*_COMMUNITIES, "communities.connected_parts", "communities.refine_communities"),
    "louvain": _COMMUNITIES,
    "simmatch": (
        *_CONTRACTION,
        *_PAIRS,
        *_NEEDS,
        "local_matching.weighted_degree",
        "node_vectors.edge_cosines",
        "node_vectors.row_norms",
        "node_vectors.smooth_rows",
    ),
    "ugc": (
        *_CONTRACTION,
        *_NEEDS,
        "local_matching.fill_codes",
        "local_matching.fingerprint",
        "local_matching.point",
        "local_matching.take_mutual",
        "matching.number_pairs",
        "node_vectors.list_costs",
        "node_vectors.mix_neighbours",
        "node_vectors.project_rows",
        "node_vectors.random_direction",
    ),
    "collapse": (
        *_CONTRACTION,
        "communities.number_labels",
        "domination.collapse_parts",
        "domination.find_dominators",
        "domination.share_neighbours",
        "local_matching.fill_codes",
        "local_matching.fingerprint",
        "local_matching.point",
        "local_matching.take_mutual",
        "local_matching.weighted_degree",
        "matching.number_pairs",
    ),
    "amg": ("csr.row_ids", "local_matching.fingerprint"),
    "voxel": (*_CONTRACTION, *_NEEDS, "points.number_cells"),
    "fps": (*_CONTRACTION, *_NEEDS, "points.sample_farthest"),
    "nopool": (),
    "random": (*_CONTRACTION, "matching._random_partition"),
}
"""Kernels that the levels of each method call with default parameters. Methods of other packages are not listed."""

_EXTERNAL = (
    "contract.merge_rows",
    "edge_input.count_entries",
    "edge_input.mark_ids",
    "edge_input.mirror_edges",
    "edge_input.parse_edges",
    "edge_input.rank_ids",
    "edge_input.symmetry_sum",
    "external_rows.add_row_sizes",
    "external_rows.contract_rows",
    "external_rows.count_buckets",
    "external_rows.fill_row_ids",
    "external_rows.group_keys",
    "external_rows.scatter_to_buckets",
)
"""Kernels of a run on a graph larger than memory, see :mod:`tgp.build.external`. Weights of type float64 may need one more."""

_EXTERNAL_METHODS: dict[str, tuple[str, ...]] = {
    "graclus": ("matching.match_rows", "matching.number_pairs"),
    "hem": (
        "external_matching.find_stale",
        "external_matching.list_rows",
        "external_matching.point_rows",
        "external_matching.take_mutual_rows",
        "local_matching.fill_codes",
        "local_matching.find_anchors",
        "local_matching.fingerprint",
        "local_matching.pair_relatives",
        "local_matching.weighted_degree",
        "matching.number_pairs",
    ),
    "kmis": (
        "external_rows.cover_rows",
        "external_rows.orient_rows",
        "local_matching.fingerprint",
        "mis.number_clusters",
        "rank_ranges.rank_keys",
        "rank_ranges.sort_part",
    ),
}
"""Kernels that the levels of each method call then, with default parameters."""

_UNWEIGHTED = frozenset(
    {"fps", "graclus", "kmis", "leiden", "louvain", "nopool", "random", "sep", "voxel", "bistride"}
)
"""Methods whose levels have no weights if their input has none."""

METHODS_WITH_KERNELS = tuple(_METHODS)
"""Names of the methods that are listed."""

Compilation = tuple[int, int]
"""Number of the kernel that is being compiled, from 1, and the number of kernels. The latter is 0 if it is unknown."""

_latest: list[Compilation] = []
"""State of the compilation in this process; empty if nothing is compiled."""


def kernels_of(
    schedules: Iterable[Schedule],
    *,
    metrics: bool,
    small: bool = True,
    large: bool = False,
    steps: Iterable[CarryStep] = (),
) -> frozenset[str]:
    """Return the kernels that a run calls, as ``"module.function"``.

    Args:
        schedules: Schedules of the run.
        metrics: True if the run computes quality figures.
        small: True if figures of small graphs are computed, see :func:`tgp.engine.metrics.choose_kernels`.
        large: True if figures of other graphs are computed.
        steps: Attributes of the levels.
    """
    used = [{level.method for level in schedule} for schedule in schedules]
    methods = set().union(*used)
    if not methods & _METHODS.keys():
        return frozenset()
    found = {name for method in methods for name in _METHODS.get(method, ())}
    if metrics:
        for names in used:
            found.update(_SMALL_METRICS if small and names & _METHODS.keys() <= _UNWEIGHTED else _METRICS)
        found.update(_LARGE_METRICS if large else ())
    for step in steps:
        found.update(_CARRY.get(step.reduction, ()), _CARRY[step.owner])
    return frozenset(found.union(_COMMON))


def external_kernels_of(schedule: Schedule) -> tuple[str, ...]:
    """Return the kernels that a run on a graph larger than memory calls, as ``"module.function"``.

    Args:
        schedule: Schedule of the run.
    """
    found = {name for level in schedule for name in _EXTERNAL_METHODS.get(level.method, ())}
    return tuple(sorted(found.union(_EXTERNAL)))


def read_compilation(connection: Any | None = None) -> Compilation | None:
    """Return the latest state of the compilation, or ``None`` if nothing is compiled.

    Args:
        connection: Readable end of the pipe of worker processes; ``None`` for this process.
    """
    if connection is None:
        return _latest[-1] if _latest else None
    states = []
    with contextlib.suppress(EOFError, OSError):
        while connection.poll():
            states.append(connection.recv_bytes())
    return max((_parse(state) for state in states), default=None)


def _parse(state: bytes) -> Compilation:
    number, total = state.split()
    return int(number), int(total)


@contextlib.contextmanager
def watch_compilation(kernels: frozenset[str]) -> Iterator[Callable[[], float]]:
    """Count the kernels that are compiled inside the block. Kernels that are loaded from the cache count as done.

    Args:
        kernels: Kernels that the block calls, see :func:`kernels_of`.

    Yields:
        Function that returns the seconds that were spent compiling; 0 if every kernel was in the cache.
    """
    from numba.core import event

    from tgp.kernels.ahead import is_ready

    started: set[str] = set()
    seconds = [0.0]
    open_events: list[float] = []

    class Listener(event.Listener):  # type: ignore[misc]
        def on_start(self, happened: Any) -> None:
            open_events.append(time.perf_counter())
            if len(open_events) == 1:  # kernels that a kernel calls are compiled with it
                function = happened.data["dispatcher"].py_func
                started.add(f"{function.__module__.removeprefix('tgp.kernels.')}.{function.__name__}")
                number = sum(name in started or is_ready(name) for name in kernels)
                _report(max(number, 1) if kernels else len(started), len(kernels))

        def on_end(self, happened: Any) -> None:
            begin = open_events.pop()
            if not open_events:
                seconds[0] += time.perf_counter() - begin

    try:
        with event.install_listener("numba:compile", Listener()):
            yield lambda: seconds[0]
    finally:
        _latest.clear()


def _report(number: int, total: int) -> None:
    _latest[:] = [(number, total)]
    for connection in workers.connections:
        with contextlib.suppress(OSError, ValueError):  # the parent has ended
            connection.send_bytes(b"%d %d" % (number, total))  # short messages are written at once


class CompilationDisplay:
    """Show which kernel the workers compile. Nothing is shown if all kernels are in the cache.

    Args:
        read: Function that returns the state of the compilation, or ``None``.
        progress: Function that receives the steps.
    """

    def __init__(self, read: Callable[[], Compilation | None], progress: Callable[[Step], None]) -> None:
        self._read = read
        self._progress = progress
        self._done = self._total = 0
        self._started: float | None = None

    def __call__(self) -> None:
        """Show the current state."""
        found = self._read()
        if found is not None:
            # Workers compile the same kernels at the same time, so the one that is ahead is shown.
            self._done, self._total = max(self._done, found[0]), max(self._total, found[1])
            self._started = self._started or time.perf_counter()
        if self._started is not None:
            seconds = time.perf_counter() - self._started
            self._progress(Step("compiling", self._done, self._total, "kernel", elapsed=seconds))
