"""Levels of heterogeneous graphs: types, relations, attributes, batches, errors."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import HeteroData

from tgp.data import PoolDataLoader, PreCoarsening, precoarsen
from tgp.engine import parse_schedule
from tgp.engine.type_graph import connect_types
from tgp.engine.typed_levels import run_types
from tgp.errors import DatasetError, InputError, UnknownNameError
from tgp.ragged import BlockCSR
from tgp.ragged.node_attributes import NodeAttributes

SCHEDULES = ("graclus*2", "kmis,graclus", "sep*2", "random:ratio=0.5")


def movies(seed=0, movie=40, actor=60, director=12):
    """Graph like IMDB: films, actors and directors, without edges inside a type."""
    generator = torch.Generator().manual_seed(seed)

    def pick(size, count):
        return torch.randint(0, size, (count,), generator=generator)

    data = HeteroData()
    data["movie"].x = torch.rand(movie, 4, generator=generator, dtype=torch.float64)
    data["movie"].y = pick(3, movie)
    data["movie"].train_mask = pick(2, movie).bool()
    data["actor"].x = torch.rand(actor, 2, generator=generator, dtype=torch.float64)
    data["director"].num_nodes = director
    cast = torch.stack([pick(movie, 2 * actor), pick(actor, 2 * actor)])
    data["movie", "cast", "actor"].edge_index = cast
    data["movie", "cast", "actor"].edge_attr = torch.rand(
        2 * actor, 3, generator=generator, dtype=torch.float64
    )
    data["actor", "plays", "movie"].edge_index = cast.flip(0)
    data["movie", "by", "director"].edge_index = torch.stack([torch.arange(movie), pick(director, movie)])
    data["movie", "by", "director"].edge_weight = (
        torch.rand(movie, generator=generator, dtype=torch.float64) + 0.5
    )
    return data


def papers(seed=0):
    """Graph like ACM: papers cite papers and have authors; two relations between papers."""
    data = movies(seed)
    generator = torch.Generator().manual_seed(seed + 1)
    data["movie", "cites", "movie"].edge_index = torch.randint(0, 40, (2, 90), generator=generator)
    data["movie", "like", "movie"].edge_index = torch.randint(0, 40, (2, 30), generator=generator)
    return data


def members(levels, name, level):
    """Supernode of each input node of a type, -1 if it was dropped."""
    cluster = None
    for graph in levels[: level + 1]:
        so = graph[name].so
        step = torch.full((so.num_nodes,), -1)
        step[so.node_index] = so.cluster_index
        cluster = step if cluster is None else torch.where(cluster >= 0, step[cluster.clamp(min=0)], -1)
    return cluster.tolist()


@pytest.mark.parametrize("make", [movies, papers])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_relations_are_contracted_one_by_one(make, schedule):
    data = make()
    levels = PreCoarsening(schedule, carry="auto")(data).pooled_data
    for number, level in enumerate(levels):
        level.validate()
        assert level.node_types == data.node_types and level.edge_types == data.edge_types
        for relation in data.edge_types:
            source, target = (members(levels, relation[end], number) for end in (0, 2))
            weight = data[relation].get("edge_weight")
            expected, rows = {}, {}
            for edge, (u, v) in enumerate(data[relation].edge_index.t().tolist()):
                pair = (source[u], target[v])
                if -1 in pair or (relation[0] == relation[2] and pair[0] == pair[1]):
                    continue
                expected[pair] = expected.get(pair, 0.0) + (1.0 if weight is None else float(weight[edge]))
                rows.setdefault(pair, []).append(edge)
            found = list(map(tuple, level[relation].edge_index.t().tolist()))
            assert sorted(found) == sorted(expected)
            if weight is not None:
                torch.testing.assert_close(
                    level[relation].edge_weight,
                    torch.tensor([expected[p] for p in found], dtype=torch.float64),
                )
            if "edge_attr" in data[relation]:
                means = [data[relation].edge_attr[rows[pair]].mean(0) for pair in found]
                torch.testing.assert_close(level[relation].edge_attr, torch.stack(means))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_attributes_are_reduced_over_the_members_of_each_type(schedule):
    data = movies()
    levels = PreCoarsening(schedule, carry="auto")(data).pooled_data
    for number, level in enumerate(levels):
        cluster = torch.tensor(members(levels, "movie", number))
        count = torch.bincount(cluster[cluster >= 0], minlength=level["movie"].num_nodes)
        assert torch.equal(level["movie"].num_members, count)
        for supernode in range(level["movie"].num_nodes):
            inside = cluster == supernode
            torch.testing.assert_close(level["movie"].x[supernode], data["movie"].x[inside].mean(0))
            labels = data["movie"].y[inside]
            assert int((labels == level["movie"].y[supernode]).sum()) == int(labels.bincount().max())
        assert level["actor"].x.size(0) == level["actor"].num_nodes
        assert "y_train" in level["movie"] and "x" not in level["director"]


def test_graphs_without_edges_inside_types_become_smaller():
    levels = PreCoarsening("graclus*2")(movies()).pooled_data
    assert levels[0]["movie"].num_nodes < 25 and levels[0]["actor"].num_nodes < 45
    assert levels[1]["director"].num_nodes < 12  # directors share films of level 1
    assert PreCoarsening("graclus", type_graph="same")(movies()).pooled_data[0]["movie"].num_nodes == 40


def test_only_chosen_relations_decide():
    data = papers()
    chosen = PreCoarsening("graclus", relations="cites", type_graph="same")(data).pooled_data[0]
    alone = papers()
    for relation in list(alone.edge_types):
        if relation[1] != "cites":
            alone[relation].edge_index = torch.zeros(2, 0, dtype=torch.long)
            for key in ("edge_attr", "edge_weight"):
                if key in alone[relation]:
                    alone[relation][key] = alone[relation][key][:0]
    expected = PreCoarsening("graclus", type_graph="same")(alone).pooled_data[0]
    assert torch.equal(chosen["movie"].so.cluster_index, expected["movie"].so.cluster_index)
    assert chosen["actor"].num_nodes == 60
    assert chosen["movie", "like", "movie"].edge_index.size(1) > 0


def test_levels_of_a_list_are_joined_by_the_loader():
    graphs = precoarsen([movies(seed) for seed in range(3)], "graclus*2", carry="auto")
    batch = next(iter(PoolDataLoader(graphs, batch_size=3)))
    assert batch["movie"].num_nodes == 120 and len(batch.pooled_data) == 2
    for number, level in enumerate(batch.pooled_data):
        parts = [graph.pooled_data[number] for graph in graphs]
        assert torch.equal(level["movie"].x, torch.cat([part["movie"].x for part in parts]))
        sizes = [part["movie"].num_nodes for part in parts]
        assert level["movie"].batch.bincount().tolist() == sizes
        so = level["movie"].so
        assert so.num_supernodes == sum(sizes)
        shifted = [part["movie"].so.cluster_index + sum(sizes[:i]) for i, part in enumerate(parts)]
        assert torch.equal(so.cluster_index, torch.cat(shifted))
        edges = [part["movie", "by", "director"].edge_index.size(1) for part in parts]
        assert level["movie", "by", "director"].edge_index.size(1) == sum(edges)


@given(
    st.integers(0, 10**6),
    st.integers(1, 12),
    st.integers(0, 40),
    st.sampled_from(["auto", "same", "project"]),
)
def test_type_graph_connects_equal_types_only(seed, nodes, edges, mode):
    rng = np.random.default_rng(seed)
    ends, types = rng.integers(0, nodes, (2, edges)), rng.integers(0, 3, nodes)
    found = connect_types(BlockCSR.from_edge_index(ends, num_nodes=nodes), types, mode)
    got = set(map(tuple, found.edge_index().T.tolist()))
    same = {(u, v) for u, v in ends.T.tolist() if types[u] == types[v]}
    inside = {types[u] for u, _ in same}
    common = set()
    for u in range(nodes):
        for v in range(nodes):
            if u == v or types[u] != types[v] or mode == "same" or (mode == "auto" and types[u] in inside):
                continue
            near = [
                {b for a, b in ends.T.tolist() if a == w} | {a for a, b in ends.T.tolist() if b == w}
                for w in (u, v)
            ]
            if any(types[m] != types[u] for m in near[0] & near[1]):
                common.add((u, v))
    loops = {(u, v) for u, v in same if u == v}
    assert got - loops == (same | common) - loops


def test_hubs_do_not_connect_all_pairs():
    leaves = 5_000
    ends = np.stack([np.zeros(leaves, np.int64), np.arange(1, leaves + 1)])
    types = np.ones(leaves + 1, np.int64)
    types[0] = 0
    found = connect_types(BlockCSR.from_edge_index(ends), types)
    assert found.num_edges == 2 * (leaves - 1)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"poolers": "ndp"}, InputError, "ndp cannot coarsen graphs with several types"),
        ({"poolers": "nmf:k=2"}, InputError, "nmf cannot coarsen"),
        ({"relations": "directs"}, UnknownNameError, "directs"),
        ({"type_graph": "none"}, UnknownNameError, "none"),
        ({"carry": {"x": "average"}}, UnknownNameError, "average"),
    ],
)
def test_wrong_arguments(change, error, text):
    with pytest.raises(error, match=text):
        PreCoarsening(**{"poolers": "graclus", **change})(movies())


def test_ambiguous_relation_and_wrong_graphs():
    data = movies()
    data["director", "by", "movie"].edge_index = data["movie", "by", "director"].edge_index.flip(0)
    with pytest.raises(InputError, match="several relations are called 'by'"):
        PreCoarsening("graclus", relations="by")(data)
    PreCoarsening("graclus", relations=[("movie", "by", "director")])(data)
    wrong = movies()
    wrong["movie", "cast", "actor"].edge_index[1, 0] = 60
    with pytest.raises(DatasetError, match="movie-cast-actor has a wrong id"):
        PreCoarsening("graclus")(wrong)
    with pytest.raises(UnknownNameError, match="pos"):
        PreCoarsening("graclus", carry="pos=mean")(movies())
    with pytest.raises(InputError, match="edge_weight has the wrong shape"):
        bad = movies()
        bad["movie", "by", "director"].edge_weight = torch.ones(3)
        PreCoarsening("graclus")(bad)


@pytest.mark.parametrize(
    "schedule", ["ugc:ratio=0.3", "random:ratio=0.3", "partition:ratio=0.3", "fps:ratio=0.3"]
)
def test_sizes_of_methods_that_join_components_hold_for_each_type(schedule):
    data = papers()
    for store in data.node_stores:
        store.x = store.pos = torch.rand(store.num_nodes, 2)
    (level,) = precoarsen([data], schedule)[0].pooled_data
    assert {name: level[name].num_nodes for name in data.node_types} == {
        "movie": 12,
        "actor": 18,
        "director": 4,
    }
    alone = precoarsen([data, movies(3)], schedule.replace("ugc", "random").replace("fps", "random"))
    assert [graph.pooled_data[0]["actor"].num_nodes for graph in alone] == [18, 18]


def test_nested_lists_of_types():
    data = papers()
    data["director"].x = torch.rand(12, 1)
    levels = precoarsen([data], "ugc:ratios=0.5/0.25")[0].pooled_data
    sizes = [{name: level[name].num_nodes for name in data.node_types} for level in levels]
    assert sizes == [{"movie": 20, "actor": 30, "director": 6}, {"movie": 10, "actor": 15, "director": 3}]


@pytest.mark.parametrize("schedule", ["voxel:size=0.5", "voxel:size=0.5,graclus"])
def test_a_type_that_fails_leaves_no_supernodes_of_its_graph(schedule):
    blocks = [BlockCSR.from_edge_index(np.array([[0, 5, 6], [1, 6, 5]]), node_ptr=[0, 4, 8, 12])]
    node_type = np.tile([0, 1, 0, 1], 3)
    pos = np.linspace(0.0, 5.0, 12)[:, None]
    pos[5] = 1e308
    failures = []
    steps = run_types(
        blocks, np.array([0, 4, 8, 12]), node_type, [0], parse_schedule(schedule),
        failures=failures, attributes=NodeAttributes({"pos": pos}),
    )  # fmt: skip
    assert [(failure.graph, failure.level) for failure in failures] == [(1, 0)]
    for step in steps:
        sizes = np.diff(step.level.super_ptr)
        assert sizes[1] == 0 and sizes[0] > 0 and sizes[2] > 0
        assert len(step.node_type) == sizes.sum() == step.blocks[0].num_nodes
    assert steps[0].level.assignment.cluster[4:8].tolist() == [-1] * 4
