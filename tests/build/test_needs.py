"""Attributes that methods need in a run: checked before anything is written, read by workers, part of the fingerprint."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import tgp
from tgp.data import PooledBatch, PreCoarsening, precoarsen
from tgp.errors import InputError, StoreMismatchError, TgpError
from tgp.inspect.recompute import verify_by_recompute

SCHEDULE = "simmatch,graclus,simmatch:ratio=0.5"


def make_graphs(count=24, seed=0):
    """Return small graphs with features and positions."""
    generator = torch.Generator().manual_seed(seed)
    graphs = []
    for number in range(count):
        n = 6 + number % 7
        ring = torch.arange(n)
        edges = torch.stack([ring, (ring + 1) % n])
        x = torch.randn(n, 5, generator=generator)
        graphs.append(Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], 1)))
    return graphs


def shard_bytes(path):
    return {file.name: file.read_bytes() for file in sorted(path.glob("*.h5"))}


def test_store_equals_the_transform_and_any_number_of_workers(tmp_path):
    graphs = make_graphs()
    one = tgp.coarsen(graphs, SCHEDULE, out=tmp_path / "one", workers=1, shard_size=2000, seed=3)
    two = tgp.coarsen(graphs, SCHEDULE, out=tmp_path / "two", workers=2, shard_size=2000, seed=3)
    assert len(shard_bytes(tmp_path / "one")) > 2
    assert shard_bytes(tmp_path / "one") == shard_bytes(tmp_path / "two")
    in_memory = tgp.coarsen(graphs, SCHEDULE, seed=3)
    expected = precoarsen(graphs, SCHEDULE, 3)
    transform = PreCoarsening(SCHEDULE, seed=3)
    for found in (list(one), list(two), list(in_memory), [transform(graph) for graph in graphs]):
        for mine, theirs in zip(found, expected, strict=True):
            for a, b in zip(mine.pooled_data, theirs.pooled_data, strict=True):
                assert torch.equal(a.edge_index, b.edge_index)
                assert torch.equal(a.so.s.to_dense(), b.so.s.to_dense())
    assert isinstance(PooledBatch.from_data_list(list(one)[:3]), PooledBatch)
    assert verify_by_recompute(tmp_path / "one") == []


def test_other_features_are_another_store(tmp_path):
    graphs = make_graphs()
    tgp.coarsen(graphs, "simmatch", out=tmp_path / "store")
    graphs[3].x[0, 0] += 1
    with pytest.raises(StoreMismatchError, match="x"):
        tgp.coarsen(graphs, "simmatch", out=tmp_path / "store")


def test_recomputing_reads_the_features(tmp_path):
    """A store whose features were changed has other levels than those that its method computes."""
    graphs = make_graphs()
    store = tgp.coarsen(graphs, "simmatch", out=tmp_path / "store")
    levels = [graph.pooled_data[0].so.cluster_index.tolist() for graph in store]
    others = tgp.coarsen(make_graphs(seed=1), "simmatch")
    assert levels != [graph.pooled_data[0].so.cluster_index.tolist() for graph in others]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda x: x.clone().index_fill_(0, torch.tensor([2]), torch.nan),
            "not finite: .*got nan at node 2 of graph 5",
        ),
        (lambda x: x.to(torch.complex64), "wrong type: expected real numbers, got complex64"),
        (lambda x: x[:, :, None].expand(-1, -1, 2).clone(), r"wrong shape: expected \[.*got \[.*, 5, 2\]"),
        (lambda x: x[:-1], "wrong|nodes"),
    ],
    ids=["nan", "complex", "three axes", "rows"],
)
def test_wrong_features_are_found_before_anything_is_written(tmp_path, change, message):
    graphs = make_graphs()
    for number, graph in enumerate(graphs):
        graph.num_nodes = graph.x.size(0)
        if number == 5 or "axes" in message or "complex" in message or "5, 2" in message:
            graph.x = change(graph.x)
    with pytest.raises(TgpError, match=message):
        tgp.coarsen(graphs, "graclus,simmatch", out=tmp_path / "store")
    assert not (tmp_path / "store").exists()
    with pytest.raises(TgpError, match=message):
        precoarsen(graphs, "graclus,simmatch")


def test_missing_features_are_found_before_anything_is_written(tmp_path):
    graphs = [Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes) for graph in make_graphs()]
    with pytest.raises(
        InputError, match=r"simmatch needs the node attribute 'x'.*got graphs with edge_index"
    ):
        tgp.coarsen(graphs, ["graclus", "graclus,simmatch"], out=tmp_path / "store")
    assert not (tmp_path / "store").exists()
    with pytest.raises(InputError, match="simmatch needs the node attribute 'x'"):
        precoarsen(graphs, "simmatch*")
    with pytest.raises(InputError, match="simmatch needs the node attribute 'x'"):
        PreCoarsening("simmatch")(graphs[0])


def test_open_ended_schedules_count_levels_with_features(tmp_path):
    graphs = make_graphs()
    store = tgp.coarsen(graphs, "simmatch:until=2*", out=tmp_path / "store")
    assert max(level.num_nodes for graph in store for level in graph.pooled_data[-1:]) <= 2
    assert len(precoarsen(graphs, "simmatch:until=2*")[0].pooled_data) == len(store[0].pooled_data)


def test_integers_are_features(tmp_path):
    graphs = make_graphs(4)
    for graph in graphs:
        graph.x = (graph.x > 0).long()
    found = tgp.coarsen(graphs, "simmatch:ratio=0.4")
    assert [graph.pooled_data[0].num_nodes for graph in found] == [
        int(np.ceil(0.4 * g.num_nodes)) for g in graphs
    ]
