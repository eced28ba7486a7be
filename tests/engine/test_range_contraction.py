"""Contraction by ranges gives the bytes of the sequential contraction, for any cut and any number of threads."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.engine import range_contraction, threads
from tgp.engine.range_contraction import _Contraction, contract_rows
from tgp.kernels import contract, contract_ranges
from tgp.kernels._prims import MAX, MEAN, MIN, MUL, SUM
from tgp.ragged import BlockCSR


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
    st.integers(0, 8),
)
def test_any_cut_gives_the_same_bytes(
    seed, nodes, entries, supernodes, ranges, count, weighted, loops, op, bits
):
    block, cluster = random_case(seed, nodes, entries, supernodes)
    weight = block.weight if weighted else np.empty(0)
    args = (block.indptr, block.indices, weight, weighted, cluster, supernodes, op, loops, 0.1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(range_contraction, "_GROUP_BITS", bits)
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


@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 40), st.data())
def test_members_of_any_range_are_listed(seed, nodes, supernodes, data):
    block, cluster = random_case(seed, nodes, 200, supernodes)
    low = data.draw(st.integers(0, supernodes))
    high, shift = data.draw(st.integers(low, supernodes)), data.draw(st.integers(0, 4))
    ptr, members, rows = (
        np.zeros(high - low + 1, np.int32),
        np.empty(nodes, np.int32),
        np.empty(contract_ranges.CHUNK + 1, np.int32),
    )
    entries = np.zeros(2 * ((high - low >> shift) + 1), np.int64)
    chunks = contract_ranges.list_members(
        block.indptr, cluster, low, high, shift, rows, ptr, members, entries
    )
    expected = [np.flatnonzero(cluster == c) for c in range(low, high)]
    assert [members[a:b].tolist() for a, b in itertools.pairwise(ptr)] == [list(rows) for rows in expected]
    assert chunks == bool(ptr[-1])
    inside = (cluster >= low) & (cluster < high)
    group = cluster[inside] - low >> shift
    sizes = np.bincount(group, np.diff(block.indptr)[inside], minlength=len(entries) // 2)
    np.testing.assert_array_equal(entries.reshape(-1, 2).sum(1), sizes)


def test_an_error_in_one_range_ends_all_threads(monkeypatch):
    block, cluster = random_case(2, 100, 1000, 50)
    args = (block.indptr, block.indices, block.weight, True, cluster, 50, SUM, True, 0.0)

    def fail(*given):
        raise MemoryError("no memory")

    monkeypatch.setattr(contract_ranges, "contract_range", fail)
    with pytest.raises(MemoryError, match="no memory"):
        _Contraction(*args).run(3, 10)
