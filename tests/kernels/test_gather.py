"""Gather rows of arrays in several shards, of every stored type."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.gather import gather_rows, shift_ids
from tgp.kernels.gather import COPY, GRAPH, IDS, copy_rows, find_rows
from tgp.ragged.offsets import offsets

CODES = {"u1": 0, "u2": 1, "u4": 2, "u8": 3, "i1": 4, "i2": 5, "i4": 6, "i8": 7}
ANY = np.iinfo(np.int64).min


def addresses(shards):
    """Return ``[U, J]`` tables of the addresses and types of the arrays of each shard."""
    place = [[0 if a is None else a.ctypes.data for a in shard] for shard in shards]
    kinds = [[0 if a is None else CODES.get(a.dtype.str[1:], 0) for a in shard] for shard in shards]
    return np.array(place, np.int64), np.array(kinds, np.int64)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    stored=st.lists(st.sampled_from(sorted(CODES)), min_size=1, max_size=3),
    cut=st.sampled_from(sorted(CODES)),
    width=st.integers(0, 3),
    by_shard=st.booleans(),
)
def test_rows_ids_and_graphs_equal_the_reference(seed, stored, cut, width, by_shard):
    rng = np.random.default_rng(seed)
    sizes = [int(rng.integers(1, 5)) for _ in stored]
    bounds = offsets(sizes)
    ptrs, plain, ids, clusters = [], [], [], []
    for kind, size in zip(stored, sizes, strict=True):
        counts = rng.integers(0, 4, size)
        ptr = offsets(counts).astype(cut)
        nodes = np.repeat(counts, counts)
        ptrs.append(ptr)
        plain.append(rng.normal(size=(int(ptr[-1]), width)).astype(np.float32))
        ids.append((rng.random((2, len(nodes))) * nodes).astype(kind))
        dropped = rng.random(len(nodes)) < (0.3 if kind[0] == "i" else 0)
        clusters.append(np.where(dropped, -1, ids[-1][0].astype(np.int64)).astype(kind))
    wanted = rng.integers(0, bounds[-1], int(rng.integers(0, 9)))
    units = np.searchsorted(bounds, wanted, side="right") - 1
    starts, found = np.empty((2, len(wanted)), np.int64), np.empty((2, len(wanted) + 1), np.int64)
    rows = np.array([[int(ptr[-1]), size] for ptr, size in zip(ptrs, sizes, strict=True)])
    columns = np.array(
        [
            [COPY, 0, -1, 1, width, 4, ANY, 1],
            [IDS, 0, 0, 2, 1, 8, 0, 1],
            [IDS, 0, 0, 1, 1, 8, -1, 1],
            [GRAPH, 0, -1, 1, 1, 8, ANY, 1],
            [IDS, 0, 0, 1, 1, 8, -1, 0],
        ]
    )
    tables = np.stack([*addresses([[ptr, None] for ptr in ptrs]), rows])
    ends = np.empty(6, np.int64)
    assert find_rows(wanted, bounds, units, tables, columns, starts, found, ends) == -1
    total = int(found[0, -1])
    sizes_of_columns = np.array([4 * width * total, 16 * total, 8 * total, 8 * total, 8 * total])
    assert (np.diff(ends) >= sizes_of_columns).all() and (np.diff(ends) < sizes_of_columns + 64).all()
    assert (ends % 64 == 0).all()
    where, code = addresses([[a, b, c, a, c] for a, b, c in zip(plain, ids, clusters, strict=True)])
    buffer = np.zeros(ends[-1], np.uint8)
    base, dropped = buffer.ctypes.data, np.zeros(5, np.int64)
    lengths = rows[:, [0] * 5].copy()
    chosen = range(len(sizes)) if by_shard else [None]  # a shard whose address is 0 is skipped
    for unit in chosen:
        one = where if unit is None else np.where(np.arange(len(sizes))[:, None] == unit, where, 0)
        given = np.stack([one, code, lengths])
        assert copy_rows(units, starts, found, columns, given, buffer, base, ends, dropped) == -1
    got = [buffer[a : a + size] for a, size in zip(ends, sizes_of_columns, strict=False)]
    if not len(wanted):
        return
    expected, ptr = gather_rows(plain, ptrs, bounds, wanted)
    np.testing.assert_array_equal(found[0], ptr)
    np.testing.assert_array_equal(found[1], np.arange(len(wanted) + 1))
    np.testing.assert_array_equal(got[0].view(np.float32).reshape(total, width), expected)
    local, _ = gather_rows(ids, ptrs, bounds, wanted, axis=-1)
    np.testing.assert_array_equal(got[1].view(np.int64).reshape(2, total), shift_ids(local, ptr, ptr))
    local, _ = gather_rows(clusters, ptrs, bounds, wanted)
    np.testing.assert_array_equal(got[2].view(np.int64), shift_ids(local, ptr, ptr))
    assert dropped.tolist() == [0, 0, int((local < 0).any()), 0, int((local < 0).any())]
    np.testing.assert_array_equal(got[4].view(np.int64), local)
    np.testing.assert_array_equal(got[3].view(np.int64), np.repeat(np.arange(len(wanted)), np.diff(ptr)))


@pytest.mark.parametrize("ptr", [[0, 3, 2], [0, 1, 9], [0, -1, 2]])
def test_invalid_offsets_are_reported(ptr):
    ptr = np.array(ptr, np.int32)
    where, code = addresses([[ptr]])
    starts, found = np.empty((1, 2), np.int64), np.empty((1, 3), np.int64)
    wanted, units = np.array([0, 1]), np.zeros(2, np.int64)
    tables, columns = np.stack([where, code, [[2]]]), np.zeros((0, 8), np.int64)
    bad = find_rows(wanted, np.array([0, 2]), units, tables, columns, starts, found, np.empty(1, np.int64))
    assert bad in (0, 1)


@pytest.mark.parametrize(
    ("stored", "low", "value"), [("u1", 0, 3), ("i1", 0, -1), ("i1", -1, -2), ("i8", 0, 2**40)]
)
def test_ids_outside_their_graph_are_reported(stored, low, value):
    ids = np.array([0, 2, 1, value], stored)
    units, starts = np.zeros(2, np.int64), np.array([[0, 2]])
    ptrs = np.array([[0, 2, 4], [0, 3, 6]])
    where, code = addresses([[ids]])
    buffer = np.zeros(32, np.uint8)
    columns = np.array([[IDS, 0, 1, 1, 1, 8, low, 1]])
    tables, zero = np.stack([where, code, [[4]]]), np.zeros(1, np.int64)
    bad = copy_rows(units, starts, ptrs, columns, tables, buffer, buffer.ctypes.data, zero, zero.copy())
    assert bad == 1  # column 0, graph 1


def test_a_batch_that_is_too_large_is_reported():
    ptr = np.array([0, 2**50], np.int64)
    tables = np.stack([*addresses([[ptr]]), [[2**50]]])
    starts, found = np.empty((1, 1), np.int64), np.empty((1, 2), np.int64)
    columns = np.array([[COPY, 0, -1, 1, 2**10, 8, ANY, 1]])
    one = np.zeros(1, np.int64)
    assert find_rows(one, np.array([0, 1]), one, tables, columns, starts, found, np.empty(2, np.int64)) == -2
