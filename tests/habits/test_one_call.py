"""``tgp.coarsen`` as a user writes it."""

import os
import re
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, HeteroData, InMemoryDataset
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, global_mean_pool

import tgp
from tests.cli.screens import run_in_terminal, screen
from tgp.build import CoarsenConfig, coarsen_dataset
from tgp.data import PoolDataLoader, PooledDataset, precoarsen
from tgp.reduce import BaseReduce


def ring(n=12):
    edges = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
    both = torch.cat([edges, edges.flip(0)], dim=1)
    return Data(x=torch.randn(n, 3), edge_index=both, y=torch.tensor([n % 2]))


GRAPHS = [ring(n) for n in (8, 11, 12, 15, 20)]


class Mine(InMemoryDataset):
    def __init__(self):
        super().__init__()
        self.data, self.slices = self.collate(GRAPHS)


def test_list_of_graphs(tmp_path):
    dataset = tgp.coarsen(GRAPHS, "graclus*3", out=tmp_path / "mine")
    assert isinstance(dataset, PooledDataset)
    assert len(dataset) == 5
    assert torch.equal(dataset[1].x, GRAPHS[1].x)
    assert len(dataset[1].pooled_data) == 3


def test_directory_as_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tgp.coarsen(GRAPHS, "graclus*3", out="pooled/mine")
    assert len(PooledDataset("pooled/mine")) == 5


def test_one_graph():
    assert len(tgp.coarsen(ring(30), "kmis*2")) == 1


def test_pyg_dataset():
    dataset = tgp.coarsen(Mine(), "ndp,ndp")
    assert torch.equal(dataset.y, torch.cat([g.y for g in GRAPHS]))


def test_part_of_a_pyg_dataset():
    dataset = tgp.coarsen(Mine()[[3, 1]], "graclus")
    assert [data.num_nodes for data in dataset] == [15, 11]


def test_generator():
    assert len(tgp.coarsen((ring(n) for n in range(5, 9)), "graclus*2")) == 4


def test_batches_of_a_loader():
    dataset = tgp.coarsen(DataLoader(GRAPHS, batch_size=2), "graclus")
    assert [data.num_nodes for data in dataset] == [8, 11, 12, 15, 20]


def test_settings_of_a_run(tmp_path):
    config = CoarsenConfig(dataset=GRAPHS, out=str(tmp_path / "store"), poolers="graclus*2")
    assert coarsen_dataset(config).num_graphs == 5


def test_coarsen_a_pooled_dataset_in_another_way():
    first = tgp.coarsen(GRAPHS, "graclus*2")
    with pytest.warns(UserWarning, match="pooled_data"):
        second = tgp.coarsen(first[:3], "ndp")
    assert len(second) == 3
    assert len(second[0].pooled_data) == 1


def test_networkx():
    dataset = tgp.coarsen([nx.cycle_graph(n) for n in (10, 12)], "graclus*2")
    assert [data.num_nodes for data in dataset] == [10, 12]
    assert tgp.coarsen(nx.karate_club_graph(), "graclus*2", exclude="club")[0].num_nodes == 34
    assert tgp.coarsen(nx.cycle_graph(10), "graclus")[0].num_edges == 20


def test_scipy():
    matrix = sp.random(20, 20, 0.2, format="csr", random_state=0)
    dataset = tgp.coarsen(matrix + matrix.T, "graclus*2")
    assert dataset[0].num_nodes == 20


def test_name_and_path(tmp_path):
    assert len(tgp.coarsen("molecules:num_graphs=7", "graclus*2")) == 7
    np.savetxt(
        tmp_path / "mine.csv",
        np.array([[0, 1], [1, 2], [2, 0]]),
        "%d",
        delimiter=",",
        header="source,target",
        comments="",
    )
    assert tgp.coarsen(tmp_path / "mine.csv", "graclus")[0].num_nodes == 3
    assert tgp.coarsen(str(tmp_path / "mine.csv"), "graclus")[0].num_nodes == 3


def test_several_hierarchies():
    dataset = tgp.coarsen(GRAPHS, ["graclus*3", "ndp,eigen:k=4"])
    assert dataset.hierarchy == "graclus-x3"
    assert len(dataset.with_hierarchy("ndp-eigen+k=4")[0].pooled_data) == 2


def test_named_hierarchies(tmp_path):
    tgp.coarsen(GRAPHS, {"pairs": "graclus*3", "cuts": "ndp"}, out=tmp_path)
    assert len(PooledDataset(tmp_path, hierarchy="cuts")[0].pooled_data) == 1


def test_run_it_twice(tmp_path):
    tgp.coarsen(GRAPHS, "graclus*2", out=tmp_path)
    before = (tmp_path / "manifest.json").stat().st_mtime_ns
    tgp.coarsen(GRAPHS, "graclus*2", out=tmp_path)
    assert (tmp_path / "manifest.json").stat().st_mtime_ns == before
    with pytest.raises(tgp.errors.StoreMismatchError):
        tgp.coarsen(GRAPHS[:3], "graclus*2", out=tmp_path)
    assert len(tgp.coarsen(GRAPHS[:3], "graclus*2", out=tmp_path, force=True)) == 3


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.out = GCNConv(3, 8), GCNConv(8, 8), torch.nn.Linear(8, 2)
        self.reduce = BaseReduce()

    def forward(self, batch):
        x = self.first(batch.x, batch.edge_index).relu()
        level = batch.pooled_data[0]
        x, _ = self.reduce(x=x, so=level.so)
        x = self.second(x, level.edge_index, level.edge_weight).relu()
        return self.out(global_mean_pool(x, level.batch))


def test_train_without_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dataset = tgp.coarsen(GRAPHS, "graclus*2")
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    for batch in PoolDataLoader(dataset, batch_size=2, shuffle=True):
        loss = torch.nn.functional.cross_entropy(model(batch), batch.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert torch.isfinite(loss)
    assert os.listdir(tmp_path) == []


def test_same_levels_as_precoarsen():
    for graph, other in zip(
        precoarsen(GRAPHS, "ndp,graclus*2"), tgp.coarsen(GRAPHS, "ndp,graclus*2"), strict=True
    ):
        for level, wanted in zip(graph.pooled_data, other.pooled_data, strict=True):
            assert torch.equal(level.edge_index, wanted.edge_index)
            assert torch.equal(level.so.cluster_index, wanted.so.cluster_index)


def test_worker_processes(tmp_path):
    tgp.coarsen(GRAPHS, "graclus*2", tmp_path / "two", workers=2)
    with ThreadPoolExecutor(2) as executor:
        tgp.coarsen(GRAPHS, "graclus*2", tmp_path / "threads", executor=executor)
    tgp.coarsen(GRAPHS, "graclus*2", tmp_path / "one")
    for path in (tmp_path / "one").glob("*.*"):
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
        assert path.read_bytes() == (tmp_path / "threads" / path.name).read_bytes()


@pytest.mark.parametrize("out", [None, "store"])
def test_warning_about_a_level_that_hardly_shrinks(tmp_path, out):
    with pytest.warns(UserWarning, match="hardly shrinks") as caught:
        tgp.coarsen(GRAPHS, "eigen:k=8*2", out and tmp_path / out)
    assert caught[0].filename == __file__


def test_progress_function():
    steps = []
    tgp.coarsen(GRAPHS, "graclus*2", progress=steps.append)
    assert steps[0].stage == "opening the dataset"
    assert steps[-1].done == steps[-1].total > 0


SCRIPT = """
import tgp
print(len(tgp.coarsen("molecules:num_graphs=40", "graclus*2", {out!r})))
"""


def test_silent_in_a_pipe(tmp_path):
    script = SCRIPT.format(out=str(tmp_path / "store"))
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("40\n", "")


@pytest.mark.linux
def test_bar_in_a_terminal(tmp_path):
    script = SCRIPT.format(out=str(tmp_path / "store"))
    shown = run_in_terminal([sys.executable, "-c", script], 60)
    assert "coarsening 40 of 40 graphs" in shown
    assert "100%" in shown
    assert max(map(len, re.split(r"[\r\n]", shown))) <= 60
    assert [line.strip() for line in screen(shown, 60) if line.strip()] == ["40"], (
        "the bar is removed at the end"
    )


@pytest.mark.linux
def test_interrupt_leaves_a_store_that_continues(tmp_path):
    script = textwrap.dedent(
        """
        import os, signal, sys, tgp
        def stop(step):
            if step.done:
                os.kill(os.getpid(), signal.SIGINT)
        tgp.coarsen("molecules:num_graphs=400", "graclus*2", sys.argv[1], progress=stop, shard_size="100kB")
        """
    )
    run = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True)
    assert "KeyboardInterrupt" in run.stderr
    assert not (tmp_path / "manifest.json").exists()
    written = len(list(tmp_path.glob("*.h5")))
    steps = []
    dataset = tgp.coarsen(
        "molecules:num_graphs=400", "graclus*2", tmp_path, shard_size="100kB", progress=steps.append
    )
    assert len(dataset) == 400
    assert 0 < written < len(list(tmp_path.glob("*.h5")))


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        ([], "no graphs"),
        (3, "got int"),
        ([ring(), "text"], "got str at position 1"),
        (np.eye(3), "got ndarray"),
        ("MUTAGG", "Did you mean 'MUTAG'"),
        ("no/such/file.npz", "no file or folder"),
    ],
)
def test_wrong_graphs(graphs, message):
    with pytest.raises(tgp.errors.DatasetError, match=message):
        tgp.coarsen(graphs, "graclus*2")


def test_hetero_data():
    data = HeteroData()
    data["a"].x = torch.ones(3, 1)
    data["a", "to", "a"].edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    found = tgp.coarsen(data, "graclus")[0]
    assert isinstance(found, HeteroData)
    assert torch.equal(found["a", "to", "a"].edge_index, data["a", "to", "a"].edge_index)
    assert found.pooled_data[0]["a"].num_nodes == 2


def test_wrong_pooler():
    with pytest.raises(tgp.errors.UnknownNameError, match="Did you mean 'graclus'"):
        tgp.coarsen(GRAPHS, "gracluss*3")
    with pytest.raises(tgp.errors.UnknownNameError, match="Did you mean 'order_k'"):
        tgp.coarsen(GRAPHS, "kmis:orderk=2")
    with pytest.raises(tgp.errors.ScheduleError):
        tgp.coarsen(GRAPHS, "graclus * many")
