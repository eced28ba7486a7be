"""Kernels of bisections and partitions: equal to plain Python, with gains and cuts by definition."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import partition as reference
from tgp.engine.bisection import SizeLimits, prepare_graphs
from tgp.kernels import bisection, partition
from tgp.testing.strategies import blocks


def rows_of(graphs, graph):
    """Return the rows of one graph as dictionaries ``{neighbour: weight}``, with local ids and without self loops."""
    one = graphs.take([graph])
    return [
        {u: w for u, w in zip(one.indices[a:b].tolist(), one.weight[a:b].tolist(), strict=True) if u != v}
        for v, (a, b) in enumerate(zip(one.indptr[:-1], one.indptr[1:], strict=True))
    ]


def scratch(nodes):
    """Return the arrays gain, foreign, heap, place, stamp and moved."""
    integers = [np.empty(nodes, np.int32) for _ in range(4)]
    return np.empty(nodes), integers[0], integers[1], integers[2], np.empty(nodes, np.int64), integers[3]


def arrays(graphs):
    return graphs.indptr, graphs.indices, graphs.weight, graphs.node_ptr


@st.composite
def bisections(draw):
    """Draw graphs, node sizes, sides, and sizes of the sides."""
    graphs = prepare_graphs(draw(blocks(max_graphs=3, max_nodes=9)))
    nodes = graphs.num_nodes
    largest = draw(st.sampled_from([1, 1, 4]))
    size = np.array(draw(st.lists(st.integers(1, largest), min_size=nodes, max_size=nodes)), np.int64)
    side = np.array(draw(st.lists(st.integers(0, 1), min_size=nodes, max_size=nodes)), np.int8)
    total = np.array(
        [size[a:b].sum() for a, b in zip(graphs.node_ptr[:-1], graphs.node_ptr[1:], strict=True)], np.int64
    )
    target = total // draw(st.sampled_from([2, 3]))
    extra = draw(st.integers(0, 2))
    limit0 = np.minimum(target + extra, total)
    return graphs, size, side, target, limit0, np.minimum(total - target + extra, total)


@given(bisections())
def test_gains_and_cut(case):
    graphs, _, side, *_ = case
    gain, foreign, *_ = scratch(graphs.num_nodes)
    cut = np.empty(graphs.num_graphs)
    bisection.cut_weights(*arrays(graphs), 0, graphs.num_graphs, side, cut)
    for g in range(graphs.num_graphs):
        lo, hi = graphs.node_ptr[g : g + 2]
        twice = bisection.measure_gains(*arrays(graphs)[:3], lo, hi, side, gain, foreign)
        rows, mine = rows_of(graphs, g), side[lo:hi].tolist()
        assert twice == cut[g] == 2 * reference.cut(rows, mine)
        assert gain[lo:hi].tolist() == [reference.gain(rows, mine, v) for v in range(hi - lo)]
        assert foreign[lo:hi].tolist() == [sum(mine[u] != mine[v] for u in row) for v, row in enumerate(rows)]


@settings(deadline=None)
@given(bisections())
def test_refinement_equals_the_plain_one(case):
    graphs, size, side, target, limit0, limit1 = case
    found, work = side.copy(), scratch(graphs.num_nodes)
    bisection.refine_sides(*arrays(graphs), 0, graphs.num_graphs, size, target, limit0, limit1, found, *work)
    for g in range(graphs.num_graphs):
        lo, hi = graphs.node_ptr[g : g + 2]
        if lo == hi:
            continue
        rows, expected = rows_of(graphs, g), side[lo:hi].tolist()
        reference.refine(rows, size[lo:hi].tolist(), target[g], (limit0[g], limit1[g]), expected)
        assert found[lo:hi].tolist() == expected
        # The gains were updated move by move, also by the moves that were undone.
        assert work[0][lo:hi].tolist() == [reference.gain(rows, expected, v) for v in range(hi - lo)]


@given(bisections())
def test_refinement_meets_limits_and_never_adds_to_the_cut(case):
    graphs, size, side, target, limit0, limit1 = case
    size = np.ones_like(size)
    target = np.diff(graphs.node_ptr) // 2
    limit0, limit1 = target + 1, np.diff(graphs.node_ptr) - target
    found, again = side.copy(), None
    for _ in range(2):
        bisection.refine_sides(
            *arrays(graphs), 0, graphs.num_graphs, size, target, limit0, limit1, found, *scratch(len(found))
        )
        for g in range(graphs.num_graphs):
            lo, hi = graphs.node_ptr[g : g + 2]
            zeros = int((found[lo:hi] == 0).sum())
            assert zeros <= limit0[g] and hi - lo - zeros <= limit1[g]
        cut = np.empty(graphs.num_graphs)
        bisection.cut_weights(*arrays(graphs), 0, graphs.num_graphs, found, cut)
        assert again is None or (cut <= again).all()
        again = cut


@settings(deadline=None)
@given(bisections(), st.integers(0, 3))
def test_growing_equals_the_plain_one(case, seed):
    graphs, size, _, target, limit0, limit1 = case
    found, trial = np.empty(graphs.num_nodes, np.int8), np.empty(graphs.num_nodes, np.int8)
    bisection.grow_sides(
        *arrays(graphs), 0, graphs.num_graphs, size, target, limit0, limit1, seed, 1, 7, 3, found, trial,
        *scratch(graphs.num_nodes),
    )  # fmt: skip
    for g in range(graphs.num_graphs):
        lo, hi = graphs.node_ptr[g : g + 2]
        if lo < hi:
            expected = reference.bisect(
                rows_of(graphs, g), size[lo:hi].tolist(), target[g], (limit0[g], limit1[g]), seed, 1, 7, 3
            )
            assert found[lo:hi].tolist() == expected


@st.composite
def clusterings(draw):
    """Draw graphs, any clusters of their nodes, and limits of the sizes."""
    graphs = prepare_graphs(draw(blocks(max_graphs=3)))
    nodes = np.diff(graphs.node_ptr)
    k = np.minimum(nodes, draw(st.integers(1, 4)))
    super_ptr = np.concatenate([[0], np.cumsum(k)])
    labels = draw(st.lists(st.integers(0, 11), min_size=graphs.num_nodes, max_size=graphs.num_nodes))
    of_node = graphs.graph_of_node()
    cluster = (super_ptr[of_node] + np.array(labels, np.int64) % np.maximum(k, 1)[of_node]).astype(np.int32)
    limits = SizeLimits.of(nodes, np.maximum(k, 1), draw(st.sampled_from([0.0, 0.1, 0.6])))
    return graphs, super_ptr, cluster, limits


@given(clusterings())
def test_any_clusters_can_be_balanced(case):
    graphs, super_ptr, cluster, limits = case
    size = np.bincount(cluster, minlength=super_ptr[-1])
    given_sizes, given_clusters, link = size.copy(), cluster.copy(), np.zeros(len(size))
    partition.balance_clusters(*arrays(graphs), super_ptr, 0, graphs.num_graphs, *limits, link, cluster, size)
    assert (link == 0.0).all()
    assert size.tolist() == np.bincount(cluster, minlength=super_ptr[-1]).tolist()
    for g in range(graphs.num_graphs):
        mine = slice(super_ptr[g], super_ptr[g + 1])
        nodes = slice(graphs.node_ptr[g], graphs.node_ptr[g + 1])
        assert ((size[mine] >= limits.least[g]) & (size[mine] <= limits.most[g])).all()
        assert ((cluster[nodes] >= super_ptr[g]) & (cluster[nodes] < super_ptr[g + 1])).all()
        before = given_sizes[mine]
        if ((before >= limits.least[g]) & (before <= limits.most[g])).all():
            assert (cluster[nodes] == given_clusters[nodes]).all()


@given(clusterings())
def test_moves_between_clusters_equal_the_plain_ones(case):
    graphs, super_ptr, cluster, limits = case
    link = np.zeros(super_ptr[-1])
    size = np.bincount(cluster, minlength=super_ptr[-1])
    partition.balance_clusters(*arrays(graphs), super_ptr, 0, graphs.num_graphs, *limits, link, cluster, size)
    found = cluster.copy()
    partition.move_between(
        *arrays(graphs), 0, graphs.num_graphs, *limits, 4, link, np.empty(len(found), np.int32), found, size
    )
    assert (link == 0.0).all()
    for g in range(graphs.num_graphs):
        nodes = slice(graphs.node_ptr[g], graphs.node_ptr[g + 1])
        rows, expected = rows_of(graphs, g), cluster[nodes].tolist()
        before = reference.cut(rows, expected)
        reference.move_between(rows, expected, limits.least[g], limits.most[g], 4)
        assert found[nodes].tolist() == expected
        assert reference.cut(rows, expected) <= before
