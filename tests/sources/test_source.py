"""open_source: names, paths, callables, transforms, missing data."""

import os
import socket
import stat
import sys
import threading

import numpy as np
import pytest

from tgp.errors import DatasetError, MissingPackageError, ParameterError, UnknownNameError
from tgp.sources import open_source
from tgp.store import data_digest


def source(dataset, **values):
    return open_source(dataset, **values)


def test_builtin_with_parameters():
    found = source("er:num_graphs=4:seed=2")
    assert found.table.num_graphs == 4
    assert found.description == {
        "source": "builtin",
        "name": "er",
        "num_graphs": 4,
        "seed": 2,
        "num_nodes": 64,
        "degree": 4,
    }


def test_limit_and_transforms_are_described():
    found = source("er:num_graphs=9", limit=3, add_degree=True, exclude=("x",), largest_component=True)
    assert found.table.num_graphs == 3
    assert found.table.fields["x"].values.shape[1] == 1
    kept = {k: found.description[k] for k in ("limit", "add_degree", "exclude", "largest_component")}
    assert kept == {"limit": 3, "add_degree": True, "exclude": ["x"], "largest_component": True}


def test_descriptions_contain_no_paths(tmp_path):
    np.savez(tmp_path / "g.npz", edge_index=np.array([[0, 1], [1, 0]]))
    assert str(tmp_path) not in str(source(str(tmp_path / "g.npz")).description)


@pytest.mark.needs_data
def test_tu_from_local_files_without_torch(data_root):
    found = source("mutag", root=data_root)
    assert (found.table.num_graphs, found.table.num_nodes) == (188, 3371)
    assert found.description == {"source": "TUDataset", "name": "MUTAG"}
    with pytest.raises(ParameterError, match="use_node_attr"):
        source("mutag:cleaned=true", root=data_root)


@pytest.mark.needs_data
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "nodes", "edges"),
    [("Cora", 2708, 10556), ("minesweeper", 10000, 78804), ("DBLP", 17716, 105734)],
)
def test_read_only_folders_are_not_changed(data_root, tmp_path, monkeypatch, name, nodes, edges):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    before = sorted(p.name for p in data_root.rglob("*"))
    first = source(name, root=data_root)
    assert (first.table.num_nodes, first.table.fields["edge_index"].ptr[-1]) == (nodes, edges)
    assert sorted(p.name for p in data_root.rglob("*")) == before
    assert data_digest(source(name, root=data_root).table) == data_digest(first.table)  # from the cache now


@pytest.mark.needs_data
@pytest.mark.slow
def test_changed_raw_files_are_processed_again(data_root, tmp_path, monkeypatch):
    import shutil

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    raw = tmp_path / "root" / "HeterophilousGraphDataset" / "minesweeper" / "raw"
    raw.mkdir(parents=True)
    file = raw / "minesweeper.npz"
    shutil.copyfile(data_root / "HeterophilousGraphDataset/minesweeper/raw/minesweeper.npz", file)
    raw.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        first = source("minesweeper", root=tmp_path / "root")
        with np.load(file) as archive:
            arrays = {key: archive[key] for key in archive.files}
        arrays["edges"] = arrays["edges"][:100]
        np.savez(file, **arrays)
        second = source("minesweeper", root=tmp_path / "root")
    finally:
        raw.parent.chmod(stat.S_IRWXU)
    assert first.table.fields["edge_index"].ptr[-1] > second.table.fields["edge_index"].ptr[-1]


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("Network is unreachable")

    monkeypatch.setattr(socket, "create_connection", refuse)
    for name in ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("PROTEINS", "TUDataset/PROTEINS/raw"),
        ("PubMed", "Planetoid/PubMed/raw"),
        ("Tolokers", "HeterophilousGraphDataset/tolokers/raw"),
    ],
)
def test_without_network_the_expected_folder_is_named(no_network, tmp_path, name, folder):
    with pytest.raises(DatasetError) as caught:
        source(name, root=tmp_path)
    assert str(tmp_path / folder) in str(caught.value)
    assert "unreachable" in str(caught.value)


def test_a_host_that_does_not_answer_is_reported(tmp_path, monkeypatch):
    from tgp.sources import download as _download

    monkeypatch.setattr(_download, "TIMEOUT", 0.2)
    enough = threading.Event()
    monkeypatch.setattr(socket, "create_connection", lambda *a, **k: enough.wait(120) and socket.socket())
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    try:
        with pytest.raises(DatasetError, match="no answer"):
            source("PROTEINS", root=tmp_path)
        assert not enough.is_set()
    finally:
        enough.set()


@pytest.mark.parametrize(
    ("dataset", "error", "message"),
    [
        ("MUTAGG", DatasetError, "'MUTAG'"),
        ("molecule", DatasetError, "'molecules'"),
        ("no/such/file.npz", DatasetError, "no file or folder"),
        ("no_such_module:make", DatasetError, "module 'no_such_module' cannot be imported"),
        ("Planetoid/Coro", UnknownNameError, "'Cora'"),
        ("er:x=1", UnknownNameError, "parameter of er"),
    ],
)
def test_unknown_datasets_are_reported(dataset, error, message):
    with pytest.raises(error, match=message):
        source(dataset)


@pytest.mark.skipif("ogb" in sys.modules, reason="ogb is installed")
def test_missing_package_is_named():
    pytest.importorskip("importlib.util")
    import importlib.util

    if importlib.util.find_spec("ogb") is not None:
        pytest.skip("ogb is installed")
    with pytest.raises(MissingPackageError, match="ogb"):
        source("ogbg-molhiv")


MODULE = """
import torch
from torch_geometric.data import Data
from tgp.sources.builtin import make_builtin

def arrays(n=2):
    return make_builtin(f"er:num_graphs={n}")[0]

def graphs():
    return [Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]))]

def empty():
    return []

def edgeless():
    return [Data(x=torch.ones(2, 1))]
"""


def test_callables_of_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "mine_for_test.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    assert source("mine_for_test:arrays:n=3").table.num_graphs == 3
    found = source("mine_for_test:graphs")
    assert found.table.fields["x"].values.shape == (2, 1)
    assert found.description == {"source": "callable", "name": "mine_for_test:graphs"}
    with pytest.raises(DatasetError, match="no graphs"):
        source("mine_for_test:empty")
    with pytest.raises(DatasetError, match="edge_index"):
        source("mine_for_test:edgeless")
    with pytest.raises(DatasetError, match="has no function"):
        source("mine_for_test:nothing")
    assert os.getcwd() not in sys.path


def test_load_graphs_returns_the_graphs_of_open_source(tmp_path):
    from tgp.datasets import load_graphs

    graphs = load_graphs("molecules:num_graphs=5", limit=3, add_degree=True)
    table = open_source(dataset="molecules:num_graphs=5", limit=3, add_degree=True).table
    assert [graph.num_nodes for graph in graphs] == np.diff(table.node_ptr).tolist()
    assert np.array_equal(graphs[2].x.numpy(), table.fields["x"].item(2))
    assert np.array_equal(graphs[2].edge_index.numpy(), table.fields["edge_index"].item(2))
    with pytest.raises(DatasetError, match="MUTAG"):
        load_graphs("MUTAGG", root=str(tmp_path))


def test_load_graphs_adds_reverse_edges(tmp_path):
    from tgp.datasets import load_graphs

    (tmp_path / "path.edgelist").write_text("0 1\n1 2\n")
    (graph,) = load_graphs(str(tmp_path / "path.edgelist"), undirected=True)
    assert graph.num_nodes == 3 and graph.is_undirected()


@pytest.mark.parametrize("weight", [[1.0, np.nan, 1.0, 1.0], [1.0, complex(0, np.inf), 1.0, 1.0]])
def test_weights_of_a_file_that_are_not_finite_can_be_left_out(tmp_path, weight):
    """The file was refused before ``exclude`` was applied, with a message that named neither the edge nor a way out."""
    path = tmp_path / "graph.npz"
    np.savez(path, edge_index=[[0, 1, 1, 2], [1, 0, 2, 1]], edge_weight=np.array(weight))
    with pytest.raises(DatasetError, match=r"1 edge weight is not finite.* at edge 1 of graph 0") as caught:
        open_source(path)
    assert "--exclude edge_weight" in caught.value.hint
    assert "edge_weight" not in open_source(path, exclude=["edge_weight"]).table.fields
