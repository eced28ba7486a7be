"""Attributes of levels in transforms, batches and loaders."""

import pickle

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from tgp.data import PoolDataLoader, PooledBatch, PreCoarsening, precoarsen
from tgp.data.convert import graphs_to_table
from tgp.engine.carry import CarryRules, resolve
from tgp.engine.carry_fields import carry_fields
from tgp.engine.coarsening import coarsen
from tgp.errors import InputError, ParameterError, UnknownNameError
from tgp.poolers import GraclusPooling

SCHEDULES = ["graclus*2", "eigen:k=3,nmf:k=2", "ndp,graclus", "kmis,nmf:k=2,graclus"]
CARRY = "auto,names=majority,x=stats"


class OwnPooling(GraclusPooling):
    """A pooler that the engine must not replace."""

    def select(self, *args, **kwargs):
        return super().select(*args, **kwargs)


def make_graph(num_nodes, seed):
    generator = torch.Generator().manual_seed(seed)
    adjacency = torch.rand(num_nodes, num_nodes, generator=generator) < 0.3
    edges = (adjacency | adjacency.T).fill_diagonal_(False).nonzero().t()
    return Data(
        x=torch.rand(num_nodes, 3, generator=generator),
        pos=torch.rand(num_nodes, 2, generator=generator).double(),
        y=torch.randint(0, 3, (num_nodes,), generator=generator),
        edge_index=edges,
        edge_attr=torch.rand(edges.size(1), 2, generator=generator),
        train_mask=torch.rand(num_nodes, generator=generator) < 0.5,
        target=torch.rand(1, 4, generator=generator),
        names=[f"n{i % 3}" for i in range(num_nodes)],
        title="graph",
    )


@pytest.fixture(scope="module")
def graphs():
    return [make_graph(size, seed) for seed, size in enumerate((5, 3, 9, 12))]


def same(first, second, keys=None):
    """Compare the attributes of two levels, without the assignment."""
    if keys is None:
        assert set(first.keys()) == set(second.keys())
    for key in first.keys() if keys is None else keys:
        if isinstance(first[key], torch.Tensor):
            assert first[key].dtype == second[key].dtype, key
            torch.testing.assert_close(first[key], second[key], rtol=0, atol=0)
        elif key != "so":
            assert first[key] == second[key], key


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_one_graph_has_the_levels_of_the_block(graphs, schedule):
    transform = PreCoarsening(schedule, carry=CARRY)
    for data, expected in zip(map(transform, graphs), transform.block(graphs), strict=True):
        for level, other in zip(data.pooled_data, expected.pooled_data, strict=True):
            same(level, other)
            assert level.pos.shape == (level.num_nodes, 2) and level.num_members.shape == (level.num_nodes,)
            assert len(level.names) == level.num_nodes and "target" not in level


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("loader", [DataLoader, PoolDataLoader])
def test_loaders_join_level_attributes(graphs, schedule, loader):
    items = precoarsen(graphs, schedule, carry=CARRY)
    batch = next(iter(loader(items, batch_size=len(items))))
    for number, level in enumerate(batch.pooled_data):
        parts = [item.pooled_data[number] for item in items]
        for key in parts[0]._store:
            if key in ("edge_index", "batch", "so", "num_nodes"):
                continue
            joined = [part[key] for part in parts]
            if isinstance(joined[0], torch.Tensor):
                torch.testing.assert_close(level[key], torch.cat(joined), rtol=0, atol=0)
            else:
                assert level[key] == joined
    for copied in (batch, pickle.loads(pickle.dumps(batch)), batch.clone()):
        for graph, item in enumerate(items):
            for level, other in zip(copied.get_example(graph).pooled_data, item.pooled_data, strict=True):
                same(other, level, other.keys())
    moved = batch.to("meta")
    assert moved.pooled_data[0].num_members.device.type == "meta"


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_batches_from_arrays_equal_joined_graphs(graphs, schedule):
    table = graphs_to_table(graphs)
    steps = resolve(CarryRules.parse(CARRY), table)
    levels = carry_fields(table, coarsen(table.to_block(), schedule), steps).levels
    batch = PooledBatch.from_arrays(table, levels)
    joined = PooledBatch.from_data_list(precoarsen(graphs, schedule, carry=CARRY))
    for level, other in zip(batch.pooled_data, joined.pooled_data, strict=True):
        same(level, other)
    for graph in range(len(graphs)):
        examples = batch.get_example(graph).pooled_data, joined.get_example(graph).pooled_data
        for level, other in zip(*examples, strict=True):
            same(level, other)


def test_poolers_of_users_carry_node_attributes(graphs):
    transform = PreCoarsening([OwnPooling(), "graclus", "nmf:k=2"], carry=CARRY)
    engine = PreCoarsening("graclus*2,nmf:k=2", carry=CARRY)
    assert transform._steps() is None
    for data, expected in zip(transform.block(graphs), engine.block(graphs), strict=True):
        for level, other in zip(data.pooled_data, expected.pooled_data, strict=True):
            same(other, level, set(other.keys()) - {"edge_attr"})
            assert "edge_attr" not in level


@pytest.mark.parametrize("schedule", ["graclus,eigen:k=2,nmf:k=2", "kmis,graclus"])
def test_a_batch_is_coarsened_with_its_attributes(graphs, schedule):
    whole = PreCoarsening(schedule, carry="auto")(Batch.from_data_list(graphs))
    joined = PooledBatch.from_data_list(precoarsen(graphs, schedule, carry="auto"))
    for level, other in zip(whole.pooled_data, joined.pooled_data, strict=True):
        same(level, other, level.keys())
        assert ("edge_attr" in level) == ("edge_attr" in other)


def test_an_unsorted_graph_has_the_same_means(graphs):
    data = graphs[3]
    order = torch.randperm(data.num_edges, generator=torch.Generator().manual_seed(1))
    mixed = data.clone()
    mixed.edge_index, mixed.edge_attr = data.edge_index[:, order], data.edge_attr[order]
    carried = PreCoarsening("graclus*2", carry={"edge_attr": "max", "pos": "mean"})
    for level, other in zip(carried(data).pooled_data, carried(mixed).pooled_data, strict=True):
        same(level, other)


def test_a_graph_in_an_attribute_is_reduced_from_its_own_attributes(graphs):
    data = Data(other=graphs[2], x=torch.zeros(1, 1))
    levels = PreCoarsening("graclus", input_key="other", carry="x=mean")(data).pooled_data
    same(levels[0], PreCoarsening("graclus", carry="x=mean")(graphs[2]).pooled_data[0])


@pytest.mark.parametrize(
    ("carry", "error"),
    [("z=mean", UnknownNameError), ("pos=any", ParameterError), ("target=mean", InputError)],
)
def test_wrong_rules_are_reported_before_levels_are_computed(graphs, carry, error, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError

    monkeypatch.setattr("tgp.data.transforms.coarsen", refuse)
    monkeypatch.setattr("tgp.data.transforms.run_levels", refuse)
    for poolers in ("graclus", OwnPooling()):
        with pytest.raises(error):
            precoarsen(graphs, poolers, carry=carry)


def test_an_attribute_of_some_graphs_is_reported(graphs):
    mixed = [graphs[0].clone(), graphs[2]]
    mixed[0].extra = torch.zeros(5)
    with pytest.raises(
        InputError, match="'extra' cannot be carried: expected it on every graph, got none on graph 1"
    ):
        precoarsen(mixed, "graclus", carry="auto")
    assert "extra" not in precoarsen(mixed, "graclus", carry="auto,extra=none")[0].pooled_data[0]


def test_the_rules_are_shown():
    assert "carry='auto,pos=none'" in repr(PreCoarsening("graclus", carry="pos=none,auto"))
    assert "carry" not in repr(PreCoarsening("graclus"))
