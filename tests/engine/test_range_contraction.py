"""Contraction by ranges gives the bytes of the sequential contraction, for any cut and any number of threads."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.engine import range_contraction, threads
from tgp.engine.range_contraction import _Contraction, _Members, contract_rows
from tgp.kernels import contract, contract_ranges
from tgp.kernels._prims import MAX, MEAN, MIN, MUL, SUM
from tgp.ragged import BlockCSR
from tgp.ragged.offsets import offsets


def random_case(seed, nodes, entries, supernodes, dropped=0.1):
    rng = np.random.default_rng(seed)
    block = BlockCSR.from_edge_index(
        rng.integers(0, nodes, (2, entries)), rng.standard_normal(entries), num_nodes=nodes
    )
    cluster = rng.integers(0, supernodes, nodes).astype(np.int32)
    cluster[rng.random(nodes) < dropped] = -1
    return block, cluster


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype and one.tobytes() == other.tobytes()


@given(
    st.integers(0, 2**32),
    st.integers(1, 60),
    st.integers(0, 300),
    st.integers(1, 90),
    st.sampled_from([1, 2, 7, 50]),
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
    st.sampled_from([SUM, MIN, MAX, MUL]),
)
def test_any_cut_gives_the_same_bytes(seed, nodes, entries, supernodes, ranges, count, weighted, loops, op):
    block, cluster = random_case(seed, nodes, entries, supernodes)
    weight = block.weight if weighted else np.empty(0)
    args = (block.indptr, block.indices, weight, weighted, cluster, supernodes, op, loops, 0.1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(range_contraction, "_MIN_NODES", 3)
        assert_same(_Contraction(*args).run(count, ranges), contract.contract(*args))


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("op", [SUM, MEAN])
@pytest.mark.parametrize("sort", [False, True])
def test_large_graphs_are_contracted_by_ranges(count, op, sort, monkeypatch):
    block, cluster = random_case(1, 3000, 40_000, 900)
    cluster = np.sort(cluster) if sort else cluster
    args = (block.indptr, block.indices, block.weight, True, cluster, 900, op, True, 1e-8)
    expected = contract.contract(*args)
    calls = []
    run = _Contraction.run
    monkeypatch.setattr(_Contraction, "run", lambda self, *given: calls.append(given) or run(self, *given))
    monkeypatch.setattr(threads, "num_threads", lambda: count)
    monkeypatch.setattr(range_contraction, "num_threads", lambda: count)
    monkeypatch.setattr(range_contraction, "_MIN_ENTRIES", 1000)
    assert_same(contract_rows(*args), expected)
    assert bool(calls) == (count > 1 and op != MEAN)
    monkeypatch.setattr(range_contraction, "_MIN_ENTRIES", 10**9)
    calls.clear()
    assert_same(contract_rows(*args), expected)
    assert not calls


@given(st.integers(0, 2**32), st.lists(st.integers(0, 40), max_size=5), st.data())
def test_kernels_accept_any_range_of_rows(seed, cuts, data):
    """Ascending ranges of rows fill the same buffer as one call. This is what readers of files need."""
    block, cluster = random_case(seed, 40, 200, 12)
    low = data.draw(st.integers(0, 12))
    high = data.draw(st.integers(low, 12))
    bounds = [0, *sorted(cuts), 40]
    count, whole = np.zeros(high - low, np.int64), np.zeros(high - low, np.int64)
    contract_ranges.count_entries(block.indptr, cluster, 0, 40, low, high, whole)
    for first, last in itertools.pairwise(bounds):
        contract_ranges.count_entries(block.indptr, cluster, first, last, low, high, count)
    np.testing.assert_array_equal(count, whole)
    expected = np.bincount(cluster[cluster >= 0], np.diff(block.indptr)[cluster >= 0], minlength=12)
    np.testing.assert_array_equal(count, expected[low:high])
    filled = []
    for parts in ([0, 40], bounds):
        stop = offsets(count)[:-1].copy()
        cols, values = np.full(count.sum(), -7, np.int32), np.full(count.sum(), -7.0)
        for first, last in itertools.pairwise(parts):
            contract_ranges.collect_range(
                block.indptr, block.indices, block.weight, True, cluster, True, first, last, low, high, stop, cols,
                values,
            )  # fmt: skip
        kept = np.concatenate(
            [np.arange(a, b) for a, b in zip(offsets(count)[:-1], stop, strict=True)] + [np.empty(0, int)]
        )
        filled.append((stop, cols[kept.astype(int)], values[kept.astype(int)]))
    assert_same(filled[1], filled[0])


@given(st.integers(0, 2**32), st.integers(1, 50), st.integers(1, 20))
def test_parts_without_members_are_skipped_and_no_other(seed, nodes, supernodes):
    cluster = random_case(seed, nodes, 0, supernodes)[1]
    cluster = np.sort(cluster) if seed % 2 else cluster
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(range_contraction, "_MIN_NODES", 4)
        members = _Members(cluster)
    for low in range(supernodes):
        rows = [row for first, last in members.find(low, low + 1) for row in range(first, last)]
        assert rows == sorted(set(rows)) and set(np.flatnonzero(cluster == low)) <= set(rows)
        assert not rows or seed % 2 == 0 or len(rows) <= np.sum(cluster == low) + 8


def test_an_error_in_one_range_ends_all_threads(monkeypatch):
    block, cluster = random_case(2, 100, 1000, 50)
    args = (block.indptr, block.indices, block.weight, True, cluster, 50, SUM, True, 0.0)

    def fail(*given):
        raise MemoryError("no memory")

    monkeypatch.setattr(contract, "merge_rows", fail)
    with pytest.raises(MemoryError, match="no memory"):
        _Contraction(*args).run(3, 10)
