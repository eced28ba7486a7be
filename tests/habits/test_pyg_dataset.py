"""Promises of PyG's datasets, kept by a ``PooledDataset``."""

import pytest
import torch
import torch_geometric.transforms as T
from torch_geometric.data import Data
from torch_geometric.data.summary import Summary

import tgp
from tgp.data import PoolDataLoader, PooledDataset
from tgp.errors import TgpError


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    graphs = []
    for number in range(12):
        nodes = torch.arange(4 + number % 5)
        ring = torch.stack([nodes, nodes.roll(1)])
        edges = torch.cat([ring, ring.flip(0)], dim=1)
        graphs.append(Data(edge_index=edges, num_nodes=len(nodes), y=torch.tensor([number % 3])))
    path = tmp_path_factory.mktemp("store") / "rings"
    tgp.coarsen(graphs, {"fine": "graclus*2", "coarse": "ndp,eigen:k=3"}, path, progress=False)
    return path


@pytest.fixture
def dataset(store):
    return PooledDataset(store, "fine")


def test_sizes_respect_the_transform(store):
    add = T.Compose([T.Constant(), T.OneHotDegree(4)])
    plain, changed = PooledDataset(store, "fine"), PooledDataset(store, "fine", transform=add)
    assert plain.num_features == plain.num_node_features == plain.num_edge_features == 0
    assert changed.num_features == changed.num_node_features == changed[0].x.size(1) == 6

    def with_edges(data):
        data.edge_attr = torch.ones(data.num_edges, 5)
        data.y = data.y % 2
        return data

    changed = PooledDataset(store, "fine", transform=with_edges)
    assert (plain.num_classes, changed.num_classes, changed.num_edge_features) == (3, 2, 5)


def test_setting_labels_is_refused_with_advice(dataset):
    for name in ("y", "x", "pooled_data"):
        with pytest.raises(AttributeError, match="transform"):
            setattr(dataset, name, torch.zeros(12))
    dataset.transform = None
    dataset.remark = "attributes of the dataset itself are fine"


def test_a_transform_that_drops_nodes_names_the_graph(store):
    def drop(data):
        return data.subgraph(torch.arange(data.num_nodes - 1)) if data.num_nodes == 7 else data

    dataset = PooledDataset(store, "fine", transform=drop)
    assert dataset[0].num_nodes == 4
    for read in (lambda: dataset[3], lambda: list(PoolDataLoader(dataset, batch_size=4))):
        with pytest.raises(
            TgpError, match=r"transform changed graph 3: expected 7 nodes and 14 edges.*got 6 nodes"
        ):
            read()
    with pytest.raises(TgpError, match=r"graph 0: .* 8 edges.* 12 edges"):
        PooledDataset(store, "fine", transform=T.AddSelfLoops())[0]
    assert PooledDataset(store, "fine", levels=[], transform=drop)[3].num_nodes == 6


def test_a_wrong_index_says_how_many_graphs_there_are(dataset):
    for wrong in (1000, -13, torch.tensor(12)):
        with pytest.raises(IndexError, match="12 graphs"):
            dataset[wrong]
    with pytest.raises(IndexError, match="12 graphs"):
        dataset.get_batch([0, 1000])
    assert dataset[-1].num_nodes == dataset[11].num_nodes == dataset[torch.tensor(11)].num_nodes


def test_hierarchies_and_schedules(dataset, store, tmp_path):
    assert sorted(dataset.hierarchies) == ["coarse", "fine"] and dataset.hierarchy == "fine"
    assert dataset.schedules == {"fine": "graclus*2", "coarse": "ndp,eigen:k=3"}
    again = tgp.coarsen(
        list(PooledDataset(store, "fine", levels=[])), dataset.schedules, None, progress=False
    )
    assert again.schedules == dataset.schedules


def test_collate_fn_is_refused(dataset):
    with pytest.raises(TgpError, match=r"torch\.utils\.data\.DataLoader"):
        PoolDataLoader(dataset, collate_fn=list)
    (graphs,) = torch.utils.data.DataLoader(dataset, batch_size=12, collate_fn=list)
    assert [graph.num_nodes for graph in graphs] == dataset.sizes()[0].tolist()


def test_arguments_without_effect_are_refused(dataset):
    for options in ({"budget_levels": (0, 1)}, {"oversize": "error"}):
        with pytest.raises(TgpError, match="no effect"):
            PoolDataLoader(dataset, **options)
    with pytest.raises(TgpError, match="seed"):
        PoolDataLoader(dataset, seed=1, sampler=[0, 1])


def test_print_and_summary_show_levels(dataset):
    text = str(dataset)
    for part in ("12", "fine", "coarse", "graclus*2", "ndp,eigen:k=3", "5.8 (4 to 8)", "not read"):
        assert part in text
    summary = dataset.get_summary()
    assert text == str(summary) == summary.format()
    expected = Summary.from_dataset(list(dataset))
    assert summary.num_nodes.mean == pytest.approx(expected.num_nodes.mean)
    assert summary.num_edges.max == expected.num_edges.max
    assert [row.num_nodes.mean for row in summary.levels["fine"]] == [
        pytest.approx(dataset.sizes(level)[0].mean()) for level in range(3)
    ]
    assert dataset[:2].get_summary().num_graphs == 2
    dataset.print_summary()
