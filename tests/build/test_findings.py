"""find_problems: each kind of problem is found in a store that has it, and not in one that does not."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from tgp.build import CoarsenConfig, coarsen_dataset, find_problems
from tgp.build.findings import keeps_most_nodes, read_target_size
from tgp.build.level_checks import LevelFigures, suggest_schedule
from tgp.engine.methods import METHODS
from tgp.errors import GraphError, UnknownNameError
from tgp.store import StoreReader
from tgp.testing.stores import forge_shard

GRAPHS: list[Data] = []


def load():
    return GRAPHS


def data(pairs, num_nodes, **fields):
    """Return an undirected graph."""
    pairs = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).t()
    return Data(edge_index=torch.cat([pairs, pairs.flip(0)], 1), num_nodes=num_nodes, **fields)


def path_graph(n, **fields):
    return data([(i, i + 1) for i in range(n - 1)], n, **fields)


@pytest.fixture
def problems(tmp_path, monkeypatch):
    """Function that coarsens graphs and returns the findings by kind."""

    def find(graphs, *poolers, **options):
        monkeypatch.setitem(globals(), "GRAPHS", graphs)
        config = CoarsenConfig(
            dataset=f"{__name__}:load", poolers=poolers, out=tmp_path / "store", force=True, **options
        )
        coarsen_dataset(config)
        return find_problems(config.path)

    return find


def kinds(findings):
    return [(f.kind, f.level) for f in findings]


def test_a_level_that_hardly_shrinks_and_its_empty_supernodes(problems):
    stalled, empty = problems([path_graph(n) for n in (5, 8, 8, 9)], "eigen")
    assert (stalled.kind, stalled.hierarchy, stalled.level) == ("stalled", "eigen", 1)
    assert "32 of 30" in stalled.text and "3 of 4 graphs (75 %)" in stalled.text
    assert "eigen:k=4" in stalled.hint
    assert (empty.kind, empty.level) == ("empty", 1)
    assert "3 empty supernodes" in empty.text and "1 of 4 graphs (25 %)" in empty.text


def test_good_levels_have_no_findings(problems):
    assert problems([path_graph(20), path_graph(30)], "graclus*2", "kmis", "ndp") == []


def test_most_graphs_stall_although_the_total_shrinks(problems):
    star = [data([(0, i) for i in range(1, 40)], 40) for _ in range(9)]
    (finding,) = problems([path_graph(1000), *star], "graclus")
    assert finding.kind == "stalled" and "9 of 10 graphs (90 %)" in finding.text


def test_levels_after_a_collapse(problems):
    (finding,) = problems([path_graph(2), path_graph(2)], "graclus*4")
    assert (finding.kind, finding.level) == ("collapsed", 2)
    assert "Levels 2 to 4" in finding.text and "2 of 2 graphs (100 %)" in finding.text
    assert "1 level " in finding.hint


def test_graphs_of_isolated_components_collapse_too(problems):
    (finding,) = problems([data([(0, 1), (2, 3)], 4)], "graclus*3")
    assert (finding.kind, finding.level) == ("collapsed", 2)
    assert "connected component" in finding.text and "--largest-component" in finding.hint


def test_torn_and_joined_graphs(problems):
    pairs = data([(2 * i, 2 * i + 1) for i in range(12)], 24)
    assert kinds(problems([pairs], "random:ratio=0.25")) == [("joined", 1)]
    two = [path_graph(12, edge_weight=torch.tensor([1e3] * 5 + [1e-3] + [1e3] * 5).repeat(2))]
    (finding,) = problems(two, "ndp:sparse_threshold=1.0")
    assert finding.kind == "torn" and "1 connected components become 2" in finding.text


def test_many_singletons(problems):
    graph = data([(0, i) for i in range(1, 6)] + [(6, i) for i in range(7, 10)], 10)
    (finding,) = problems([graph] * 3, "graclus")
    assert finding.kind == "singletons" and "18 of 24 supernodes (75 %)" in finding.text


def test_nodes_that_stay_alone_follow_from_a_size(problems):
    graph = path_graph(60)
    assert problems([graph] * 3, "hem:ratios=0.5/0.45", "hem:ratio=0.8") == []
    (finding,) = problems([graph] * 3, "hem:ratio=0.97")
    assert finding.kind == "stalled" and "ratio=0.97 asks for it" in finding.text


def hub(leaves):
    return data([(0, i) for i in range(1, leaves + 1)], leaves + 1)


@pytest.mark.parametrize(
    ("schedule", "better"),
    [
        ("graclus*2", "graclus:two_hop=true*2"),
        ("nopool,graclus:order=index", "nopool,graclus:order=index:two_hop=true"),
        ("graclus:match_on=counts", "graclus:two_hop=true:match_on=counts"),
    ],
)
def test_the_hint_of_a_stalled_level_is_a_schedule_to_write(problems, schedule, better):
    """The suggested schedule has no finding."""
    found = [f for f in problems([hub(99)] * 2, schedule) if f.kind == "stalled"]
    assert found and all(f"Try {better}: " in f.hint for f in found)
    assert [f for f in problems([hub(99)] * 2, better) if "two_hop" in f.hierarchy] == []


def test_the_hint_of_a_composed_level_names_the_whole_schedule(problems):
    found = problems([hub(99)] * 2, "graclus*3", only_levels=(1, 3))
    assert found and all("Try graclus:two_hop=true*3: " in f.hint for f in found)


def test_no_parameter_is_suggested_twice(problems):
    """Nodes without edges stay, whatever the parameters are."""
    [finding] = [f for f in problems([data([(0, 1)], 60)], "graclus:two_hop=true*2") if f.kind == "stalled"]
    assert "two_hop" not in finding.hint


def pieces(count, size=4):
    """Return a graph of ``count`` paths."""
    pairs = [(size * i + j, size * i + j + 1) for i in range(count) for j in range(size - 1)]
    return data(pairs, size * count)


@pytest.mark.parametrize(
    ("schedule", "text", "hint"),
    [
        ("hem:nodes=3", "has 20 nodes instead of 3 (nodes=3). The graph has 20 connected", "partition:k=3 "),
        ("lv:ratio=0.1", "has 20 nodes instead of 8 (ratio=0.1). The graph has 20", "partition:ratio=0.1 "),
        ("hem:ratios=0.5/0.1", "has 20 nodes instead of 8 (ratios=0.5/0.1).", "--largest-component"),
        ("hem:nodes=30:keep_small=9", "has 80 nodes instead of 30", "keep_small=0 "),
    ],
)
def test_a_size_that_cannot_be_reached(problems, schedule, text, hint):
    (finding,) = [f for f in problems([pieces(20)], schedule) if f.kind in ("size", "stalled")]
    assert text in finding.text and hint in finding.hint
    assert finding.level == len(schedule.split("/"))


def test_a_size_that_some_graphs_cannot_reach(problems):
    graphs = [pieces(1, 40), pieces(10), pieces(12)]
    (finding,) = problems(graphs, "hem:nodes=5", "hem:nodes=12", "hem:ratio=0.5")
    assert finding.kind == "size" and finding.hierarchy == "hem+nodes=5"
    assert "has 22 nodes in 2 of 3 graphs (67 %) instead of 10" in finding.text
    assert "up to 12 connected components" in finding.text


def test_a_size_that_is_not_reached_without_metrics(problems):
    (finding,) = problems([pieces(10)], "hem:nodes=5", metrics=False)
    assert finding.kind == "size" and "Many methods keep" in finding.text


def test_a_size_that_is_larger_than_the_graphs(problems):
    stalled, kept = problems([path_graph(n) for n in (20, 30, 90)], "graclus,hem:ratio=1.0", "hem:nodes=50")
    assert stalled.kind == "stalled" and "ratio=1 asks for it: 77 of 77 nodes remain" in stalled.text
    assert stalled.level == 2 and stalled.hint == "Ask for fewer nodes, or remove the level."
    assert "2 of 3 graphs (67 %), because nodes=50 asks for it: 50 of 50 nodes remain" in kept.text


@pytest.mark.parametrize(
    "params",
    [
        None,
        5,
        {"nodes": True},
        {"nodes": -1},
        {"nodes": "9"},
        {"ratio": 2.0},
        {"ratio": 1},
        {"ratios": [0.5, "x"]},
    ],
)
def test_sizes_of_an_untrusted_store_are_ignored(params):
    nodes, before = np.array([7]), np.array([9])
    for schedule in ((), ({"method": "hem", "params": params},)):
        level = LevelFigures(1, "hem", None, nodes, before, {}, schedule)
        assert read_target_size(level, lambda number: before) is None


def test_a_level_that_merges_almost_everything(problems):
    """The suggested schedule keeps more nodes."""
    findings = problems([hub(199)], "kmis")
    assert kinds(findings) == [("collapsed", 1)]
    assert "200 nodes become 1" in findings[0].text and "Try kmis:max_size=8: " in findings[0].hint
    for size, expected in ((8, []), (150, [("collapsed", 1)])):
        findings = problems([hub(199)], f"kmis:max_size={size}")
        assert kinds(f for f in findings if f.hierarchy == f"kmis+max_size={size}") == expected


def test_methods_of_other_packages_are_not_imported_for_a_hint(monkeypatch):
    entry = dataclasses.replace(METHODS.entry("graclus"), package="other")
    monkeypatch.setattr(METHODS, "find", lambda name: entry)
    level = LevelFigures(
        1, "graclus", None, np.array([9]), np.array([9]), {}, ({"method": "graclus", "params": {}},)
    )
    assert suggest_schedule(level, {"two_hop": True}) is None


@pytest.mark.parametrize(
    "schedule",
    [
        (),
        ({"method": "graclus", "params": {"order": 7}},),
        ({"method": "gone"},),
        ({},),
        ({"method": ["graclus"]},),
    ],
)
def test_a_wrong_schedule_of_a_store_has_no_suggestion(schedule):
    level = LevelFigures(1, "graclus", None, np.array([9]), np.array([9]), {}, schedule)
    assert suggest_schedule(level, {"two_hop": True}) is None


@pytest.fixture
def change_graclus(monkeypatch):
    """Function that wraps the assignment of Graclus."""

    def change(wrap):
        method = METHODS["graclus"]
        changed = dataclasses.replace(method, assign=lambda *arguments: wrap(method.assign, *arguments))
        monkeypatch.setitem(METHODS._loaded, "graclus", changed)

    return change


def test_dropped_nodes(problems, change_graclus):
    """A method that merges nodes and drops others is reported. NDP drops nodes by design, see above."""

    def drop_two(assign, *arguments):
        found = assign(*arguments)
        found.cluster[np.isin(found.cluster, found.cluster[:1])] = -1
        return found

    change_graclus(drop_two)
    findings = problems([path_graph(20)], "graclus")
    assert "2 of 20 nodes (10 %)" in next(f.text for f in findings if f.kind == "dropped")


def test_negative_weights(problems):
    weights = -torch.ones(14)
    found = problems([path_graph(8, edge_weight=weights), path_graph(8, edge_weight=-weights)], "graclus")
    assert found[0].kind == "weights" and found[0].hierarchy is None
    assert "14 of 28 edge weights (50 %)" in found[0].text and "1 of 2 graphs (50 %)" in found[0].text


def test_weights_of_a_store_that_are_not_finite(problems, tmp_path):
    problems([path_graph(8, edge_weight=torch.ones(14))], "graclus")

    def edit(file):
        file["fields/edge_weight"][:3] = [np.nan, np.inf, -np.inf]

    forge_shard(tmp_path / "store", edit)
    texts = [f.text for f in find_problems(tmp_path / "store")]
    assert any("3 of 14 edge weights (21 %) are NaN or infinite" in text for text in texts)


@pytest.mark.parametrize(("limit", "who"), [(0, "None of the 3 graphs"), (10, "1 of 3 graphs (33 %)")])
def test_failures(problems, change_graclus, limit, who):
    def fail(assign, block, *arguments):
        if (np.diff(block.node_ptr) > limit).any():
            raise GraphError("no luck")
        return assign(block, *arguments)

    change_graclus(fail)
    (found,) = problems([path_graph(6), path_graph(12), path_graph(8)], "graclus")
    assert found.kind == "failed" and found.text.startswith(who) and "no luck" in found.text


def test_a_store_without_metrics_gives_what_sizes_show(problems):
    found = problems([path_graph(2)] * 2, "eigen", "graclus*3", metrics=False)
    assert kinds(found) == [("stalled", 1), ("collapsed", 2)]


def test_only_some_hierarchies(problems, tmp_path):
    problems([path_graph(5)], "eigen", "graclus")
    assert find_problems(tmp_path / "store", ["graclus"]) == []
    assert find_problems(StoreReader(tmp_path / "store"), ["eigen"])
    with pytest.raises(UnknownNameError):
        find_problems(tmp_path / "store", ["eigne"])


def test_metrics_of_an_untrusted_store(problems, tmp_path):
    """Metrics may hold any number; findings neither warn nor fail."""
    problems([path_graph(5), path_graph(9)], "graclus")

    def edit(file):
        for name in ("components", "components_before", "empty", "singletons", "dropped"):
            stored = file[f"metrics/0/{name}"]
            stored[...] = np.iinfo(stored.dtype).max

    forge_shard(tmp_path / "store", edit, part="graclus")
    assert find_problems(tmp_path / "store")


def test_nothing_is_kept_of_nothing():
    assert keeps_most_nodes(np.array([0, 1, 96, 95]), np.array([0, 0, 100, 100])).tolist() == [
        False,
        False,
        True,
        False,
    ]


def test_findings_need_neither_torch_nor_numba(problems, tmp_path):
    problems([path_graph(5)], "eigen")
    code = (
        "import sys; from tgp.build.findings import find_problems; assert find_problems(sys.argv[1]); "
        "print([name for name in ('torch', 'numba') if name in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "store")], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"
