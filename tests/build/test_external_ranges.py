"""One graph larger than memory on several workers: any cut of ranges, plain tasks, failures of the workers."""

import contextlib
import json
import os
import shutil
import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor

import numba
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.build.test_external import (
    assert_same_store,
    random_edges,
    run_external,
    run_in_memory,
    small_pieces,  # noqa: F401 - a fixture
)
from tests.engine.test_external import (
    assert_same_levels,
    coarsen_in_files,
    schedules,
    undirected_graphs,
)
from tgp.build import external_ranges, jobs, units, workers
from tgp.build.cluster import ClusterError
from tgp.build.executors import Pool, wrap_executor
from tgp.build.external_ranges import ClusterRanges, run_range
from tgp.build.jobs import job_header
from tgp.engine import coarsen, threads
from tgp.engine.external import entries, levels
from tgp.engine.external.buckets import Limits
from tgp.errors import GraphError, InputError
from tgp.ragged import BlockCSR
from tgp.testing.graphs import barabasi_albert, star


class PlainExecutor(Executor):
    """Executor that runs each task at once, and twice, in another working directory. Task and answer go through JSON."""

    def __init__(self):
        self.functions = set()

    def submit(self, function, /, *arguments):
        (task,) = json.loads(json.dumps(arguments))
        self.functions.add(task["function"])
        future, here = Future(), os.getcwd()
        os.chdir("/")
        try:
            function(task)
            future.set_result(json.loads(json.dumps(function(task))))
        except Exception as error:  # noqa: BLE001 - given to the caller
            future.set_exception(error)
        finally:
            os.chdir(here)
        return future


def plain_ranges(folder, num_ranges):
    """Return a strategy whose tasks run in this thread."""
    folder.mkdir(parents=True, exist_ok=True)
    pool = Pool(PlainExecutor(), lambda: num_ranges, kind="remote")
    return ClusterRanges(pool, folder, None, lambda step: None)


@pytest.fixture
def everything_remote(monkeypatch):
    """Let every step run on the workers, however small it is."""
    monkeypatch.setattr(external_ranges, "MIN_ENTRIES", 0)
    monkeypatch.setattr(external_ranges, "ENTRIES_PER_NODE", 0)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


cuts = st.sampled_from([2, 7]) | st.integers(2, 40)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(undirected_graphs(), schedules, st.integers(0, 2**40), st.integers(1, 9), cuts)
@pytest.mark.usefixtures("everything_remote")
def test_any_cut_gives_the_levels_in_memory(tmp_path_factory, block, schedule, seed, piece, num_ranges):
    bucket, found = 8, None
    while found is None:  # the smallest buckets that hold the largest row
        folder = tmp_path_factory.mktemp("rows")
        ranges = plain_ranges(folder / "scratch", num_ranges)
        try:
            limits = Limits(piece, bucket, checkpoint=1)
            found = coarsen_in_files(folder, block, schedule, seed, limits=limits, ranges=ranges)
        except InputError as error:
            assert "expected at most" in str(error)
            bucket *= 2
        shutil.rmtree(folder)
    assert_same_levels(found, coarsen(block, schedule, seed))


def weighted_graph(nodes=1000):
    """Return a graph whose coarse weights depend on the order of sums."""
    block = barabasi_albert(nodes, 4, 1)
    rows, cols = np.sort([block.rows(), block.indices], axis=0)
    weight = np.random.default_rng(0).random(nodes**2)[rows.astype(np.int64) * nodes + cols]
    return BlockCSR(block.indptr, block.indices, weight, block.node_ptr)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("num_ranges", [2, 7])
@pytest.mark.usefixtures("everything_remote")
def test_any_number_of_threads_of_a_worker(tmp_path, monkeypatch, count, num_ranges):
    """Graphs are large enough that every range function is called on a worker, each with its threads."""
    monkeypatch.setattr(threads, "_MIN_WORK", 0)
    monkeypatch.setattr(entries, "MIN_PART", 1)
    monkeypatch.setattr(threads, "num_threads", lambda: count)
    ranges = plain_ranges(tmp_path / "scratch", num_ranges)
    schedule, options = "hem,kmis:score_heuristic=w-greedy,hem", {"weight_dtype": np.float64}
    limits = Limits(700, 5000, 999)
    found = coarsen_in_files(tmp_path, weighted_graph(), schedule, 3, limits=limits, ranges=ranges, **options)
    assert_same_levels(found, coarsen(weighted_graph(), schedule, 3, **options))
    others = {function.__name__ for function in levels.RANGE_FUNCTIONS} - ranges.pool.executor.functions
    assert others == {"add_missing_entries"}  # only called if an edge has no reverse edge
    left = {path.name.partition(".")[0].partition("-")[0] for path in (tmp_path / "scratch").iterdir()}
    assert left == {"journal", "level1", "level2", "level3"}  # neither arrays nor answers


def test_a_task_uses_its_share_of_the_cores(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(workers, "usable_cores", lambda: 8)
    monkeypatch.setattr(jobs, "usable_cores", lambda: 8)
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 16)

    def count_threads(job, arrays):
        seen.append(threads.num_threads())
        return {}

    monkeypatch.setitem(external_ranges._FUNCTIONS, "count_threads", count_threads)
    for requested, per_machine in ((None, 1), (None, 2), (3, 2), (3, 4)):
        pool = Pool(PlainExecutor(), lambda: 1, kind="remote", per_machine=lambda count=per_machine: count)
        ranges = ClusterRanges(pool, tmp_path, requested, lambda step: None)
        list(ranges.run(count_threads, [{}]))
    assert seen[::2] == [8, 4, 3, 2]  # each task runs twice


@pytest.mark.usefixtures("everything_remote")
def test_nodes_that_are_merged_through_common_neighbours(tmp_path):
    ranges = plain_ranges(tmp_path / "scratch", 7)
    found = coarsen_in_files(tmp_path, star(500), "hem*3", limits=Limits(700, 5000, 999), ranges=ranges)
    assert "find_anchors" in ranges.pool.executor.functions
    assert_same_levels(found, coarsen(star(500), "hem*3"))


def test_small_steps_stay_in_the_client(tmp_path):
    ranges = plain_ranges(tmp_path, 4)
    assert ranges.choose(external_ranges.MIN_ENTRIES, 0) is ranges
    assert not ranges.choose(external_ranges.MIN_ENTRIES - 1, 0).is_remote
    assert not ranges.choose(external_ranges.MIN_ENTRIES, external_ranges.MIN_ENTRIES).is_remote


def test_results_come_in_the_order_of_the_jobs(tmp_path, monkeypatch):
    """The first task ends after the others."""
    others = threading.Barrier(3)

    def wait_for_others(job, arrays):
        if job["number"] < 3:
            others.wait(600)
        return {"number": job["number"], "squares": arrays["values"][: job["number"]] ** 2}

    monkeypatch.setattr(external_ranges, "ENGINE_LOCK", threading.Semaphore(3))
    monkeypatch.setitem(external_ranges._FUNCTIONS, "wait_for_others", wait_for_others)
    with ThreadPoolExecutor(3) as executor:
        ranges = ClusterRanges(wrap_executor(executor), tmp_path, None, lambda step: None)
        values = ranges.publish(np.arange(9))
        jobs = [{"number": number} for number in range(9)]
        results = list(ranges.run(wait_for_others, jobs, {"values": values}))
    assert [result["number"] for result in results] == list(range(9))
    assert results[4]["squares"].tolist() == [0, 1, 4, 9]
    values.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.usefixtures("small_pieces", "everything_remote")
def test_an_executor_gives_the_bytes_of_a_run_in_memory(tmp_path, weighted, monkeypatch):
    monkeypatch.chdir(tmp_path)
    edges = random_edges()
    weight = np.random.default_rng(1).random(len(edges)).astype(np.float32) if weighted else None
    arrays = {} if weight is None else {"edge_weight": weight}
    np.savez(tmp_path / "graph.npz", edge_index=edges.T, **arrays)
    executor = PlainExecutor()
    run_external("graph.npz", "store", executor=executor)
    assert {"merge_bucket", "contract_entries", "point_nodes"} <= executor.functions
    assert_same_store(tmp_path / "store", run_in_memory(tmp_path, edges, weight))


class StoppedExecutor(PlainExecutor):
    """Executor that raises an error at one of its tasks, after the task has written its files."""

    def __init__(self, at, error):
        super().__init__()
        self.at, self.error, self.count = at, error, 0

    def submit(self, function, /, *arguments):
        self.count += 1
        future = super().submit(function, *arguments)
        if self.count == self.at:
            raise self.error
        return future


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ClusterError("lost")])
@pytest.mark.usefixtures("small_pieces", "everything_remote")
def test_a_run_that_is_stopped_at_any_task_continues(tmp_path, error):
    """It continues with the same workers, and in the end in one process."""
    edges = random_edges(300, 900)
    np.save(tmp_path / "graph.npy", edges)
    counter = StoppedExecutor(0, error)
    run_external(tmp_path / "graph.npy", tmp_path / "whole", executor=counter)
    assert_same_store(tmp_path / "whole", run_in_memory(tmp_path, edges))
    for at in np.linspace(1, counter.count, 5).astype(int).tolist():
        store = tmp_path / f"store{at}"
        with pytest.raises(type(error)):
            run_external(tmp_path / "graph.npy", store, executor=StoppedExecutor(at, error))
        assert (tmp_path / f"store{at}.scratch").exists()
        with contextlib.suppress(type(error)):
            run_external(tmp_path / "graph.npy", store, executor=StoppedExecutor(5, error))
        run_external(tmp_path / "graph.npy", store)
        assert_same_store(store, tmp_path / "whole")


@pytest.mark.parametrize("pool", [None, Pool(PlainExecutor(), lambda: 2)])
def test_arrays_of_a_killed_run_are_deleted(tmp_path, pool):
    plain_ranges(tmp_path, 2).publish(np.arange(3))
    (tmp_path / "answer-1.found").touch()
    (tmp_path / "level1.bucket.0-12345678.keys").touch()
    external_ranges.open_ranges(pool, tmp_path, None, lambda step: None)
    assert [path.name for path in tmp_path.iterdir()] == ["level1.bucket.0-12345678.keys"]


# Workers ------------------------------------------------------------------------------------------


def make_task(folder, **changes):
    arrays = {"values": [str(folder / "array"), "<i8", 3]}
    answer, job = str(folder / "answer"), {"rows": None}
    task = {
        "format": external_ranges.TASK_FORMAT,
        "number": 0,
        "job": job,
        "answer": answer,
        "function": "merge_bucket",
        "arrays": arrays,
    }
    return {**job_header([], remote=True), **task, **changes}


def test_a_worker_of_another_engine_refuses_its_task(tmp_path):
    with pytest.raises(ClusterError, match="engine revision"):
        run_range(make_task(tmp_path, engine=1))


def test_a_worker_with_other_temporary_files_refuses_its_task(tmp_path):
    with pytest.raises(ClusterError, match="other temporary files: expected format 0 "):
        run_range(make_task(tmp_path, format=0))


def test_a_worker_calls_functions_of_the_table_only(tmp_path):
    with pytest.raises(KeyError, match="system"):
        run_range(make_task(tmp_path, function="system", arrays={}, job={}))


@pytest.mark.parametrize("content", [None, b"1234"])
def test_a_worker_that_does_not_see_the_files_is_named(tmp_path, monkeypatch, content):
    monkeypatch.setattr(units, "VISIBLE_TIMEOUT", 0.0)
    if content is not None:
        (tmp_path / "array").write_bytes(content)
    reason = "No such file" if content is None else "4 bytes there, expected 24"
    with pytest.raises(
        ClusterError, match=f"worker .*process {os.getpid()}.* does not see .*{reason}"
    ) as caught:
        run_range(make_task(tmp_path))
    assert ".scratch" in caught.value.hint


def test_answers_that_the_client_does_not_see_are_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(units, "VISIBLE_TIMEOUT", 0.0)
    ranges = plain_ranges(tmp_path, 1)
    with pytest.raises(ClusterError, match="the client does not see"):
        ranges._take({"numbers": {}, "arrays": {"found": [str(tmp_path / "gone"), "<i4", 2]}})


@pytest.mark.usefixtures("everything_remote")
def test_errors_of_a_task_reach_the_client(tmp_path):
    block = weighted_graph(50)
    heavy = BlockCSR(block.indptr, block.indices, 1e38 * (1.0 + block.weight), block.node_ptr)
    with pytest.raises(GraphError, match="coarse weight is out of range: expected a finite float32"):
        coarsen_in_files(
            tmp_path,
            heavy,
            "hem*3",
            limits=Limits(50, 500, 99),
            ranges=plain_ranges(tmp_path / "scratch", 2),
        )
