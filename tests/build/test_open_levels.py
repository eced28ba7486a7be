"""Stores of open-ended schedules (``graclus*`` with ``until``)."""

import pytest
import torch
from torch_geometric.data import Data
from typer.testing import CliRunner

import tgp
from tgp.build import CoarsenConfig, prepare
from tgp.build.run import coarsen_dataset, plan_run
from tgp.data import PooledDataset, PreCoarsening, precoarsen
from tgp.errors import InputError
from tgp_cli.main import build_app


def _ring(size):
    ids = torch.arange(size)
    edges = torch.stack([ids, (ids + 1) % size])
    return Data(edge_index=torch.cat([edges, edges.flip(0)], dim=1), num_nodes=size)


GRAPHS = [_ring(size) for size in (64, 5, 17, 3, 9)]


def _bytes(folder):
    return {
        file.name: file.read_bytes() for file in sorted(folder.iterdir()) if file.suffix in (".h5", ".json")
    }


def test_bytes_do_not_depend_on_chunks_and_workers(tmp_path, monkeypatch):
    config = {"poolers": "ndp,graclus*", "until": 3}
    coarsen_dataset(CoarsenConfig(GRAPHS, out=tmp_path / "one", **config))
    monkeypatch.setattr(prepare, "COUNTED_AT_ONCE", 1)
    coarsen_dataset(CoarsenConfig(GRAPHS, out=tmp_path / "two", workers=2, **config))
    assert _bytes(tmp_path / "one") == _bytes(tmp_path / "two")
    dataset = tgp.coarsen(GRAPHS, "ndp,graclus*", until=3)
    depth = len(dataset[0].pooled_data)
    assert depth > 2 and all(len(data.pooled_data) == depth for data in dataset)
    assert all(data.pooled_data[-1].num_nodes <= 3 for data in dataset)
    attached = precoarsen(GRAPHS, "ndp,graclus:until=3*")
    for data, expected in zip(attached, dataset, strict=True):
        sizes = [level.num_nodes for level in expected.pooled_data]
        assert [level.num_nodes for level in data.pooled_data] == sizes
        for level, other in zip(data.pooled_data, expected.pooled_data, strict=True):
            assert torch.equal(level.edge_index, other.edge_index)


def test_a_stored_number_of_levels_is_used_again(tmp_path, monkeypatch):
    config = CoarsenConfig(GRAPHS, out=tmp_path, poolers="graclus*", until=2)
    first = coarsen_dataset(config)
    monkeypatch.setattr(prepare, "_count_levels", None)
    assert coarsen_dataset(config).status == "up to date"
    plan = plan_run(config)
    assert plan.up_to_date and plan.hierarchies[0]["levels"] == len(first.hierarchies[0].levels)
    assert plan.hierarchies[0]["name"] == "graclus+until=2-xn"
    assert not first.findings  # finished graphs do not count as stalled


def test_levels_to_store_are_checked_after_counting(tmp_path):
    config = {"out": tmp_path, "poolers": "graclus*"}
    with pytest.raises(InputError, match="levels to keep"):
        coarsen_dataset(CoarsenConfig(GRAPHS, only_levels=(40,), **config))
    summary = coarsen_dataset(CoarsenConfig(GRAPHS, only_levels=(2,), **config))
    assert len(summary.hierarchies[0].levels) == 1


def test_until_needs_an_open_schedule():
    with pytest.raises(InputError, match="until has no effect"):
        tgp.coarsen(GRAPHS, "graclus*2", until=3)
    with pytest.raises(InputError, match="at least 1"):
        tgp.coarsen(GRAPHS, "graclus*", until=0)


def test_transforms():
    with pytest.raises(InputError, match="no fixed number of levels"):
        PreCoarsening("graclus*")
    transform = PreCoarsening("graclus:until=4*3")
    assert [level.num_nodes for level in transform(_ring(3)).pooled_data] == [3, 3, 3]
    batched = _ring(3)
    batched.batch = torch.zeros(3, dtype=torch.long)
    with pytest.raises(InputError, match="size limit"):
        transform(batched)


def test_command(tmp_path):
    out = str(tmp_path / "store")
    words = ["coarsen", "--limit", "20", "-p", "graclus*", "--until", "4", "-o", out, "--json"]
    result = CliRunner().invoke(build_app(words), words)
    assert result.exit_code == 0 and "graclus+until=4-xn" in result.stdout
    assert max(data.pooled_data[-1].num_nodes for data in PooledDataset(out)) <= 4
