"""Signatures, optional imports, transforms, the cheatsheet and lazy packages."""

import importlib
import subprocess
import sys

import pytest
import torch
from torch_geometric.data import Data

import tgp
from tgp import imports
from tgp.utils.cheatsheet import extract_paper_links, supports_aux_loss, supports_sparse, supports_trainable
from tgp.utils.signature import foo_signature
from tgp.utils.transforms import NormalizeAdj, SortNodes

EDGE = torch.tensor([[0, 1], [1, 0]])


def test_signature_lists_keyword_only_arguments():
    def f(x, y=1, *args, z, **kwargs): ...

    class C:
        def __init__(self, a, *, b=2): ...

    assert foo_signature(f) == (["x", "y", "z"], True, True)
    assert foo_signature(C) == (["a", "b"], False, False)
    assert foo_signature(lambda: 0) == ([], False, False)


def test_normalize_adj_golden_and_edge_attributes_follow_their_edges():
    data = Data(edge_index=EDGE, num_nodes=3)
    out = NormalizeAdj(0.5)(data)
    assert out.edge_index.tolist() == [[0, 0, 1, 1, 2], [0, 1, 0, 1, 2]]
    assert out.edge_weight.tolist() == [0.5] * 5 and data.edge_index.size(1) == 2
    loops = torch.tensor([[1, 0, 1, 0], [0, 0, 1, 1]])
    attr = torch.tensor([[1], [2], [3], [4]], dtype=torch.int16)
    out = NormalizeAdj()(Data(edge_index=loops, edge_attr=attr, num_nodes=3))
    assert out.edge_attr.flatten().tolist() == [2, 4, 1, 3, 0] and out.edge_attr.dtype == torch.int16
    with pytest.raises(AssertionError, match="edge_index"):
        NormalizeAdj()(Data())


def test_sort_nodes_sorts_all_attributes():
    data = Data(
        x=torch.tensor([[0.0], [1], [2]]),
        y=torch.tensor([1, 0, 0]),
        edge_index=torch.tensor([[0, 1], [1, 2]]),
        edge_attr=torch.tensor([10, 20]),
        train_mask=torch.tensor([True, False, False]),
        seed_index=torch.tensor([0]),
        name="kept",
    )
    out = SortNodes()(data)
    assert out.x.flatten().tolist() == [1, 2, 0] and out.y.tolist() == [0, 0, 1]
    assert out.edge_index.tolist() == [[0, 2], [1, 0]] and out.edge_attr.tolist() == [20, 10]
    assert (
        out.train_mask.tolist() == [False, False, True]
        and out.seed_index.tolist() == [2]
        and out.name == "kept"
    )
    assert data.x[0] == 0
    with pytest.raises(AssertionError):
        SortNodes()(Data(edge_index=EDGE))
    with pytest.raises(ValueError, match="one value per node: expected 2"):
        SortNodes()(Data(edge_index=EDGE, y=torch.tensor([1]), num_nodes=2))


def test_links_and_traits():
    class Doc:
        """See `"A" <https://a.org/1>`_, https://b.org/2. Again https://a.org/1, <https://a.org/1>."""

    assert extract_paper_links(Doc) == ["https://a.org/1", "https://b.org/2"]
    assert extract_paper_links(type("Bare", (), {})) == []
    assert supports_sparse("topk") and not supports_sparse("mincut_u") and not supports_sparse("nothing")
    assert supports_trainable("TOPK") and not supports_trainable("graclus") and supports_aux_loss("mincut")


def test_a_missing_optional_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_cluster", None)
    importlib.reload(imports)
    assert imports.torch_cluster is None and not imports.HAS_TORCH_CLUSTER
    with pytest.raises(ImportError, match="The 'torch_cluster' package is required"):
        imports.check_torch_cluster_available()
    monkeypatch.undo()
    importlib.reload(imports)


def test_lazy_packages_list_their_names_without_torch():
    code = (
        "import sys, tgp, tgp.poolers, tgp.select, tgp.utils\n"
        "assert 'TopkPooling' in dir(tgp.poolers) and 'TopkSelect' in tgp.select.__all__\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tgp.select.nothing


def test_an_exported_function_hides_the_module_of_the_same_name():
    code = (
        "from tgp.reduce.get_aggr import resolve_reduce_op\n"
        "from tgp.reduce import get_aggr\n"
        "assert callable(get_aggr), get_aggr\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
