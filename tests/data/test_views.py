"""Views of a hierarchy: support graph, hetero graph, distances on all levels, patches."""

from itertools import pairwise

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.utils import to_networkx, to_undirected

from tgp.data import PoolDataLoader, PreCoarsening, precoarsen
from tgp.data.graph_hierarchy import GraphHierarchy
from tgp.errors import InputError

SCHEDULES = ("graclus*2", "ndp,eigen:k=3", "nmf:k=3,graclus", "kmis,graclus")


def random_graph(seed, nodes=9, edges=12):
    """Graph with features and edge attributes; often not connected."""
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.randint(0, max(nodes, 1), (2, edges if nodes > 1 else 0), generator=generator)
    pairs = to_undirected(pairs[:, pairs[0] != pairs[1]], num_nodes=nodes)
    return Data(
        x=torch.rand(nodes, 3, generator=generator, dtype=torch.float64),
        edge_index=pairs,
        edge_attr=torch.arange(pairs.size(1)).float().view(-1, 1),
        num_nodes=nodes,
    )


def with_levels(schedule, sizes=(9, 1, 6)):
    return precoarsen([random_graph(seed, size) for seed, size in enumerate(sizes)], schedule)


def assignment_matrix(level, graph):
    """Dense ``S`` of a single graph. Values of sparse assignments are scores and count as ones."""
    so = level.so
    if so.is_sparse:
        s = torch.zeros(graph.num_nodes, level.num_nodes, dtype=torch.float64)
        s[so.node_index, so.cluster_index] = 1.0
        return s
    return so.s.reshape(graph.num_nodes, -1).double()


def strongest(graph, level):
    """Supernode of each input node by argmax, step by step."""
    cluster = list(range(graph.num_nodes))
    before = graph
    for coarse in graph.pooled_data[:level]:
        s = assignment_matrix(coarse, before)
        cluster = [int(s[c].argmax()) if c >= 0 and bool(s[c].any()) else -1 for c in cluster]
        before = coarse
    return cluster


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_support_graph_has_the_edges_of_all_levels_and_assignments(schedule):
    for graph in with_levels(schedule):
        view = graph.support_graph()
        levels = [graph, *graph.pooled_data]
        of = {(int(n), int(i)): v for v, (n, i) in enumerate(zip(view.level, view.node_index, strict=True))}
        expected = set()
        for number, level in enumerate(levels):
            for u, v in level.edge_index.t().tolist():
                expected.add((of[number, u], of[number, v], 0))
            if number:
                s = assignment_matrix(level, levels[number - 1])
                for u, c in s.nonzero().tolist():
                    if (number - 1, u) not in of:  # a supernode without nodes
                        continue
                    expected |= {(of[number - 1, u], of[number, c], 1), (of[number, c], of[number - 1, u], 2)}
        found = list(zip(*view.edge_index.tolist(), view.edge_type.tolist(), strict=True))
        assert set(found) == expected and len(found) == len(expected)
        reached = torch.ones(graph.num_nodes, dtype=torch.bool)
        for number, (before, after) in enumerate(pairwise(levels), 1):
            reached = assignment_matrix(after, before)[reached].any(0)
            assert view.node_index[view.level == number].tolist() == reached.nonzero().flatten().tolist()


def test_support_graph_averages_features_of_levels():
    graph = with_levels("graclus*2")[0]
    view = graph.support_graph()
    s1 = assignment_matrix(graph.pooled_data[0], graph)
    s2 = assignment_matrix(graph.pooled_data[1], graph.pooled_data[0])
    first = (s1.T @ graph.x) / s1.sum(0)[:, None]
    second = (s2.T @ first) / s2.sum(0)[:, None]
    assert torch.equal(view.x[view.level == 0], graph.x)
    torch.testing.assert_close(view.x[view.level == 1], first)
    torch.testing.assert_close(view.x[view.level == 2], second)
    assert "edge_weight" not in view


def test_support_graph_of_a_soft_assignment_has_its_weights():
    graph = with_levels("nmf:k=3")[0]
    view = graph.support_graph()
    s = assignment_matrix(graph.pooled_data[0], graph)
    up = view.edge_type == 1
    assert torch.equal(view.edge_weight[up].double(), s[s != 0])
    assert torch.equal(view.edge_weight[view.edge_type == 2], view.edge_weight[up])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_views_of_a_batch_are_the_views_of_its_graphs(schedule):
    graphs = with_levels(schedule)
    batch = next(iter(PoolDataLoader(graphs, batch_size=3)))
    view = batch.support_graph()
    assert view.batch.tolist() == sorted(view.batch.tolist())
    for number, graph in enumerate(graphs):
        alone = graph.support_graph()
        low, high = view.ptr[number : number + 2].tolist()
        inside = (view.edge_index[0] >= low) & (view.edge_index[0] < high)
        assert torch.equal(view.level[low:high], alone.level)
        torch.testing.assert_close(view.x[low:high], alone.x)
        edges = torch.stack([*(view.edge_index[:, inside] - low), view.edge_type[inside]])
        assert sorted(edges.t().tolist()) == sorted(
            torch.stack([*alone.edge_index, alone.edge_type]).t().tolist()
        )

        distances = batch.hierarchy_distances(4)[number]
        size = graph.num_nodes
        assert torch.equal(distances[:size, :size], graph.hierarchy_distances(4))
        assert (distances[size:] == 5).all() and (distances[:, size:] == 5).all()
    patches, alone = batch.patches(1, 1), [graph.patches(1, 1) for graph in graphs]
    assert patches.num_nodes == sum(view.num_nodes for view in alone)
    assert patches.edge_index.size(1) == sum(view.edge_index.size(1) for view in alone)
    assert patches.patch_batch.tolist() == [g for g, v in enumerate(alone) for _ in v.patch_supernode]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_distances_are_shortest_paths_between_supernodes(schedule):
    for graph in with_levels(schedule):
        found = graph.hierarchy_distances(3)
        assert found.dtype == torch.int16
        for number, level in enumerate([graph, *graph.pooled_data]):
            paths = dict(
                nx.all_pairs_shortest_path_length(
                    to_networkx(Data(edge_index=level.edge_index, num_nodes=level.num_nodes))
                )
            )
            cluster = strongest(graph, number)
            for u, a in enumerate(cluster):
                for v, b in enumerate(cluster):
                    expected = min(paths[a][b], 3) if a >= 0 and b >= 0 and b in paths[a] else 4
                    assert found[u, v, number] == expected, (number, u, v)


def test_distances_of_chosen_levels():
    graph = with_levels("graclus*2")[0]
    assert torch.equal(graph.hierarchy_distances(3, levels=[2, 0]), graph.hierarchy_distances(3)[..., [2, 0]])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("overlap", [0, 1, 2])
def test_patches_are_supernodes_with_a_halo(schedule, overlap):
    for graph in with_levels(schedule):
        for level in (1, len(graph.pooled_data)):
            view = graph.patches(level, overlap)
            cluster = strongest(graph, level)
            plain = to_networkx(Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes))
            chosen = sorted({c for c in cluster if c >= 0})
            assert view.patch_supernode.tolist() == chosen
            for patch, supernode in enumerate(chosen):
                core = {u for u, c in enumerate(cluster) if c == supernode}
                nodes = set()
                for u in core:
                    nodes |= set(nx.single_source_shortest_path_length(plain, u, cutoff=overlap))
                rows = (view.patch == patch).nonzero().flatten()
                assert view.node_index[rows].tolist() == sorted(nodes)
                assert view.core[rows].tolist() == [u in core for u in sorted(nodes)]
                inside = view.patch[view.edge_index[0]] == patch
                edges = view.node_index[view.edge_index[:, inside]].t().tolist()
                assert sorted(map(tuple, edges)) == sorted(plain.subgraph(nodes).edges)
            assert torch.equal(view.x, graph.x[view.node_index])
            ends = view.node_index[view.edge_index]
            assert torch.equal(graph.edge_index[:, view.edge_id], ends)
            assert torch.equal(view.edge_attr, graph.edge_attr[view.edge_id])


def test_hetero_graph_has_one_node_type_per_level():
    graph = with_levels("ndp,eigen:k=3")[0]
    view = graph.to_hetero()
    view.validate()
    assert view.node_types == ["level_0", "level_1", "level_2"]
    assert {kind for _, kind, _ in view.edge_types} == {"same", "up", "down"}
    assert torch.equal(view["level_0"].x, graph.x)
    assert torch.equal(view["level_0", "same", "level_0"].edge_attr, graph.edge_attr)
    up, down = view["level_0", "up", "level_1"].edge_index, view["level_1", "down", "level_0"].edge_index
    assert torch.equal(up.flip(0), down)
    assert up.t().tolist() == assignment_matrix(graph.pooled_data[0], graph).nonzero().tolist()


def test_hetero_graph_of_a_batch_can_be_pooled_by_graph():
    batch = next(iter(PoolDataLoader(with_levels("graclus*2"), batch_size=3)))
    view = batch.to_hetero()
    assert view["level_2"].batch.tolist() == batch.pooled_data[1].batch.tolist()


def test_a_hierarchy_has_the_same_views():
    graph = with_levels("graclus*2")[0]
    assert torch.equal(GraphHierarchy(graph).support_graph().edge_index, graph.support_graph().edge_index)


@given(seed=st.integers(0, 1000), nodes=st.integers(0, 12), edges=st.integers(0, 30))
def test_views_of_any_graph(seed, nodes, edges):
    graph = PreCoarsening("graclus*2")(random_graph(seed, nodes, edges))
    assert graph.support_graph().level.bincount(minlength=3).tolist() == [
        nodes,
        *(level.num_nodes for level in graph.pooled_data),
    ]
    assert graph.hierarchy_distances(2).shape == (nodes, nodes, 3)
    patches = graph.patches(2, 1)
    assert int(patches.core.sum()) == nodes


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda graph: graph.patches(3), "level"),
        (lambda graph: graph.patches(0), "level"),
        (lambda graph: graph.patches(1, -1), "overlap"),
        (lambda graph: graph.hierarchy_distances(0), "max"),
        (lambda graph: graph.hierarchy_distances(3, levels=[5]), "level"),
    ],
)
def test_wrong_arguments(call, field):
    graph = with_levels("graclus*2")[0]
    with pytest.raises(InputError) as caught:
        call(graph)
    assert caught.value.field == field


def test_a_graph_without_levels_or_assignments():
    graph = with_levels("graclus*2")[0]
    graph.pooled_data[1].so = None
    with pytest.raises(InputError, match="level 2 is not linked to level 1"):
        graph.support_graph()
    graph.pooled_data = []
    with pytest.raises(InputError, match="no levels"):
        graph.to_hetero()
