"""Graphs from local files: arrays, edge lists, GraphML, stores."""

import gzip
import lzma

import h5py
import numpy as np
import pytest

from tgp.errors import DatasetError
from tgp.sources.local_files import open_local


def edges_of(table, graph=0):
    return table.fields["edge_index"].item(graph).T.tolist()


def test_npz_with_one_graph(tmp_path):
    edges = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
    np.savez(tmp_path / "g.npz", edge_index=edges, x=np.eye(4), y=np.array([1]), extra=np.arange(7))
    table = open_local(tmp_path / "g.npz")
    assert np.diff(table.node_ptr).tolist() == [4]
    assert edges_of(table) == edges.T.tolist()
    assert table.fields["x"].ptr.tolist() == [0, 4]
    assert table.fields["y"].values.tolist() == [1]
    assert table.fields["extra"].ptr.tolist() == [0, 7]


def test_npz_with_many_graphs_assigns_arrays_by_length(tmp_path):
    np.savez(
        tmp_path / "g.npz",
        edge_index=np.array([[0, 1, 0], [1, 0, 0]]),
        node_ptr=[0, 2, 2, 3],
        edge_ptr=[0, 2, 2, 3],
        x=np.arange(3.0),
        edge_weight=np.array([1.0, 2.0, 3.0]),
        y=np.array([5, 6, 7]),
        words=np.array([1, 2, 3, 4]),
        words_ptr=[0, 1, 1, 4],
    )
    table = open_local(tmp_path / "g.npz")
    assert table.num_graphs == 3
    assert table.fields["edge_weight"].ptr.tolist() == [0, 2, 2, 3]
    assert table.fields["x"].ptr.tolist() == [0, 2, 2, 3]
    assert table.fields["y"].ptr.tolist() == [0, 1, 2, 3]
    assert table.fields["words"].item(2).tolist() == [2, 3, 4]


def test_scipy_matrix(tmp_path):
    from scipy.sparse import csr_matrix, save_npz

    save_npz(tmp_path / "m.npz", csr_matrix(np.array([[0, 2.0, 0], [2.0, 0, 0], [0, 0, 0]])))
    table = open_local(tmp_path / "m.npz")
    assert np.diff(table.node_ptr).tolist() == [3]
    assert edges_of(table) == [[0, 1], [1, 0]]
    assert table.fields["edge_weight"].values.tolist() == [2, 2]


def test_hdf5_arrays(tmp_path):
    with h5py.File(tmp_path / "g.h5", "w") as file:
        file["edge_index"] = np.array([[0, 1], [1, 0]])
        file["x"] = np.ones((2, 3), np.float32)
    table = open_local(tmp_path / "g.h5")
    assert table.fields["x"].values.shape == (2, 3)


def test_hdf5_with_an_external_link_is_not_read(tmp_path):
    with h5py.File(tmp_path / "g.h5", "w") as file:
        file["edge_index"] = h5py.ExternalLink("/etc/passwd", "/x")
    with pytest.raises(DatasetError, match="link"):
        open_local(tmp_path / "g.h5")


@pytest.mark.parametrize("pack", [None, gzip, lzma])
def test_edge_list_adds_both_directions(tmp_path, pack):
    text = "# a comment\nsource,target\n10 20\n20,30\n30 30\n"
    path = tmp_path / {None: "g.edges", gzip: "g.txt.gz", lzma: "g.csv.xz"}[pack]
    if pack is None:
        path.write_text(text)
    else:
        with pack.open(path, "wt") as file:
            file.write(text)
    table = open_local(path)
    assert sorted(edges_of(table)) == [[0, 1], [1, 0], [1, 2], [2, 1], [2, 2]]
    assert "edge_weight" not in table.fields
    assert sorted(edges_of(open_local(path, {"directed": "true"}))) == [[0, 1], [1, 2], [2, 2]]


def test_weighted_dimacs(tmp_path):
    (tmp_path / "g.gr").write_text("c comment\np sp 3 2\na 1 2 7\na 2 3 9\n")
    table = open_local(tmp_path / "g.gr", {"directed": "yes"})
    assert edges_of(table) == [[0, 1], [1, 2]]
    assert table.fields["edge_weight"].values.tolist() == [7, 9]


def test_a_folder_has_one_graph_per_file_and_labels(tmp_path):
    (tmp_path / "b.edges").write_text("0 1\n")
    (tmp_path / "a.edges").write_text("0 1\n1 2\n")
    (tmp_path / "labels.csv").write_text("file,label\na,1\nb.edges,0\n")
    table = open_local(tmp_path)
    assert np.diff(table.node_ptr).tolist() == [3, 2]
    assert table.fields["y"].values.tolist() == [1, 0]


GRAPHML = """<?xml version="1.0"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="w" for="edge" attr.name="weight" attr.type="double"/><key id="d" for="node" attr.name="depth" attr.type="int"/>
<graph edgedefault="{kind}"><node id="p"><data key="d">4</data></node><node id="q"><data key="d">5</data></node>
<edge source="p" target="q"><data key="w">2.5</data></edge></graph></graphml>"""


def test_graphml(tmp_path):
    (tmp_path / "g.graphml").write_text(GRAPHML.format(kind="undirected"))
    table = open_local(tmp_path / "g.graphml")
    assert edges_of(table) == [[0, 1], [1, 0]]
    assert table.fields["edge_weight"].values.tolist() == [2.5, 2.5]
    assert table.fields["depth"].values.tolist() == [4, 5]
    (tmp_path / "g.graphml").write_text(GRAPHML.format(kind="directed"))
    assert edges_of(open_local(tmp_path / "g.graphml")) == [[0, 1]]


def test_store_as_a_dataset(tmp_path):
    from tgp.build import CoarsenConfig, coarsen_dataset
    from tgp.store import StoreReader, data_digest

    coarsen_dataset(CoarsenConfig("er:num_graphs=5", out=tmp_path / "s", poolers=("nopool",)))
    table = open_local(tmp_path / "s")
    assert data_digest(table) == StoreReader(tmp_path / "s").manifest.spec.data_digest


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("g.edges", "0 1\n2\n", "line 2"),
        ("g.edges", "0 1 3\n1 2\n", "weight"),
        ("g.graphml", "<graphml></graphml>", "no <graph>"),
        ("g.graphml", "not xml", "not GraphML"),
        ("g.npz", "not a zip", "cannot be read"),
        ("g.h5", "not hdf5", "HDF5"),
        ("g.doc", "?", "not a file of graphs"),
    ],
)
def test_unreadable_files_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(DatasetError, match=message) as caught:
        open_local(tmp_path / name)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.ones(3)}, "edge_index"),
        ({"edge_index": np.ones((2, 3))}, "integers"),
        ({"edge_index": np.array([[0], [5]]), "num_nodes": np.array([2])}, "edge_index"),
        ({"edge_index": np.zeros((2, 1), int), "node_ptr": np.array([0, 1])}, "both"),
        (
            {
                "edge_index": np.zeros((2, 1), int),
                "node_ptr": np.array([0, 2, 1]),
                "edge_ptr": np.array([0, 0, 1]),
            },
            "node_ptr",
        ),
        (
            {
                "edge_index": np.zeros((2, 2), int),
                "node_ptr": np.array([0, 1, 3]),
                "edge_ptr": np.array([0, 1, 2]),
                "z": np.ones(9),
            },
            "9 rows",
        ),
        ({"edge_index": np.zeros((2, 1), int), "o": np.array([{}])}, "Python objects"),
    ],
)
def test_invalid_arrays_are_reported(tmp_path, arrays, message):
    np.savez(tmp_path / "g.npz", **arrays)
    with pytest.raises(DatasetError, match=message):
        open_local(tmp_path / "g.npz")


def test_folders_must_contain_files_of_one_kind(tmp_path):
    with pytest.raises(DatasetError, match="no graphs"):
        open_local(tmp_path)
    (tmp_path / "a.edges").write_text("0 1\n")
    (tmp_path / "b.graphml").write_text(GRAPHML.format(kind="directed"))
    with pytest.raises(DatasetError, match="one kind"):
        open_local(tmp_path)


def test_every_graph_needs_a_label(tmp_path):
    (tmp_path / "a.edges").write_text("0 1\n")
    (tmp_path / "labels.csv").write_text("b,1\n")
    with pytest.raises(DatasetError, match=r"a\.edges"):
        open_local(tmp_path)
