"""The leaderboard of graph reduction: its protocol, cells that are computed once, and the page."""

import importlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import APPNP, GCNConv
from torch_geometric.utils import erdos_renyi_graph, to_undirected

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [ROOT / "examples" / "paper", ROOT / "examples" / "reduction"]


@pytest.fixture(scope="module")
def modules():
    """The scripts ``_protocol``, ``_page`` and ``leaderboard``."""
    with pytest.MonkeyPatch.context() as patch:
        for folder in FOLDERS:
            patch.syspath_prepend(str(folder))
        yield [importlib.import_module(name) for name in ("_protocol", "_page", "leaderboard")]


@pytest.fixture
def data():
    """A connected part of 40 nodes, a path of three nodes with a validation node, and a pair without one."""
    torch.manual_seed(0)
    path = torch.stack([torch.arange(39), torch.arange(1, 40)])
    more = torch.tensor([[40, 41, 43], [41, 42, 44]])
    edges = to_undirected(torch.cat([path, erdos_renyi_graph(40, 0.05), more], dim=1))
    part = torch.arange(45) % 3
    part[40:] = torch.tensor([2, 1, 2, 2, 2])
    masks = {f"{name}_mask": part == number for number, name in enumerate(("train", "val", "test"))}
    return Data(x=torch.rand(45, 6), edge_index=edges, y=torch.randint(0, 3, (45,)), **masks)


def test_coarse_graph_of_the_protocol(modules, data):
    protocol = modules[0]
    source = protocol.Source.of(data)
    coarsened = protocol.coarsen(source, "random", 0.3)
    assert coarsened.facts["kept"] == 12 / 40 and (coarsened.cluster[40:] == -1).all()
    masks = source.split(0)
    problem, size = protocol.reduced(source, coarsened, masks)
    assert size == 12 + 3  # the pair is left out
    cluster = coarsened.cluster.copy()
    cluster[40:43] = [12, 13, 14]
    groups = [np.flatnonzero(cluster == index) for index in range(size)]
    for mask, (nodes, labels) in zip(masks, (problem.train, problem.val), strict=False):
        found = [{int(data.y[n]) for n in group if mask[n]} for group in groups]
        expected = {index: labels.pop() for index, labels in enumerate(found) if len(labels) == 1}
        assert dict(zip(nodes.tolist(), labels.tolist(), strict=True)) == expected
    x = data.x / data.x.sum(1, keepdim=True)
    means = torch.stack([x[group].mean(0) for group in groups])
    expected_x = means / means.sum(1, keepdim=True)
    torch.testing.assert_close(torch.from_numpy(problem.x.rows.toarray()), expected_x)
    joined = {(int(cluster[a]), int(cluster[b])) for a, b in data.edge_index.T.tolist() if cluster[a] >= 0}
    coarse = {(a, b) for a, b in joined if a != b}
    row, col = problem.prop.rows.nonzero()
    assert {(a, b) for a, b in zip(row.tolist(), col.tolist(), strict=True) if a != b} == coarse
    degree = np.bincount([a for a, _ in coarse], minlength=size) + 1
    np.testing.assert_allclose(problem.prop.rows.diagonal(), 1 / degree, rtol=1e-5)  # no weights


def test_coarsening_gets_no_labels(modules, data, monkeypatch):
    protocol = modules[0]
    seen, real = [], protocol.tgp.coarsen
    monkeypatch.setattr(protocol.tgp, "coarsen", lambda graphs, how: seen.extend(graphs) or real(graphs, how))
    protocol.coarsen(protocol.Source.of(data), "graclus*3", 0.5)
    assert seen and all(set(graph.keys()) <= {"edge_index", "num_nodes"} for graph in seen)


def test_the_nearest_level_of_a_method_without_ratio(modules, data):
    protocol = modules[0]
    source = protocol.Source.of(data)
    found = [protocol.coarsen(source, "graclus*3", ratio).facts for ratio in (0.9, 0.3, 0.01)]
    assert [fact["level"] for fact in found] == [1, 2, 3]
    assert found[0]["kept"] > found[1]["kept"] > found[2]["kept"]


def test_default_methods_come_from_the_registry(modules, data, monkeypatch):
    board, protocol = modules[2], modules[0]
    methods = board.default_methods()
    assert {"hem", "lv", "random", "hem:balanced=true", "leiden*6", "louvain*6", "graclus*8"} <= set(methods)
    assert len(set(methods)) == len(methods) and "nopool" not in methods
    source = protocol.Source.of(data)
    assert (
        protocol.coarsen(source, "hem:balanced=true", 0.3).facts["kept"] == 12 / 40
    )  # options before the ratio

    @dataclass
    class Positions:
        params: type = protocol.METHODS["hem"].params
        needs: tuple[str, ...] = ("pos",)

    monkeypatch.setattr(protocol, "METHODS", {"voxel": Positions(), "ugc": Positions(needs=("x",))})
    assert protocol.is_usable("ugc") and not protocol.is_usable("voxel")  # graphs of papers have no positions


@pytest.mark.parametrize("kind", ["GCN", "APPNP"])
def test_networks_equal_those_of_pyg(modules, data, kind):
    protocol = modules[0]
    source = protocol.Source.of(data)
    problem = protocol.original(source, source.split(0))
    net = protocol.Net(kind, 6, 3, protocol.SETTINGS).eval()
    for bias in net.biases:
        torch.nn.init.normal_(bias)
    x, edges = torch.from_numpy(source.features.toarray()), data.edge_index
    if kind == "GCN":
        layers = [GCNConv(6, 64), GCNConv(64, 3)]
        for layer, weight, bias in zip(layers, net.weights, net.biases, strict=True):
            layer.lin.weight.data, layer.bias.data = weight.T, bias
        expected = layers[1](layers[0](x, edges).relu(), edges)
    else:
        hidden = (x @ net.weights[0] + net.biases[0]).relu()
        expected = APPNP(10, 0.1)(hidden @ net.weights[1] + net.biases[1], edges)
    torch.testing.assert_close(net(problem), expected)
    net(problem).square().sum().backward()
    found = net.weights[0].grad.clone()
    net.zero_grad()
    expected.square().sum().backward()
    other = layers[0].lin.weight.grad.T if kind == "GCN" else net.weights[0].grad
    torch.testing.assert_close(found, other)


def test_splits_per_class(modules, data):
    protocol = modules[0]
    data.y = torch.arange(45) % 2
    del data.train_mask
    large = Data(x=torch.rand(300, 2), edge_index=data.edge_index, y=torch.arange(300) % 3)
    source = protocol.Source.of(large)
    train, val, test = source.split(0)
    assert train.sum() == 60 and val.sum() == 90 and test.sum() == 150
    assert torch.bincount(large.y[train]).tolist() == [20] * 3
    assert not torch.equal(train, source.split(1)[0]) and torch.equal(train, source.split(0)[0])


def test_a_finished_cell_is_not_computed_again(modules, tmp_path, capsys):
    board = modules[2]
    words = ["--quick", "--out", str(tmp_path), "--methods", "random", "--ratios", "0.3", "--models", "GCN"]
    page = board.main([*words, "--runs", "2"])
    assert "2 of 2 cells" in capsys.readouterr().err
    text, results = page.read_text(), json.loads((tmp_path / "leaderboard.json").read_text())
    board.main([*words, "--runs", "2"])
    assert "0 of 2 cells" in capsys.readouterr().err and page.read_text() == text
    board.main([*words, "--runs", "1"])  # another protocol
    assert "2 of 2 cells" in capsys.readouterr().err
    cell = next(c for c in results["cells"].values() if c["settings"]["method"] == "random")
    assert len(cell["test"]) == 2 and cell["kept"] == pytest.approx(0.3, abs=0.01)
    assert "`random`" in text and "full graph" in text


def test_the_best_method_is_chosen_by_validation(modules):
    def result(method, val, test, kept=0.3):
        settings = {"method": method, "ratio": 0.3, "model": "GCN", "revision": 1}
        settings |= modules[0].settings_of("Cora")
        facts = {"supernodes": [3], "train_supernodes": [2], "kept": kept, "coarsen_seconds": 0.1}
        return {"cell": "Cora/m/0", "settings": settings, "val": [val], "test": [test], **facts}

    rows = [result("a", 80.0, 70.0), result("b", 75.0, 90.0), result("c", 99.0, 99.0, kept=0.6)]
    text = modules[1].render(dict(zip("abc", rows, strict=True)))
    stale = {key: row | {"settings": row["settings"] | {"lr": 1}} for key, row in enumerate(rows)}
    assert "best by validation" not in modules[1].render(stale)  # of another protocol
    best = next(line for line in text.splitlines() if "best by validation" in line)
    assert "70.0 ± 0.0 `a`" in best  # c is too large, b is better on test nodes only


def test_the_page_is_up_to_date(modules):
    results = json.loads((FOLDERS[1] / "results" / "leaderboard.json").read_text(encoding="utf-8"))
    assert modules[1].PAGE.read_text(encoding="utf-8") == modules[1].render(results["cells"])
