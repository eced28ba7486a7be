"""The leaderboard of graph reduction: its protocol, cells that are computed once, and the page."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import APPNP, GCNConv
from torch_geometric.utils import erdos_renyi_graph, to_undirected

from tgp.errors import TgpError

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [ROOT / "examples" / "paper", ROOT / "examples" / "reduction"]


@pytest.fixture(scope="module")
def modules():
    """The scripts ``_protocol``, ``_page``, ``leaderboard`` and ``_training``."""
    with pytest.MonkeyPatch.context() as patch:
        for folder in FOLDERS:
            patch.syspath_prepend(str(folder))
        yield [importlib.import_module(name) for name in ("_protocol", "_page", "leaderboard", "_training")]


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
    cluster = coarsened.cluster(1)
    assert cluster.max() + 1 == 12 and (cluster[40:] == -1).all()
    masks = source.split(0)
    problem = protocol.reduced(source, cluster, masks)
    size = problem.prop.shape[0]
    assert size == 12 + 3  # the pair is left out
    cluster[40:43] = [12, 13, 14]
    groups = [np.flatnonzero(cluster == index) for index in range(size)]
    for mask, (nodes, labels) in zip(masks, (problem.train, problem.val), strict=False):
        found = [{int(data.y[n]) for n in group if mask[n]} for group in groups]
        expected = {index: labels.pop() for index, labels in enumerate(found) if len(labels) == 1}
        assert dict(zip(nodes.tolist(), labels.tolist(), strict=True)) == expected
    x = data.x / data.x.sum(1, keepdim=True)
    means = torch.stack([x[group].mean(0) for group in groups])
    expected_x = means / means.sum(1, keepdim=True)
    torch.testing.assert_close(torch.from_numpy(problem.x.toarray()), expected_x)
    joined = {(int(cluster[a]), int(cluster[b])) for a, b in data.edge_index.T.tolist() if cluster[a] >= 0}
    coarse = {(a, b) for a, b in joined if a != b}
    row, col = problem.prop.nonzero()
    assert {(a, b) for a, b in zip(row.tolist(), col.tolist(), strict=True) if a != b} == coarse
    degree = np.bincount([a for a, _ in coarse], minlength=size) + 1
    np.testing.assert_allclose(problem.prop.diagonal(), 1 / degree, rtol=1e-5)  # no weights


def test_components_of_at_most_ten_nodes_are_not_coarsened(modules):
    sizes = [9, 10, 11]
    ends = torch.cat([torch.arange(n - 1) + sum(sizes[:i]) for i, n in enumerate(sizes)])
    edges = torch.stack([ends, ends + 1])
    data = Data(x=torch.ones(30, 1), y=torch.zeros(30, dtype=torch.long), edge_index=edges)
    assert [part.tolist() for part in modules[0].Source.of(data).big] == [list(range(19, 30))]


def test_coarsening_gets_no_labels(modules, data, monkeypatch):
    protocol = modules[0]
    seen, real = [], protocol.tgp.coarsen
    monkeypatch.setattr(protocol.tgp, "coarsen", lambda graphs, how: seen.extend(graphs) or real(graphs, how))
    protocol.coarsen(protocol.Source.of(data), "graclus*3", 0.5)
    assert seen and all(set(graph.keys()) <= {"edge_index", "num_nodes"} for graph in seen)


def test_the_nearest_level_of_a_method_without_ratio(modules, data):
    protocol = modules[0]
    source = protocol.Source.of(data)
    coarsened = protocol.coarsen(source, "graclus*3", 0.5)
    assert [coarsened.level(ratio) for ratio in (0.9, 0.3, 0.01)] == [1, 2, 3]
    sizes = [coarsened.cluster(level).max() + 1 for level in (1, 2, 3)]
    assert sizes[0] > sizes[1] > sizes[2]
    errors = [coarsened.facts(level)["eigenvalue_error"] for level in (1, 2, 3)]
    assert errors[0] < errors[1] < errors[2]


def test_default_methods_come_from_the_registry(modules, data):
    board, protocol = modules[2], modules[0]
    methods = board.default_methods()
    assert {"hem", "lv", "random", "hem:balanced=true", "leiden*6", "louvain*6", "graclus*8"} <= set(methods)
    assert len(set(methods)) == len(methods) and "nopool" not in methods
    source = protocol.Source.of(data)
    coarsened = protocol.coarsen(source, "hem:balanced=true", 0.3)  # options before the ratio
    assert coarsened.cluster(1).max() + 1 == 12
    assert protocol.is_usable("ugc") and not protocol.is_usable("fps")  # graphs of papers have no positions


@pytest.mark.parametrize("kind", ["GCN", "APPNP"])
def test_networks_equal_those_of_pyg(modules, data, kind):
    protocol, training = modules[0], modules[3]
    source = protocol.Source.of(data)
    settings = protocol.SETTINGS | {"model": kind}
    view = training.complete(protocol.original(source, source.split(0)), settings)
    net = training.Net(6, 3, settings)
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
    torch.testing.assert_close(net(view), expected)
    net(view).square().sum().backward()
    found = net.weights[0].grad.clone()
    net.zero_grad()
    expected.square().sum().backward()
    other = layers[0].lin.weight.grad.T if kind == "GCN" else net.weights[0].grad
    torch.testing.assert_close(found, other)


@pytest.mark.parametrize("kind", ["GCN", "APPNP"])
@pytest.mark.parametrize("dense", [0.0, 0.9])  # features and steps as dense matrices, or as sparse ones
def test_rows_with_labels_are_those_of_the_complete_view(modules, data, kind, dense, monkeypatch):
    protocol, training = modules[0], modules[3]
    monkeypatch.setattr(training, "DENSE", dense)
    monkeypatch.setattr(training, "CALL", 0 if dense else 1e9)
    monkeypatch.setattr(training, "ENTRY", 0)
    data.x = data.x * (data.x > 0.5)
    source = protocol.Source.of(data)
    part = torch.arange(45) % 9  # few labels: most of the path is out of reach
    masks = part == 0, part == 4, part > 4
    problem, settings = protocol.original(source, masks), protocol.SETTINGS | {"model": kind}
    net, found = training.Net(6, 3, settings), []
    nodes = torch.cat([problem.train[0], problem.val[0]])
    for view, rows in (
        (training.complete(problem, settings), nodes),
        (training.labelled(problem, settings), ...),
    ):
        net.zero_grad()
        scores = net(view)[rows]
        scores.square().sum().backward()
        found.append([scores.detach(), *(value.grad.clone() for value in net.parameters())])
    torch.testing.assert_close(*found)


@pytest.mark.parametrize(("lr", "noise"), [(0.2, 1.0), (0.02, 0.0), (0.5, 0.5)])
def test_weights_of_the_lowest_validation_loss_in_the_second_half_are_kept(modules, data, lr, noise):
    """Labels without a pattern make the validation loss smallest at the start, so that the half matters."""
    protocol, training = modules[0], modules[3]
    generator = torch.Generator().manual_seed(3)
    random = torch.rand(45, generator=generator) < noise
    data.y = torch.where(random, torch.randint(0, 3, (45,), generator=generator), data.x.argmax(1) % 3)
    source = protocol.Source.of(data)
    settings = protocol.settings_of("Cora") | {"model": "GCN", "lr": lr, "epochs": 40}
    problem = protocol.original(source, source.split(0))
    torch.manual_seed(0)
    net, view = training.Net(6, 3, settings), training.labelled(problem, settings)
    scores, size, losses, states = net.scores, len(problem.train[0]), [], []

    def record(*args):
        out = scores(*args)
        if not torch.is_grad_enabled():
            losses.append(float(torch.nn.functional.cross_entropy(out[size:], problem.val[1])))
            states.append({name: value.clone() for name, value in net.state_dict().items()})
        return out

    net.scores = record
    training.fit(net, view, problem, settings)
    second = range(20, len(losses))
    best = min(second, key=lambda epoch: losses[epoch])
    for name, value in net.state_dict().items():
        assert torch.equal(value, states[best][name])
    is_worse = [losses[epoch] > np.mean(losses[epoch - 10 : epoch]) for epoch in range(21, len(losses))]
    assert not any(is_worse[:-1]) and (is_worse[-1] or len(losses) == 40)
    if noise == 1.0:
        assert min(losses[:20]) < losses[best]


def test_dropout_of_random_bits(modules):
    drop, values = modules[3].drop, torch.ones(1000, 31)
    torch.manual_seed(1)
    found = drop(values, 0.5)
    assert set(found.unique().tolist()) == {0.0, 2.0} and found.mean() == pytest.approx(1, abs=0.02)
    columns = found.mean(0)
    assert columns.min() > 0.8 and columns.max() < 1.2 and not torch.equal(found, drop(values, 0.5))
    torch.manual_seed(1)
    assert torch.equal(found, drop(values, 0.5))
    assert drop(values, 0.25).max() == pytest.approx(4 / 3)


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


QUICK = ["--quick", "--methods", "random", "--ratios", "0.3", "--models", "facts", "GCN"]


def test_a_finished_cell_is_not_computed_again(modules, tmp_path, capsys):
    board = modules[2]
    words = [*QUICK, "--out", str(tmp_path)]
    page = board.main([*words, "--runs", "2"])
    assert "3 of 3 cells" in capsys.readouterr().err
    text, results = page.read_text(), json.loads((tmp_path / "leaderboard.json").read_text())
    board.main([*words, "--runs", "2"])
    assert "0 of 3 cells" in capsys.readouterr().err and page.read_text() == text
    board.main([*words, "--runs", "1"])  # another protocol; the facts are the same
    assert "2 of 3 cells" in capsys.readouterr().err
    cells = {
        cell["cell"].split("@")[-1]: cell for cell in results["cells"].values() if "random" in cell["cell"]
    }
    assert len(cells["GCN/0"]["test"]) == 2 and cells["GCN/0"]["kept"] == pytest.approx(0.3, abs=0.01)
    assert cells["facts/0"]["restricted_approximation"] > 0 and cells["facts/0"]["coarsen_seconds"] > 0
    assert "`random`" in text and "full graph" in text and (tmp_path / "img" / "leaderboard.svg").exists()


def test_an_interrupted_command_continues(modules, tmp_path, capsys, monkeypatch):
    board, real = modules[2], modules[2].accuracy
    words, calls = [*QUICK, "--out", str(tmp_path), "--runs", "1"], []

    def interrupted(*args):
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(board, "accuracy", interrupted)
    board.main(words)
    assert "the same command continues" in capsys.readouterr().err
    board.main(words)
    assert "1 of 3 cells" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, expected",
    [
        (["--methods", "hemm"], "hem"),
        (["--methods", "hem:scores=2"], "score"),
        (["--methods", "fps"], "'fps' needs pos"),
        (["--methods", "nopool"], "'nopool' does not make a graph smaller"),
        (["--methods", "hem:ratio=0.5"], "'hem:ratio=0.5' has a size"),
        (["--ratios", "30"], "--ratios is invalid: expected numbers between 0 and 1, got 30"),
        (["--ratios", "nan"], "got nan"),
        (["--datasets", "er:num_graphs=1"], "expected features and one label per node, got {'x': "),
        (["--runs", "0"], "--runs is invalid: expected at least 1, got 0"),
    ],
)
def test_wrong_words_are_found_before_anything_is_computed(modules, tmp_path, words, expected):
    with pytest.raises(TgpError) as caught:
        modules[2].main(["--quick", "--out", str(tmp_path), *words])
    assert expected in f"{caught.value} {caught.value.hint}" and not list(tmp_path.iterdir())


def result(modules, method, val, test, kept=0.3, ratio=0.3, **more):
    settings = modules[0].settings_of("Cora") | {
        "method": method,
        "ratio": ratio,
        "model": "GCN",
        "revision": 1,
    }
    facts = {"supernodes": [3], "train_supernodes": [2], "kept": kept}
    return {"cell": "Cora/m/0", "settings": settings, "val": val, "test": test, **facts, **more}


def test_the_best_method_is_chosen_by_validation(modules):
    render = modules[1].render
    rows = [
        result(modules, "a", [80.0], [70.0]),
        result(modules, "b", [75.0], [90.0]),
        result(modules, "c", [99.0], [99.0], kept=0.6),
    ]
    text = render(dict(zip("abc", rows, strict=True)))
    best = next(line for line in text.splitlines() if "**best by validation**" in line)
    assert "70.0 `a`" in best  # c is too large, b is better on test nodes only
    assert "| Cora | 0.3 | - | **70.0** `a` |" in text
    assert (
        "0 of 1 aims are reached" in text
        and "Cora at c = 0.3: 70.0 instead of 81. Methods that reach it but were not chosen: 1." in text
    )
    stale = {key: row | {"settings": row["settings"] | {"lr": 1}} for key, row in enumerate(rows)}
    assert "best by validation" not in render(stale).split("## Protocol")[1]  # of another protocol
    longer = result(modules, "b", [85.0, 20.0, 20.0], [90.0, 90.0, 90.0])  # compared by the first run only
    assert "**90.0 ± 0.0** `b`" in render({"a": rows[0], "b": longer})


def test_figures_come_from_cells_of_facts_first(modules):
    old = result(modules, "a", [80.0, 80.0], [70.0, 72.0], coarsen_seconds=0.25, eigenvalue_error=1.5)
    few = result(modules, "b", [80.0], [60.0])
    text = modules[1].render({"a": old, "b": few})
    assert "| 0.250 | - | 1.50 | - |" in text and "| 60.0 [1] |" in text
    settings = {"facts": 1, "method": "a", "ratio": 0.3, "revision": 1}
    facts = {
        "cell": "Cora/a/0",
        "settings": settings,
        "coarsen_seconds": 0.125,
        "restricted_approximation": 2.0,
    }
    assert "| 0.125 | - | - | - | - | 2.00 |" in modules[1].render({"a": old, "b": few, "f": facts})


def test_datasets_without_some_cells_are_named(modules):
    render = modules[1].render
    a, b = result(modules, "a", [80.0], [70.0]), result(modules, "b", [75.0], [90.0])
    less = a | {"cell": "DBLP/m/0", "settings": modules[0].settings_of("DBLP") | a["settings"]}
    less["settings"] |= {"epochs": 50, "split": "20 + 30 per class"}
    assert "contain all methods" not in render({"a": a, "b": b})
    assert "The table of DBLP does not\ncontain all methods and networks." in render(
        {"a": a, "b": b, "d": less}
    )
    other = less | {"settings": less["settings"] | {"method": "c"}}
    assert "The tables of Cora and DBLP do not\n" in render({"a": a, "b": b, "d": other})


@pytest.mark.parametrize("memory", [-0.3, -0.0])
def test_memory_is_not_negative(modules, memory):
    row = result(modules, "a", [80.0], [70.0], coarsen_seconds=1.0, coarsen_mb=memory)
    assert "| 1.000 | 0 |" in modules[1].render({"a": row})


def test_the_page_is_up_to_date(modules):
    results = json.loads((FOLDERS[1] / "results" / "leaderboard.json").read_text(encoding="utf-8"))
    page = modules[1].PAGE
    assert page.read_text(encoding="utf-8") == modules[1].render(results["cells"])
    assert (page.parent / "img" / "leaderboard.svg").read_text() == modules[2].draw(results["cells"])
