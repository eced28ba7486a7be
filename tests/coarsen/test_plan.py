"""Plans: bounds from sizes alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.coarsen import parse_schedule
from tgp.coarsen.methods import METHODS
from tgp.coarsen.plan import MAX_UNIT_COST, plan_units
from tgp.coarsen.protocol import LevelMethod
from tgp.errors import InputError

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
    # Each unit is as long as it can be: the next graph would not have fitted.
    single = plan_units(nodes, edges, SCHEDULE, shard_size=1).unit_bytes
    for i, size in enumerate(plan.unit_bytes[:-1]):
        assert size + single[plan.bounds[i + 1]] > shard_size


@given(sizes)
def test_no_graph_is_lost(drawn):
    nodes, edges = np.array(drawn, dtype=np.int64).reshape(-1, 2).T
    small = plan_units(nodes, edges, SCHEDULE, shard_size=1000)
    large = plan_units(nodes, edges, SCHEDULE)
    assert abs(small.total_bytes - large.total_bytes) <= small.num_units + 1


def test_greedy_cut_by_hand():
    # One level of nopool on n nodes without edges: 8 n for the graph, 8 n + 8 ceil(9/16 n) for the level.
    plan = plan_units([10, 10, 10, 100, 10], [0] * 5, parse_schedule("nopool"), shard_size=420)
    assert plan.bounds == (0, 2, 3, 4, 5)
    assert plan.unit_bytes == (416, 208, 2056, 208)


def test_attributes_and_more_hierarchies_take_room():
    one = plan_units([10] * 100, [20] * 100, SCHEDULE, shard_size=10_000)
    two = plan_units([10] * 100, [20] * 100, [SCHEDULE, SCHEDULE], shard_size=10_000)
    wide = plan_units([10] * 100, [20] * 100, SCHEDULE, shard_size=10_000, extra_bytes=4000)
    assert one.num_units < two.num_units < wide.num_units
    assert wide.total_bytes == one.total_bytes + 400_000
    bare = plan_units([10] * 100, [20] * 100, [])
    assert bare.num_units == 1
    assert bare.total_bytes < one.total_bytes


def test_work_ends_a_unit_too(monkeypatch):
    original = METHODS["random"]
    heavy = LevelMethod(
        "random",
        original.params,
        original.assign,
        original.connect,
        cost=lambda n, e, p: np.full(len(n), MAX_UNIT_COST / 2),
    )
    monkeypatch.setitem(METHODS._loaded, "random", heavy)
    plan = plan_units([3] * 6, [2] * 6, parse_schedule("random"))
    assert plan.bounds == (0, 2, 4, 6)
    assert plan.unit_cost == (MAX_UNIT_COST,) * 3


def test_peak_memory_grows_with_workers():
    plan = plan_units([1000] * 50, [4000] * 50, SCHEDULE, shard_size=10**6)
    assert plan.num_units > 3
    assert plan.peak_bytes(1) < plan.peak_bytes(2) < plan.peak_bytes(100)
    assert plan.peak_bytes(100) == 4 * plan.total_bytes
    assert plan_units([], [], SCHEDULE).peak_bytes() == 0


def test_a_million_graphs_plan_quickly():
    rng = np.random.default_rng(0)
    plan = plan_units(rng.integers(10, 50, 10**6), rng.integers(20, 200, 10**6), SCHEDULE)
    assert 5 < plan.num_units < 1000


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (([1, 2], [1], SCHEDULE), "edges"),
        (([-1], [1], SCHEDULE), "nodes"),
        (([1], [-1], SCHEDULE), "edges"),
        (([[1]], [1], SCHEDULE), "nodes"),
    ],
)
def test_bad_sizes(arguments, field):
    with pytest.raises(InputError) as caught:
        plan_units(*arguments)
    assert caught.value.field == field


def test_bad_shard_size():
    with pytest.raises(InputError, match="shard_size"):
        plan_units([1], [1], SCHEDULE, shard_size=0)
