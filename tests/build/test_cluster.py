"""Dask clusters: checks before the first task, waiting, and explained failures."""

import sys
import threading
import warnings
from concurrent.futures import CancelledError, Future
from types import SimpleNamespace

import pytest

from tests.reliability import cluster as processes
from tgp.build import CoarsenConfig, cluster, coarsen_dataset, dask_client, executors, worker_functions
from tgp.build import run as run_module
from tgp.build.cluster import ClusterError, DaskCluster
from tgp.build.dask_client import RemoteExecutor
from tgp.build.executors import JobQueue, Pool
from tgp.engine.revision import ENGINE_REVISION
from tgp.errors import InputError
from tgp_cli._output import Output
from tgp_cli._progress import Progress
from tgp_cli.main import run as tgp

DATASET = "molecules:num_graphs=40"


def config(out, **values):
    return CoarsenConfig(**{"dataset": DATASET, "shard_size": 15_000, "out": out, **values})


class FakeClient:
    """Client of a cluster whose workers are calls in this process.

    Args:
        folders: Address of each worker -> directory that it sees instead of the store; ``None`` for the store itself.
    """

    status = "running"
    scheduler = SimpleNamespace(address="tcp://fake:1")

    def __init__(self, folders):
        self.folders = folders
        self.change = {}
        self.answers = 0

    def nthreads(self, callback_timeout):
        return dict.fromkeys(self.folders, 1)

    def run(self, function, expression, values, workers, on_error):
        found = {}
        for address in workers or self.folders:
            self.answers += 1
            folder, *rest = values["arguments"]
            arguments = (str(self.folders[address] or folder), *rest)
            answer = function(expression, {**values, "names": {}, "arguments": arguments})
            found[address] = {**answer, **self.change.get(address, {})}
        return found


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(cluster, "PROBE_DELAYS", (0.0, 0.0))


# Before the first task ------------------------------------------------------------------------------


def test_workers_that_share_the_store_are_accepted(tmp_path, quick):
    client = FakeClient({"tcp://a:1": None, "tcp://b:1": None})
    assert DaskCluster(client).check_workers(tmp_path) == 2
    assert client.answers == 2 and list(tmp_path.iterdir()) == []
    assert DaskCluster(FakeClient({})).check_workers(tmp_path) == 0


def test_a_worker_with_another_directory_is_named(tmp_path, quick):
    """C3: workers that wrote to their own disk were noticed at the end, with exit status 0."""
    store, other = tmp_path / "store", tmp_path / "other"
    store.mkdir()
    other.mkdir()
    client = FakeClient({"tcp://a:1": None, "tcp://b:1": other, "tcp://c:1": tmp_path / "gone"})
    with pytest.raises(ClusterError) as caught:
        DaskCluster(client).check_workers(store)
    text = str(caught.value)
    assert "2 of 3 workers of tcp://fake:1" in text and "tcp://a:1" not in text
    assert (
        "worker tcp://b:1" in text
        and "the directory exists there, but the file of the client does not" in text
    )
    assert "worker tcp://c:1" in text and "No such file" in text
    assert client.answers == 5  # the workers that saw the file are not asked again
    assert list(store.iterdir()) == [] and list(other.iterdir()) == []


def test_an_answer_that_the_client_does_not_see_is_an_error(tmp_path, quick):
    client = FakeClient({"tcp://a:1": None})
    client.change["tcp://a:1"] = {"answer": "elsewhere"}
    with pytest.raises(ClusterError, match="client does not see the files that the worker writes"):
        DaskCluster(client).check_workers(tmp_path)


def test_a_file_with_another_content_is_not_the_store(tmp_path):
    (tmp_path / "probe").write_text("x")
    assert "another content" in worker_functions.probe(str(tmp_path), "probe", "y")["unseen"]


@pytest.mark.linux
def test_a_directory_that_a_worker_cannot_write_to(tmp_path, monkeypatch):
    (tmp_path / "probe").write_text("x")
    monkeypatch.setattr(worker_functions.secrets, "token_hex", lambda size: "no/such/folder")
    assert "not writable" in worker_functions.probe(str(tmp_path), "probe", "x")["unseen"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"engine": 1},
            f"tcp://b:1 .*has tgp 2.* with engine revision 1: expected revision {ENGINE_REVISION}",
        ),
        ({"hdf5": "1.8.0"}, "tcp://b:1 .*writes files with HDF5 1.8.0: expected HDF5"),
        ({"version": "1.0.2", "engine": None}, "has tgp 1.0.2 without a revision of the engine"),
        ({"version": None, "engine": None, "problem": "ImportError: x"}, "cannot import tgp .ImportError: x"),
    ],
)
def test_a_worker_of_another_version_is_named(tmp_path, quick, change, text):
    """C1, C2: nothing compared versions; a worker without tgp never finished a job."""
    client = FakeClient({"tcp://a:1": None, "tcp://b:1": None})
    client.change["tcp://b:1"] = change
    with pytest.raises(ClusterError, match=text) as caught:
        DaskCluster(client).check_workers(tmp_path)
    assert "1 of 2" in str(caught.value) and "same version" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_long_list_of_workers_is_cut(tmp_path, quick):
    client = FakeClient({f"tcp://w:{i}": tmp_path / "gone" for i in range(30)})
    with pytest.raises(ClusterError, match="30 of 30") as caught:
        DaskCluster(client).check_workers(tmp_path)
    assert len(str(caught.value).splitlines()) == 10


def test_a_worker_that_ends_during_the_check_is_ignored(tmp_path, quick):
    client = FakeClient({"tcp://a:1": None, "tcp://b:1": None})
    whole = client.run
    client.run = lambda *a, **k: {**whole(*a, **k), "tcp://b:1": OSError("gone")}
    assert DaskCluster(client).check_workers(tmp_path) == 1


def test_only_workers_of_the_executor_are_checked(tmp_path, quick):
    client = FakeClient({"tcp://a:1": None, "tcp://b:1": tmp_path / "gone"})
    executor = SimpleNamespace(_client=client, _kwargs={"workers": ["tcp://a:1"]})
    assert executors.wrap_executor(executor).cluster.check_workers(tmp_path) == 1
    executor._kwargs["workers"] = "tcp://b:1"
    with pytest.raises(ClusterError, match="1 of 1"):
        executors.wrap_executor(executor).cluster.check_workers(tmp_path)


def test_the_check_of_a_stopped_worker_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "CHECK_TIMEOUT", 0.05)
    client, stopped = FakeClient({"tcp://a:1": None}), threading.Event()
    client.run = lambda *a, **k: stopped.wait(60)
    try:
        with pytest.raises(ClusterError, match="not all workers of tcp://fake:1 answered"):
            DaskCluster(client).check_workers(tmp_path)
    finally:
        stopped.set()
    assert list(tmp_path.iterdir()) == []


# Waiting --------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(cluster.time, "monotonic", lambda: now[0])
    return now


def test_a_cluster_without_workers_is_waited_for(clock, monkeypatch):
    """C6: ``adapt(minimum=0)`` was refused, and a run whose workers were gone waited for ever."""
    client = FakeClient({"a": None})
    watched = DaskCluster(client)
    assert watched.waiting() is None
    client.folders = {}
    clock[0] += 100
    assert watched.waiting() == ("waiting for workers of tcp://fake:1", 0)
    clock[0] += 12
    assert watched.waiting() == ("waiting for workers of tcp://fake:1", 12)
    client.folders = {"b": None}
    clock[0] += 300
    assert watched.waiting() is None and watched.num_threads() == 1
    client.folders = {}
    clock[0] += 5
    assert watched.waiting()[1] == 0
    clock[0] += 301
    with pytest.raises(ClusterError, match="no workers for 300 s") as caught:
        watched.waiting()
    assert "dask worker tcp://fake:1" in caught.value.hint
    monkeypatch.setenv("TGP_WORKER_TIMEOUT", "1000")
    assert watched.waiting()[1] == 301
    monkeypatch.setenv("TGP_WORKER_TIMEOUT", "soon")
    with pytest.raises(InputError, match="TGP_WORKER_TIMEOUT"):
        watched.waiting()


def test_workers_of_one_machine_are_counted():
    """Each of them uses its share of the cores. Workers of one process take turns."""
    addresses = ["tcp://10.0.0.1:4001", "tcp://10.0.0.1:4002", "tcp://10.0.0.2:4001", "tcp://10.0.0.1:4003"]
    executor = SimpleNamespace(_client=FakeClient(dict.fromkeys(addresses)))
    assert executors.wrap_executor(executor).per_machine() == 3
    for others in ([], ["inproc://10.0.0.1/7/1", "inproc://10.0.0.1/7/2"]):
        assert DaskCluster(FakeClient(dict.fromkeys(others))).workers_per_machine() == 1


@pytest.mark.parametrize("error", [OSError("closed"), TimeoutError()])
def test_a_scheduler_that_does_not_answer_is_lost(clock, error):
    client = FakeClient({"a": None})
    watched = DaskCluster(client)
    assert watched.num_threads() == 1

    def fail(callback_timeout):
        raise error

    client.nthreads = fail
    clock[0] += 30
    assert watched.num_threads() == 1  # the last answer
    clock[0] += 31
    with pytest.raises(ClusterError, match="not answered for 60 s"):
        watched.num_threads()
    client.status = "closed"
    with pytest.raises(ClusterError, match="lost the Dask scheduler at tcp://fake:1"):
        watched.check_connection()


def test_the_queue_shows_that_it_waits(monkeypatch):
    monkeypatch.setattr(executors, "WATCH_INTERVAL", 0.01)
    future, seen = Future(), []

    def show(text, seconds):
        seen.append((text, seconds))
        if len(seen) == 2:
            future.set_result(7)

    pool = Pool(
        SimpleNamespace(submit=lambda *a: future),
        lambda: 1,
        cluster=SimpleNamespace(waiting=lambda: ("waiting", float(len(seen)))),
    )
    with JobQueue(pool, abs, show) as queue:
        queue.submit(1)
        assert list(queue.drain()) == [7]
    assert seen == [("waiting", 0.0), ("waiting", 1.0)]


# Failures -------------------------------------------------------------------------------------------


def raised_by(error, status="running"):
    """Return the error that a run raises if a task of Dask fails."""
    client = FakeClient({"a": None})
    inner = Future()
    executor = RemoteExecutor(SimpleNamespace(submit=lambda *a, **k: inner), DaskCluster(client))
    outer = executor.submit(abs, 1)
    client.status = status
    if isinstance(error, CancelledError):
        inner.cancel()
        inner.set_running_or_notify_cancel()
    else:
        inner.set_exception(error)
    return outer.exception(timeout=600)


def test_failures_of_dask_are_explained():
    """C6: ``KilledWorker`` and ``CancelledError`` ended with status 70 and the word "unexpected"."""
    pytest.importorskip("distributed")
    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    worker = SimpleNamespace(address="tcp://w:9")
    found = raised_by(KilledWorker("tgp ndp of unit 3-12ab", worker, 3))
    assert isinstance(found, ClusterError) and found.exit_status == 5
    assert "'ndp of unit 3'" in str(found) and "4 in a row" in str(found) and "tcp://w:9" in str(found)
    assert "memory" in found.hint
    found = raised_by(CancelledError())
    assert isinstance(found, ClusterError) and "cancelled the tasks" in str(found)
    found = raised_by(CancelledError(), status="connecting")
    assert isinstance(found, ClusterError) and "lost the Dask scheduler" in str(found)
    found = raised_by(CommClosedError("in <TCP>: Stream is closed"))
    assert isinstance(found, ClusterError) and "CommClosedError" in str(found)


def test_an_error_of_a_job_is_raised_unchanged():
    for error in (ValueError("x"), TimeoutError("of the job"), OSError("of the job")):
        assert raised_by(error) is error


def test_nothing_is_submitted_to_a_lost_scheduler():
    client = FakeClient({})
    client.status = "closed"
    with pytest.raises(ClusterError, match="lost the Dask scheduler"):
        RemoteExecutor(None, DaskCluster(client)).submit(abs, 1)
    client.status = "running"

    def submit(*args, **kwargs):
        client.status = "closed"
        raise RuntimeError("Tried sending message after closing.")

    with pytest.raises(ClusterError, match="lost the Dask scheduler"):
        RemoteExecutor(SimpleNamespace(submit=submit), DaskCluster(client)).submit(abs, 1)


# In one process -------------------------------------------------------------------------------------


@pytest.fixture
def local_cluster():
    """Return a function that starts a cluster in threads of this process."""
    distributed = pytest.importorskip("distributed")
    made = []

    def start(workers):
        options = {"threads_per_worker": 1, "processes": False, "dashboard_address": None}
        made.append(distributed.LocalCluster(n_workers=workers, **options))
        return made[-1]

    yield start
    for cluster_ in made:
        cluster_.close()


@pytest.mark.slow
def test_a_run_waits_for_its_first_worker(tmp_path, local_cluster, monkeypatch):
    """C6: a cluster without workers was refused before anything was submitted."""
    monkeypatch.setattr(executors, "WATCH_INTERVAL", 0.05)
    started, stages = local_cluster(0), []

    def progress(step):
        stages.append(step.stage)
        if step.waited is not None and not started.workers and started.plan == set():
            started.scale(1)

    summary = coarsen_dataset(config(tmp_path / "s", scheduler=started.scheduler_address), progress=progress)
    assert summary.status == "complete"
    assert f"waiting for workers of {started.scheduler_address}" in stages


@pytest.mark.slow
def test_dask_warns_about_nothing(tmp_path, local_cluster, capsys):
    """C10: Dask printed ``Sending large graph of size 30 MiB``."""
    started = local_cluster(1)
    values = {"dataset": "grid:num_graphs=1:num_nodes=400000", "shard_size": None, "metrics": False}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        coarsen_dataset(
            config(tmp_path / "s", scheduler=started.scheduler_address, poolers=("nopool",), **values)
        )
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_a_lost_scheduler_ends_the_command(tmp_path, local_cluster, monkeypatch, capsys):
    """C6: the status was 70."""
    monkeypatch.setattr(executors, "WATCH_INTERVAL", 0.05)
    monkeypatch.setattr(dask_client, "CONNECT_TIMEOUT", 30.0)
    started = local_cluster(0)
    whole = run_module.make_header

    def close(*args, **kwargs):
        started.close()
        return whole(*args, **kwargs)

    monkeypatch.setattr(run_module, "make_header", close)
    words = ["coarsen", "--dataset", DATASET, "--out", str(tmp_path / "s")]
    assert tgp([*words, "--scheduler", started.scheduler_address]) == 5
    assert "lost the Dask scheduler" in capsys.readouterr().err


# Real processes -------------------------------------------------------------------------------------

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="sends signals to processes")


@pytest.mark.slow
@on_linux
def test_real_workers_of_other_versions(tmp_path):
    """C1, C2: a worker with another engine, and workers without tgp."""
    pytest.importorskip("distributed")
    found = processes.wrong_workers(tmp_path)
    assert found.problems == [] and found.count == 2


@pytest.mark.slow
@on_linux
def test_a_real_scheduler_that_is_killed(tmp_path):
    """C6: the run ends with a message, and the same command continues with another scheduler."""
    pytest.importorskip("distributed")
    found = processes.killed_scheduler(tmp_path, retry=False)
    assert found.problems == [] and found.count == 2


# Progress -------------------------------------------------------------------------------------------


def test_the_time_of_a_stage_begins_with_the_stage(monkeypatch, capsys):
    """C10: the time of loading kernels included opening the dataset."""
    now = [1000.0]
    monkeypatch.setattr("tgp_cli._progress.time.monotonic", lambda: now[0])
    with Progress(Output()) as progress:
        progress(run_module.Step("opening the dataset"))
        now[0] += 67
        progress(run_module.Step("loading kernels"))
        now[0] += 31
        progress(run_module.Step("loading kernels"))
        now[0] += 1
        progress(run_module.Step("waiting for workers of tcp://a:1", waited=1.2))
        progress(run_module.Step("waiting for workers of tcp://a:1", waited=2.2))
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "loading kernels, 0 s",
        "loading kernels, 31 s",
        "waiting for workers of tcp://a:1, 1 s",
    ]
