"""Datasets over graphs that are divided over several files: batches, hierarchies, neighbour sampling, memory."""

import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import tgp
from tests.data.conftest import assert_same
from tests.data.memory_limits import ENVIRONMENT, LIMITED
from tgp.data import LevelStore, PoolDataLoader, PooledDataset
from tgp.data.stored_hierarchy import StoredHierarchy
from tgp.errors import InputError
from tgp.store import StoreReader, verify_store
from tgp.store.read import memory_need


def make_graph(nodes=300, edges=900, columns=4):
    rng = torch.Generator().manual_seed(0)
    source, target = torch.randint(0, nodes, (2, edges), generator=rng)
    keys = torch.cat([source * nodes + target, target * nodes + source]).unique()
    index = torch.stack([keys // nodes, keys % nodes])
    data = Data(x=torch.rand(nodes, columns, generator=rng), edge_index=index)
    data.y = torch.randint(0, 3, (nodes,), generator=rng)
    data.train_mask = torch.rand(nodes, generator=rng) < 0.5
    data.edge_attr = torch.rand(index.size(1), 2, generator=rng)
    return data


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """The same graph and levels in one file per part, and divided."""
    folder, graph, found = tmp_path_factory.mktemp("divided"), make_graph(), []
    for name, shard_edges in (("whole", None), ("divided", 200)):
        options = {"carry": "auto", "metrics": False, "workers": 1, "shard_edges": shard_edges}
        tgp.coarsen(graph, "graclus*3", folder / name, **options)
        found.append(folder / name)
    assert len(list(found[1].glob("*.r*.h5"))) > 10 and verify_store(found[1]) == []
    return found


def assert_equal_tensors(left, right):
    for key, value in left.items():
        if torch.is_tensor(value):
            assert torch.equal(value, right[key]), key


def test_graphs_and_batches_are_the_same(stores):
    whole, divided = (PooledDataset(path) for path in stores)
    assert_same(divided[0], whole[0])
    assert_same(PooledDataset(stores[1], in_memory=True)[0], whole[0])
    batches = [next(iter(PoolDataLoader(dataset, batch_size=2))) for dataset in (whole, divided)]
    assert torch.equal(batches[0].x, batches[1].x)
    assert torch.equal(divided.y, whole.y) and divided.num_classes == whole.num_classes
    assert_same(pickle.loads(pickle.dumps(divided))[0], whole[0])


def test_a_hierarchy_reads_a_level_when_it_is_used(stores, monkeypatch):
    expected, hierarchy = (PooledDataset(path).as_hierarchy() for path in stores)
    assert isinstance(hierarchy, StoredHierarchy) and not isinstance(expected, StoredHierarchy)
    read = []
    get = PooledDataset.get
    monkeypatch.setattr(PooledDataset, "get", lambda d, i: read.append((d.levels, d.fields)) or get(d, i))
    assert len(hierarchy) == 3 and repr(hierarchy) == repr(expected)
    values = torch.arange(expected[2].num_nodes)
    assert torch.equal(hierarchy.expand(values, 2), expected.expand(values, 2))
    assert read == [((2,), ())]  # for the number of supernodes
    assert torch.equal(hierarchy[2].edge_index, expected[2].edge_index)
    assert len(read) == 1
    for level in range(1, 4):
        left, right = hierarchy.reduced(level), expected.reduced(level)
        assert left.keys() == right.keys()
        assert_equal_tensors(left, right)
    assert len(read) == 4
    x = torch.rand(300, 2)
    assert torch.equal(hierarchy.pool(x, 3), expected.pool(x, 3))
    assert torch.equal(hierarchy.lift(hierarchy.pool(x, 2), 2), expected.lift(expected.pool(x, 2), 2))
    assert torch.equal(hierarchy.support_graph().edge_index, expected.support_graph().edge_index)
    assert [graph.num_nodes for graph in hierarchy] == [graph.num_nodes for graph in expected]
    assert hierarchy[-1].num_nodes == expected[3].num_nodes
    there = hierarchy.to("meta")
    assert there.device.type == "meta" and hierarchy.to("meta") is there and hierarchy.to("cpu") is hierarchy
    with pytest.raises(IndexError):
        hierarchy[4]


@pytest.mark.parametrize("level", [0, 1, 3])
def test_neighbours_are_sampled_from_several_files(stores, level):
    found = []
    for path in stores:
        store = LevelStore(PooledDataset(path), level)
        torch.manual_seed(0)
        batches = list(store.neighbor_loader([3, 2], batch_size=40))
        rows = store.edges.compressed(0)
        found.append(
            (batches, store.edges.coo(), rows.ids, store.node_values("x"), store.edge_values("edge_attr"))
        )
    for left, right in zip(*(batches for batches, *_ in found), strict=True):
        assert left.keys() == right.keys()
        assert_equal_tensors(left, right)
    for left, right in zip(*(rest for _, *rest in found), strict=True):
        np.testing.assert_array_equal(np.asarray(left), np.asarray(right))


def test_a_later_run_keeps_the_ranges(stores, tmp_path):
    """A hierarchy that is added is divided like the store, and the same call changes nothing."""
    graph, out = make_graph(), tmp_path / "store"
    tgp.coarsen(graph, "graclus", out, metrics=False, shard_edges=200)
    before = {file.name: file.stat().st_mtime_ns for file in out.glob("*.h5")}
    tgp.coarsen(graph, {"other": "kmis"}, out, metrics=False)
    assert list(out.glob("*.other.r*.h5")) and verify_store(out) == []
    assert all((out / name).stat().st_mtime_ns == time for name, time in before.items())
    assert StoreReader(out).manifest.spec.shard_edges == 200
    with pytest.raises(InputError, match="shard_edges"):
        tgp.coarsen(graph, "graclus", tmp_path / "small", profile="small", shard_edges=200)


@pytest.mark.slow
@pytest.mark.parametrize("memory", [None, "800MB"])
def test_workers_of_dask_write_the_same_files(tmp_path, memory):
    """Levels of a graph in memory are written by a worker, those of a graph larger than memory by the client."""
    distributed = pytest.importorskip("distributed")
    np.save(tmp_path / "graph.npy", make_graph().edge_index.numpy())
    options = {"memory": memory, "shard_edges": 200, "metrics": False}
    local = tgp.coarsen(tmp_path / "graph.npy", "hem*3", tmp_path / "local", workers=1, **options)
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**settings) as cluster:
        address = cluster.scheduler_address
        written = tgp.coarsen(
            tmp_path / "graph.npy", "hem*3", tmp_path / "dask", scheduler=address, **options
        )
    files = sorted(file.name for file in (tmp_path / "local").glob("*.h5"))
    assert len(files) > 10 and files == sorted(file.name for file in (tmp_path / "dask").glob("*.h5"))
    for name in (*files, "manifest.json"):
        assert (tmp_path / "dask" / name).read_bytes() == (tmp_path / "local" / name).read_bytes(), name
    assert verify_store(tmp_path / "dask") == []
    assert torch.equal(written.as_hierarchy()[3].edge_index, local.as_hierarchy()[3].edge_index)


def test_a_graph_that_does_not_fit_is_refused_with_the_ways_to_read_it(stores, monkeypatch):
    dataset = PooledDataset(stores[1])
    need = sum(
        value.numel() * value.element_size()
        for graph in (dataset[0], *dataset[0].pooled_data)
        for value in graph.to_dict().values()
        if torch.is_tensor(value) and value is not graph.get("batch")
    )
    assert 0.8 * need < memory_need.graph_bytes(dataset.reader, 0, dataset.hierarchy, (1, 2, 3)) < 2 * need
    monkeypatch.setattr(memory_need, "physical_memory", lambda: need // 2)
    dataset = PooledDataset(stores[1])
    ways = r"(?s)graph 0 with its levels needs at least .* GB.*LevelStore.*as_hierarchy\(\)"
    for read in (lambda: dataset[0], lambda: next(iter(PoolDataLoader(dataset))), lambda: dataset.get(0)):
        with pytest.raises(InputError, match=ways):
            read()
    assert dataset.as_hierarchy()[3].num_nodes == dataset.sizes(3)[0][0]
    assert next(iter(LevelStore(dataset).neighbor_loader([2], batch_size=4))).num_nodes > 4
    assert "x" not in PooledDataset(stores[1], fields=["y"], levels=[])[0]
    whole = PooledDataset(stores[0])
    with pytest.raises(InputError, match="graph 0 with its levels"):
        whole[0]


NODES, EDGES = 66_000, 1_000_000

PROGRAM = (
    LIMITED
    + """
import numpy as np
import torch

from pathlib import Path

from tgp.data import LevelStore, PooledDataset, mapped_edges
from tgp.inspect import export, stream_arrays
from tgp.inspect.report import render_report, sampled_levels, scene
from tgp.store import StoreReader, large_contraction, verify_store
from tgp.store.io import files


def train(path, level):
    store = LevelStore(PooledDataset(path), level, scratch=scratch)
    loader = store.neighbor_loader([4, 4], torch.arange(0, store.num_nodes, 1000), batch_size=16)
    assert sum(len(batch.e_id) for batch in loader) > 0


def check(path):
    found = verify_store(path)
    assert not found, found


def draw(path):
    assert "A sample" in render_report(path)


def write(path):
    export.export_store(path, "npz", Path(scratch) / "npz", force=True)


small, large, scratch = sys.argv[1:]
torch.set_num_threads(1)
mapped_edges._PIECE = large_contraction._PIECE = sampled_levels._BLOCK = stream_arrays._BLOCK = 1 << 13
scene.MOST_EDGES = 100
train(small, 1)  # imports what is imported on first use
check(small)
draw(small)
write(small)
part = lambda: StoreReader(large)._hierarchy_part("graclus", 0)
runs = {
    "level 0": lambda: train(large, 0),
    "level 1": lambda: train(large, 1),
    "verify": lambda: check(large),
    "report": lambda: draw(large),
    "export": lambda: write(large),
    "all edges": lambda: part().array("/levels/0/edge_index"),
}
print(json.dumps({name: [outcome(work, 5), outcome(work, 1000)] for name, work in runs.items()}))
"""
)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of private memory exists on Linux")
def test_commands_do_not_hold_the_level(tmp_path):
    for name, (nodes, edges), shard_edges in (("small", (100, 300), 50), ("large", (NODES, EDGES), 300_000)):
        graph = make_graph(nodes, edges, 1)
        graph = Data(edge_index=graph.edge_index, num_nodes=nodes)
        options = {"metrics": False, "workers": 1, "shard_edges": shard_edges}
        tgp.coarsen(graph, "graclus", tmp_path / name, **options)
    folders = [str(tmp_path / name) for name in ("small", "large")]
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, *folders, str(tmp_path)],
        capture_output=True,
        text=True,
        env=os.environ | ENVIRONMENT,
    )
    assert found.returncode == 0, found.stderr
    results = json.loads(found.stdout.splitlines()[-1])
    assert [results.pop(name) for name in ("level 0", "level 1", "verify", "report", "export")] == [
        ["ok", "ok"]
    ] * 5
    assert results == {"all edges": ["memory", "ok"]}
