"""The recommendation of a pooler: its facts hold, and every answer can be used."""

import itertools
import shlex

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.csgraph
from typer.testing import CliRunner

from tgp.engine.coarsening import coarsen
from tgp.engine.methods import METHODS
from tgp.errors import InputError
from tgp.inspect.catalog import list_poolers
from tgp.inspect.choice import BASELINES, FACTS, RULES, Needs, choose_poolers, left_out, supernodes_text
from tgp.poolers import get_pooler
from tgp.testing.graphs import cycle, erdos_renyi, grid2d, karate, with_attributes
from tgp_cli.main import build_app

NEEDS = [
    Needs(train, nodes, exact_k, connected, hubs, fast, "er:num_graphs=3")
    for train, nodes, exact_k, connected, hubs, fast in itertools.product(
        (False, True), (50, 10**6), (None, 6), (False, True), (False, True), (False, True)
    )
]


def test_every_pooler_is_rated_or_named_as_unrated(monkeypatch):
    own = {pooler.alias for pooler in list_poolers() if pooler.package is None}
    unrated = own - {*FACTS, *BASELINES}
    assert {*FACTS, *BASELINES} <= own
    assert all(supernodes_text(alias) for alias in FACTS) and supernodes_text("random") is None
    named = [
        left_out(Needs(train=train)).get("not compared with the others yet", []) for train in (False, True)
    ]
    assert {*named[0], *named[1]} == unrated
    rated = {alias: facts for alias, facts in FACTS.items() if alias not in ("hem", "topk")}
    monkeypatch.setattr("tgp.inspect.choice.FACTS", rated)
    named = [left_out(Needs(train=train))["not compared with the others yet"] for train in (False, True)]
    assert "hem" in named[0] and "topk" in named[1]


GRAPHS = [karate(), grid2d(5, 6), cycle(14), erdos_renyi(30, 0.2, seed=3)]


def parts(block):
    entries = np.ones(len(block.indices)), block.indices, block.indptr
    shape = (block.num_nodes, block.num_nodes)
    return scipy.sparse.csgraph.connected_components(scipy.sparse.csr_array(entries, shape=shape))[0]


@pytest.mark.parametrize(
    "alias",
    [
        "graclus",
        "kmis",
        "hem",
        "collapse",
        "amg",
        "lv",
        "sep",
        "ndp",
        "eigen",
        "nmf",
        "simmatch",
        "ugc",
        "voxel",
        "fps",
        "affinity",
        "bistride",
        "partition",
    ],
)
def test_facts_hold(alias):
    facts = FACTS[alias]
    for graph in GRAPHS:
        schedule = f"{alias}:k=5" if facts.supernodes == "k" else alias
        level = coarsen(with_attributes(graph), schedule).levels[0]
        cluster = level.assignment.cluster
        if facts.supernodes == "k":
            assert level.block.num_nodes == 5
        if facts.supernodes == "half" and graph is not GRAPHS[0]:  # which has hubs
            assert 0.3 <= level.block.num_nodes / graph.num_nodes <= 0.7
        if facts.connected and parts(graph) == 1:
            assert parts(level.block) == 1
        assert facts.all_nodes == (cluster is None or bool((np.asarray(cluster) >= 0).all()))


def test_methods_that_need_attributes_are_chosen_only_if_graphs_have_them():
    needing = {alias for alias, facts in FACTS.items() if facts.attributes}
    assert needing == {name for name in METHODS if METHODS[name].needs}
    assert all(FACTS[alias].attributes == METHODS[alias].needs for alias in needing)
    assert not needing & {choice.alias for choice in choose_poolers(Needs())}
    assert {"voxel", "fps"} <= {choice.alias for choice in choose_poolers(Needs(attributes=("pos",)))}
    assert "supernodes by pos" in Needs(attributes=("pos",)).text


def test_hubs_shrink_badly_as_the_facts_say():
    from tgp.testing.graphs import star

    kept = {alias: coarsen(star(40), f"{alias}*1").levels[0].block.num_nodes for alias in ("graclus", "sep")}
    assert kept["graclus"] > 30 > kept["sep"]


@pytest.mark.parametrize("fast", [False, True])
def test_commands_of_all_answers_are_valid(fast, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = {c.command for n in NEEDS if n.fast == fast for c in choose_poolers(n)}
    assert len(commands) > 10
    for command in commands:
        if command.startswith("get_pooler"):
            assert eval(command, {"get_pooler": get_pooler}) is not None
            continue
        _, *words = shlex.split(command)
        result = CliRunner().invoke(build_app(words), [*words, "--dry-run"])
        assert result.exit_code == 0, (command, result.output)


@pytest.mark.parametrize("needs", NEEDS, ids=lambda needs: needs.text)
def test_answers_meet_the_requirements(needs):
    choices = choose_poolers(needs)
    for choice in choices:
        facts = FACTS[choice.alias]
        assert not needs.exact_k or facts.supernodes == "k"
        assert not needs.connected or facts.connected
        assert choice.reason.startswith(supernodes_text(choice.alias))
    if needs.hubs and not needs.fast and choices:
        assert FACTS[choices[0].alias].hubs or not any(FACTS[c.alias].hubs for c in choices)


def test_every_rule_decides_something():
    for rule in RULES:
        assert any(
            rule.applies(needs) and len({rule.fits(facts, needs) for facts in FACTS.values()}) == 2
            for needs in [*NEEDS, Needs(nodes=300_000)]
        ), rule


def test_speed_first():
    assert [choice.alias for choice in choose_poolers(Needs(train=True, fast=True))][:2] == ["topk", "sag"]
    assert choose_poolers(Needs(train=True))[0].alias == "mincut"


def test_a_large_graph_with_exact_k_is_made_small_first():
    assert [c.command for c in choose_poolers(Needs(nodes=10**7, exact_k=4, dataset="my file.npz"))] == [
        "tgp coarsen --pooler partition:k=4 --dataset 'my file.npz'",
        "tgp coarsen --pooler 'graclus*5,eigen:k=4' --dataset 'my file.npz'",
        "tgp coarsen --pooler 'graclus*5,nmf:k=4' --dataset 'my file.npz'",
    ]
    assert choose_poolers(Needs(nodes=10**10)) == []


def test_wrong_needs_are_errors():
    with pytest.raises(InputError, match="nodes"):
        Needs(nodes=0)
