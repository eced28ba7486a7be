"""The example study: resume, choice by validation only, statistics, and the published table."""

import importlib
import itertools
import json
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from tgp.build import CoarsenConfig, coarsen_dataset
from tgp.data import PoolDataLoader, PooledDataset
from tgp.engine.schedule import parse_schedule
from tgp.errors import InputError
from tgp.poolers import TopkPooling, pooler_map

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "study"
PAGE = ROOT / "docs" / "guide" / "study.md"
FEW = ("flat", "graclus", "topk")
"""Methods of the quick studies of these tests."""
MEASURED = ("seconds", "epoch_s", "step_mb", "level_s")


@pytest.fixture(scope="module")
def modules():
    """The scripts ``study``, ``_report`` and ``_network``."""
    with pytest.MonkeyPatch.context() as patch:
        for folder in (ROOT / "examples" / "paper", FOLDER):
            patch.syspath_prepend(str(folder))
        yield [importlib.import_module(name) for name in ("study", "_report", "_network")]


@pytest.fixture
def study(modules, monkeypatch):
    """The script with few methods."""
    monkeypatch.setattr(modules[0], "METHODS", few(modules))
    return modules[0]


def few(modules):
    return {name: modules[0].METHODS[name] for name in FEW}


@pytest.fixture(scope="module")
def finished(modules, tmp_path_factory):
    """Folder and results of a finished quick study."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(modules[0], "METHODS", few(modules))
        return folder, modules[0].main(words(folder)).results


@pytest.fixture(autouse=True)
def same_random_state():
    state = torch.get_rng_state()
    yield
    torch.set_rng_state(state)


def never(*args, **kwargs):
    raise AssertionError("computed again")


def words(folder):
    return ["--quick", "--out", str(folder)]


def runs(results):
    """Runs without what is measured. Costs are left out."""
    chosen = {key: cell for key, cell in results.items() if "@run/" in cell["cell"]}
    return {key: {n: v for n, v in cell.items() if n != "seconds"} for key, cell in chosen.items()}


def test_a_finished_study_is_not_computed_again(study, finished, monkeypatch, capsys):
    folder, results = finished
    assert len(results) == 3 + 3 * 2 and len(runs(results)) == 3 * 2
    monkeypatch.setattr(study, "Graphs", never)  # not even the store is opened
    assert study.main(words(folder)).results == results
    text = (folder / "study.md").read_text()
    assert capsys.readouterr().out.strip() == text.strip()
    assert re.findall(r"^\| (\w+) \| ", text, flags=re.M) == ["method", *FEW] * 2
    assert json.loads((folder / "study.json").read_text())["cells"] == results


def test_every_cost_is_measured(finished):
    costs = {c["cell"].split("/")[1]: c for c in finished[1].values() if "@cost/" in c["cell"]}
    assert list(costs) == [f"{name}@cost" for name in sorted(FEW)]
    for name, cost in costs.items():
        assert cost["epoch_s"] > 0 and cost["step_mb"] > 0 and cost["parameters"] > 0
        assert (cost["level_s"] > 0) == (name == "graclus@cost")


def test_figure_is_drawn(finished):
    pytest.importorskip("matplotlib")
    drawn = (finished[0] / "study.svg").read_text()
    assert "<svg" in drawn and all(name in drawn for name in (*FEW, "test accuracy, %", "stored levels"))


def test_an_interrupted_study_ends_with_the_same_numbers(study, finished, tmp_path, monkeypatch):
    calls = []

    def stop(net, *rest, real=study.fit):
        calls.append(net)
        if len(calls) == 4:  # the second setting of a run
            raise KeyboardInterrupt
        return real(net, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(study, "fit", stop)
        with pytest.raises(KeyboardInterrupt):
            study.main(words(tmp_path))
    saved = json.loads((tmp_path / "study.json").read_text())["cells"]
    assert len(runs(saved)) == 1
    assert "| flat | no pooling |" in (tmp_path / "study.md").read_text()  # a table of what is finished
    assert runs(study.main(words(tmp_path)).results) == runs(finished[1])


def test_interruption_has_its_exit_status(modules, tmp_path, monkeypatch, capsys):
    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["_harness"].Experiment, "run", stop)
    monkeypatch.setattr(sys, "argv", ["study.py", *words(tmp_path)])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(FOLDER / "study.py"), run_name="__main__")
    assert stopped.value.code == 130 and "same command continues" in capsys.readouterr().err


def test_the_choice_does_not_depend_on_the_test_graphs(study, finished, tmp_path, monkeypatch):
    """With other results on the test graphs, accuracies change, but trials and choices do not."""
    tests, read = [], []
    split, evaluate = study.Graphs.split, study.evaluate

    def remember(graphs, name, seed):
        parts = split(graphs, name, seed)
        tests.append(parts[2])
        return parts

    def change(net, loader):
        loss, accuracy = evaluate(net, loader)
        if not any(loader.dataset is test for test in tests):
            return loss, accuracy
        read.append(loader.dataset)
        return -loss * len(read), accuracy - 10 * len(read)

    monkeypatch.setattr(study.Graphs, "split", remember)
    monkeypatch.setattr(study, "evaluate", change)
    before, after = runs(finished[1]), runs(study.main(words(tmp_path)).results)
    assert len(read) == len(after) == len(FEW) * 2  # one evaluation of the test graphs per run
    assert before.keys() == after.keys()
    for key, run in after.items():
        assert before[key]["value"] != run["value"]
        assert {**before[key], "value": 0} == {**run, "value": 0}


def test_a_run_keeps_the_setting_and_the_epoch_of_the_lowest_validation_loss(finished, study, tmp_path):
    """The tested network is trained again from the recorded setting."""
    run = next(run for run in runs(finished[1]).values() if "graclus" in run["cell"])
    losses = [trial["val_loss"] for trial in run["trials"]]
    assert len(losses) == 2 and losses[0] != losses[1]
    assert run["setting"] == run["trials"][losses.index(min(losses))]["setting"]
    plan = study.Plan(study.QUICK.dataset, 1, {"lr": [run["setting"]["lr"]]}, study.QUICK.fixed)
    cell = study.Study(plan, None, tmp_path).cell("graclus", "run", 0)
    again = study.run(cell, study.Graphs(plan, None, tmp_path))
    assert [again[n] for n in ("value", "val_loss", "val")] == [run[n] for n in ("value", "val_loss", "val")]


@pytest.mark.parametrize("chosen", [0, 1])
def test_the_network_of_the_chosen_setting_is_tested(study, tmp_path, monkeypatch, chosen):
    losses, nets, tested = iter([0.1, 0.9] if chosen == 0 else [0.9, 0.1]), [], []
    monkeypatch.setattr(study, "fit", lambda net, *_: nets.append(net) or {"val_loss": next(losses)})
    monkeypatch.setattr(
        study, "evaluate", lambda net, loader: tested.append((net, loader.dataset)) or (0, 7.0)
    )
    graphs = study.Graphs(study.QUICK, None, tmp_path)
    cell = study.Study(study.QUICK, None, tmp_path).cell("flat", "run", 0)
    found = study.run(cell, graphs)
    assert (found["value"], found["val_loss"], found["setting"]) == (
        7.0,
        0.1,
        found["trials"][chosen]["setting"],
    )
    ((net, test),) = tested
    assert net is nets[chosen] and [g.y.item() for g in test] == [
        g.y.item() for g in graphs.split("flat", 0)[2]
    ]


def test_the_best_epoch_is_kept_and_training_stops(study, modules, tmp_path, monkeypatch):
    graphs = study.Graphs(study.QUICK, None, tmp_path)
    settings = {**study.QUICK.fixed, "lr": 1e-3, "epochs": 20, "patience": 2}
    losses, states = iter([0.9, 0.5, 0.7, 0.6, 0.1]), []

    def evaluate(net, loader):
        states.append([parameter.clone() for parameter in net.parameters()])
        return next(losses), 50.0

    monkeypatch.setattr(study, "evaluate", evaluate)
    net = graphs.network("flat", settings)
    train, val, _ = graphs.split("flat", 0)
    assert study.fit(net, train, val, settings, 0) == {"val_loss": 0.5, "val": 50.0, "epoch": 2}
    assert len(states) == 4
    assert all(map(torch.equal, net.parameters(), states[1]))


def test_only_the_validation_loss_decides(modules):
    trials = [
        {"val_loss": 0.5, "val": 99.0, "value": 99.0},
        {"val_loss": 0.4, "val": 10.0, "value": 10.0},
        {"val_loss": 0.4, "val": 20.0, "value": 20.0},
    ]
    assert modules[1].choose(trials) == 1


def test_intervals_are_those_of_scipy(modules):
    interval = modules[1].interval
    rng = np.random.default_rng(0)
    for size in (2, 3, 10, 50):
        one, other = rng.normal(70, 5, size), rng.normal(72, 5, size)
        mean, half = interval(one.tolist())
        expected = stats.ttest_1samp(one, 0).confidence_interval(0.95)
        assert (mean - half, mean + half) == pytest.approx(tuple(expected))
        mean, half = interval((one - other).tolist())
        expected = stats.ttest_rel(one, other).confidence_interval(0.95)
        assert (mean - half, mean + half) == pytest.approx(tuple(expected))
        corrected = np.sqrt((1 / size + 0.125) * one.var(ddof=1))  # Nadeau and Bengio
        expected = stats.t.interval(0.95, size - 1, loc=one.mean(), scale=corrected)
        mean, half = interval(one.tolist(), overlap=0.125)
        assert (mean - half, mean + half) == pytest.approx(expected)
    assert np.isnan(interval([70.0])[1])


def test_differences_are_paired_by_seed(modules):
    report = modules[1]
    sizes = {"num_test": 10, "num_train": 80}
    tests = {seed: {"value": value, **sizes} for seed, value in {0: 70.0, 1: 60.0, 2: 80.0}.items()}
    base = {seed: {"value": value, **sizes} for seed, value in {1: 50.0, 0: 65.0}.items()}
    rows = [report.Row(name, "", found, {}) for name, found in (("a", tests), ("flat", base))]
    found, overlap = report.differences(*rows)
    assert sorted(found) == [5.0, 10.0] and overlap == 0.125


def test_methods_of_the_study(modules):
    methods = modules[0].METHODS
    kinds = [method.kind for method in methods.values()]
    assert [kinds.count(kind) for kind in ("no pooling", "stored levels", "trainable pooler")] == [1, 5, 3]
    steps = len(modules[0].FIXED["clusters"])
    assert all(len(parse_schedule(m.schedule)) == steps for m in methods.values() if m.schedule)
    assert next(iter(methods)) == modules[1].BASELINE


def test_all_methods_have_the_same_split(study, tmp_path):
    graphs = study.Graphs(study.QUICK, None, tmp_path / "store")
    for seed in (0, 1):
        labels = [[part.y.tolist() for part in graphs.split(name, seed)] for name in FEW]
        sizes = [[sum(g.num_nodes for g in part) for part in graphs.split(name, seed)] for name in FEW]
        assert labels.count(labels[0]) == sizes.count(sizes[0]) == len(FEW)
    assert [len(part) for part in graphs.split("flat", 0)] == [32, 4, 4]


def test_more_than_ten_seeds_give_other_folds(modules):
    folds = modules[0].folds
    first, eleventh = folds([0, 1] * 50, 0), folds([0, 1] * 50, 10)
    assert sorted(itertools.chain(*eleventh)) == list(range(100)) and set(first[2]) != set(eleventh[2])


def test_stored_levels_give_what_the_pooler_gives(modules, tmp_path):
    """The network from the store has the logits of the network that pools online; level 1, whose seed is the same."""
    network = modules[2]
    coarsen_dataset(CoarsenConfig("molecules:num_graphs=8", out=tmp_path / "store", poolers=("graclus",)))
    batch = next(iter(PoolDataLoader(PooledDataset(tmp_path / "store"), 8)))
    nets = []
    for method in (network.Method(schedule="graclus"), network.Method(pooler={"alias": "graclus"})):
        torch.manual_seed(0)
        nets.append(network.Net(method, batch.x.shape[1], 2, 8, (4,)).eval())
    (stored, _), (online, _) = (net(batch) for net in nets)
    torch.testing.assert_close(stored, online)
    flat = network.Net(network.Method(), batch.x.shape[1], 2, 8, (4,))
    count = [sum(p.numel() for p in net.parameters()) for net in (flat, nets[0])]
    assert count[0] == count[1]


def test_changed_settings_are_computed_anew(study, modules, monkeypatch):
    def keys():
        return {cell.key for cell in study.Study(study.QUICK, None, Path()).runs()}

    before = keys()
    changed = modules[2].Method(schedule="graclus:two_hop=true*2")
    monkeypatch.setitem(study.METHODS, "graclus", changed)
    assert len(before - keys()) == 2  # seeds; the runs of other methods are kept
    monkeypatch.setattr(
        study, "QUICK", study.Plan("molecules", 2, study.QUICK.grid, {"clusters": (0.5, 0.2)})
    )
    assert not before & keys()


def test_lines_of_the_page_change_the_study(study, tmp_path, monkeypatch):
    """The page shows how to add a pooler and a hyperparameter."""

    class ClimbPooling(TopkPooling):
        pass

    own = type(sys)("my_poolers")
    own.ClimbPooling = ClimbPooling
    monkeypatch.setitem(sys.modules, "my_poolers", own)
    for field in ("entries", "_loaded"):
        monkeypatch.setattr(pooler_map, field, dict(getattr(pooler_map, field)))
    blocks = re.findall(r"^<!-- not run: .*? -->\n```python\n(.*?)^```$", PAGE.read_text(), flags=re.M | re.S)
    assert len(blocks) == 2
    lines = dict(vars(study))
    for block in blocks:
        exec(block, lines)
    assert set(study.METHODS) - set(FEW) == {"climb", "louvain"}
    assert "dropout" in lines["FULL"].grid and lines["FULL"].dataset == "PROTEINS"
    monkeypatch.setattr(
        study, "METHODS", {name: study.METHODS[name] for name in ("flat", "graclus", "climb")}
    )
    names = [
        run["cell"].split("/")[1]
        for run in runs(study.main([*words(tmp_path), "--seeds", "1"]).results).values()
    ]
    assert sorted(names) == ["climb@run", "flat@run", "graclus@run"]


def test_a_page_needs_the_markers(study, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- study: table -->\nold\n<!-- end -->\nb\n")
    study.write_page(page, "new | \\1\n")
    assert page.read_text() == "a\n<!-- study: table -->\n\nnew | \\1\n\n<!-- end -->\nb\n"
    page.write_text("a\n")
    with pytest.raises(InputError, match="markers"):
        study.write_page(page, "new")
    assert page.read_text() == "a\n"


def test_labels_of_nodes_are_no_classes(study, tmp_path):
    with pytest.raises(InputError, match="class each"):
        study.main([*words(tmp_path), "--dataset", "regions:num_nodes=100:num_graphs=12"])


def test_graphs_need_features(study, tmp_path):
    ptr, ends = 2 * np.arange(21), np.arange(40) % 2
    arrays = {"edge_index": np.stack([ends, 1 - ends]), "y": np.arange(20) % 2}
    np.savez(tmp_path / "pairs.npz", **arrays, edge_ptr=ptr, node_ptr=ptr)
    with pytest.raises(InputError, match="features"):
        study.main([*words(tmp_path / "out"), "--dataset", str(tmp_path / "pairs.npz")])


def test_default_folders(study, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = study.read_options([])
    assert options.out == Path("out/study") and options.plan == study.SMALL
    options = study.read_options(["--root", "data"])
    assert options.plan == study.FULL and options.store == Path("out/study/store/PROTEINS")
    assert study.read_options(["--dataset", "my.npz"]).plan.grid == study.FULL.grid


@pytest.fixture(scope="module")
def published():
    results = json.loads((FOLDER / "results" / "study.json").read_text(encoding="utf-8"))["cells"]
    table = (FOLDER / "results" / "study.md").read_text(encoding="utf-8")
    return results, table


def test_the_page_shows_the_published_results(published):
    assert f"\n{published[1]}\n<!-- end -->" in PAGE.read_text(encoding="utf-8")
    assert (ROOT / "docs" / "img" / "study.svg").is_file()


def test_published_table_follows_from_the_results(modules, published):
    """Ten folds of nine methods: means and intervals are computed here once more."""
    results, table = published
    values = {}
    for cell in runs(results).values():
        _, name, seed = cell["cell"].split("/")
        values.setdefault(name.partition("@")[0], {})[int(seed)] = cell
    assert set(values) == set(modules[0].METHODS)
    assert all(sorted(found) == list(range(10)) for found in values.values())
    for name, found in values.items():
        accuracy = np.array([found[seed]["value"] for seed in range(10)])
        gap = accuracy - np.array([values["flat"][seed]["value"] for seed in range(10)])
        overlap = np.mean([run["num_test"] / run["num_train"] for run in found.values()])
        quantile = stats.t.ppf(0.975, 9)
        half = quantile * accuracy.std(ddof=1) / np.sqrt(10)
        shown = f"| {accuracy.mean():.1f} ± {half:.1f} |"
        wide = quantile * gap.std(ddof=1) * np.sqrt(0.1 + overlap)
        shown += " - |" if name == "flat" else f" {gap.mean():+.1f} ± {wide:.1f} |"
        row = next(line for line in table.splitlines() if line.startswith(f"| {name} |"))
        assert shown in row
