"""``PoolBatchSampler``: orders, limits, ranks and resuming."""

import json

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


@MANY
@given(size=st.integers(0, 120), world=st.integers(1, 8), options=OPTIONS)
def test_union_over_ranks_is_every_graph_once(size, world, options):
    sizes = random_sizes(1, size)
    ranks = [PoolBatchSampler(size, sizes=sizes, rank=r, world_size=world, **options) for r in range(world)]
    batches = [list(sampler) for sampler in ranks]
    assert sorted(i for rank in batches for batch in rank for i in batch) == list(range(size))
    assert [len(b) for b in batches] == [len(sampler) for sampler in ranks]
    assert max(map(len, batches)) - min(map(len, batches)) <= 1


@MANY
@given(size=st.integers(1, 120), options=OPTIONS)
def test_batches_keep_the_limits(size, options):
    nodes, edges = random_sizes(2, size)
    for batch in PoolBatchSampler(size, sizes=(nodes, edges), **options):
        assert 1 <= len(batch) <= options["batch_size"]
        if len(batch) > 1:
            assert options["max_nodes"] is None or nodes[batch].sum() <= options["max_nodes"]
            assert options["max_edges"] is None or edges[batch].sum() <= options["max_edges"]


@MANY
@given(
    size=st.integers(1, 120),
    options=OPTIONS,
    before=st.integers(1, 8),
    after=st.integers(1, 8),
    steps=st.integers(0, 9),
)
def test_resume_with_another_number_of_ranks(size, options, before, after, steps):
    """The batches of `before` ranks and the remaining ones of `after` ranks contain every graph exactly once."""
    sizes = random_sizes(3, size)

    def ranks(world):
        return [
            PoolBatchSampler(size, sizes=sizes, rank=r, world_size=world, **options) for r in range(world)
        ]

    # Ranks whose epoch has ended are already in the next one, so enough graphs must be left for all of them.
    most = max(size - before, 0) // (options["batch_size"] * before)
    seen, states = [], []
    for sampler in ranks(before):
        stream = iter(sampler)
        for _ in range(min(steps, most)):
            batch = next(stream, None)
            if batch is None:
                break
            sampler.advance()
            seen += batch
        states.append(json.loads(json.dumps(sampler.state_dict())))
    assert all(state == states[0] for state in states)
    if states[0]["epoch"] == 0:
        for sampler in ranks(after):
            sampler.load_state_dict(states[0])
            seen += [i for batch in sampler for i in batch]
    assert sorted(seen) == list(range(size))


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
