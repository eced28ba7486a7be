"""The scripts of the paper's experiments run offline on tiny graphs, continue, and measure what they say."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.nn import ARMAConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import erdos_renyi_graph, is_undirected

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "paper"


@pytest.fixture(scope="module")
def script(paper_script):
    """Names of a script."""
    return lambda name: vars(paper_script(name))


@pytest.mark.parametrize("name", ["clustering", "efficiency", "dense_modes"])
def test_quick_run_and_resume(script, name, tmp_path, monkeypatch):
    """One cell, then the rest: the first is kept as it was."""
    if name == "clustering":
        pytest.importorskip("pygsp")
    main = script(name)["main"]
    common = ["--quick", "--seeds", "1", "--out", str(tmp_path)]
    first = main([*common, "--only", "*/mincut/0,*/graclus/0"]).results
    assert 0 < len(first) <= 2
    whole = main(common).results
    assert len(whole) > len(first) and all(whole[key] == value for key, value in first.items())
    document = json.loads((tmp_path / f"{name}.json").read_text())
    assert document["cells"] == whole and document["about"]["command"].startswith("python examples/paper/")
    assert (tmp_path / f"{name}.md").read_text().count("\n|") > len(whole) / 2

    def never(*args, **kwargs):
        raise AssertionError("computed again")

    for function in ("train", "run", "measure"):
        monkeypatch.setitem(main.__globals__, function, never)
    assert main(common).results == whole


def test_sparse_convolution_is_the_convolution(script):
    """Values and gradients of the fast form equal those of PyG's layer."""
    module = script("clustering")
    torch.manual_seed(0)
    index, size = erdos_renyi_graph(30, 0.2), 30
    x = (torch.rand(size, 12) < 0.2).float()
    layer, plain = module["SparseARMA"](12, 5), ARMAConv(12, 5, num_layers=2)
    plain.load_state_dict(layer.state_dict())
    index_norm, weight = gcn_norm(index, None, size, add_self_loops=False)
    source, target = index_norm.numpy()
    csr = module["csr_matrix"]
    adj = module["Constant"](csr((weight.numpy(), (target, source)), (size, size)))
    expected = plain(x, index)
    for features in (x, module["Constant"](csr(x.numpy()))):
        layer.zero_grad(), plain.zero_grad()
        out = layer(features, adj)
        torch.testing.assert_close(out, expected)
        out.square().sum().backward()
        plain(x, index).square().sum().backward()
        for mine, other in zip(layer.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, other.grad)


def test_gradient_reaches_the_input_of_a_second_layer(script):
    module = script("clustering")
    matrix = np.array([[0, 2, 0], [1, 0, 0]], dtype=np.float32)
    dense = torch.ones(3, 2, requires_grad=True)
    (module["Constant"](module["csr_matrix"](matrix)) @ dense).sum().backward()
    assert dense.grad.tolist() == [[1, 1], [2, 2], [0, 0]]


def test_community_is_the_graph_of_the_paper(script):
    pytest.importorskip("pygsp")
    data = script("clustering")["graph"]("Community", None, 400)
    assert data.num_nodes == 400 and data.num_edges == 5904 and data.num_features == 2
    assert data.y.unique().tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("pooler", ["graclus", "kmis", "ndp", "sep", "nmf", "eigen"])
def test_every_column_pools_the_same(script, pooler, tmp_path):
    """Online, from pre-coarsened graphs and from a store: the same pooled features, so times may be compared."""
    module = script("efficiency")
    settings = {**module["SETTINGS"], "batch_size": 3, "batches": 2}
    bench = module["Bench"]("molecules:num_graphs=6", None, settings, tmp_path)
    layer = module["get_pooler"](pooler, in_channels=4, **module["POOLERS"][pooler])
    kinds = {kind: list(bench.loader(kind, pooler)) for kind in ("plain", "pre-coarsened", "store")}
    for plain, coarse, stored in zip(*kinds.values(), strict=True):
        assert torch.equal(plain.edge_index, stored.edge_index)
        x = torch.randn(plain.num_nodes, 4)
        expected = module["online"](layer)(plain, x)
        for batch in (coarse, stored):
            found = module["reduced"](layer)(batch, x)
            torch.testing.assert_close(found.reshape(expected.shape), expected)


def test_grid(script):
    batch = script("dense_modes")["grid"](7)
    assert batch.num_nodes == 49 and batch.num_edges == 2 * 2 * 7 * 6 and is_undirected(batch.edge_index)


def test_random_graphs_are_connected(script):
    batch = script("dense_modes")["erdos_renyi"](4)
    assert isinstance(batch, Batch) and batch.num_graphs == 4
    label = torch.arange(batch.num_nodes)
    for _ in range(batch.num_nodes):
        lower = label.scatter_reduce(0, batch.edge_index[1], label[batch.edge_index[0]], "amin")
        if torch.equal(lower, label):
            break
        label = lower
    assert label.unique().numel() == 4
    assert batch.batch.bincount().min() >= 10 and batch.batch.bincount().max() <= 500


def test_peak_memory(script):
    peak = script("dense_modes")["peak_megabytes"]
    assert peak(lambda: torch.ones(1_000_000)) == pytest.approx(4, abs=0.1)
    assert peak(lambda: [torch.ones(1_000_000) for _ in range(3)]) == pytest.approx(12, abs=0.1)


def test_what_does_not_fit_is_left_out(script, tmp_path):
    main = script("dense_modes")["main"]
    options = ["--quick", "--out", str(tmp_path), "--only", "*/bnpool/0", "--gigabytes", "0"]
    found = main(options).results.values()
    assert found and all(cell["batched_ms"] is None and cell["unbatched_ms"] > 0 for cell in found)
    assert "does not fit" in (tmp_path / "dense_modes.md").read_text()


def test_figure(script, tmp_path):
    pytest.importorskip("matplotlib")
    main = script("dense_modes")["main"]
    main(["--quick", "--only", "mincut,jb", "--out", str(tmp_path), "--figure", str(tmp_path / "f.svg")])
    assert "<svg" in (tmp_path / "f.svg").read_text()
