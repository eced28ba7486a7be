"""Functions ``check_*``: requirements for every level method.

Each function takes a :class:`MethodCase` and raises ``AssertionError`` if the method fails the check.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tgp.engine import METHODS, coarsen, parse_schedule, threads
from tgp.engine.level_method import GraphSizes, LevelMethod
from tgp.engine.schedule import LevelSpec, Schedule
from tgp.ragged import Assignment, BlockCSR, Hierarchy
from tgp.testing import graphs
from tgp.testing.patching import replaced_attribute

__all__ = ["METHOD_CHECKS", "PARAMETERS", "MethodCase"]

PARAMETERS: dict[str, Any] = {"k": 3, "num_modes": 2, "ratio": 0.5, "scorer": "degree"}
"""Values of parameters in the checks, by name. Other parameters have their defaults."""

LEVELS = 2


@dataclass(frozen=True)
class MethodCase:
    """Level method with its parameters.

    Args:
        alias: Alias in the table of methods.
        given: Parameters. They override :data:`PARAMETERS`.
    """

    alias: str
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def method(self) -> LevelMethod:
        """Level method of this alias."""
        return METHODS[self.alias]

    @property
    def params(self) -> dict[str, Any]:
        """Parameters of the checks."""
        names = {f.name for f in dataclasses.fields(self.method.params)}
        return {name: value for name, value in {**PARAMETERS, **self.given}.items() if name in names}

    @property
    def schedule(self) -> Schedule:
        """Schedule with two levels of the method; one level if the method is dense."""
        return Schedule((LevelSpec.of(self.alias, self.params),) * (1 if self.method.dense else LEVELS))

    def coarsen(self, block: BlockCSR, seed: int = 5) -> Hierarchy:
        """Return the hierarchy of ``block``. If the method needs attributes that it does not have, it gets some."""
        known = () if block.attributes is None else block.attributes.values
        if set(self.method.needs) - set(known):
            block = graphs.with_attributes(block)
        return coarsen(block, self.schedule, seed)

    def __str__(self) -> str:
        return self.alias


def sample_block(*, weighted: bool = True) -> BlockCSR:
    """Return small graphs of many shapes, including graphs without nodes and without edges."""
    makers = (
        graphs.path,
        graphs.empty,
        graphs.karate,
        graphs.single_node,
        graphs.grid2d,
        graphs.isolated,
        graphs.star,
        graphs.self_loop,
        graphs.disconnected,
        graphs.complete,
    )
    block = BlockCSR.concat([make() for make in makers])
    return with_weights(block) if weighted else block


def with_weights(block: BlockCSR, salt: int = 0) -> BlockCSR:
    """Return the block with symmetric weights that depend only on the positions of the nodes in their graph."""
    rows, cols = block.edge_index()
    start = np.repeat(block.node_ptr[:-1], np.diff(block.edge_ptr))
    low, high = np.minimum(rows, cols) - start, np.maximum(rows, cols) - start
    weight = 0.25 + ((low * 2654435761 + high * 40503 + salt) % 1009) / 256.0
    return BlockCSR(block.indptr, block.indices, weight, block.node_ptr)


def check_sizes(case: MethodCase) -> None:
    """Check that ids are in range, graphs stay separate, and every supernode has nodes."""
    for weighted in (True, False):
        block = sample_block(weighted=weighted)
        hierarchy = case.coarsen(block).validate()
        nodes = block.node_ptr
        for level in hierarchy.levels:
            assignment, coarse = level.assignment, level.block
            assignment.validate(nodes)
            coarse.validate()
            assert np.array_equal(coarse.node_ptr, assignment.super_ptr), (
                "coarse graphs and supernodes differ"
            )
            sizes, supers = np.diff(nodes), np.diff(assignment.super_ptr)
            if assignment.kind == "hard":
                assert (supers <= sizes).all(), "more supernodes than nodes"
                assert (supers[sizes > 0] > 0).all(), "a graph with nodes has no supernode"
                used = np.unique(assignment.cluster) if assignment.cluster is not None else np.empty(0)
                assert np.sum(used >= 0) == assignment.num_supernodes, "a supernode has no nodes"
            assert coarse.weight is None or np.isfinite(coarse.weight).all()
            nodes = assignment.super_ptr


def check_blocks(case: MethodCase) -> None:
    """Check that the hierarchy of a graph is the same alone and at any position in a block."""
    block = sample_block()
    together = case.coarsen(block)
    order = np.random.default_rng(0).permutation(block.num_graphs)
    shuffled = case.coarsen(block.take(order))
    for place, graph in enumerate(order.tolist()):
        alone = _of_graph(case.coarsen(block.take([graph])), 0)
        _assert_same(_of_graph(together, graph), alone, f"graph {graph} in a block and alone")
        _assert_same(_of_graph(shuffled, place), alone, f"graph {graph} at another position and alone")


def check_seeds(case: MethodCase) -> None:
    """Check that equal seeds give equal bytes for any state of the global random number generators."""
    block = sample_block()
    np.random.seed(1)  # noqa: NPY002
    first = case.coarsen(block)
    np.random.seed(2)  # noqa: NPY002
    np.random.random(7)  # noqa: NPY002
    _assert_same(_bytes(case.coarsen(block)), _bytes(first), "two runs of the same seed")
    case.coarsen(block, seed=6).validate()


def check_threads(case: MethodCase) -> None:
    """Check that results depend neither on the number of threads nor on concurrent calls."""
    block = BlockCSR.concat([sample_block()] * 3)
    expected = _bytes(case.coarsen(block))
    with (
        replaced_attribute(threads, "_MIN_WORK", 1),
        replaced_attribute(threads, "num_threads", lambda: 3),
    ):
        _assert_same(_bytes(case.coarsen(block)), expected, "three threads and one")
    with ThreadPoolExecutor(3) as pool:
        for found in pool.map(lambda _: _bytes(case.coarsen(block)), range(3)):
            _assert_same(found, expected, "concurrent calls")


def check_tiny(case: MethodCase) -> None:
    """Check blocks without graphs, and graphs without nodes, without edges or with self loops only."""
    loops = BlockCSR.from_edge_index(np.array([[0, 1], [0, 1]]), None, num_nodes=2)
    none = BlockCSR.concat([])
    for block in (none, graphs.empty(), graphs.single_node(), graphs.isolated(), loops, graphs.self_loop()):
        hierarchy = case.coarsen(block).validate()
        assert hierarchy.levels[-1].block.num_graphs == block.num_graphs
        if block.num_nodes and not case.method.dense:
            assert hierarchy.levels[-1].block.num_nodes >= 1, "a graph with nodes has no supernode"


def check_odd_weights(case: MethodCase) -> None:
    """Check that zero weights, parallel edges and directed edges give valid results."""
    block = sample_block()
    zero = BlockCSR(block.indptr, block.indices, np.zeros(block.num_edges), block.node_ptr)
    pairs = np.array([[0, 0, 1, 1, 1, 2], [1, 1, 0, 0, 2, 1]])
    parallel = BlockCSR.from_edge_index(pairs, np.arange(1.0, 7.0), num_nodes=4)
    for odd in (zero, parallel, graphs.directed()):
        case.coarsen(odd).validate()


def check_weights(case: MethodCase) -> None:
    """Check that coarse weights depend on the weights, and that unweighted graphs follow the declaration."""
    block = sample_block(weighted=False)
    plain = case.coarsen(block)
    declared = case.method.estimate.weighted
    found = plain.levels[0].block.weight is not None
    assert found == declared, (
        f"coarse graphs of unweighted graphs have weights: {found}, declared: {declared}"
    )
    first, second = case.coarsen(with_weights(block)), case.coarsen(with_weights(block, salt=77))
    assert first.levels[0].block.weight is not None, "coarse graphs of weighted graphs have no weights"
    assert _bytes(first) != _bytes(second), "coarse graphs do not depend on the weights"


def check_inputs_unchanged(case: MethodCase) -> None:
    """Check that the method does not change its input arrays."""
    block = sample_block()
    before = {name: getattr(block, name).copy() for name in ("indptr", "indices", "weight", "node_ptr")}
    case.coarsen(block)
    for name, array in before.items():
        assert np.array_equal(getattr(block, name), array), f"the method changed {name} in place"


def check_needs(case: MethodCase) -> None:
    """Check that the result depends on the attributes that the method declares, and that they are required."""
    from tgp.errors import InputError

    block = sample_block()
    for name in case.method.needs:
        bare = graphs.with_attributes(block)
        others = {key: bare.node_values(key) for key in ("x", "pos") if key != name}
        try:
            coarsen(block.with_values(**others), case.schedule)
        except InputError as error:
            assert name in str(error), f"the error does not name {name!r}: {error}"
        else:
            raise AssertionError(f"graphs without {name!r} are accepted")
        moved = block.with_values(**others, **{name: graphs.with_attributes(block, 5).node_values(name)})
        assert _bytes(case.coarsen(moved)) != _bytes(case.coarsen(bare)), f"the result ignores {name!r}"


def check_schedule(case: MethodCase) -> None:
    """Check that a schedule can be written as text and JSON and read back, with hashable parameters."""
    schedule = case.schedule
    assert parse_schedule(str(schedule)) == schedule
    assert Schedule.from_json(schedule.to_json()) == schedule
    params = schedule[0].params
    assert dataclasses.replace(params) == params
    assert hash(params) == hash(dataclasses.replace(params)), "parameters must be a frozen dataclass"


def check_planning(case: MethodCase) -> None:
    """Check that estimated cost, sizes and bounds are valid, and that they do not fall as graphs grow."""
    nodes, edges = np.array([1, 10, 1000, 10**6]), np.array([0, 30, 4000, 4 * 10**6])
    cost = np.asarray(case.method.cost(nodes, edges, case.schedule[0].params), np.float64)
    assert cost.shape == nodes.shape and np.isfinite(cost).all() and (cost >= 0).all()
    assert (np.diff(cost) >= 0).all(), "a larger graph costs less"
    expected = case.method.estimate
    assert 0 < expected.nodes <= 1 and expected.edges > 0 and expected.scratch >= 0
    if case.method.bound is None:
        return
    bound = case.method.bound(GraphSizes(nodes, edges, np.minimum(nodes, edges)), case.schedule[0].params)
    for values in (bound.seconds, bound.memory, bound.nodes, bound.edges):
        assert values.shape == nodes.shape and np.isfinite(values).all() and (values >= 0).all()
        assert (np.diff(values) >= 0).all(), "the bound of a larger graph is smaller"


def check_layer_transform_store(case: MethodCase) -> None:
    """Check that the layer, the transform, a store on disk and a store in memory give the same bytes."""
    import torch

    from tgp.data import PooledBatch, PooledDataset, PreCoarsening
    from tgp.poolers import get_pooler

    data = _data_list()
    level = (case.alias, case.params)
    joined = PooledBatch.from_data_list([PreCoarsening([level], seed=3)(graph) for graph in data])
    with tempfile.TemporaryDirectory() as folder:
        path = _write_store(Path(folder) / "store", data, parse_schedule([level]), seed=3)
        for in_memory in (False, True):
            stored = PooledDataset(path, in_memory=in_memory).get_batch(list(range(len(data))))
            assert isinstance(stored, PooledBatch)
            _assert_same_level(stored.pooled_data[0], joined.pooled_data[0], "store and transform")
    x, batch = joined.x, joined.batch
    layer = get_pooler(case.alias, seed=3, sparse_output=True, **case.params)
    given = {name: joined[name] for name in case.method.needs if name != "x"}
    out = layer(
        x=x, adj=joined.edge_index, edge_weight=joined.edge_weight, batch=batch, batch_size=len(data), **given
    )
    _assert_same_level(joined.pooled_data[0], out.as_data(), "transform and layer")
    assert torch.equal(out.batch, joined.pooled_data[0].batch), "graph ids of transform and layer"


def check_store(case: MethodCase) -> None:
    """Check that a hierarchy in a store is read back with the same arrays."""
    from tgp.store import StoreReader

    data = _data_list()
    with tempfile.TemporaryDirectory() as folder:
        path = _write_store(Path(folder) / "store", data, case.schedule, seed=5)
        expected = case.coarsen(_arrays(data, case.schedule)[1])
        found = StoreReader(path).gather_levels(np.arange(len(data)), "h")
        for number, (level, stored) in enumerate(zip(expected.levels, found, strict=True), start=1):
            arrays = _assignment_arrays(level.assignment)
            arrays |= {"edge_index": level.block.edge_index(), "edge_weight": level.block.weight}
            found_arrays = stored.arrays() | {"super_ptr": stored.super_ptr}
            for name, array in arrays.items():
                mine = found_arrays.get(name)
                assert (mine is None) == (array is None), f"level {number}: {name} is missing"
                if mine is not None:
                    assert np.array_equal(mine, array), f"level {number}: {name} differs"


def _data_list() -> list[Any]:
    import torch
    from torch_geometric.data import Data

    found = []
    for number, one in enumerate(sample_block().split()):
        index = torch.from_numpy(one.edge_index().astype(np.int64))
        weight = torch.from_numpy(one.weights_or_ones().astype(np.float32))
        generator = torch.Generator().manual_seed(number)
        x = torch.randn(one.num_nodes, 2, generator=generator)
        pos = torch.rand(one.num_nodes, 2, generator=generator, dtype=torch.float64)
        found.append(Data(x=x, edge_index=index, edge_weight=weight, pos=pos))
    return found


def _arrays(data: list[Any], schedule: Schedule) -> tuple[Any, BlockCSR]:
    from tgp.data import graphs_to_arrays

    table, _ = graphs_to_arrays(data)
    return table, table.to_block(schedule.needs)


def _write_store(path: Path, data: list[Any], schedule: Schedule, seed: int) -> Path:
    from tgp.store import HierarchySpec, StoreSpec, StoreWriter, data_digest

    table, block = _arrays(data, schedule)
    spec = HierarchySpec("h", schedule.to_json(), seed)
    bounds = (0, len(data) // 2, len(data))
    writer = StoreWriter.open(
        path, StoreSpec({"name": "toy"}, data_digest(table), len(data), bounds, "fast", (spec,))
    )
    for unit in range(2):
        ids = np.arange(bounds[unit], bounds[unit + 1])
        writer.write_graphs(unit, table.take(ids))
        writer.write_hierarchy(unit, "h", coarsen(block.take(ids), schedule, seed))
    writer.publish()
    return path


def _assert_same_level(mine: Any, theirs: Any, what: str) -> None:
    import torch

    assert torch.equal(mine.edge_index, theirs.edge_index), f"{what}: edges differ"
    ours, other = mine.get("edge_weight"), theirs.get("edge_weight")
    assert (ours is None) == (other is None), f"{what}: weights are missing on one side"
    assert ours is None or torch.equal(ours, other), f"{what}: weights differ"
    assert torch.equal(mine.so.s.to_dense(), theirs.so.s.to_dense()), f"{what}: assignments differ"


Flat = list[tuple[str, bytes]]
"""Names and bytes of arrays."""


def _assert_same(mine: Flat, theirs: Flat, what: str) -> None:
    for (name, ours), (_, other) in zip(mine, theirs, strict=True):
        assert ours == other, f"{what}: {name} differs"


def _bytes(hierarchy: Hierarchy) -> Flat:
    """Return the bytes of every array of a hierarchy, with a name."""
    found: Flat = []
    for number, level in enumerate(hierarchy.levels):
        a, b = level.assignment, level.block
        arrays = _assignment_arrays(a) | {"indptr": b.indptr, "indices": b.indices, "weights": b.weight}
        found += [
            (f"{name} of level {number + 1}", b"" if array is None else array.tobytes())
            for name, array in arrays.items()
        ]
    return found


def _assignment_arrays(a: Assignment) -> dict[str, Any]:
    names = ("super_ptr", "cluster", "weight", "soft", "theta", "representative")
    return {name: getattr(a, name) for name in names}


def _of_graph(hierarchy: Hierarchy, graph: int) -> Flat:
    """Return the bytes of the arrays of one graph, with ids relative to its first node."""
    found: Flat = []
    nodes = hierarchy.node_ptr
    for number, level in enumerate(hierarchy.levels):
        a, one = level.assignment, level.block.take([graph])
        mine = slice(int(nodes[graph]), int(nodes[graph + 1]))
        first, last = (int(value) for value in a.super_ptr[graph : graph + 2])
        arrays = {
            name: None if array is None else array[mine] for name, array in _assignment_arrays(a).items()
        }
        if a.cluster is not None:
            cluster = a.cluster[mine].astype(np.int64)
            arrays["cluster"] = np.where(cluster < 0, -1, cluster - first)
        if a.representative is not None:
            arrays["representative"] = a.representative[first:last].astype(np.int64) - mine.start
        arrays["super_ptr"] = np.array([last - first])
        arrays |= {"indptr": one.indptr, "indices": one.indices, "weights": one.weight}
        found += [
            (f"{name} of level {number + 1}", b"" if array is None else np.ascontiguousarray(array).tobytes())
            for name, array in arrays.items()
        ]
        nodes = a.super_ptr
    return found


METHOD_CHECKS: dict[str, Callable[[MethodCase], None]] = {
    name.removeprefix("check_"): function
    for name, function in list(globals().items())
    if name.startswith("check_")
}
"""Functions by name, without the prefix ``check_``."""
