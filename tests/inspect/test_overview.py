"""Figures of a store, thresholds, comparisons, deep checks, exports."""

import shutil
from pathlib import Path

import h5py
import networkx as nx
import numpy as np
import pytest

from tgp.build import CoarsenConfig, coarsen_dataset
from tgp.engine import coarsen
from tgp.errors import InputError, UnknownNameError
from tgp.inspect import compare_stores, export_store, inspect_store, verify_by_recompute
from tgp.inspect.compare import compare_hierarchies
from tgp.inspect.export import parse_graphs
from tgp.inspect.overview import find_stores, inspect_graph
from tgp.inspect.thresholds import check_thresholds
from tgp.sources import open_source
from tgp.store import StoreReader, data_digest, verify_store

DATASET = "er:num_graphs=30:num_nodes=20:degree=3"


def build(out, *poolers, **values):
    coarsen_dataset(CoarsenConfig(DATASET, out=out, poolers=poolers, **values))
    return out


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return build(tmp_path_factory.mktemp("s") / "er", "graclus*2", "nopool", shard_size=5_000)


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


def test_a_level_that_does_nothing_is_flagged(store):
    graclus, nopool = inspect_store(store).hierarchies
    assert not any(level.stalled for level in graclus.levels)
    assert nopool.levels[0].stalled and nopool.levels[0].stalled_graphs == 30


def test_filters(store):
    view = inspect_store(store, hierarchy="graclus-x2", level=2)
    assert [(h.name, [v.level for v in h.levels]) for h in view.hierarchies] == [("graclus-x2", [2])]
    with pytest.raises(UnknownNameError, match="'graclus-x2'"):
        inspect_store(store, hierarchy="graclus")
    with pytest.raises(InputError, match="levels 1 to 2, got 7"):
        inspect_store(store, level=7)


def test_one_graph(store):
    card = inspect_graph(store, 4)
    block = open_source(DATASET).table.to_block().take([4])
    assert (card["nodes"], card["edges"]) == (20, block.num_edges)
    coarse = coarsen(block, "graclus*2").levels
    rows = [r for r in card["levels"] if r["hierarchy"] == "graclus-x2"]
    assert [r["nodes"] for r in rows] == [level.block.num_nodes for level in coarse]
    with pytest.raises(InputError, match="0 to 29"):
        inspect_graph(store, 30)


def test_thresholds(store):
    view = inspect_store(store)
    assert list(check_thresholds(view, ["ratio>0.95"])) == ["nopool, level 1: ratio = 1 (ratio>0.95)"]
    assert list(check_thresholds(view, ["ratio > 1", "dropped!=0", "failures>=1"])) == []
    assert len(list(check_thresholds(view, ["symmetric>=1"]))) == 3
    for text in ("ratio", "ratio>x", ">3"):
        with pytest.raises(InputError, match="condition"):
            list(check_thresholds(view, [text]))
    with pytest.raises(UnknownNameError, match="'ratio'"):
        list(check_thresholds(view, ["ratoi>1"]))


def test_listing_stores(store, tmp_path):
    shutil.copytree(store, tmp_path / "done")
    shutil.copytree(store, tmp_path / "open")
    (tmp_path / "open" / "manifest.json").unlink()
    shutil.copytree(store, tmp_path / "broken")
    (tmp_path / "broken" / "manifest.json").write_text("{")
    (tmp_path / "nothing").mkdir()
    found = {Path(s["path"]).name: s["status"].split(":")[0] for s in find_stores(tmp_path)}
    assert found == {"done": "complete", "open": "unfinished", "broken": "unreadable"}
    assert find_stores(tmp_path / "missing") == []


def test_equal_stores_compare_equal(store, tmp_path):
    other = build(tmp_path / "o", "graclus*2")
    (comparison,) = compare_stores(store, other)
    assert comparison.equal and [level.rand for level in comparison.levels] == [1.0, 1.0]


def test_different_seeds_differ_in_named_graphs(store, tmp_path):
    other = build(tmp_path / "o", "graclus*2", seed=1)
    (comparison,) = compare_stores(store, other)
    level = comparison.levels[0]
    reader, theirs = StoreReader(store), StoreReader(other)
    expected = []
    for graph in range(30):
        a, b = (r.gather_level([graph], "graclus-x2", 0) for r in (reader, theirs))
        expected += [graph] * (
            not (
                np.array_equal(a.assignment.cluster, b.assignment.cluster)
                and np.array_equal(a.edge_index, b.edge_index)
            )
        )
    assert level.different == len(expected) > 10 and level.examples == expected[:10]
    assert -0.5 < level.rand < 1 and not comparison.equal


def test_rand_index_by_hand(tmp_path):
    """Four nodes, {01}{23} against {0}{1}{2}{3}: no pair is shared, so the index is 0."""
    np.savez(tmp_path / "g.npz", edge_index=np.array([[0, 1, 2, 3], [1, 0, 3, 2]]))
    config = CoarsenConfig(str(tmp_path / "g.npz"), out=tmp_path / "s", poolers=("graclus", "nopool"))
    coarsen_dataset(config)
    assert compare_hierarchies(tmp_path / "s", "graclus", "nopool").levels[0].rand == 0
    assert compare_hierarchies(tmp_path / "s", "graclus", "graclus").levels[0].rand == 1


def test_stores_that_cannot_be_compared(store, tmp_path):
    with pytest.raises(InputError, match="share no hierarchy"):
        compare_stores(store, build(tmp_path / "a", "random"))
    with pytest.raises(InputError, match="different graphs"):
        compare_stores(store, build(tmp_path / "b", "graclus*2", limit=5))


def test_recheck_finds_what_digests_cannot(store, tmp_path):
    """A store that was rebuilt consistently from wrong clusters has sound digests."""
    from tgp.store import StoreWriter, read_spec

    copy = Path(shutil.copytree(store, tmp_path / "s"))
    assert verify_by_recompute(copy, sample=7) == []
    writer = StoreWriter(copy, read_spec(copy))
    table = open_source(DATASET).table
    low, high = writer.spec.bounds[1:3]
    block = table.take(range(low, high)).to_block()
    writer.write_hierarchy(1, "graclus-x2", coarsen(block, "graclus*2", seed=99))
    writer.publish()
    assert verify_store(copy) == []
    findings = verify_by_recompute(copy, sample=None)
    assert findings and {f.shard for f in findings} == {"shard-00001.graclus-x2.h5"}
    assert all(low <= f.graph < high for f in findings)
    assert {f.field.split("/")[2] for f in findings} <= {"0", "1"}
    with pytest.raises(InputError):
        verify_by_recompute(copy, sample=0)


@pytest.fixture
def altered(tmp_path):
    """Change clusters of a store whose files are long enough to have a middle: only their ends are checked on opening."""
    store = tmp_path / "s"
    config = CoarsenConfig("er:num_graphs=40:num_nodes=250:degree=3", out=store, poolers=("nopool",))
    coarsen_dataset(config)
    shard = store / "shard-00000.nopool.h5"
    with h5py.File(shard, "r") as file:
        cluster = file["levels/0/cluster"]
        offset, values = cluster.id.get_offset(), cluster[:]
    assert values.dtype == np.uint8 and (values[:250] == np.arange(250)).all()

    def change(position, value):
        content = bytearray(shard.read_bytes())
        assert 8192 < offset + position < len(content) - 8192
        content[offset + position] = value
        shard.write_bytes(content)
        return store

    return change


def test_verify_names_shard_field_and_graph(altered):
    store = altered(20 * 250 + 7, 255)
    digest, outside = verify_store(store)
    assert (digest.shard, digest.field, digest.graph) == ("shard-00000.nopool.h5", None, None)
    assert (outside.shard, outside.field, outside.graph) == (digest.shard, "/levels/0/cluster", 20)
    assert verify_store(store, semantics=False) == [digest]


def test_recheck_names_what_only_differs(altered):
    """Numbers that mean something else but break no rule show when they are recomputed."""
    altered(20 * 250 + 7, 8)
    store = altered(20 * 250 + 8, 7)
    found = [(f.shard, f.field, f.graph) for f in verify_by_recompute(store, sample=None)]
    assert found == [("shard-00000.nopool.h5", "/levels/0/cluster", 20)]


def test_export_npz_round_trip(store, tmp_path):
    files = export_store(store, "npz", tmp_path / "o", hierarchy="graclus-x2")
    assert [f.name for f in files] == ["graphs.npz", "level-1.npz", "level-2.npz"]
    again = open_source(str(tmp_path / "o" / "graphs.npz")).table
    assert data_digest(again) == StoreReader(store).manifest.spec.data_digest
    level = np.load(tmp_path / "o" / "level-2.npz")
    stored = StoreReader(store).gather_level([3], "graclus-x2", 1)
    low, high = level["node_ptr"][3:5]
    assert np.array_equal(level["cluster"][low:high], stored.assignment.cluster)
    with pytest.raises(InputError, match="exists"):
        export_store(store, "npz", tmp_path / "o", hierarchy="graclus-x2")
    export_store(store, "npz", tmp_path / "o", hierarchy="nopool", force=True)


def test_export_graphml(store, tmp_path):
    export_store(store, "graphml", tmp_path, hierarchy="graclus-x2", graphs="2,5")
    assert sorted(p.name for p in tmp_path.iterdir())[:3] == [
        "graph-00002.graphml",
        "graph-00002.level-1.graphml",
        "graph-00002.level-2.graphml",
    ]
    fine = nx.read_graphml(tmp_path / "graph-00005.graphml")
    coarse = nx.read_graphml(tmp_path / "graph-00005.level-1.graphml")
    stored = StoreReader(store).gather_level([5], "graclus-x2", 0)
    assert [fine.nodes[f"n{i}"]["cluster"] for i in range(20)] == stored.assignment.cluster.tolist()
    assert sorted(coarse.edges) == sorted((f"n{a}", f"n{b}") for a, b in stored.edge_index.T)


@pytest.mark.slow
def test_export_pyg(store, tmp_path):
    import torch
    from torch_geometric.data import InMemoryDataset

    class Loaded(InMemoryDataset):
        def __init__(self, path):
            super().__init__(None)
            self.load(str(path))

    export_store(store, "pyg", tmp_path, hierarchy="graclus-x2", graphs="0:10")
    for name in ("graphs.pt", "level-1.pt", "level-2.pt"):
        torch.load(tmp_path / name, weights_only=True)
    graphs, level = Loaded(tmp_path / "graphs.pt"), Loaded(tmp_path / "level-1.pt")
    assert len(graphs) == len(level) == 10
    stored = StoreReader(store).gather_level([7], "graclus-x2", 0)
    assert graphs[7].num_nodes == 20 and level[7].num_nodes == stored.super_ptr[-1]
    assert level[7].cluster.tolist() == stored.assignment.cluster.tolist()
    assert np.array_equal(level[7].edge_index.numpy(), stored.edge_index)
    again = open_source(str(tmp_path / "graphs.pt")).table
    assert again.num_graphs == 10 and again.num_nodes == 200


def test_export_arguments(store, tmp_path):
    with pytest.raises(UnknownNameError, match="npz"):
        export_store(store, "npy", tmp_path)
    with pytest.raises(InputError, match="choose a hierarchy"):
        export_store(store, "npz", tmp_path)
    for text in ("x", "0:31", "-1", "5:5"):
        with pytest.raises(InputError):
            parse_graphs(text, 30)
    assert parse_graphs("28:", 30).tolist() == [28, 29]
