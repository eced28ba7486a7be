"""Graclus as a level method: two-hop matching, matching on counts, threads."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.bench_families import FAMILIES
from tgp.engine import coarsen, parse_schedule, threads
from tgp.engine.coarsening import coarsen_with_failures
from tgp.engine.level_method import RandomKey
from tgp.engine.methods.graclus import METHOD, GraclusParams
from tgp.errors import ParameterError
from tgp.ragged import BlockCSR
from tgp.testing.graphs import barabasi_albert, grid2d, isolated, path, star
from tgp.testing.strategies import blocks

MATCH_ON = ("weights", "counts")
COUNTS = "graclus:match_on=counts*3"


def clusters(hierarchy):
    return [level.assignment.cluster.tolist() for level in hierarchy.levels]


def edges(hierarchy):
    return [level.block.edge_index().tolist() for level in hierarchy.levels]


def unweighted(block):
    return BlockCSR(block.indptr, block.indices, None, block.node_ptr)


# Two hops ----------------------------------------------------------------------------------------------------------


def test_leaves_of_a_star_are_merged_in_pairs():
    assert coarsen(star(101), "graclus").levels[0].block.num_nodes == 100
    assert coarsen(star(101), "graclus:two_hop=true").levels[0].block.num_nodes == 51 - 1


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in ("many components", "RMAT")])
def test_connected_graphs_shrink_by_a_half_at_every_level(family):
    """Without ``two_hop``, a star, a windmill or K_2,n keeps nearly all of its nodes."""
    block = FAMILIES[family](3000)
    if block.weight is not None:  # edges of negative weight are not matched
        block = BlockCSR(block.indptr, block.indices, np.abs(block.weight), block.node_ptr)
    sizes = [
        block.num_nodes,
        *(level.block.num_nodes for level in coarsen(block, "graclus:two_hop=true*6").levels),
    ]
    for before, after in pairwise(sizes):
        assert before / 4 <= after <= max(before / 2, 1)


def test_nodes_without_neighbours_stay_alone():
    assert coarsen(isolated(5), "graclus:two_hop=true").levels[0].block.num_nodes == 5


def test_edges_of_negative_weight_do_not_lead_to_a_partner():
    block = star(6)
    negative = BlockCSR(block.indptr, block.indices, -np.ones(block.num_edges), block.node_ptr)
    assert coarsen(negative, "graclus:two_hop=true").levels[0].block.num_nodes == 6


# Counts ------------------------------------------------------------------------------------------------------------


@given(
    blocks(negative=False), st.integers(0, 2**63 - 1), st.sampled_from(["random", "degree"]), st.booleans()
)
def test_counts_match_like_stored_counts_and_store_no_weights(block, seed, order, two_hop):
    block = unweighted(block)
    option = f":order={order}:two_hop={str(two_hop).lower()}"
    hidden = coarsen(block, f"graclus:match_on=counts{option}*3", seed)
    stored = coarsen(block, f"graclus:count_edges=true{option}*3", seed)
    assert clusters(hidden) == clusters(stored) and edges(hidden) == edges(stored)
    assert all(level.block.weight is None for level in hidden.levels)


def test_the_second_level_sees_how_many_edges_connect_two_supernodes():
    """Supernode 0 has one edge to supernode 1 and four edges to supernode 2."""
    pairs = [(0, 1), (2, 3), (4, 5), (0, 2), (0, 4), (0, 5), (1, 4), (1, 5)]
    block = BlockCSR.from_edge_index(np.array(pairs + [(v, u) for u, v in pairs]).T)
    by_weight, by_count = (
        clusters(coarsen(block, f"graclus:order=index:match_on={what}*2")) for what in MATCH_ON
    )
    assert by_weight[0] == by_count[0] == [0, 0, 1, 1, 2, 2]
    assert by_weight[1] == [0, 0, 1] and by_count[1] == [0, 1, 0]


@given(blocks(min_graphs=1))
def test_weights_do_not_affect_the_matching_but_are_stored(block):
    weight = np.linspace(1.0, 2.0, block.num_edges)
    weighted = BlockCSR(block.indptr, block.indices, weight, block.node_ptr)
    found = coarsen(weighted, COUNTS)
    assert clusters(found) == clusters(coarsen(unweighted(block), COUNTS))
    current = weighted
    for level in found.levels:
        current = METHOD.connect(current, level.assignment, GraclusParams())
        assert level.block.weight.tolist() == pytest.approx(current.weight.tolist(), rel=1e-6)


@given(blocks(min_graphs=2), st.integers(0, 2**63 - 1))
def test_counts_of_a_graph_do_not_depend_on_other_graphs(block, seed):
    whole = coarsen(block, COUNTS, seed)
    for graph in range(block.num_graphs):
        alone = coarsen(block.take([graph]), COUNTS, seed)
        for mine, theirs in zip(whole.levels, alone.levels, strict=True):
            assert mine.block.take([graph]).edge_index().tolist() == theirs.block.edge_index().tolist()


def test_counts_with_failures_kept_levels_and_normalised_weights():
    block = barabasi_albert(200, 3)
    whole = coarsen(block, COUNTS)
    assert clusters(coarsen_with_failures(block, COUNTS)[0]) == clusters(whole)
    kept = coarsen(block, parse_schedule(COUNTS).keep([0, 2]))
    assert edges(kept) == [edges(whole)[0], edges(whole)[2]]
    normalised = coarsen(block, "graclus:match_on=counts:degree_norm=true*3")
    assert clusters(normalised) == clusters(whole)
    assert all(level.block.weight is not None for level in normalised.levels)


def test_counts_start_again_after_another_method():
    block = grid2d(12, 12)
    mixed = coarsen(block, "graclus:match_on=counts,nopool,graclus:match_on=counts")
    again = coarsen(mixed.levels[1].block, "graclus", first_level=2)
    assert clusters(mixed)[2] == clusters(again)[0]


def test_the_layer_and_the_transform_agree_with_the_engine():
    import torch
    from torch_geometric.data import Data

    from tgp.data import PreCoarsening
    from tgp.poolers import get_pooler

    block = barabasi_albert(120, 3)
    expected = clusters(coarsen(block, COUNTS))
    data = Data(edge_index=torch.from_numpy(block.edge_index()), num_nodes=block.num_nodes)
    done = PreCoarsening("graclus:match_on=counts*3")(data.clone())
    assert [level.so.cluster.tolist() for level in done.pooled_data] == expected
    pooler = get_pooler("graclus", match_on="counts", two_hop=False)
    outputs = pooler.multi_level_precoarsening(3, data.edge_index, num_nodes=data.num_nodes)
    assert [out.so.cluster.tolist() for out in outputs] == expected
    hops = get_pooler("graclus", two_hop=True)
    first = coarsen(block, "graclus:two_hop=true").levels[0].assignment
    out = hops(x=torch.ones(120, 1), adj=data.edge_index)
    assert out.so.cluster.tolist() == first.cluster.tolist()


# Parameters and threads --------------------------------------------------------------------------------------------


def test_new_parameters_are_stored_only_if_they_are_set():
    [plain] = parse_schedule("graclus").to_json()
    assert not {"two_hop", "match_on"} & set(plain["params"])
    [changed] = parse_schedule("graclus:two_hop=true:match_on=counts").to_json()
    assert changed["params"]["two_hop"] is True and changed["params"]["match_on"] == "counts"
    with pytest.raises(ParameterError, match="expected one of weights, counts, got 'both'"):
        GraclusParams(match_on="both")


@pytest.mark.parametrize("text", ["graclus*3", "graclus:two_hop=true*3", "graclus:order=degree*2", COUNTS])
def test_threads_do_not_change_the_result(text, monkeypatch):
    block = BlockCSR.concat([path(n % 17) for n in range(60)] + [star(n) for n in range(1, 40)])
    monkeypatch.setattr(threads, "num_threads", lambda: 1)
    alone = coarsen(block, text)
    monkeypatch.setattr(threads, "num_threads", lambda: 3)
    monkeypatch.setattr(threads, "_MIN_WORK", 0)
    ranges = []
    real = threads.run_ranges

    def record(kernel, bounds, count):
        ranges.append(len(bounds) - 1)
        real(kernel, bounds, count)

    monkeypatch.setattr(threads, "run_ranges", record)
    assert clusters(coarsen(block, text)) == clusters(alone)
    assert min(ranges) > 3


def test_an_empty_block():
    empty = BlockCSR.concat([])
    for text in ("graclus", "graclus:two_hop=true", "graclus:match_on=counts"):
        spec = parse_schedule(text)[0]
        assert METHOD.assign(empty, spec.params, RandomKey()).num_supernodes == 0
