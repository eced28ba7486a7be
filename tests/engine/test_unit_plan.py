"""Plans of units."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.bench_families import FAMILIES
from tgp.engine import coarsen, parse_schedule
from tgp.engine.level_method import GraphSizes, LevelMethod
from tgp.engine.methods import METHODS
from tgp.engine.unit_plan import ENOUGH_UNITS, MAX_UNIT_COST, MIN_UNIT_COST, bound_work, plan_units
from tgp.errors import InputError
from tgp.ragged import BlockCSR
from tgp.testing.graphs import with_attributes

SCHEDULE = parse_schedule("graclus*3")
sizes = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 5000)), max_size=60)


@given(sizes, st.integers(1, 10**6))
def test_units_are_consecutive_and_within_limits(drawn, shard_size):
    nodes, edges = np.array(drawn, dtype=np.int64).reshape(-1, 2).T
    plan = plan_units(nodes, edges, SCHEDULE, shard_size=shard_size)
    assert plan.bounds[0] == 0
    assert plan.bounds[-1] == len(nodes)
    assert all(a < b for a, b in zip(plan.bounds, plan.bounds[1:], strict=False))
    assert plan.num_units == len(plan.unit_bytes) == len(plan.unit_cost)
    for i, size in enumerate(plan.unit_bytes):
        alone = plan.bounds[i + 1] - plan.bounds[i] == 1
        assert alone or size <= shard_size + 1


@given(sizes, st.integers(1, 10**6))
def test_the_number_of_units_is_minimal(drawn, shard_size):
    nodes, edges = np.array(drawn, dtype=np.int64).reshape(-1, 2).T
    plan = plan_units(nodes, edges, SCHEDULE, shard_size=shard_size)
    single = plan_units(nodes, edges, SCHEDULE, shard_size=1).unit_bytes  # rounded up
    assert plan.num_units <= greedy_units(single, shard_size)


def greedy_units(sizes, limit):
    """Return the number of units if each takes graphs as long as they fit."""
    units, room = 0, 0.0
    for size in sizes:
        if size > room:
            units, room = units + 1, max(limit, size)
        room -= size
    return units


@given(sizes)
def test_units_contain_every_graph_once(drawn):
    nodes, edges = np.array(drawn, dtype=np.int64).reshape(-1, 2).T
    small = plan_units(nodes, edges, SCHEDULE, shard_size=1000)
    large = plan_units(nodes, edges, SCHEDULE)
    assert abs(sum(small.unit_bytes) - sum(large.unit_bytes)) <= small.num_units + 1


def test_bounds_of_small_plans():
    # One level of nopool on n nodes without edges: two offsets for the graph, three for the level, 30 bytes of
    # figures, and a cluster and a representative per node, one byte each.
    schedule = parse_schedule("nopool")
    plan = plan_units([10, 10, 10, 200, 10], [0] * 5, schedule, shard_size=150)
    assert plan.bounds == (0, 2, 3, 4, 5)
    assert plan.unit_bytes == (140, 70, 450, 70)
    assert plan_units([10], [0], schedule, metrics=False).unit_bytes == (40,)
    even = plan_units([10] * 6, [0] * 6, schedule, shard_size=299)  # not 4 and 2
    assert even.bounds == (0, 3, 6)


def test_size_of_attributes_and_hierarchies():
    one = plan_units([10] * 100, [20] * 100, SCHEDULE, shard_size=10_000)
    two = plan_units([10] * 100, [20] * 100, [SCHEDULE, SCHEDULE], shard_size=10_000)
    wide = plan_units([10] * 100, [20] * 100, SCHEDULE, shard_size=10_000, extra_bytes=4000)
    heavy = plan_units([10] * 100, [20] * 100, SCHEDULE, shard_size=10_000, weighted=True)
    assert one.num_units < two.num_units < wide.num_units
    assert sum(wide.unit_bytes) == pytest.approx(sum(one.unit_bytes) + 400_000, abs=wide.num_units)
    assert wide.total_bytes == sum(wide.unit_bytes) + wide.num_units * wide.file_bytes
    assert sum(heavy.unit_bytes) == pytest.approx(sum(one.unit_bytes) + 4 * 100 * (13 + 9 + 6), abs=5)
    bare = plan_units([10] * 100, [20] * 100, [])
    assert bare.num_units == 1
    assert bare.total_bytes < one.total_bytes


def test_units_are_limited_by_work(monkeypatch):
    original = METHODS["random"]
    heavy = LevelMethod(
        "random",
        original.params,
        original.assign,
        original.connect,
        cost=lambda n, e, p: np.full(len(n), MAX_UNIT_COST / 2),
    )
    monkeypatch.setitem(METHODS._loaded, "random", heavy)
    plan = plan_units([3] * 400, [2] * 400, parse_schedule("random"))
    assert plan.bounds == tuple(range(0, 401, 2))
    assert plan.unit_cost == (MAX_UNIT_COST,) * 200


def test_work_is_cut_into_enough_units_but_not_too_small_ones():
    """The units depend on the work, but not on the number of workers."""
    little, some, much = (plan_units([50] * n, [100] * n, parse_schedule("ndp")) for n in (100, 10**5, 10**7))
    assert little.num_units == 1
    assert 25 < some.num_units < ENOUGH_UNITS and max(some.unit_cost) <= MIN_UNIT_COST
    assert 250 < much.num_units < 400 and max(much.unit_cost) <= MAX_UNIT_COST
    assert max(some.unit_cost) < 1.01 * min(some.unit_cost)


def test_size_of_dense_assignments():
    narrow, wide = (plan_units([50] * 10, [100] * 10, parse_schedule(f"nmf:k={k}")) for k in (2, 12))
    assert sum(wide.unit_bytes) - sum(narrow.unit_bytes) > 10 * 50 * 4 * 10


def test_a_plan_of_a_million_graphs():
    rng = np.random.default_rng(0)
    plan = plan_units(rng.integers(10, 50, 10**6), rng.integers(20, 200, 10**6), SCHEDULE)
    assert 2 < plan.num_units < 100


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (([1, 2], [1], SCHEDULE), "edges"),
        (([-1], [1], SCHEDULE), "nodes"),
        (([1], [-1], SCHEDULE), "edges"),
        (([[1]], [1], SCHEDULE), "nodes"),
    ],
)
def test_wrong_sizes_raise(arguments, field):
    with pytest.raises(InputError) as caught:
        plan_units(*arguments)
    assert caught.value.field == field


def test_a_wrong_shard_size_raises():
    with pytest.raises(InputError, match="shard_size"):
        plan_units([1], [1], SCHEDULE, shard_size=0)


def graph_sizes(block):
    """Return the sizes of the graphs of a block, as a dry run measures them."""
    lengths = np.diff(block.indptr)
    degree = [lengths[a:b].max(initial=0) for a, b in pairwise(block.node_ptr)]
    signed = block.weight is not None and bool((block.weight < 0).any())
    return GraphSizes(np.diff(block.node_ptr), np.diff(block.edge_ptr), np.array(degree, np.int64), signed)


REFUSES_NEGATIVE = ("leiden", "louvain", "sep")
BOUNDED = [alias for alias, entry in METHODS.items() if entry.bound is not None]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("alias", BOUNDED)
def test_coarse_graphs_are_within_their_bounds(alias, family):
    block = with_attributes(FAMILIES[family](400))
    if alias in REFUSES_NEGATIVE and block.weight is not None:
        block = replace(block, weight=np.abs(block.weight))
    spec = parse_schedule(f"{alias}:k=4" if METHODS[alias].dense else alias)[0]
    bound = spec.level_method.bound(graph_sizes(block), spec.params)
    coarse = coarsen(block, alias if not METHODS[alias].dense else f"{alias}:k=4").levels[0].block
    assert coarse.num_nodes <= bound.nodes[0] and coarse.num_edges <= bound.edges[0]


def test_a_directed_graph_is_within_the_bounds_of_kmis():
    """The coarse graph has the reverse of every edge, so that it can have more edges than the graph."""
    block = BlockCSR.from_edge_index([[0, 1, 2, 2], [1, 2, 3, 4]])
    spec = parse_schedule("kmis:remove_self_loops=false")[0]
    coarse = coarsen(block, str(spec)).levels[0].block
    assert coarse.num_edges <= METHODS["kmis"].bound(graph_sizes(block), spec.params).edges[0]


def test_the_bound_of_a_schedule_grows_with_its_levels():
    sizes = graph_sizes(FAMILIES["BA"](400))
    one, two = (bound_work(sizes, [parse_schedule(text)]) for text in ("graclus", "graclus*2"))
    assert one.certain and two.certain
    assert one.seconds[0] < two.seconds[0] < 3 * one.seconds[0]
    both = bound_work(sizes, [parse_schedule("graclus"), parse_schedule("graclus*2")])
    assert both.memory[0] == max(one.memory[0], two.memory[0])
    assert one.seconds[0] < both.seconds[0] <= one.seconds[0] + two.seconds[0]


def test_a_method_without_bounds_has_estimates(monkeypatch):
    """A method of another package that was written before bounds existed."""
    given = METHODS["random"]
    plain = LevelMethod("random", given.params, given.assign, given.connect)
    monkeypatch.setitem(METHODS._loaded, "random", plain)
    found = bound_work(graph_sizes(FAMILIES["BA"](400)), [parse_schedule("random*2")])
    assert not found.certain and found.seconds[0] > 0 and found.memory[0] > 0


@pytest.mark.parametrize("alias", [alias for alias in METHODS if alias != "random"])
def test_units_do_not_depend_on_bounds(alias, monkeypatch):
    """Stores were divided into shards by costs. Bounds are shown only, so better ones leave the bytes of stores alone."""
    nodes, edges = np.arange(1, 4001) % 300 + 5, np.arange(1, 4001) % 900 + 20
    schedule = parse_schedule(f"{alias}:k=4" if METHODS[alias].dense else alias)
    before = plan_units(nodes, edges, schedule, shard_size=10**5).bounds
    given = METHODS[alias]
    monkeypatch.setitem(METHODS._loaded, alias, replace(given, bound=lambda sizes, params: None))
    assert plan_units(nodes, edges, schedule, shard_size=10**5).bounds == before
