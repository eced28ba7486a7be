"""``LevelStore`` reads the rows of its batches, not the level: memory that may be allocated, and rows that are taken."""

import json
import os
import subprocess
import sys

import pytest
import torch
from torch_geometric.data import Data

import tgp
from tests.data.memory_limits import ENVIRONMENT, LIMITED
from tgp.data import LevelStore, PooledDataset
from tgp.store.read.mapped import MappedRows

NODES, EDGES, COLUMNS = 160_000, 1_000_000, 64

PROGRAM = (
    LIMITED
    + """
import torch

from tgp.data import LevelStore, PooledDataset, mapped_edges


def train(dataset, level):
    store = LevelStore(dataset, level, scratch=scratch)
    loader = store.neighbor_loader([4, 4], torch.arange(0, store.num_nodes, 1000), batch_size=16)
    assert sum(len(batch.x) + len(batch.e_id) for batch in loader) > 0


small, large, scratch = sys.argv[1:]
torch.set_num_threads(1)
mapped_edges._PIECE = 1 << 14
train(PooledDataset(small), 1)  # imports what is imported on first use
dataset = PooledDataset(large)  # reading a manifest reserves memory for a large one
runs = {
    "level 0": lambda: train(dataset, 0),
    "level 1": lambda: train(dataset, 1),
    "all features": lambda: LevelStore(dataset, 1).node_values("x"),
    "all edges": lambda: [e.astype("int64") for e in LevelStore(dataset, 1).graph.edge_index()],
}
print(json.dumps({name: [outcome(work, 12), outcome(work, 1000)] for name, work in runs.items()}))
"""
)


def make_graph(nodes, edges, columns=COLUMNS):
    rng = torch.Generator().manual_seed(0)
    pairs = torch.randint(0, nodes, (2, edges), generator=rng)
    return Data(
        x=torch.rand(nodes, columns, generator=rng), edge_index=torch.cat([pairs, pairs.flip(0)], dim=1)
    )


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of private memory exists on Linux")
def test_memory_does_not_hold_the_level(tmp_path):
    for name, size in (("small", (100, 300)), ("large", (NODES, EDGES))):
        tgp.coarsen(
            make_graph(*size), "graclus", out=tmp_path / name, carry="x=mean", metrics=False, workers=1
        )
    folders = [str(tmp_path / name) for name in ("small", "large")]
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, *folders, str(tmp_path)],
        capture_output=True,
        text=True,
        env=os.environ | ENVIRONMENT,
    )
    assert found.returncode == 0, found.stderr
    results = json.loads(found.stdout.splitlines()[-1])
    assert [results.pop(name) for name in ("level 0", "level 1")] == [["ok", "ok"]] * 2
    # What reads everything needs more, so the limit is not too high.
    assert list(results.values()) == [["memory", "ok"]] * 2, results


@pytest.mark.parametrize("level", [0, 1])
def test_only_rows_of_the_batch_are_taken(tmp_path, monkeypatch, level):
    tgp.coarsen(make_graph(3000, 9000, 2), "graclus", out=tmp_path / "store", carry="x=mean")
    taken = {}
    original = MappedRows.take

    def take(rows, index=None):
        values = original(rows, index)
        taken[rows.path] = taken.get(rows.path, 0) + len(values)
        return values

    monkeypatch.setattr(MappedRows, "take", take)
    store = LevelStore(PooledDataset(tmp_path / "store"), level)
    loader = store.neighbor_loader([3], torch.arange(20), batch_size=10)
    assert not taken
    batches = list(loader)
    nodes, edges = sum(b.num_nodes for b in batches), sum(b.num_edges for b in batches)
    assert nodes < 100 and set(taken.values()) <= {nodes, edges}
