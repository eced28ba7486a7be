"""Dataset classes: seeds, raw files, and files that contain code."""

import os
import pickle
import shutil

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from torch_geometric.data import Data
from torch_geometric.utils import is_undirected

from tgp.datasets import (
    CSBMDataset,
    EXPWL1Dataset,
    GraphClassificationBench,
    GsetDataset,
    MultipartiteGraphDataset,
    PyGSPDataset,
)
from tgp.datasets.csbm import CSBMParameters

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def raw_file(root, name, data: bytes):
    (root / "raw").mkdir(parents=True)
    (root / "raw" / name).write_bytes(data)
    return str(root)


def test_csbm_stores_block_and_centroid_of_every_graph(tmp_path):
    data = CSBMDataset(str(tmp_path), num_graphs=4, num_nodes_per_class=15, dbar=6.0)
    assert [int(g.y) for g in data] == [0, 0, 1, 1]
    assert data.params == CSBMParameters(4, 15, 6.0, 1.0, 4.0, 4.0, False, 0.5, 80)
    assert (data[0].node_gt == -1).all()
    assert data[3].node_gt.bincount().tolist() == [15, 15]
    assert data[0].centroid.abs().sum() == 0
    assert data[3].centroid.abs().sum() > 0
    assert all(is_undirected(g.edge_index) and not g.has_self_loops() for g in data)


def test_csbm_depends_on_the_seed(tmp_path):
    def edges(folder, seed):
        made = CSBMDataset(str(tmp_path / folder), num_graphs=2, num_nodes_per_class=10, dbar=5.0, seed=seed)
        return made[0].edge_index.tolist()

    assert edges("a", 1) == edges("b", 1) != edges("c", 2)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [({"structured_ratio": 1.5}, "structured_ratio"), ({"mu": None}, "mu"), ({"dbar": 500.0}, "p_in")],
)
def test_csbm_checks_its_arguments(tmp_path, arguments, text):
    with pytest.raises(ValueError, match=text):
        CSBMDataset(str(tmp_path), **arguments)


def test_gset(tmp_path):
    root = raw_file(tmp_path, "G1", b"3 2\n1 2 1\n2 3 -1\n")
    graph = GsetDataset(root)[0]
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 2, 0, 1]]
    assert graph.edge_weight.tolist() == [1, -1, 1, -1]
    assert torch.equal(graph.x, GsetDataset(root, force_reload=True)[0].x)
    assert GsetDataset(root, directed=True)[0].edge_index.size(1) == 2
    assert (
        GsetDataset(root, directed=True, pre_transform=lambda g: g.update({"mark": 1}), force_reload=True)[
            0
        ].mark
        == 1
    )
    with pytest.raises(ValueError, match="Unknown Gset graph 'G99'"):
        GsetDataset(root, name="G99")


def test_gset_text_as_networkx_graph(tmp_path):
    nx = pytest.importorskip("networkx")
    root = raw_file(tmp_path, "G1", b"3 2\n1 2 1\n2 3 -1\n")
    for directed, kind in ((False, nx.Graph), (True, nx.DiGraph)):
        graph = GsetDataset(root, directed=directed, log=False).parse_graph("4 2\n1 2 1\n2 3 -1\n")
        assert type(graph) is kind and list(graph.nodes) == [1, 2, 3, 4]
        assert list(graph.edges(data="weight")) == [(1, 2, 1), (2, 3, -1)]


@pytest.mark.parametrize("text", [b"3 2\n1 2 1\n", b"hello\n", b"2 1\n1 9 1\n"])
def test_gset_reports_bad_files(tmp_path, text):
    with pytest.raises(ValueError, match="G1"):
        GsetDataset(raw_file(tmp_path, "G1", text))


def test_pygsp_datasets_have_different_processed_files(tmp_path):
    pytest.importorskip("pygsp")
    ring = PyGSPDataset(str(tmp_path), name="Ring", kwargs={"N": 8})
    path = PyGSPDataset(str(tmp_path), name="Path", kwargs={"N": 5})
    assert (ring[0].num_nodes, path[0].num_nodes) == (8, 5)
    community = PyGSPDataset(str(tmp_path), kwargs={"N": 60, "Nc": 3, "seed": 1})[0]
    assert community.y.unique().numel() == 3
    with pytest.raises(ValueError, match="Did you mean 'Ring'"):
        PyGSPDataset(str(tmp_path), name="Rings")


def bench_file(root):
    arrays = {}
    for key, count in (("tr", 3), ("val", 1), ("te", 1)):
        adj, feat = np.empty(count, dtype=object), np.empty(count, dtype=object)
        for i in range(count):
            adj[i] = csr_matrix(np.array([[0, 1], [1, 0]], dtype=np.float32))
            feat[i] = np.full((2, 5), i, dtype=np.float32)
        arrays |= {
            f"{key}_adj": adj,
            f"{key}_feat": feat,
            f"{key}_class": np.eye(3, dtype=np.float32)[:count],
        }
    (root / "raw").mkdir(parents=True)
    np.savez(root / "raw" / "easy_small.npz", **arrays)
    return str(root)


def test_graph_classification_bench(tmp_path):
    root = bench_file(tmp_path)
    train = GraphClassificationBench(root)
    assert [int(g.y) for g in train] == [0, 1, 2]
    assert train[2].x.tolist() == [[2] * 5] * 2
    assert train[0].edge_index.tolist() == [[0, 1], [1, 0]]
    assert len(GraphClassificationBench(root, split="val")) == 1
    with pytest.raises(ValueError, match="split must be one of"):
        GraphClassificationBench(root, split="rest")


@pytest.mark.needs_data
def test_graph_classification_bench_of_the_published_file(tmp_path, data_root):
    shutil.copytree(data_root / "GraphClassificationBench", tmp_path / "bench", copy_function=shutil.copyfile)
    os.chmod(tmp_path / "bench", 0o755)
    sizes = [
        len(GraphClassificationBench(str(tmp_path / "bench"), split=s, easy=False))
        for s in ("train", "val", "test")
    ]
    assert sizes == [245, 29, 26]


@pytest.mark.parametrize(
    ("cls", "name"), [(EXPWL1Dataset, "EXPWL1.pkl"), (MultipartiteGraphDataset, "Multipartite.pkl")]
)
def test_published_lists_of_graphs(tmp_path, cls, name):
    graphs = [
        Data(x=torch.ones(2, 3), edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.tensor([i]))
        for i in (0, 1)
    ]
    data = cls(raw_file(tmp_path, name, pickle.dumps(graphs)))
    assert len(data) == 2
    assert data.num_classes == 2
    assert torch.equal(data[1].x, torch.ones(2, 3))


class Hostile:
    """Object that makes a folder when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_code_in_files_is_not_run(tmp_path):
    target = tmp_path / "made"
    with pytest.raises(ValueError, match="not read"):
        EXPWL1Dataset(raw_file(tmp_path / "a", "EXPWL1.pkl", pickle.dumps([Hostile(target)])))
    hostile = np.empty(1, dtype=object)
    hostile[0] = Hostile(target)
    (tmp_path / "b" / "raw").mkdir(parents=True)
    np.savez(tmp_path / "b" / "raw" / "easy_small.npz", tr_adj=hostile)
    with pytest.raises(ValueError, match="not read"):
        GraphClassificationBench(str(tmp_path / "b"))
    assert not target.exists()


def test_a_truncated_file_is_reported(tmp_path):
    with pytest.raises(ValueError, match="not a readable object file"):
        EXPWL1Dataset(raw_file(tmp_path, "EXPWL1.pkl", pickle.dumps([1, 2, 3])[:-4]))
