"""The classification experiments of the paper: quick runs, folds, areas, and networks without padding errors."""

import itertools
from pathlib import Path

import pytest
import torch

from tgp.data import PoolDataLoader, PreCoarsening
from tgp.datasets import load_graphs
from tgp.poolers import get_pooler, pooler_map

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "paper"


@pytest.fixture(scope="module")
def script(paper_script):
    """A script as a module."""
    return paper_script


@pytest.fixture(autouse=True)
def same_random_state():
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    yield
    torch.set_rng_state(state)
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", ["graph_classification", "node_classification"])
def test_quick_run_and_resume(script, name, tmp_path, monkeypatch):
    module, common = script(name), ["--quick", "--seeds", "1", "--out", str(tmp_path)]
    first = module.main([*common, "--only", "*/topk/0,*/kmis/0"]).results
    assert len(first) == 2
    whole = module.main(common).results
    assert all(whole[key] == value for key, value in first.items())
    assert len(whole) == (21 if name == "graph_classification" else 5)
    assert all(0 <= cell["value"] <= 100 for cell in whole.values())
    assert (tmp_path / f"{name}.md").read_text().count("\n| ") == len(whole) + 1
    monkeypatch.setattr(module, "train", None)
    assert module.main(common).results == whole


def test_same_seed_same_numbers(script, tmp_path):
    module = script("graph_classification")
    one, other = (
        module.main(["--quick", "--out", str(tmp_path / part), "--only", "*/mincut/0,*/ndp/0"]).results
        for part in "ab"
    )
    strip = lambda cells: {key: {**cell, "seconds": 0} for key, cell in cells.items()}  # noqa: E731
    assert strip(one) == strip(other)


def test_the_paper_has_nineteen_rows(script):
    for rows in script("graph_classification").PAPER.values():
        assert set(pooler_map) - set(rows) == {"nopool", "nmf"}
        assert all(45 < mean < 80 and 0 < spread <= 12 for mean, spread in rows.values())


def test_folds_are_stratified_and_test_every_graph_once(script):
    labels = [0] * 30 + [1] * 70
    tested = []
    for fold in range(10):
        train, val, test = script("graph_classification").folds(labels, fold)
        assert sorted(train + val + test) == list(range(100))
        assert [len(part) for part in (train, val, test)] == [80, 10, 10]
        assert sum(labels[i] for i in test) == 7
        tested += test
    assert sorted(tested) == list(range(100))


def test_area_counts_pairs_and_halves_of_ties(script):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(0, 6, (40,), generator=generator).float()
    positive = torch.rand(40, generator=generator) < 0.3
    pairs = itertools.product(scores[positive].tolist(), scores[~positive].tolist())
    wins = [(a > b) + 0.5 * (a == b) for a, b in pairs]
    expected = 100 * sum(wins) / len(wins)
    assert script("node_classification").auroc(scores, positive) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("alias", ["graclus", "kmis", "ndp", "nmf", "sep", "eigen"])
def test_levels_made_beforehand_give_what_the_pooler_gives(script, alias):
    """The stored level leads to the same logits as the layer; graphs smaller than k have empty supernodes."""
    nets = script("_nets")
    options = {"k": 6, "scorer": "degree"}
    graphs = load_graphs("families:num_graphs=5:num_nodes=8")
    torch.manual_seed(0)
    net = nets.GraphNet(alias, 1, 2, layers=1, **options).double().eval()
    if net.pooler.is_dense:
        net.pooler.sparse_output = True
    plain, made = (
        next(iter(PoolDataLoader(part, batch_size=5)))
        for part in (graphs, PreCoarsening([get_pooler(alias, **options)]).block(graphs))
    )
    for batch in (plain, made):
        batch.x = batch.x.double()
    for level in made.pooled_data:
        if level.edge_weight is not None:
            level.edge_weight = level.edge_weight.double()
    torch.testing.assert_close(net(plain)[0], net(made)[0], rtol=1e-4, atol=1e-4)


def test_a_graph_has_the_same_logits_alone_and_in_a_batch(script):
    """Padding beside a larger graph does not leak into a smaller one."""
    graphs = load_graphs("families:num_graphs=4")
    torch.manual_seed(0)
    net = script("_nets").GraphNet("mincut", 1, 2, layers=2, k=5).eval()
    together = net(next(iter(PoolDataLoader(graphs, batch_size=4))))[0]
    alone = torch.cat([net(batch)[0] for batch in PoolDataLoader(graphs, batch_size=1)])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-4)
