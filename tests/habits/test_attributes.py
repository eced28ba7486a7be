"""Attributes of any type on the graphs of a user: stored, left out with one warning, or refused with one error."""

import json
import math
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData, InMemoryDataset
from torch_geometric.loader import DataLoader

import tgp
from tgp.data import PoolDataLoader, PooledDataset, graphs_to_arrays, precoarsen
from tgp.data.convert import graphs_to_table, table_to_data
from tgp.errors import DatasetError, TgpError

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def graph(**attributes):
    return Data(edge_index=EDGES, num_nodes=3, **attributes)


VALUES = {
    "smiles": ["C", "CéO", ""],
    "names": [["a", "b", "c"], [], ["x", None, True]],
    "sizes": [[1, 2.5], [3], [10**18, -7]],
    "meta": [{"id": 1, "tags": ["p"]}, {"id": 2, "tags": []}, {"id": 3, "tags": ["q", "r"]}],
    "ragged": [{"a": 1}, {}, {"b": {"c": [1, [2]]}}],
    "mixed": [1, "two", [3]],
    "huge": [2**80, 1, 2],
    "label": [np.int64(3), np.int64(4), np.int64(5)],
    "ratio": [1, 2.5, True],
}


@pytest.fixture(scope="module")
def graphs():
    return [graph(**{name: values[i] for name, values in VALUES.items()}) for i in range(3)]


@pytest.fixture(scope="module", params=["fast", "small"])
def store(graphs, tmp_path_factory, request):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = tmp_path_factory.mktemp("store") / "lists"
        tgp.coarsen(graphs, "graclus", path, progress=False, profile=request.param)
    return path


def test_lists_and_dicts_come_back(graphs, store):
    for in_memory in (False, True):
        dataset = PooledDataset(store, in_memory=in_memory)
        for number, data in enumerate(dataset):
            for name, values in VALUES.items():
                assert data[name] == values[number], name
            assert type(data.smiles) is str and type(data.names) is list and type(data.meta) is dict
            assert type(data.label) is int and type(data.ratio) is float
    assert tgp.inspect.inspect_store(store).num_graphs == 3


def test_batches_hold_a_list_per_graph(store):
    dataset = PooledDataset(store)
    for workers in (0, 2):
        (batch,) = PoolDataLoader(dataset, batch_size=3, num_workers=workers)
        for name in ("smiles", "names", "sizes", "mixed", "huge", "ragged"):
            assert batch[name] == VALUES[name]
        assert batch.meta["id"].tolist() == [1, 2, 3] and batch.meta["tags"] == [["p"], [], ["q", "r"]]
        for number in range(3):
            example = batch.get_example(number)
            assert {name: example[name] for name in VALUES} == {n: v[number] for n, v in VALUES.items()}
    assert dataset.names == VALUES["names"]


def test_pyg_joins_them_in_the_same_way(store):
    dataset = PooledDataset(store, fields=["edge_index", "num_nodes", "smiles", "names", "sizes", "meta"])
    (ours,), (theirs,) = PoolDataLoader(dataset, batch_size=3), DataLoader(dataset, batch_size=3)
    for name in ("smiles", "names", "sizes"):
        assert ours[name] == theirs[name]
    assert ours.meta["tags"] == theirs.meta["tags"] and ours.meta["id"].equal(theirs.meta["id"])
    assert theirs.get_example(1).names == [] and theirs.get_example(2).meta["tags"] == ["q", "r"]


def test_an_in_memory_dataset_has_them_too(graphs):
    class Kept(InMemoryDataset):
        def __init__(self, graphs):
            super().__init__()
            self.data, self.slices = self.collate(graphs)

    kept = [graph(names=g.names, meta=g.meta, smiles=g.smiles) for g in graphs]
    for number, data in enumerate(table_to_data(graphs_to_table(Kept(kept)))):
        assert (data.names, data.meta, data.smiles) == tuple(
            VALUES[n][number] for n in ("names", "meta", "smiles")
        )


def test_what_cannot_be_stored_is_left_out_with_one_warning():
    class Molecule:
        pass

    graphs = [
        graph(mol=Molecule(), keys={1: "a"}, bad=[math.nan], f=len, note="n", deep=[[]]),
        graph(mol=Molecule(), keys={2: "b"}, bad=[1.0], f=len, deep=[[]]),
    ]
    for _ in range(50):
        graphs[1].deep = [graphs[1].deep]
    with pytest.warns(UserWarning) as record:
        table = graphs_to_table(graphs)
    assert len(record) == 1 and set(table.fields) == {"edge_index", "num_nodes"}
    for name in ("'mol'", "'keys'", "'bad'", "'f'", "'note'", "'deep'", "Molecule", "nested"):
        assert name in str(record[0].message)


def test_the_command_line_shows_the_warning_and_goes_on(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\nfrom torch_geometric.data import Data\n"
        "def load():\n"
        "    edges = torch.tensor([[0, 1], [1, 0]])\n"
        "    return [Data(edge_index=edges, num_nodes=2, names=['a', 'b'], f=len) for _ in range(3)]\n"
    )
    command = [sys.executable, "-m", "tgp", "coarsen", "-d", "mine.py:load", "-p", "graclus", "-o", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Warning:") == 1 and "'f'" in done.stderr and "columns.py" not in done.stderr
    assert PooledDataset(tmp_path / "out")[2].names == ["a", "b"]


def test_levels_are_left_out_with_a_warning():
    graphs = precoarsen([graph(), graph()], ["graclus"])
    with pytest.warns(UserWarning, match="pooled_data"):
        assert "pooled_data" not in graphs_to_table(graphs).fields


def test_data_that_cannot_be_stored_is_one_error_that_names_all():
    one = graph(adj=torch.eye(3).to_sparse(), w=torch.ones(2), parts=[torch.ones(1)], z=np.ones(2), t=1.5)
    two = graph(
        adj=torch.eye(3).to_sparse(), w=torch.ones(2).long(), parts=[torch.ones(1)], z=np.ones(2), f=len
    )
    with pytest.raises(DatasetError, match="5 attributes") as caught:
        graphs_to_table([one, two])
    for name in ("'adj'", "'w'", "'parts'", "'z'", "'t'", "graph 1 does not", "'f' would be left out"):
        assert name in str(caught.value)
    assert "exclude=['adj', 'parts', 't', 'w', 'z']" in caught.value.hint
    with pytest.warns(UserWarning, match="'f'"):
        table = graphs_to_table([one, two], exclude_keys=["adj", "parts", "t", "w", "z"])
    assert set(table.fields) == {"edge_index", "num_nodes"}


def test_excluded_attributes_are_not_looked_at():
    graphs = [
        Data(x=torch.ones(3, 2), edge_index=EDGES, names=[object()]),
        Data(x=torch.ones(3, 5).bool(), edge_index=EDGES, names=3),
    ]
    table = graphs_to_table(graphs, exclude_keys=["names", "x"])
    assert set(table.fields) == {"edge_index"} and table.node_ptr.tolist() == [0, 3, 6]


def test_hetero_data_names_the_line_that_helps():
    hetero = HeteroData()
    for call in (
        lambda: graphs_to_arrays([hetero]),
        lambda: tgp.coarsen([hetero], "graclus", None, progress=False),
    ):
        with pytest.raises(TgpError) as caught:
            call()
        shown = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [str(caught.value.hint)])])
        assert "to_homogeneous()" in shown


def test_only_stores_with_such_attributes_have_a_new_minor_version(store, tmp_path):
    assert json.loads((store / "manifest.json").read_text())["minor"] == 2
    tgp.coarsen([graph(name="a"), graph(name="b")], "graclus", tmp_path / "plain", progress=False)
    manifest = json.loads((tmp_path / "plain" / "manifest.json").read_text())
    assert manifest["minor"] == 1 and all("encoding" not in field for field in manifest["fields"])


def test_inspect_names_the_type_of_texts(store):
    from tgp.inspect.overview import inspect_graph, inspect_store

    types = {field["name"]: field["dtype"] for field in inspect_store(store).fields}
    assert (types["smiles"], types["names"], types["label"]) == ("str", "json", "int64")
    assert inspect_graph(store, 0)["fields"]["meta"] == {"dtype": "json", "shape": []}


def test_the_warning_names_the_line_of_the_user():
    with pytest.warns(UserWarning, match="'note'") as caught:
        tgp.coarsen([graph(note=object())], "graclus", None, progress=False)
    assert [warning.filename for warning in caught if "'note'" in str(warning.message)] == [__file__]
