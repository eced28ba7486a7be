"""``PoolBatchSampler``: orders, limits, ranks and resuming."""

import hashlib
import json
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from tests.reference.calls import calls_of
from tgp.data.batch_stream import Budget, cut
from tgp.data.sampler import KeyedPermutation, PoolBatchSampler, size_table
from tgp.errors import InputError

MANY = settings(max_examples=60, deadline=None)
MORE = settings(max_examples=100, deadline=None)


@MANY
@given(size=st.integers(0, 300), seed=st.integers(-(2**63), 2**63), epoch=st.integers(0, 50))
def test_permutation_is_a_bijection(size, seed, epoch):
    order = KeyedPermutation(size, seed, epoch)
    whole = order(np.arange(size))
    assert sorted(whole.tolist()) == list(range(size))
    some = np.arange(size)[::3]
    np.testing.assert_array_equal(order(some), whole[some])


def test_permutation_depends_on_seed_and_epoch():
    orders = {tuple(KeyedPermutation(50, s, e)(np.arange(50))) for s in range(5) for e in range(5)}
    assert len(orders) == 25


def test_permutation_looks_random():
    """Every item is equally likely to be the first, and neighbours are separated."""
    first = np.array([KeyedPermutation(16, s)([0])[0] for s in range(4000)])
    counts = np.bincount(first, minlength=16)
    assert ((counts - 250) ** 2 / 250).sum() < 45  # chi-square, 15 degrees of freedom
    order = KeyedPermutation(10_000, 1)(np.arange(10_000))
    assert abs(np.corrcoef(order, np.arange(10_000))[0, 1]) < 0.05
    assert (np.abs(np.diff(order)) == 1).mean() < 0.01


def test_positions_out_of_range_are_refused():
    with pytest.raises(InputError, match="positions"):
        KeyedPermutation(5)([5])


def random_sizes(seed, size):
    rng = np.random.default_rng(seed)
    return rng.integers(1, 40, size), rng.integers(0, 90, size)


def skewed_sizes(seed, size):
    """Return sizes of which some are much larger than the others."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(size) < 0.3, rng.integers(60, 100, size), rng.integers(1, 6, size)), np.ones(
        size, int
    )


def make(size, *, sizes=None, **options):
    defaults = {"batch_size": 7, "shuffle": True, "seed": 5}
    return PoolBatchSampler(size, sizes=sizes, **{**defaults, **options})


OPTIONS = st.fixed_dictionaries(
    {
        "batch_size": st.integers(1, 12),
        "shuffle": st.booleans(),
        "seed": st.integers(0, 1000),
        "max_nodes": st.none() | st.integers(1, 120),
        "max_edges": st.none() | st.integers(1, 200),
        "bucket_size": st.none() | st.integers(1, 50),
    }
)


def all_ranks(size, world, sizes, epoch=0, **options):
    ranks = [PoolBatchSampler(size, sizes=sizes, rank=r, world_size=world, **options) for r in range(world)]
    for sampler in ranks:
        sampler.set_epoch(epoch)
    return ranks


def batches_of(size, world, sizes, **options):
    """Return the batches of every rank: ``result[rank][step]`` is a list of graphs."""
    return [list(sampler) for sampler in all_ranks(size, world, sizes, **options)]


def repeated(batches):
    """Return the number of graphs that occur again, and the set of graphs."""
    seen = Counter(i for rank in batches for batch in rank for i in batch)
    return sum(seen.values()) - len(seen), set(seen)


DISTRIBUTED = st.fixed_dictionaries(
    {
        "batch_size": st.none() | st.integers(1, 12),
        "shuffle": st.booleans(),
        "seed": st.integers(0, 1000),
        "epoch": st.integers(0, 3),
        "max_nodes": st.none() | st.integers(1, 120),
        "max_edges": st.none() | st.integers(1, 200),
        "bucket_size": st.none() | st.integers(1, 50),
        "drop_last": st.booleans(),
    }
).filter(lambda o: o["batch_size"] or o["max_nodes"] or o["max_edges"])


@MORE
@given(size=st.integers(0, 120), world=st.integers(1, 9), options=DISTRIBUTED)
def test_every_rank_gets_the_same_number_of_batches(size, world, options):
    sizes = random_sizes(1, size)
    ranks = all_ranks(size, world, sizes, **options)
    batches = [list(sampler) for sampler in ranks]
    assert len({len(rank) for rank in batches}) == 1
    assert [len(sampler) for sampler in ranks] == [len(rank) for rank in batches]
    assert all(batch for rank in batches for batch in rank)


def assert_limits_hold(batches, nodes, edges, options):
    for batch in (b for rank in batches for b in rank):
        assert options["batch_size"] is None or len(batch) <= options["batch_size"]
        if len(batch) > 1:
            assert options["max_nodes"] is None or nodes[batch].sum() <= options["max_nodes"]
            assert options["max_edges"] is None or edges[batch].sum() <= options["max_edges"]


@MORE
@given(size=st.integers(0, 120), world=st.integers(1, 9), options=DISTRIBUTED)
def test_every_rank_keeps_the_limits(size, world, options):
    nodes, edges = random_sizes(2, size)
    assert_limits_hold(batches_of(size, world, (nodes, edges), **options), nodes, edges, options)


@MORE
@given(
    size=st.integers(3, 60),
    world=st.integers(3, 9),
    limit=st.integers(90, 150),
    bucket=st.none() | st.just(40),
)
def test_every_rank_keeps_the_limits_among_graphs_of_different_size(size, world, limit, bucket):
    nodes, edges = skewed_sizes(size, size)
    options = {
        "batch_size": None,
        "max_nodes": limit,
        "max_edges": None,
        "bucket_size": bucket,
        "shuffle": True,
    }
    assert_limits_hold(batches_of(size, world, (nodes, edges), **options), nodes, edges, options)


@MORE
@given(size=st.integers(0, 120), world=st.integers(1, 9), options=DISTRIBUTED)
def test_every_graph_occurs_and_few_are_repeated(size, world, options):
    batches = batches_of(size, world, random_sizes(3, size), **options)
    extra, seen = repeated(batches)
    steps = len(batches[0])
    if options["drop_last"]:
        assert extra == 0
        return
    assert seen == set(range(size))
    last = [i for rank in batches for batch in rank[-1:] for i in batch]
    if extra:  # only if the last step has one graph per rank; no graph twice in it if there are enough graphs
        assert extra < world
        assert len(last) == world
        assert size < world or len(set(last)) == world
    if options["bucket_size"] is None and (options["max_nodes"], options["max_edges"]) == (None, None):
        assert extra == max(0, world * steps - size)  # no other division into batches repeats fewer graphs


@MORE
@given(size=st.integers(0, 120), world=st.integers(2, 9), options=DISTRIBUTED)
def test_ranks_take_turns_before_the_end_of_the_epoch(size, world, options):
    """All steps but the last two are the batches of one process."""
    sizes = random_sizes(4, size)
    alone = batches_of(size, 1, sizes, **options)[0]
    batches = batches_of(size, world, sizes, **options)
    for step in range(len(batches[0]) - 2):
        assert [rank[step] for rank in batches] == alone[step * world : (step + 1) * world]


@MANY
@given(size=st.integers(0, 120), world=st.integers(1, 9), options=DISTRIBUTED)
def test_batches_depend_on_seed_and_epoch_only(size, world, options):
    sizes = random_sizes(5, size)
    first = batches_of(size, world, sizes, **options)
    assert batches_of(size, world, sizes, **options) == first
    ranks = all_ranks(size, world, sizes, **{**options, "epoch": 0})
    for _ in range(options["epoch"]):
        for sampler in ranks:
            list(sampler)
    if all(len(sampler) for sampler in ranks):
        assert [list(sampler) for sampler in ranks] == first


def test_a_rank_without_graphs_takes_graphs_of_other_ranks():
    """33 graphs in batches of 16 gave 2 batches to rank 0 and 1 to rank 1."""
    assert [[len(b) for b in rank] for rank in batches_of(33, 2, None, batch_size=16)] == [[16, 1], [15, 1]]
    assert batches_of(1, 3, None, batch_size=16) == [[[0]], [[0]], [[0]]]
    assert batches_of(2, 3, None, batch_size=1) == [[[0]], [[1]], [[0]]]
    assert batches_of(4, 3, None, batch_size=1) == [[[0], [3]], [[1], [0]], [[2], [1]]]
    assert batches_of(0, 3, None, batch_size=1) == [[], [], []]


def test_the_last_step_of_several_ranks_keeps_the_limit():
    """The last two batches were joined and divided by number of graphs: 1,800 nodes in a batch of rank 3."""
    nodes = np.array([1, 1, 1, 1, 1, 1, 900, 900])
    batches = batches_of(8, 4, (nodes, nodes), batch_size=None, max_nodes=1000, shuffle=False)
    assert batches == [[[0, 1, 2]], [[3, 4]], [[5, 6]], [[7]]]


def recorded_ranks():
    """Return the batches of one process for several options, as text."""
    numbers = np.arange(200)
    sizes = (numbers * 37 % 39 + 1, numbers * 53 % 90)
    options = [
        {},
        {"drop_last": True},
        {"max_nodes": 100},
        {"max_edges": 150, "batch_size": None, "drop_last": True},
        {"bucket_size": 64, "max_nodes": 90},
        {"shuffle": False, "bucket_size": 30},
    ]
    found = []
    for chosen in options:
        sampler = make(200, sizes=sizes, **chosen)
        found += [list(sampler), list(sampler), len(sampler)]
    return json.dumps(found)


def test_batches_of_one_process_are_those_of_earlier_versions():
    digest = hashlib.sha256(recorded_ranks().encode()).hexdigest()
    assert digest == "ea8421f719244fa109577e28af1e0b985304eff7aa1c6396f2ab467704fbd176"


@MANY
@given(
    size=st.integers(1, 120),
    options=DISTRIBUTED,
    before=st.integers(1, 8),
    after=st.integers(1, 8),
    steps=st.integers(0, 9),
)
def test_resume_with_another_number_of_ranks(size, options, before, after, steps):
    """The batches of `before` ranks and the remaining ones of `after` ranks contain every graph."""
    sizes = random_sizes(3, size)
    options = {**options, "drop_last": False}
    seen, states = Counter(), []
    for sampler in all_ranks(size, before, sizes, **options):
        stream = iter(sampler)
        for _ in range(steps):
            batch = next(stream, None)
            if batch is None:
                break
            sampler.advance()
            seen.update(batch)
        states.append(json.loads(json.dumps(sampler.state_dict())))
    assert all(state == states[0] for state in states)
    if states[0]["epoch"] == options["epoch"]:
        for sampler in all_ranks(size, after, sizes, **options):
            sampler.load_state_dict(states[0])
            seen.update(i for batch in sampler for i in batch)
    assert set(seen) == set(range(size))
    assert sum(seen.values()) - size < max(before, after)


@MANY
@given(size=st.integers(1, 100), world=st.integers(1, 8), options=DISTRIBUTED, taken=st.integers(0, 12))
def test_resume_on_several_ranks_is_exact(size, world, options, taken):
    """Every rank continues with the batches that the uninterrupted run would have returned."""
    sizes = random_sizes(6, size)
    for sampler, resumed in zip(
        all_ranks(size, world, sizes, **options), all_ranks(size, world, sizes, **options), strict=True
    ):
        stream = iter(sampler)
        for _ in range(taken):
            if next(stream, None) is not None:
                sampler.advance()
        state = sampler.state_dict()
        if state["epoch"] == options["epoch"]:
            resumed.load_state_dict(state)
            assert list(resumed) == list(stream)


def test_length_follows_the_seed_of_the_epoch():
    """A length that was counted before a seed was drawn is not returned for the drawn one."""
    sizes = random_sizes(9, 60)
    for seed in range(20):
        sampler = make(60, sizes=sizes, seed=None, max_nodes=60)
        len(sampler)
        torch.manual_seed(seed)
        assert len(list(sampler)) == len(sampler)


@MANY
@given(size=st.integers(1, 100), options=OPTIONS, taken=st.integers(0, 40), ahead=st.integers(0, 5))
def test_resume_is_exact(size, options, taken, ahead):
    """The rest of the epoch and the following epochs are the same, although the sampler was ahead of the loop."""
    sizes = random_sizes(4, size)
    reference = PoolBatchSampler(size, sizes=sizes, **options)
    flat = [batch for _ in range(4) for batch in reference]
    running = PoolBatchSampler(size, sizes=sizes, **options)
    stream, used = iter(running), 0
    outstanding = 0
    for _ in range(taken + ahead):
        if next(stream, None) is None:
            break
        outstanding += 1
    while used < min(taken, outstanding):
        running.advance()
        used += 1
    state = running.state_dict()
    assert len(json.dumps(state)) < 150
    resumed = PoolBatchSampler(size, sizes=sizes, **options)
    resumed.load_state_dict(state)
    rest = [batch for _ in range(2) for batch in resumed]
    assert rest == flat[used : used + len(rest)]
    assert len(rest) >= len(reference) // 2


def test_resuming_does_not_replay_the_epoch():
    """Resuming late in an epoch takes no more calls than at its start."""
    size = 200_000
    sizes = random_sizes(5, size)
    for options in ({}, {"max_nodes": 4096}, {"bucket_size": 8192, "max_nodes": 4096}):
        start = make(size, sizes=sizes, batch_size=128, **options).state_dict()

        def resume(position, options=options, start=start):
            sampler = make(size, sizes=sizes, batch_size=128, **options)
            sampler.load_state_dict(start | {"position": position})
            next(iter(sampler))

        resume(0)
        assert calls_of(lambda: resume(8192 * 20)) <= 2 * calls_of(lambda: resume(8192))


def test_order_is_new_every_epoch_and_set_epoch_repeats_it():
    sampler = make(40)
    first, second = list(sampler), list(sampler)
    assert first != second
    sampler.set_epoch(0)
    assert list(sampler) == first


def test_without_shuffle_the_order_is_natural():
    assert [i for batch in make(20, shuffle=False) for i in batch] == list(range(20))


def test_drop_last():
    assert [len(b) for b in make(20, drop_last=True)] == [7, 7]
    assert len(make(20, drop_last=True)) == 2
    for rank in range(2):
        sampler = make(20, batch_size=3, drop_last=True, rank=rank, world_size=2)
        assert [len(b) for b in sampler] == [3, 3, 3]
        assert len(sampler) == 3


def test_seed_none_follows_torch():
    sampler = make(60, seed=None)
    torch.manual_seed(3)
    first = list(sampler)
    torch.manual_seed(3)
    sampler.set_epoch(0)
    assert list(sampler) == first
    stream = iter(sampler)
    next(stream)
    sampler.advance()
    other = make(60, seed=None)
    other.load_state_dict(sampler.state_dict())
    assert list(other) == list(stream)


def test_buckets_hold_graphs_of_similar_size():
    sizes = random_sizes(6, 2000)

    def spread(batches):
        return np.mean([np.ptp(sizes[0][b]) for b in batches])

    assert spread(make(2000, sizes=sizes, bucket_size=500)) < 0.2 * spread(make(2000))


def test_a_graph_that_exceeds_the_limit():
    nodes, edges = np.array([3, 50, 4]), np.array([1, 1, 1])
    alone = make(3, sizes=(nodes, edges), shuffle=False, max_nodes=10)
    assert list(alone) == [[0], [1], [2]]
    with pytest.raises(InputError, match=r"graph 1.*got 50"):
        list(make(3, sizes=(nodes, edges), max_nodes=10, oversize="error"))


def test_batches_of_a_small_example():
    nodes = np.array([4, 4, 4, 9, 1, 1])
    ids = np.array([0, 1, 2, 3, 4, 5])
    assert cut(ids, nodes, None, Budget(nodes=8)) == [0, 2, 3, 4, 6]
    assert cut(ids, nodes, None, Budget(nodes=8, graphs=1)) == [0, 1, 2, 3, 4, 5, 6]
    assert cut(ids[:0], nodes, None, Budget(nodes=8)) == [0]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"batch_size": None}, "batch_size"),
        ({"batch_size": 0}, "batch_size"),
        ({"max_nodes": -1}, "max_nodes"),
        ({"max_nodes": 5}, "sizes"),
        ({"bucket_size": 5}, "sizes"),
        ({"rank": 2, "world_size": 2}, "rank"),
        ({"seed": None, "world_size": 2}, "seed"),
        ({"oversize": "drop"}, "oversize"),
    ],
)
def test_bad_arguments(options, word):
    with pytest.raises(InputError, match=word):
        make(10, **options)


def test_the_state_of_another_sampler_is_refused():
    state = make(10).state_dict()
    with pytest.raises(InputError, match="got 10"):
        make(11).load_state_dict(state)
    with pytest.raises(InputError, match="seed"):
        make(10).load_state_dict({k: v for k, v in state.items() if k != "seed"})
    sizes = random_sizes(7, 10)
    with pytest.raises(InputError, match="same limits"):
        make(10, sizes=sizes, bucket_size=5).load_state_dict(state | {"offset": 1})


def test_size_table_of_a_list():
    edges = torch.tensor([[0, 1], [1, 0]])
    coarse = Data(edge_index=edges[:, :1], num_nodes=2)
    graphs = [Data(edge_index=edges, num_nodes=n, pooled_data=[coarse]) for n in (2, 3)]
    nodes, count = size_table(graphs, (0, 1))
    assert (nodes.tolist(), count.tolist()) == ([4, 5], [3, 3])
    with pytest.raises(InputError, match="got 2"):
        size_table(graphs, (2,))
