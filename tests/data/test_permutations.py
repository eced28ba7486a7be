"""Block shuffle: the order of graphs, its quality, ranks and resuming."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tgp.data.permutations import BLOCK, WINDOW, BlockPermutation, KeyedPermutation
from tgp.data.sampler import PoolBatchSampler
from tgp.errors import InputError


@settings(max_examples=25, deadline=None)
@given(size=st.integers(0, 3 * BLOCK * WINDOW), seed=st.integers(0, 2**63), epoch=st.integers(0, 5))
def test_block_order_is_a_bijection_and_windows_list_its_graphs(size, seed, epoch):
    order = BlockPermutation(size, seed, epoch)
    whole = order(np.arange(size))
    np.testing.assert_array_equal(np.sort(whole), np.arange(size))
    np.testing.assert_array_equal(order(np.arange(size)[::7]), whole[::7])
    windows = np.array([order.window_of(position) for position in range(0, size, 97)])
    for number in range(order.num_windows):
        pieces = [np.arange(low, high) for low, high in order.window(number)]
        listed = np.concatenate(pieces) if pieces else np.zeros(0, np.int64)
        assert len(np.unique(listed)) == len(listed)
        assert np.isin(whole[::97][windows == number], listed).all()
    assert order.window(order.num_windows) == []


def test_block_order_reads_a_store_in_pieces():
    size = 4 * BLOCK * WINDOW + 100
    order = BlockPermutation(size, seed=1)
    first = np.sort(order(np.arange(BLOCK * WINDOW)))
    assert (np.diff(first) > 1).sum() <= WINDOW + 1  # a uniform order would have gaps everywhere
    assert (np.abs(np.diff(order(np.arange(1000)))) == 1).mean() < 0.05
    other = np.sort(BlockPermutation(size, seed=1, epoch=1)(np.arange(BLOCK * WINDOW)))
    assert set(first[:: BLOCK // 2]) != set(other[:: BLOCK // 2])


def test_batches_of_a_block_order_vary_within_the_documented_bound():
    """The worst case: a store that is sorted by class. The variance of a batch mean is at most v (1/b + 1/WINDOW)."""
    size, batch = 8 * BLOCK * WINDOW, 64
    label = np.arange(size) < size // 2
    means = []
    for epoch in range(2):
        order = BlockPermutation(size, 5, epoch)
        means.append(label[order(np.arange(size))].reshape(-1, batch).mean(axis=1))
    bound = label.var() * (1 / batch + 1 / WINDOW)
    assert np.var(np.concatenate(means)) < 1.2 * bound
    shuffled = np.random.default_rng(1).permutation(label)[BlockPermutation(size, 5)(np.arange(size))]
    assert np.var(shuffled.reshape(-1, batch).mean(axis=1)) < 1.2 * label.var() / batch


def test_block_batches_are_shared_by_ranks_and_resumed():
    size = BLOCK * WINDOW + 77
    make = lambda **more: PoolBatchSampler(size, 50, shuffle="block", seed=3, **more)  # noqa: E731
    whole = list(make())
    assert sorted(i for ids in whole for i in ids) == list(range(size))
    ranks = [list(make(rank=r, world_size=2)) for r in range(2)]
    assert ranks[0][:5] == whole[0:10:2] and ranks[1][:5] == whole[1:10:2]
    sampler = make()
    stream = iter(sampler)
    for _ in range(7):
        next(stream)
        sampler.advance()
    resumed = make()
    resumed.load_state_dict(sampler.state_dict())
    assert list(resumed) == whole[7:]
    sampler.set_epoch(1)
    assert list(sampler) != whole


def test_windows_are_announced_before_their_first_batch():
    size = 3 * BLOCK * WINDOW
    sampler = PoolBatchSampler(size, BLOCK * WINDOW // 2, shuffle="block", seed=0)
    seen = []
    sampler.announce = seen.append
    order = BlockPermutation(size, 0, 0)
    stream = iter(sampler)
    next(stream)
    assert seen == [order.window(0), order.window(1)]
    assert len(list(stream)) == 5
    assert seen == [order.window(number) for number in range(4)]


def test_a_wrong_shuffle_is_refused():
    with pytest.raises(InputError, match="True, False or 'block', got 'blocks'"):
        PoolBatchSampler(5, 2, shuffle="blocks")


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 20_000), st.integers(0, 2**64 - 1), st.integers(0, 50), st.data())
def test_tables_of_rounds_give_the_computed_order(size, seed, epoch, data):
    """Many positions are permuted with look-ups, single ones by computing every round."""
    order = KeyedPermutation(size, seed, epoch)
    found = order(np.arange(size))
    assert order._tables is not None
    for position in data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=5)):
        alone = KeyedPermutation(size, seed, epoch)
        alone._round_tables = lambda count: None
        assert alone([position]) == found[position]
