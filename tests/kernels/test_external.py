"""Kernels of graphs larger than memory: equal to plain Python, for any range of rows or entries."""

import functools
import itertools
import operator

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.reference import external as reference
from tgp.engine.external.buckets import Buckets, Limits, cut_items, cut_rows
from tgp.kernels import edge_input
from tgp.kernels import external_matching as matching
from tgp.kernels import external_rows as kernels
from tgp.kernels import local_matching as scores
from tgp.ragged import BlockCSR

KINDS = {"equal": scores.EQUAL, "weight": scores.GIVEN, "share": scores.SHARE}
codes = st.integers(0, 3) | st.integers(0, 2**64 - 1)


@st.composite
def graphs(draw):
    """Draw an undirected graph with weights or ``None``; return its block, and rows of (neighbour, weight)."""
    nodes = draw(st.integers(1, 9))
    ids = st.integers(0, nodes - 1)
    edges = sorted({tuple(sorted(edge)) for edge in draw(st.sets(st.tuples(ids, ids), max_size=20))})
    numbers = [draw(st.sampled_from([0.0, 0.1, 0.3, 1.0, 2.0])) for _ in edges]
    both = [(u, v, w) for (u, v), w in zip(edges, numbers, strict=True)]
    both += [(v, u, w) for u, v, w in both if u != v]
    index = np.array([triple[:2] for triple in both], np.int64).reshape(-1, 2).T
    weight = np.array([w for _, _, w in both]) if draw(st.booleans()) else None
    block = BlockCSR.from_edge_index(index, weight, num_nodes=nodes)
    rows = [[] for _ in range(nodes)]
    for u, v, w in sorted(both):
        rows[u].append((v, 1.0 if weight is None else w))
    return block, rows


def arrays_of(block):
    weighted = block.weight is not None
    return block.indptr, block.indices, block.weight if weighted else np.empty(0), weighted


def choose_scores(data, block):
    """Draw the kind of the scores; return its name, and the arguments of kernels: weights, degrees and the code of the kind."""
    weighted = block.weight is not None
    kind = data.draw(st.sampled_from(["share", "weight" if weighted else "equal"]))
    rows, weight = block.rows(), block.weights_or_ones()
    inner = rows != block.indices
    degree = np.bincount(rows[inner], weight[inner], minlength=block.num_nodes)
    code = scores.UNIT_SHARE if kind == "share" and not weighted else KINDS[kind]
    return kind, (arrays_of(block)[2], degree, code)


def cut(data, size):
    """Draw ranges that cover ``0..size``."""
    inner = data.draw(st.lists(st.integers(0, size), max_size=3))
    bounds = sorted({0, size, *inner})
    return list(itertools.pairwise(bounds))


def draw_list(data, values, size):
    return data.draw(st.lists(values, min_size=size, max_size=size))


@given(graphs(), st.data())
def test_pointers(graph, data):
    block, rows = graph
    kind, arguments = choose_scores(data, block)
    code = draw_list(data, codes, block.num_nodes)
    old = draw_list(data, st.integers(-2, block.num_nodes - 1), block.num_nodes)
    nodes = np.array(sorted(data.draw(st.sets(st.integers(0, block.num_nodes - 1)))), np.int32)
    pointer, code_array = np.array(old, np.int32), np.array(code, np.uint64)
    stale, none = np.empty_like(nodes), np.empty(0, np.int32)
    stale = stale[: matching.find_stale(pointer, code_array, nodes, none, none, 3, stale)]
    found = np.empty_like(stale)
    for some in cut(data, len(stale)):
        matching.point_rows(block.indptr, block.indices, *arguments, code_array, stale, *some, found)
    pointer[stale] = found
    expected = reference.pointers(rows, arguments[1].tolist(), kind, code, old)
    assert stale.tolist() == [u for u in nodes.tolist() if reference.is_stale(u, code, old)]
    assert pointer.tolist() == [expected[u] if u in nodes else old[u] for u in range(block.num_nodes)]


@given(graphs(), st.data())
def test_choices_give_the_pointers_until_all_are_matched(graph, data):
    block, rows = graph
    size, width = block.num_nodes, data.draw(st.integers(2, 4))
    kind, arguments = choose_scores(data, block)
    code = draw_list(data, st.integers(1, 2**64 - 1), size)
    nodes, code_array = np.arange(size, dtype=np.int32), np.array(code, np.uint64)
    choices = np.empty(size * width, np.int32)
    for some in cut(data, size):
        matching.list_rows(block.indptr, block.indices, *arguments, code_array, nodes, *some, width, choices)
    chosen = choices.reshape(size, width)
    pointer = chosen[:, 0].copy()
    unknown = [reference.UNKNOWN] * size
    assert pointer.tolist() == reference.pointers(rows, arguments[1].tolist(), kind, code, unknown)
    has_choices = np.array(draw_list(data, st.booleans(), size))
    slot = np.where(has_choices, nodes, np.int32(-1))
    matched = sorted(data.draw(st.sets(st.integers(0, size - 1))))
    after = [0 if u in matched else number for u, number in enumerate(code)]
    code_array[matched] = 0
    old, stale = pointer.tolist(), np.empty_like(nodes)
    stale = stale[: matching.find_stale(pointer, code_array, nodes, slot, choices, width, stale)].tolist()
    expected = reference.pointers(rows, arguments[1].tolist(), kind, after, old)
    gone = [not any(v < 0 or after[v] for v in row) for row in chosen.tolist()]
    is_stale = [reference.is_stale(u, after, old) for u in range(size)]
    assert stale == [u for u in range(size) if is_stale[u] and (gone[u] or not has_choices[u])]
    assert [pointer[u] for u in range(size) if u not in stale] == [
        expected[u] for u in range(size) if u not in stale
    ]


@given(st.integers(1, 9), st.data())
def test_mutual_pointers(nodes, data):
    code, pointer = (
        draw_list(data, codes, nodes),
        draw_list(data, st.integers(-1, nodes - 1), nodes),
    )
    pointer = [p if p != u else -1 for u, p in enumerate(pointer)]
    # A free node only points to free nodes.
    pointer = [p if p < 0 or code[p] else -1 for p in pointer]
    after = np.array(code, np.uint64)
    expected, matched, remaining = reference.mutual(pointer, code)
    active = np.arange(nodes, dtype=np.int32)
    found = matching.take_mutual_rows(np.array(pointer, np.int32), after, active, nodes)
    assert found == (matched, len(remaining))
    assert after.tolist() == expected and active[: len(remaining)].tolist() == remaining


@given(graphs(), st.data())
def test_anchors(graph, data):
    block, rows = graph
    kind, arguments = choose_scores(data, block)
    code = draw_list(data, st.integers(1, 2**64 - 1), block.num_nodes)
    nodes = sorted(data.draw(st.sets(st.integers(0, block.num_nodes - 1))))
    anchor, signature = np.empty(len(nodes), np.int32), np.empty(len(nodes), np.uint64)
    for some in cut(data, len(nodes)):
        scores.find_anchors(
            block.indptr, block.indices, *arguments, np.array(code, np.uint64), np.array(nodes, np.int32),
            *some, anchor, signature,
        )  # fmt: skip
    expected = reference.anchors(rows, arguments[1].tolist(), kind, code, nodes)
    assert (anchor.tolist(), signature.tolist()) == expected


def split(keys):
    """Return rows and columns of keys."""
    return (keys >> np.uint64(32)).tolist(), (keys & np.uint64(2**32 - 1)).tolist()


def triples_of(keys, values, weighted):
    rows, columns = split(keys)
    return list(zip(rows, columns, values.tolist() if weighted else [1.0] * len(rows), strict=True))


def first_row(block, low):
    return int(np.searchsorted(block.indptr, low, side="right")) - 1


@given(graphs(), st.booleans(), st.data())
def test_contracted_entries(graph, drop_loops, data):
    block, rows = graph
    cluster = draw_list(data, st.integers(0, 3), block.num_nodes)
    sizes = np.zeros(4, np.int64)
    for some in cut(data, block.num_nodes):
        kernels.add_row_sizes(block.indptr, np.array(cluster, np.int32), *some, sizes)
    assert sizes.tolist() == [
        sum(len(row) for u, row in enumerate(rows) if cluster[u] == c) for c in range(4)
    ]
    weighted = block.weight is not None
    for low, high in cut(data, block.num_edges):
        keys, values = np.empty(high - low, np.uint64), np.ones(high - low if weighted else 0)
        count = kernels.contract_rows(
            *arrays_of(block), np.array(cluster, np.int32), drop_loops, first_row(block, low), low, high,
            keys, values,
        )  # fmt: skip
        found = triples_of(keys[:count], values[:count], weighted)
        assert found == reference.contracted(rows, cluster, drop_loops, low, high)


@given(graphs(), st.data())
def test_mirrored_entries_and_row_ids(graph, data):
    block, rows = graph
    for low, high in cut(data, block.num_edges):
        keys, values = np.empty(2 * (high - low), np.uint64), np.empty(2 * (high - low))
        start = first_row(block, low)
        weight = block.weights_or_ones()
        fixed, out = (block.indptr, block.indices, weight), (start, low, high, keys, values)
        for factor in (0.5, 1.0):
            assert kernels.mirror_rows(*fixed, factor, *out) == len(keys)
            assert triples_of(keys, values, True) == reference.mirrored(rows, factor, low, high)
        ids = np.empty(high - low, np.int32)
        kernels.fill_row_ids(block.indptr, start, low, high, ids)
        assert ids.tolist() == [u for u, _, _ in reference.entries_between(rows, low, high)]


@given(st.integers(1, 8), st.data())
def test_entries_without_a_reverse_entry(nodes, data):
    ids = st.integers(0, nodes - 1)
    edges = sorted(data.draw(st.sets(st.tuples(ids, ids), min_size=1)))
    weight = np.array(draw_list(data, st.sampled_from([0.5, 1.0, 2.0]), len(edges)))
    block = BlockCSR.from_edge_index(np.array(edges, np.int64).T, weight, num_nodes=nodes)
    found = []
    for low, high in cut(data, len(edges)):
        keys, values = np.empty(2 * (high - low), np.uint64), np.empty(2 * (high - low))
        fixed = block.indptr, block.indices, block.weight, first_row(block, low), low, high
        count = kernels.missing_rows(*fixed, keys, values)
        found += triples_of(keys[:count], values[:count], True)
    assert found == reference.with_missing(
        [(u, v, w) for (u, v), w in zip(edges, weight.tolist(), strict=True)]
    )


@given(graphs(), st.data())
def test_entries_to_larger_ranks_and_the_nodes_that_they_cover(graph, data):
    block, rows = graph
    order = data.draw(st.permutations(range(block.num_nodes)))
    rank = np.argsort(order).astype(np.int32)
    pairs = []
    for low, high in cut(data, block.num_edges):
        keys = np.empty(high - low, np.uint64)
        fixed = block.indptr, block.indices, rank, first_row(block, low)
        count = kernels.orient_rows(*fixed, low, high, keys)
        pairs += zip(*split(keys[:count]), strict=True)
    assert pairs == [
        (rank[u], v) for u, v, _ in reference.entries_between(rows, 0, None) if rank[v] > rank[u]
    ]
    owner = np.full(block.num_nodes, -1, np.int32)
    for first, last in cut(data, block.num_nodes):
        mine = [[v for r, v in pairs if r == position] for position in range(first, last)]
        ends = np.cumsum([0, *map(len, mine)])
        cols = np.array(functools.reduce(operator.iadd, mine, []), np.int32)
        kernels.cover_rows(np.array(order, np.int32), first, ends[:-1].copy(), ends[1:].copy(), cols, owner)
    assert owner.tolist() == reference.covered(rows, order)


@given(
    st.lists(
        st.tuples(st.integers(0, 11), st.integers(0, 2**31 - 1), st.floats(0, 9, width=32)), max_size=40
    ),
    st.lists(
        st.integers(1, 11).map(lambda row: row << 32) | st.integers(1, (12 << 32) - 1),
        max_size=4,
        unique=True,
    ),
    st.booleans(),
)
def test_buckets(triples, inner, weighted):
    bounds = [0, *sorted(inner), 12 << 32]
    keys = np.array([u << 32 | v for u, v, _ in triples], np.uint64)
    values = np.array([w for _, _, w in triples]) if weighted else np.empty(0)
    expected = [
        [t for t in triples if reference.bucket_of(bounds, t[0] << 32 | t[1]) == b]
        for b in range(len(bounds) - 1)
    ]
    counts = np.zeros(len(bounds) - 1, np.int64)
    kernels.count_buckets(keys, np.array(bounds), counts)
    assert counts.tolist() == [len(part) for part in expected]
    ends = np.cumsum(counts)
    out_keys, out_values = np.empty_like(keys), np.empty_like(values)
    kernels.scatter_to_buckets(keys, values, weighted, np.array(bounds), ends - counts, out_keys, out_values)
    for bucket, part in enumerate(expected):
        place = slice(int(ends[bucket] - counts[bucket]), int(ends[bucket]))
        first, last, is_part = Buckets(None, np.array(bounds), weighted, ()).row_range(bucket)
        assert is_part == (bounds[bucket] != first << 32) and all(first <= t[0] < last for t in part)
        size = last - first
        start, stop = np.empty(size, np.int64), np.zeros(size, np.int64)
        cols = np.empty(len(part), np.int32)
        grouped = np.empty(len(part) if weighted else 0)
        mine = out_values[place] if weighted else out_values
        kernels.group_keys(out_keys[place], mine, weighted, first, start, stop, cols, grouped)
        ones = grouped if weighted else np.ones(len(part))
        wanted = part if weighted else [(u, v, 1.0) for u, v, _ in part]
        found = [
            list(zip(cols[a:b].tolist(), ones[a:b].tolist(), strict=True))
            for a, b in zip(start, stop, strict=True)
        ]
        assert found == reference.grouped(wanted, first, size)


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 20), st.data())
def test_bounds_of_buckets(sizes, limit, data):
    """Rows that are too large are divided by their columns, which have an entry each. No bucket has too many entries."""
    rows = {row: cut_items(np.ones(size, np.int64), limit) for row, size in enumerate(sizes) if size > limit}
    bounds = cut_rows(np.array(sizes, np.int64), Limits(1, limit), "a test", rows).tolist()
    keys = [row << 32 | column for row, size in enumerate(sizes) for column in range(size)]
    assert bounds[0] == 0 and bounds[-1] == len(sizes) << 32
    counts = [sum(low <= key < high for key in keys) for low, high in itertools.pairwise(bounds)]
    assert sum(counts) == len(keys) and max(counts) <= limit


@given(graphs(), st.booleans(), st.data())
def test_columns_of_a_supernode(graph, drop_loops, data):
    block, rows = graph
    cluster = draw_list(data, st.integers(0, 3), block.num_nodes)
    row, counts = data.draw(st.integers(0, 3)), np.zeros(4, np.int64)
    for some in cut(data, block.num_nodes):
        fixed = block.indptr, block.indices, np.array(cluster, np.int32), row, drop_loops
        kernels.count_columns(*fixed, *some, counts)
    found = [v for u, v, _ in reference.contracted(rows, cluster, drop_loops, 0, None) if u == row]
    assert counts.tolist() == [found.count(c) for c in range(4)]


# Lists of edges ---------------------------------------------------------------------------------


def parse(text):
    data = np.frombuffer(bytearray(text.encode()), np.int8)
    ids, weights = np.empty(len(text) // 2 + 2, np.int64), np.empty(len(text) // 4 + 2)
    counts = np.zeros(2, np.int64)
    if not edge_input.parse_edges(data, ids, weights, counts):
        return None
    pairs = ids[: 2 * counts[0]].reshape(-1, 2).tolist()
    return [tuple(pair) for pair in pairs], weights[: counts[1]].tolist()


separators = st.sampled_from([" ", "\t", ",", ", ", ";", "  "])
numbers = st.sampled_from(["", "7", "0.25", ".5", "3.", "1e-3", "2E+2", "1e99", "-1", "nan"])
lines = st.tuples(
    st.sampled_from(["", "a ", "e"]),
    st.integers(0, 10**19),
    separators,
    st.integers(0, 99),
    separators,
    numbers,
)


@given(
    st.lists(
        lines.map(lambda line: "".join(map(str, line))) | st.text("0123456789 ,;\t\r.e#c", max_size=9),
        max_size=8,
    ).map("\n".join)
)
@example("1 2\r\n3,4\n\n 5\t6")
@example("1 2 3")
@example("1,,2")
@example("1 2,")
@example("# no\n a 1 2\np sp 9 9")
@example("999999999999999999 1")
@example("1000000000000000000 1")
@example("1 2 9007199254740993")
@example("1 2 .")
@example("1 2 1e")
def test_parsed_lines(text):
    assert parse(text) == reference.edges_of_text(text)


@pytest.mark.parametrize("text", ["1 -2", "x 1", "1 2 # no", "1.0 2", "é 1", "1 2 3 4", "1 2 nan"])
def test_other_lines_are_not_parsed(text):
    assert parse(text) is None


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 2)), max_size=12),
    st.booleans(),
    st.booleans(),
)
def test_symmetric_lists_are_found(triples, weighted, close):
    if close:
        triples = triples + [(v, u, w) for u, v, w in triples]
    ids = np.array([triple[:2] for triple in triples], np.int64).reshape(-1)
    bits = np.array([w for *_, w in triples], float).view(np.uint64) if weighted else np.empty(0, np.uint64)
    listed = sorted((u, v, w if weighted else 0) for u, v, w in triples if u != v)
    is_symmetric = listed == sorted((v, u, w) for u, v, w in listed)
    assert (edge_input.symmetry_sum(ids, bits, weighted, 12345) == 0) == is_symmetric


@given(st.lists(st.integers(0, 700), min_size=1, max_size=30))
def test_ids_are_numbered_in_ascending_order(ids):
    array, bits = np.array(ids), np.zeros(12, np.uint64)
    edge_input.mark_ids(array, bits)
    used = sorted(set(ids))
    assert [i for i in range(12 * 64) if int(bits[i // 64]) >> (i % 64) & 1] == used
    before = np.array([sum(i < 64 * word for i in used) for word in range(12)])
    edge_input.rank_ids(bits, before, array)
    assert array.tolist() == [used.index(i) for i in ids]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.floats(0, 9, width=32)), max_size=20),
    st.booleans(),
    st.booleans(),
)
def test_edges_get_both_directions(triples, weighted, mirror):
    edges = [triple[:2] for triple in triples]
    ids = np.array(edges, np.int64).reshape(-1)
    weights = [w if weighted else 1.0 for _, _, w in triples]
    keys, values = np.empty(len(ids), np.uint64), np.empty(len(ids) if weighted else 0)
    given_weight = np.array(weights) if weighted else np.empty(0)
    count = edge_input.mirror_edges(ids, given_weight, weighted, mirror, keys, values)
    expected = reference.both_directions(edges, weights, mirror)
    assert triples_of(keys[:count], values[:count], weighted) == expected
    sizes = np.zeros(6, np.int64)
    edge_input.count_entries(ids, mirror, sizes)
    assert sizes.tolist() == [sum(u == node for u, _, _ in expected) for node in range(6)]
