"""Summaries of stores and of single graphs."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.inspect.conftest import DATASET
from tgp.engine import coarsen
from tgp.errors import InputError, UnknownNameError
from tgp.inspect import inspect_store
from tgp.inspect.overview import find_stores, inspect_graph
from tgp.sources import open_source


def test_totals_are_those_of_the_hierarchy(store):
    block = open_source(DATASET).table.to_block()
    levels = coarsen(block, "graclus*2").levels
    view = inspect_store(store)
    assert (view.input.nodes, view.input.edges) == (block.num_nodes, block.num_edges)
    graclus = view.hierarchies[0]
    assert graclus.methods == "graclus*2"
    assert [v.nodes for v in graclus.levels] == [level.block.num_nodes for level in levels]
    assert [v.edges for v in graclus.levels] == [level.block.num_edges for level in levels]
    first = graclus.levels[0]
    members = np.bincount(levels[0].assignment.cluster)
    assert first.ratio == levels[0].block.num_nodes / block.num_nodes
    assert first.metrics["singletons"] == (members == 1).sum()
    assert first.cluster_largest == members.max()
    assert first.cluster_histogram[:2] == [(members == 1).sum(), (members == 2).sum()]
    assert sum(first.node_histogram) == 30
    assert view.bytes == sum(p.stat().st_size for p in store.glob("*.h5"))


def test_a_level_that_keeps_all_nodes_is_stalled(store):
    graclus, nopool = inspect_store(store).hierarchies
    assert not any(level.stalled for level in graclus.levels)
    assert nopool.levels[0].stalled and nopool.levels[0].stalled_graphs == 30


def test_one_hierarchy_and_one_level(store):
    view = inspect_store(store, hierarchy="graclus-x2", level=2)
    assert [(h.name, [v.level for v in h.levels]) for h in view.hierarchies] == [("graclus-x2", [2])]
    with pytest.raises(UnknownNameError, match="'graclus-x2'"):
        inspect_store(store, hierarchy="graclus")
    with pytest.raises(InputError, match="levels 1 to 2, got 7"):
        inspect_store(store, level=7)


def test_figures_of_one_graph(store):
    card = inspect_graph(store, 4)
    block = open_source(DATASET).table.to_block().take([4])
    assert (card["nodes"], card["edges"]) == (20, block.num_edges)
    coarse = coarsen(block, "graclus*2").levels
    rows = [r for r in card["levels"] if r["hierarchy"] == "graclus-x2"]
    assert [r["nodes"] for r in rows] == [level.block.num_nodes for level in coarse]
    with pytest.raises(InputError, match="0 to 29"):
        inspect_graph(store, 30)


def test_stores_in_a_folder(store, tmp_path):
    shutil.copytree(store, tmp_path / "done")
    shutil.copytree(store, tmp_path / "open")
    (tmp_path / "open" / "manifest.json").unlink()
    shutil.copytree(store, tmp_path / "broken")
    (tmp_path / "broken" / "manifest.json").write_text("{")
    (tmp_path / "nothing").mkdir()
    found = {Path(s["path"]).name: s["status"].split(":")[0] for s in find_stores(tmp_path)}
    assert found == {"done": "complete", "open": "incomplete", "broken": "unreadable"}
    assert find_stores(tmp_path / "missing") == []
