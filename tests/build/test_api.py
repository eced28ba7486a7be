"""``tgp.coarsen`` and its progress bar."""

import multiprocessing
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import tgp
import tgp.engine.coarsening as engine
from tgp.build import CoarsenConfig, coarsen_dataset
from tgp.build.progress import ProgressBar, Step, open_progress
from tgp.data import PoolDataLoader, PooledDataset
from tgp.errors import (
    DatasetError,
    GraphError,
    InputError,
    ScheduleError,
    StoreMismatchError,
    UnknownNameError,
)

GRAPHS = "molecules:num_graphs=12"


def store_bytes(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_same_store_as_the_command(tmp_path):
    tgp.coarsen(GRAPHS, "graclus*2", tmp_path / "a", seed=3, progress=False)
    coarsen_dataset(CoarsenConfig(GRAPHS, out=tmp_path / "b", poolers=("graclus*2",), seed=3))
    assert store_bytes(tmp_path / "a") == store_bytes(tmp_path / "b")


def test_second_call_reads_the_store(tmp_path):
    first = tgp.coarsen(GRAPHS, "graclus*2", tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    stages = []
    again = tgp.coarsen(GRAPHS, "graclus*2", str(tmp_path), progress=lambda step: stages.append(step.stage))
    assert stages == ["opening the dataset"]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    assert len(first) == len(again) == 12
    with pytest.raises(StoreMismatchError, match="seed 0 in the store, 1 asked for"):
        tgp.coarsen(GRAPHS, "graclus*2", tmp_path, seed=1)
    with pytest.raises(StoreMismatchError):
        tgp.coarsen("molecules:num_graphs=13", "graclus*2", tmp_path)


def test_several_hierarchies_share_the_graphs(tmp_path):
    dataset = tgp.coarsen(GRAPHS, {"pairs": "graclus*2", "cut": "ndp"}, tmp_path)
    assert dataset.hierarchy == "pairs"
    other = dataset[2:6].with_hierarchy("cut")
    assert len(other) == 4
    wanted = PooledDataset(tmp_path, hierarchy="cut")[2]
    assert torch.equal(other[0].pooled_data[0].edge_index, wanted.pooled_data[0].edge_index)
    assert len(dataset.with_hierarchy("pairs", [2])[0].pooled_data) == 1
    with pytest.raises(UnknownNameError, match="pairs"):
        dataset.with_hierarchy("pair")


def test_a_new_hierarchy_of_an_old_store_is_the_one_that_is_read(tmp_path):
    tgp.coarsen(GRAPHS, "graclus*2", tmp_path)
    assert tgp.coarsen(GRAPHS, "ndp", tmp_path).hierarchy == "ndp"


def test_levels_given_as_hierarchies_get_a_hint(tmp_path):
    with pytest.raises(InputError, match="different names") as caught:
        tgp.coarsen(GRAPHS, ["graclus", "graclus"], tmp_path)
    assert "graclus,graclus" in caught.value.hint


def test_interrupted_run_continues(tmp_path):
    def interrupt(step):
        if step.done:
            raise KeyboardInterrupt

    settings = {"shard_size": 20_000, "poolers": "graclus*2"}
    with pytest.raises(KeyboardInterrupt):
        tgp.coarsen("molecules:num_graphs=60", out=tmp_path / "a", progress=interrupt, **settings)
    assert not (tmp_path / "a" / "manifest.json").exists()
    tgp.coarsen("molecules:num_graphs=60", out=tmp_path / "a", **settings)
    tgp.coarsen("molecules:num_graphs=60", out=tmp_path / "b", **settings)
    assert store_bytes(tmp_path / "a") == store_bytes(tmp_path / "b")


def test_settings_reach_the_run(tmp_path):
    dataset = tgp.coarsen(
        GRAPHS,
        "graclus*3",
        tmp_path,
        names="mine",
        only_levels=[1, 3],
        limit=5,
        exclude="y",
        add_degree=True,
        metrics=False,
        profile="small",
    )
    reader = dataset.reader
    assert (dataset.hierarchy, len(dataset), len(dataset[0].pooled_data)) == ("mine", 5, 2)
    assert "y" not in reader.fields
    assert not reader.hierarchy("mine").metrics
    assert reader.manifest.spec.profile == "small"
    assert (
        reader.fields["x"].tail[-1] == tgp.sources.open_source(GRAPHS).table.fields["x"].values.shape[1] + 1
    )


def test_wrong_arguments_are_explained(tmp_path):
    with pytest.raises(UnknownNameError, match="Did you mean 'graclus'"):
        tgp.coarsen(GRAPHS, "gracluss*2", tmp_path)
    with pytest.raises(ScheduleError):
        tgp.coarsen(GRAPHS, "graclus,,", tmp_path)
    with pytest.raises(InputError, match="progress must be"):
        tgp.coarsen(GRAPHS, "graclus", tmp_path, progress="yes")
    assert list(tmp_path.iterdir()) == []


def test_import_stays_light():
    code = "import sys, tgp; dir(tgp); assert not {'torch', 'numba', 'h5py', 'tqdm'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# -- progress ------------------------------------------------------------------------------------------------------


def test_silent_in_a_pipe(tmp_path, capfd):
    tgp.coarsen(GRAPHS, "graclus*2", tmp_path)
    assert capfd.readouterr() == ("", "")


def test_bar_on_request(tmp_path, capfd):
    tgp.coarsen(GRAPHS, "graclus*2", tmp_path, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "coarsening" in err
    assert "100%" in err


def test_bar_in_a_terminal_only(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(open_progress(None), ProgressBar)
    assert not isinstance(open_progress(False), ProgressBar)
    monkeypatch.setenv("TERM", "dumb")
    assert not isinstance(open_progress(None), ProgressBar)


def test_bar_in_a_notebook(monkeypatch):
    class Shell:
        config = {"IPKernelApp": {}}

    class IPython:
        shell = Shell()

        @classmethod
        def get_ipython(cls):
            return cls.shell

    monkeypatch.setitem(sys.modules, "IPython", IPython)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    assert isinstance(open_progress(None), ProgressBar)
    IPython.shell = None  # IPython is imported, but this is a plain interpreter
    assert not isinstance(open_progress(None), ProgressBar)


def test_bar_starts_no_thread(capfd):
    import threading

    before = threading.active_count()
    with ProgressBar() as bar:
        bar(Step("opening"))
        bar(Step("coarsening", 1, 4, share=0.25))
        assert threading.active_count() == before
    assert "25%" in capfd.readouterr().err


# -- in memory -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["fast", "small"])
def test_memory_holds_the_bytes_of_the_store(tmp_path, monkeypatch, profile):
    settings = {"poolers": ["graclus*2", "ndp,eigen:k=4"], "profile": profile, "shard_size": 20_000}
    monkeypatch.chdir(tmp_path)
    dataset = tgp.coarsen("molecules:num_graphs=40", **settings)
    assert list(tmp_path.iterdir()) == []
    tgp.coarsen("molecules:num_graphs=40", out="disk", **settings)
    assert dataset.reader.files.contents == store_bytes(tmp_path / "disk")
    assert dataset.reader.num_shards > 1


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_memory_reaches_loader_workers(method):
    dataset = tgp.coarsen(GRAPHS, "graclus*2")
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"{method} does not exist here")
    loader = PoolDataLoader(dataset, batch_size=5, num_workers=1, multiprocessing_context=method)
    for batch, wanted in zip(loader, PoolDataLoader(dataset, batch_size=5), strict=True):
        assert torch.equal(batch.x, wanted.x)
        for level, other in zip(batch.pooled_data, wanted.pooled_data, strict=True):
            assert torch.equal(level.edge_index, other.edge_index)


@pytest.mark.parametrize("setting", [{"workers": 2}, {"scheduler": "tcp://127.0.0.1:1"}])
def test_memory_refuses_other_processes(setting):
    with pytest.raises(InputError, match="needs files: expected a directory in out"):
        tgp.coarsen(GRAPHS, "graclus*2", **setting)
    assert len(tgp.coarsen(GRAPHS, "graclus", workers=1)) == 12


def test_graphs_that_fail_are_reported_or_skipped(tmp_path, monkeypatch):
    sizes = tgp.coarsen(GRAPHS, "nopool").sizes()[0]
    size = sizes.max()
    whole = engine.assign_level

    def assign(block, spec, draw):
        bad = np.flatnonzero(np.diff(block.node_ptr) == size)
        if draw.level == 0 and bad.size:
            raise GraphError("test failure", graph=int(bad[0]))
        return whole(block, spec, draw)

    monkeypatch.setattr(engine, "assign_level", assign)
    for out in (None, tmp_path):
        with pytest.raises(
            DatasetError, match=r"of 12 graphs could not be coarsened.*test failure"
        ) as caught:
            tgp.coarsen(GRAPHS, "graclus", out)
        assert "failed='skip'" in caught.value.hint
        with pytest.warns(UserWarning, match="could not be coarsened"):
            dataset = tgp.coarsen(GRAPHS, "graclus", out, failed="skip")
        assert len(dataset) == np.sum(sizes < size)


@pytest.mark.parametrize("pooler", ["graclus", "kmis", "hem:ratio=0.5", "lv"])
def test_huge_weights_cause_no_numpy_warnings(pooler, recwarn):
    edges = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    weight = torch.tensor([1e300, 1e300, 1e-300, 1e-300, 1.0, 1.0], dtype=torch.float64)
    tgp.coarsen([Data(edge_index=edges, edge_weight=weight, num_nodes=4)], pooler)
    assert not [one for one in recwarn if issubclass(one.category, RuntimeWarning)]
