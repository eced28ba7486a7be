"""Comparison of hierarchies. The similarity of partitions is checked against a slow reference."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from tests.inspect.conftest import build as build_store
from tests.reference import partition_similarity as reference
from tgp import coarsen
from tgp.build import CoarsenConfig, coarsen_dataset
from tgp.errors import InputError, UnknownNameError
from tgp.inspect import compare_stores
from tgp.inspect.compare import compare_hierarchies
from tgp.inspect.partition_similarity import ComposedClusters, partition_similarity
from tgp.ragged.offsets import offsets
from tgp.store import StoreReader


def composed(partitions):
    found = object.__new__(ComposedClusters)
    found.ptr = offsets([len(p) for p in partitions])
    pieces, start = [], 0
    for labels in partitions:
        pieces += [-1 if c < 0 else start + c for c in labels]
        start += 1 + max(labels, default=0)
    found.cluster = np.array(pieces, np.int64)
    return found


def separate_dropped(labels):
    """Make every dropped node a cluster of its own."""
    return [(c, i) if c < 0 else c for i, c in enumerate(labels)]


labels = st.lists(st.tuples(st.integers(-1, 4), st.integers(-1, 4)), max_size=12)


@settings(max_examples=60, deadline=None)
@given(st.lists(labels, min_size=1, max_size=5))
def test_similarity_equals_the_reference(graphs):
    first, second = ([[pair[i] for pair in graph] for graph in graphs] for i in (0, 1))
    rand, nmi = partition_similarity(composed(first), composed(second))
    for i, (x, y) in enumerate(zip(first, second, strict=True)):
        if len(x) < 2:
            assert np.isnan(rand[i]) and np.isnan(nmi[i])
        else:
            assert rand[i] == pytest.approx(
                reference.rand_index(separate_dropped(x), separate_dropped(y)), abs=1e-12
            )
            assert nmi[i] == pytest.approx(reference.nmi(separate_dropped(x), separate_dropped(y)), abs=1e-9)


def test_similarity_of_known_partitions():
    """Crossing pairs of four nodes share less than chance. One cluster and single nodes share nothing."""
    rand, nmi = partition_similarity(composed([[0, 0, 1, 1], [0, 0, 0]]), composed([[0, 1, 0, 1], [0, 1, 2]]))
    assert rand == pytest.approx([-0.5, 0.0]) and nmi == pytest.approx([0.0, 0.0])


def test_graphs_with_different_sizes_have_no_similarity():
    rand, nmi = partition_similarity(composed([[0, 0], [0, 1, 1]]), composed([[0, 0, 0], [0, 1, 1]]))
    assert np.isnan(rand[0]) and np.isnan(nmi[0]) and (rand[1], nmi[1]) == (1.0, 1.0)


def build(out, *poolers, dataset="er:num_graphs=9:num_nodes=14:degree=3", **values):
    coarsen_dataset(CoarsenConfig(dataset, out=out, poolers=poolers, **values))
    return out


def final_clusters(reader, graph, hierarchy, depth):
    clusters = np.arange(reader.sizes()[0][graph])
    for number in range(depth):
        clusters = reader.gather_level([graph], hierarchy, number).assignment.cluster[clusters]
    return clusters.tolist()


def test_levels_are_compared_over_the_input_nodes(tmp_path):
    """Hierarchies with different methods and depths are compared by their clusters of input nodes."""
    store = build(tmp_path / "s", "graclus*3", "sep*2")
    found = compare_hierarchies(store, "graclus-x3", "sep-x2")
    assert found.depths == (3, 2) and len(found.levels) == 2 and not found.equal
    reader = StoreReader(store)
    for level in found.levels:
        pairs = [
            [final_clusters(reader, g, name, level.level) for name in ("graclus-x3", "sep-x2")]
            for g in range(9)
        ]
        assert level.rand == pytest.approx(np.mean([reference.rand_index(x, y) for x, y in pairs]))
        assert level.nmi == pytest.approx(np.mean([reference.nmi(x, y) for x, y in pairs]))
        assert level.different == 9 and level.examples == [*range(9)]


def test_hierarchies_of_different_depth_are_not_equal(tmp_path):
    store = build(tmp_path / "s", "graclus*2", "graclus")
    found = compare_hierarchies(store, "graclus-x2", "graclus")
    assert [level.different for level in found.levels] == [0] and not found.equal


def test_soft_levels_have_no_similarity(tmp_path):
    store = build(tmp_path / "s", "nmf:k=3", "graclus")
    (level,) = compare_hierarchies(store, "nmf+k=3", "graclus").levels
    assert level.rand is None and level.nmi is None and level.edge_changes.graphs == 0


def test_edge_changes_of_equal_clusters(tmp_path):
    """Counting edges changes only weights. Keeping self-loops adds edges."""
    store = build(tmp_path / "s", "graclus", "graclus:count_edges=true", "graclus:remove_self_loops=false")
    counted = compare_hierarchies(store, "graclus", "graclus+count_edges=true").levels[0]
    reader = StoreReader(store)
    weights = reader.gather_level(range(9), "graclus+count_edges=true", 0).edge_weight
    changes = counted.edge_changes
    assert (changes.graphs, changes.only_first, changes.only_second) == (9, 0, 0)
    assert changes.reweighted == (weights != 1).sum() > 0 and changes.largest == weights.max() - 1
    assert counted.rand == counted.nmi == 1.0 and counted.different > 0
    loops = compare_hierarchies(store, "graclus+remove_self_loops=false", "graclus").levels[0]
    kept = reader.gather_level(range(9), "graclus+remove_self_loops=false", 0).edge_index
    assert loops.edge_changes.only_first == (kept[0] == kept[1]).sum() > 0
    assert (
        loops.edge_changes.only_second == 0
        and loops.edges[0] - loops.edges[1] == loops.edge_changes.only_first
    )


def test_stores_of_different_graphs(tmp_path):
    one = build(tmp_path / "a", "graclus")
    two = build(tmp_path / "b", "graclus", dataset="er:num_graphs=9:num_nodes=14:degree=3:seed=5")
    (found,) = compare_stores(one, two)
    assert not found.same_graphs and not found.equal and found.levels[0].different == 9
    assert found.levels[0].rand < 0.9
    with pytest.raises(InputError, match="9 and 4 graphs"):
        compare_stores(one, build(tmp_path / "c", "graclus", limit=4))


def test_one_hierarchy_of_a_store_is_selected_by_name(tmp_path):
    one, two = build(tmp_path / "a", "graclus", "sep"), build(tmp_path / "b", "random", "nopool")
    with pytest.raises(InputError, match="share no hierarchy"):
        compare_stores(one, two)
    (found,) = compare_stores(f"{one}#sep", f"{two}#nopool")
    assert (found.first, found.second) == (f"{one}#sep", f"{two}#nopool")
    with pytest.raises(UnknownNameError, match="nope"):
        compare_stores(f"{one}#nope", two)


def test_equal_stores_compare_equal(store, tmp_path):
    other = build_store(tmp_path / "o", "graclus*2")
    (comparison,) = compare_stores(store, other)
    assert comparison.equal and [level.rand for level in comparison.levels] == [1.0, 1.0]


def test_different_seeds_differ_in_the_reported_graphs(store, tmp_path):
    other = build_store(tmp_path / "o", "graclus*2", seed=1)
    (comparison,) = compare_stores(store, other)
    level = comparison.levels[0]
    reader, theirs = StoreReader(store), StoreReader(other)
    expected = []
    for graph in range(30):
        a, b = (r.gather_level([graph], "graclus-x2", 0) for r in (reader, theirs))
        expected += [graph] * (
            not (
                np.array_equal(a.assignment.cluster, b.assignment.cluster)
                and np.array_equal(a.edge_index, b.edge_index)
            )
        )
    assert level.different == len(expected) > 10 and level.examples == expected[:10]
    assert -0.5 < level.rand < 1 and not comparison.equal


def test_rand_index_of_pairs_against_single_nodes(tmp_path):
    """Four nodes, {01}{23} against {0}{1}{2}{3}: no pair is shared, so the index is 0."""
    np.savez(tmp_path / "g.npz", edge_index=np.array([[0, 1, 2, 3], [1, 0, 3, 2]]))
    config = CoarsenConfig(str(tmp_path / "g.npz"), out=tmp_path / "s", poolers=("graclus", "nopool"))
    coarsen_dataset(config)
    assert compare_hierarchies(tmp_path / "s", "graclus", "nopool").levels[0].rand == 0
    assert compare_hierarchies(tmp_path / "s", "graclus", "graclus").levels[0].rand == 1


def test_stores_that_cannot_be_compared(store, tmp_path):
    with pytest.raises(InputError, match="share no hierarchy"):
        compare_stores(store, build_store(tmp_path / "a", "random"))
    with pytest.raises(InputError, match="different graphs"):
        compare_stores(store, build_store(tmp_path / "b", "graclus*2", limit=5))


def test_attributes_of_levels_are_compared(tmp_path):
    graphs = toy_graphs_with_positions(6)
    stores = {}
    for name, rules in (("mean", "pos=mean"), ("again", "pos=mean"), ("max", "pos=max"), ("none", None)):
        coarsen(graphs, "graclus*2", out=tmp_path / name, carry=rules)
        stores[name] = tmp_path / name
    changes = {
        other: [level.attributes for level in compare_stores(stores["mean"], stores[other])[0].levels]
        for other in ("again", "max", "none")
    }
    assert changes["again"] == [{}, {}] and compare_stores(stores["mean"], stores["again"])[0].equal
    # Graph 0 has equal positions, so that its mean is its maximum. Graph 1 has NaN in all rows.
    assert changes["max"] == [{"pos": 4}, {"pos": 4}]
    assert changes["none"] == [{"num_members": 6, "pos": 6}] * 2
    (found,) = compare_stores(stores["mean"], stores["max"])
    assert not found.equal and [level.different for level in found.levels] == [0, 0]


def toy_graphs_with_positions(count):
    """Return cycles with random positions, of which the first are all equal and the second NaN."""
    node = torch.arange(8)
    edges = torch.stack([torch.cat([node, (node + 1) % 8]), torch.cat([(node + 1) % 8, node])])
    pos = torch.rand(count, 8, 2, generator=torch.Generator().manual_seed(0))
    pos[0], pos[1] = 1.0, float("nan")
    return [Data(edge_index=edges, pos=rows, num_nodes=8) for rows in pos]
