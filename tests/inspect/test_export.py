"""Exports of a store, read by other tools."""

import networkx as nx
import numpy as np
import pytest
import torch

from tgp.errors import InputError, UnknownNameError
from tgp.inspect import export_store
from tgp.inspect.export import parse_graphs
from tgp.sources import open_source
from tgp.store import HierarchySpec, MemoryWriter, StoreReader, StoreSpec, data_digest
from tgp.testing.stores import halving, random_level_fields, random_table


def test_npz_files_can_be_read_again(store, tmp_path):
    files = export_store(store, "npz", tmp_path / "o", hierarchy="graclus-x2")
    assert [f.name for f in files] == ["graphs.npz", "level-1.npz", "level-2.npz"]
    again = open_source(str(tmp_path / "o" / "graphs.npz")).table
    assert data_digest(again) == StoreReader(store).manifest.spec.data_digest
    level = np.load(tmp_path / "o" / "level-2.npz")
    stored = StoreReader(store).gather_level([3], "graclus-x2", 1)
    low, high = level["node_ptr"][3:5]
    assert np.array_equal(level["cluster"][low:high], stored.assignment.cluster)
    with pytest.raises(InputError, match="exists"):
        export_store(store, "npz", tmp_path / "o", hierarchy="graclus-x2")
    export_store(store, "npz", tmp_path / "o", hierarchy="nopool", force=True)


def test_graphml_files_have_the_stored_edges_and_clusters(store, tmp_path):
    export_store(store, "graphml", tmp_path, hierarchy="graclus-x2", graphs="2,5")
    assert sorted(p.name for p in tmp_path.iterdir())[:3] == [
        "graph-00002.graphml",
        "graph-00002.level-1.graphml",
        "graph-00002.level-2.graphml",
    ]
    fine = nx.read_graphml(tmp_path / "graph-00005.graphml")
    coarse = nx.read_graphml(tmp_path / "graph-00005.level-1.graphml")
    stored = StoreReader(store).gather_level([5], "graclus-x2", 0)
    assert [fine.nodes[f"n{i}"]["cluster"] for i in range(20)] == stored.assignment.cluster.tolist()
    assert sorted(coarse.edges) == sorted((f"n{a}", f"n{b}") for a, b in stored.edge_index.T)


@pytest.mark.slow
def test_pyg_files_can_be_loaded(store, tmp_path):
    import torch
    from torch_geometric.data import InMemoryDataset

    class Loaded(InMemoryDataset):
        def __init__(self, path):
            super().__init__(None)
            self.load(str(path))

    export_store(store, "pyg", tmp_path, hierarchy="graclus-x2", graphs="0:10")
    for name in ("graphs.pt", "level-1.pt", "level-2.pt"):
        torch.load(tmp_path / name, weights_only=True)
    graphs, level = Loaded(tmp_path / "graphs.pt"), Loaded(tmp_path / "level-1.pt")
    assert len(graphs) == len(level) == 10
    stored = StoreReader(store).gather_level([7], "graclus-x2", 0)
    assert graphs[7].num_nodes == 20 and level[7].num_nodes == stored.super_ptr[-1]
    assert level[7].cluster.tolist() == stored.assignment.cluster.tolist()
    assert np.array_equal(level[7].edge_index.numpy(), stored.edge_index)
    again = open_source(str(tmp_path / "graphs.pt")).table
    assert again.num_graphs == 10 and again.num_nodes == 200


def test_wrong_arguments_are_rejected(store, tmp_path):
    with pytest.raises(UnknownNameError, match="npz"):
        export_store(store, "npy", tmp_path)
    with pytest.raises(InputError, match="choose a hierarchy"):
        export_store(store, "npz", tmp_path)
    for text in ("x", "0:31", "-1", "5:5"):
        with pytest.raises(InputError):
            parse_graphs(text, 30)
    assert parse_graphs("28:", 30).tolist() == [28, 29]


@pytest.fixture
def carried():
    """A store in memory whose level has attributes of many types, and the levels in it."""
    table = random_table(3, seed=1, features=2)
    levels = random_level_fields(halving(table, 1))  # among them float32 [K, 0] beside other types
    entry = HierarchySpec("h", [{"method": "halve", "params": {}}], carry="auto")
    writer = MemoryWriter(StoreSpec({"name": "t"}, data_digest(table), 3, (0, 3), "fast", (entry,)))
    writer.write_graphs(0, table)
    writer.write_hierarchy(0, "h", levels)
    writer.publish()
    return StoreReader(writer.files), levels


def test_attributes_without_columns_are_exported(carried, tmp_path):
    reader, levels = carried
    export_store(reader, "pyg", tmp_path)
    tensors = torch.load(tmp_path / "level-1.pt", weights_only=False)[0]
    assert tensors["no_columns"].shape == (levels.levels[0].block.num_nodes, 0)
    assert torch.equal(
        tensors["num_members"], torch.from_numpy(levels.levels[0].fields["num_members"].values)
    )


def test_graphml_files_have_the_attributes_of_levels(carried, tmp_path):
    reader, levels = carried
    export_store(reader, "graphml", tmp_path, graphs="1")
    found = nx.read_graphml(tmp_path / "graph-00001.level-1.graphml", force_multigraph=True)
    level = levels.levels[0]
    fields = {name: field.item(1) for name, field in level.fields.items() if field.form == "rows"}
    nodes = [found.nodes[f"n{i}"] for i in range(found.number_of_nodes())]
    for column in range(3):
        assert [node[f"pos_{column}"] for node in nodes] == fields["pos"][:, column].tolist()
    for name in ("num_members", "y", "short", "train_mask"):
        assert [node[name] for node in nodes] == fields[name].tolist()
    edges = (level.edge_index[:, level.edge_ptr[1] : level.edge_ptr[2]] - level.super_ptr[1]).T.tolist()
    expected = sorted(
        (f"n{a}", f"n{b}", *values, flag)
        for (a, b), values, flag in zip(
            edges, fields["edge_attr"].tolist(), fields["a/b.c"].tolist(), strict=True
        )
    )
    stored = [(a, b, d["edge_attr_0"], d["edge_attr_1"], d["a/b.c"]) for a, b, d in found.edges(data=True)]
    assert len(stored) > 2 and sorted(stored) == expected
    assert {"title", "z", "no_columns"}.isdisjoint(nodes[0])
