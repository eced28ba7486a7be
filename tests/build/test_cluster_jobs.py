"""Jobs of workers: plain data, checks of the worker, and graphs that are read from the store."""

import dataclasses
import json
import os
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tgp.build import (
    CoarsenConfig,
    cluster,
    coarsen_dataset,
    prepare,
    units,
    worker_functions,
)
from tgp.build import run as run_module
from tgp.build.cluster import ClusterError, LostFilesError
from tgp.build.jobs import job_header, make_job, run_job, spec_text, warm_up
from tgp.build.mismatch import foreign_parts
from tgp.build.units import read_unit_graphs, run_unit, topology
from tgp.engine.methods import METHODS
from tgp.engine.revision import ENGINE_REVISION
from tgp.engine.schedule import Schedule, parse_schedule
from tgp.errors import InputError, StoreDamagedError, StoreMismatchError, TgpError, UnknownNameError
from tgp.ragged import Field, GraphTable
from tgp.registry import Entry
from tgp.sources import open_source
from tgp.store import HierarchySpec, StoreSpec, StoreWriter, data_digest
from tgp_cli.main import run as tgp

DATASET = "molecules:num_graphs=40"


def config(out, **values):
    return CoarsenConfig(**{"dataset": DATASET, "shard_size": 15_000, "out": out, **values})


def shards(folder):
    return {p.name: p.read_bytes() for p in sorted(Path(folder).glob("*.h5"))}


class RemoteThreads(Executor):
    """Executor that pickles its calls, as one of other machines does. ``after`` is called after each call."""

    def __init__(self, after=lambda: None):
        self.sizes = []
        self.after = after

    def submit(self, fn, /, *args, **kwargs):
        data = pickle.dumps((args, kwargs))
        self.sizes.append(len(data))
        args, kwargs = pickle.loads(data)
        future = Future()
        try:
            future.set_result(pickle.loads(pickle.dumps(fn(*args, **kwargs))))
        except Exception as error:  # noqa: BLE001 - given to the caller
            future.set_exception(pickle.loads(pickle.dumps(error)))
        self.after()
        return future


# Bytes ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store") / "s"
    assert coarsen_dataset(config(folder)).num_units > 2
    return folder


@pytest.mark.parametrize("profile", ["fast", "small"])
def test_graphs_do_not_travel_and_the_bytes_are_the_same(tmp_path, profile):
    """C10: Dask warned about large graphs, because the edges were part of each job."""
    values = {"dataset": "grid:num_graphs=4:num_nodes=4000", "profile": profile, "shard_size": 20_000}
    coarsen_dataset(config(tmp_path / "one", **values))
    executor = RemoteThreads()
    coarsen_dataset(config(tmp_path / "two", **values), executor=executor)
    assert shards(tmp_path / "one") == shards(tmp_path / "two") != {}
    assert len(executor.sizes) > 3 and max(executor.sizes) < 5_000


def test_remote_jobs_continue_a_store(built, tmp_path):
    """The graphs of some units were written by an earlier run or by another job of an array."""
    folder = shutil.copytree(built, tmp_path / "s")
    for path in [*folder.glob("shard-*1.graclus*.h5"), folder / "manifest.json"]:
        path.unlink()
    assert coarsen_dataset(config(folder), executor=RemoteThreads()).status == "complete"
    assert shards(folder) == shards(built)
    for job in (1, 0):
        coarsen_dataset(config(tmp_path / "array", shard=(job, 2)), executor=RemoteThreads())
    assert shards(tmp_path / "array") == shards(built)


WEIGHTS = {
    "none": None,
    "float32": np.float32,
    "float64": np.float64,
    "int64": np.int64,
    "float16": np.float16,
    "uint8": np.uint8,
}


def weighted_table(dtype):
    table = open_source(DATASET).table
    edges = table.fields["edge_index"]
    fields = dict(table.fields)
    if dtype is not None:
        values = (np.arange(edges.values.shape[1]) % 90 + 1).astype(dtype)
        fields["edge_weight"] = Field("edge_weight", values, edges.ptr)
    return GraphTable(table.node_ptr, fields)


@pytest.fixture
def writer(tmp_path):
    """Return a function that writes the graphs of two units and returns the writer and the digests."""

    def write(table, profile="fast"):
        spec = StoreSpec(
            {},
            data_digest(table),
            table.num_graphs,
            (0, 15, table.num_graphs),
            profile,
            (HierarchySpec("a", parse_schedule("graclus").to_json(), engine=1, metrics=True),),
        )
        made = StoreWriter.open(tmp_path / "s", spec)
        bounds = spec.bounds
        parts = [table.take(np.arange(bounds[i], bounds[i + 1])) for i in range(2)]
        return made, [made.write_graphs(unit, part).shard.sha256 for unit, part in enumerate(parts)]

    return write


@pytest.mark.parametrize("profile", ["fast", "small"])
@pytest.mark.parametrize("dtype", WEIGHTS)
def test_graphs_of_the_store_are_those_of_the_source(writer, dtype, profile):
    table = weighted_table(WEIGHTS[dtype])
    made, digests = writer(table, profile)
    for unit, (low, high) in enumerate([(0, 15), (15, 40)]):
        expected = topology(table, low, high)
        found = read_unit_graphs(made, unit, digests[unit])
        assert np.array_equal(found.node_ptr, expected.node_ptr)
        assert found.fields.keys() == expected.fields.keys()
        for name, field in expected.fields.items():
            got = found.fields[name]
            dtype = np.int32 if name == "edge_index" else field.values.dtype
            assert got.values.dtype == dtype and np.array_equal(got.values, field.values)
            assert np.array_equal(got.ptr, field.ptr)
            assert (got.axis, got.form, got.shifted) == (field.axis, field.form, field.shifted)


def test_a_changed_file_with_graphs_is_refused(writer, monkeypatch):
    """A hierarchy of damaged graphs would stay in the store after the graphs are repaired."""
    made, digests = writer(weighted_table(None))
    path = Path(made.files.path) / "shard-00001.graphs.h5"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreDamagedError, match="checksum"):
        read_unit_graphs(made, 1, digests[1])
    monkeypatch.setattr(units, "VISIBLE_TIMEOUT", 0.0)
    with pytest.raises(ClusterError, match=f"process {os.getpid()}.*another content"):
        read_unit_graphs(made, 0, digests[1])
    (Path(made.files.path) / "records" / "shard-00000.graphs.json").unlink()
    with pytest.raises(ClusterError, match="does not see the graphs of unit 0"):
        read_unit_graphs(made, 0, digests[0])


# Checks of a worker ---------------------------------------------------------------------------------


@pytest.fixture
def job(writer):
    made, digests = writer(weighted_table(None))
    header = job_header([parse_schedule("graclus")], remote=True)
    return make_job(header, made, spec_text(made.spec), 0, "a", digests[0])


def test_a_job_consists_of_plain_values(job):
    assert json.loads(json.dumps(job)) == job
    report = run_job(job)
    assert json.loads(json.dumps(report)) == report and report["num_graphs"] == 15


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"engine": 7}, f"with engine revision {ENGINE_REVISION} .*expected tgp 99.1 with engine revision 7"),
        ({"protocol": 99}, "job protocol 99"),
        ({"hdf5": "1.8.0"}, "expected HDF5 1.8.0, as the client"),
        ({"fingerprint": "0" * 64}, "in another way than the client"),
    ],
)
def test_a_worker_refuses_a_job_and_names_itself(job, tmp_path, change, text):
    """C1: a worker with another engine wrote other bytes without a word."""
    with pytest.raises(ClusterError, match=text) as caught:
        run_job({**job, "version": "99.1", **change})
    assert f"process {os.getpid()})" in str(caught.value)
    assert "same version" in caught.value.hint
    assert list((tmp_path / "s").glob("*.a.h5")) == []


def test_warm_up_is_refused_like_a_job(job):
    with pytest.raises(ClusterError, match="engine revision"):
        warm_up({**job, "engine": 7})


@pytest.mark.parametrize("kind", [ClusterError, LostFilesError])
def test_errors_of_a_worker_can_be_pickled(kind):
    copy = pickle.loads(pickle.dumps(kind("text", hint="advice")))
    assert type(copy) is kind and str(copy) == "text" and copy.hint == "advice"
    assert copy.exit_status == {ClusterError: 5, LostFilesError: 3}[kind]


class UnpicklableError(Exception):
    def __init__(self, a, b):
        super().__init__(f"{a} and {b}")


@pytest.mark.parametrize("error", [UnknownNameError("pooler", "x", ["y"]), UnpicklableError(1, 2)])
def test_errors_that_cannot_be_pickled_keep_their_text(job, monkeypatch, error):
    """The pool of processes broke, because it could not unpickle the error."""

    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(units, "coarsen_with_failures", fail)
    with pytest.raises(Exception, match=str(error)[:12]) as caught:
        RemoteThreads().submit(run_job, job).result()
    assert isinstance(caught.value, TgpError) == isinstance(error, TgpError)
    with pytest.raises(type(error)):
        run_job({**job, "remote": False})


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (Entry("mine", "no_such_module:METHOD", ""), "no_such_module:METHOD.*No module named"),
        (Entry("mine", "tgp.engine.methods:missing", "", package="other", version="1"), "package other 1"),
    ],
)
def test_a_worker_without_a_plugin_names_it(job, monkeypatch, entry, text):
    monkeypatch.setattr(METHODS, "entries", dict(METHODS.entries))
    level = {"method": "mine", "params": {}}
    with pytest.raises(ClusterError, match=text) as caught:
        run_job({**job, "schedules": [[level]], "methods": [dataclasses.asdict(entry)]})
    assert f"process {os.getpid()})" in str(caught.value) and "install" in caught.value.hint


def test_a_method_of_the_script_cannot_run_on_other_machines(monkeypatch, tmp_path):
    monkeypatch.setitem(METHODS.entries, "mine", Entry("mine", "__main__:METHOD", "Nothing"))
    monkeypatch.setitem(METHODS._loaded, "mine", METHODS["nopool"])
    with pytest.raises(InputError, match=r"'mine'.*defined in the running script"):
        coarsen_dataset(config(tmp_path / "s", poolers=("mine",)), executor=RemoteThreads())
    assert coarsen_dataset(config(tmp_path / "s", poolers=("mine",))).status == "complete"
    with ThreadPoolExecutor(1) as executor:
        values = {"poolers": ("mine",), "force": True}
        assert coarsen_dataset(config(tmp_path / "s", **values), executor=executor).status == "complete"


# A worker without tgp -------------------------------------------------------------------------------


def run_without_tgp(tmp_path, function, *arguments):
    """Run a function of ``tgp.build.worker_functions`` from its source text in a Python without any package."""
    expression, values = cluster.DaskCluster(object()).script(function, arguments)
    (tmp_path / "call.json").write_text(json.dumps([expression, values]))
    code = (
        "import json, sys; e, v = json.load(open(sys.argv[1]));"
        "v['arguments'] = tuple(v['arguments']); print(json.dumps(eval(e, v)))"
    )
    words = [sys.executable, "-I", "-S", "-c", code, str(tmp_path / "call.json")]
    found = subprocess.run(words, capture_output=True, text=True, check=True, timeout=600)
    return json.loads(found.stdout)


def test_a_worker_without_tgp_names_itself(tmp_path):
    """C2: the job could not be unpickled there, and the client waited for ever."""
    refused = run_without_tgp(tmp_path, "call", "tgp.build.jobs", "run_job", [{}])["refused"]
    assert refused["version"] is None and "No module named 'tgp'" in refused["problem"]
    error = cluster.refusal(refused)
    assert f"process {refused['pid']})" in str(error) and "cannot import tgp" in str(error)


def test_a_worker_without_tgp_answers_the_probe(tmp_path):
    (tmp_path / "probe").write_text("abc")
    found = run_without_tgp(tmp_path, "probe", str(tmp_path), "probe", "abc")
    assert found["unseen"] is None and (tmp_path / found["answer"]).read_text() == "abc"
    assert cluster.mismatch(found).startswith("cannot import tgp")
    gone = run_without_tgp(tmp_path, "probe", str(tmp_path / "gone"), "probe", "abc")
    assert gone["answer"] is None and "No such file" in gone["unseen"]


def test_mismatch_names_versions():
    good = worker_functions.describe_worker()
    assert cluster.mismatch(good) is None and good["pid"] == os.getpid()
    assert "engine revision 8" in cluster.mismatch({**good, "engine": 8})
    assert "tgp 1.0.2 without a revision" in cluster.mismatch({**good, "version": "1.0.2", "engine": None})


# Reported, but absent -------------------------------------------------------------------------------


@pytest.mark.parametrize("executor", [RemoteThreads, None])
def test_a_file_that_is_reported_and_absent_is_an_error(tmp_path, monkeypatch, executor, capsys):
    """C3: the run ended with status 0 and asked the user to run ``tgp merge``."""

    def lose():
        for path in (tmp_path / "s").glob("shard-00001.graclus*.h5"):
            path.unlink()

    monkeypatch.setattr(run_module, "VISIBLE_TIMEOUT", 0.0)
    if executor is not None:
        with pytest.raises(LostFilesError, match=r"1 of .* files .*graclus-x2 of unit 1"):
            coarsen_dataset(config(tmp_path / "s"), executor=executor(lose))
    else:
        monkeypatch.setattr(run_module, "run_unit", lambda work: (run_unit(work), lose())[0])
        words = ["coarsen", "--dataset", DATASET, "--shard-size", "15kB", "--out", str(tmp_path / "s")]
        assert tgp(words) == 3
        assert "reported as written" in capsys.readouterr().err
    monkeypatch.undo()
    assert coarsen_dataset(config(tmp_path / "s")).units_done == 1


def test_a_file_that_a_network_file_system_shows_late_is_not_lost(tmp_path, monkeypatch):
    hidden, shown = tmp_path / "hidden", []

    def hide():
        for path in (tmp_path / "s").glob("shard-00001.graclus*.h5"):
            path.rename(hidden)
            shown.append(path)

    monkeypatch.setattr(run_module.time, "sleep", lambda seconds: hidden.rename(shown[0]))
    steps = []
    executor = RemoteThreads(hide)
    assert (
        coarsen_dataset(config(tmp_path / "s"), executor=executor, progress=steps.append).status == "complete"
    )
    assert any(step.stage == "waiting for files of workers" and step.waited is not None for step in steps)


# Array jobs -----------------------------------------------------------------------------------------


def test_array_jobs_of_different_revisions_do_not_merge(tmp_path, monkeypatch):
    """C1: an array job with another version of the engine wrote other bytes into the same store."""
    coarsen_dataset(config(tmp_path, shard=(0, 2)))
    monkeypatch.setattr(Schedule, "revision", 2)
    with pytest.raises(StoreMismatchError) as caught:
        coarsen_dataset(config(tmp_path, shard=(1, 2)))
    assert any(
        "engine revision 1 in the store" in d.text and "revision 2" in d.text and d.what == "engine"
        for d in caught.value.differences
    )
    assert "All jobs of an array" in caught.value.hint


def test_array_jobs_with_and_without_metrics_do_not_merge(tmp_path):
    """C7: one job with ``--no-metrics`` made a store without figures that was called sound."""
    coarsen_dataset(config(tmp_path, shard=(0, 2)))
    with pytest.raises(StoreMismatchError, match="quality figures"):
        coarsen_dataset(config(tmp_path, shard=(1, 2), metrics=False))
    assert coarsen_dataset(config(tmp_path, shard=(1, 2))).status == "complete"
    with pytest.raises(StoreMismatchError, match="quality figures"):
        coarsen_dataset(config(tmp_path, metrics=False))


def old_hierarchy(*arguments, engine=None, metrics=None, **values):
    """Return a specification as tgp wrote it before there was a revision of the engine."""
    return HierarchySpec(*arguments, **values)


def write_mixed_store(folder, monkeypatch):
    """Write a store ``new`` in which one of two jobs was run by a version without a revision of the engine."""
    coarsen_dataset(config(folder / "new", shard=(0, 2)))
    monkeypatch.setattr(prepare, "HierarchySpec", old_hierarchy)
    coarsen_dataset(config(folder / "old", shard=(1, 2)))
    monkeypatch.undo()
    for path in (folder / "old").rglob("shard-*"):
        shutil.copy(path, folder / "new" / path.relative_to(folder / "old"))
    return folder / "new"


def test_files_of_another_engine_are_named(tmp_path, monkeypatch):
    """A job of a version that knows no revision writes records with another fingerprint into the same store."""
    write_mixed_store(tmp_path, monkeypatch)
    with pytest.raises(StoreMismatchError, match="another engine revision") as caught:
        coarsen_dataset(config(tmp_path / "new", shard=(0, 2)))
    (found,) = caught.value.differences
    assert found.text.startswith("graclus-x2: unit") and 1 in found.stored and found.hierarchy == "graclus-x2"
    writer = StoreWriter(tmp_path / "new", prepare.prepare_run(config(tmp_path / "new")).spec)
    assert all(unit % 2 for unit in foreign_parts(writer)["graclus-x2"])
    assert coarsen_dataset(config(tmp_path / "new")).status == "complete"
    assert foreign_parts(writer) == {}


def test_a_store_of_an_older_version_stays_up_to_date(tmp_path, built, monkeypatch):
    monkeypatch.setattr(prepare, "HierarchySpec", old_hierarchy)
    coarsen_dataset(config(tmp_path / "s"))
    monkeypatch.undo()
    before = (tmp_path / "s" / "manifest.json").read_bytes()
    assert coarsen_dataset(config(tmp_path / "s")).status == "up to date"
    assert (tmp_path / "s" / "manifest.json").read_bytes() == before
    assert shards(tmp_path / "s") == shards(built)
    next((tmp_path / "s").glob("shard-00001.graclus*.h5")).unlink()
    assert coarsen_dataset(config(tmp_path / "s"), executor=RemoteThreads()).units_done == 1
    assert (tmp_path / "s" / "manifest.json").read_bytes() == before
    assert shards(tmp_path / "s") == shards(built)
