"""Number of workers of a run, and the state of worker processes."""

import multiprocessing
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numba
import pytest

from tgp.build import CoarsenConfig, cluster, coarsen_dataset, executors, jobs, plan_run, units, workers
from tgp.build import run as run_module
from tgp.build.jobs import job_header
from tgp.build.workers import choose_threads, choose_workers, usable_cores
from tgp.engine.methods import METHODS
from tgp.engine.threads import num_threads
from tgp.registry import Entry


def test_usable_cores_follow_the_affinity(monkeypatch):
    monkeypatch.setattr(workers, "_cgroup_quota", lambda: float("inf"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3, 5}, raising=False)
    assert usable_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert usable_cores() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1


@pytest.mark.parametrize(
    ("membership", "files", "allowed"),
    [
        ("0::/\n", {"cpu.max": "150000 100000"}, 2),
        ("0::/\n", {"cpu.max": "max 100000"}, 64),
        ("0::/jobs/7\n", {"jobs/cpu.max": "300000 100000", "jobs/7/cpu.max": "max 100000"}, 3),
        ("0::/gone\n", {"cpu.max": "50000 100000"}, 1),
        ("3:cpu,cpuacct:/x\n", {"cpu/x/cpu.cfs_quota_us": "400000", "cpu/x/cpu.cfs_period_us": "100000"}, 4),
        ("3:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 64),
        ("4:memory:/\n", {"cpu.max": "100000 100000"}, 64),
        ("", {}, 64),
    ],
)
def test_usable_cores_follow_the_quota(tmp_path, monkeypatch, membership, files, allowed):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "self").write_text(membership)
    monkeypatch.setattr(workers, "_CGROUPS", tmp_path)
    monkeypatch.setattr(workers, "_MEMBERSHIP", tmp_path / "self")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)
    assert usable_cores() == allowed


def test_choose_workers(monkeypatch):
    monkeypatch.setattr(workers, "usable_cores", lambda: 8)
    assert choose_workers(num_units=100, seconds=1000) == 8
    assert choose_workers(num_units=3, seconds=1000) == 3
    assert choose_workers(num_units=100, seconds=2.9) == 2
    assert choose_workers(num_units=100, seconds=0.1) == 1
    assert choose_workers(num_units=0, seconds=0) == 1


def test_threads_and_processes_do_not_exceed_the_cores(monkeypatch):
    monkeypatch.setattr(workers, "usable_cores", lambda: 8)
    assert [choose_threads(None, count) for count in (1, 2, 8)] == [8, 1, 1]
    assert [choose_threads(3, count) for count in (1, 2, 4, 8, 20)] == [3, 3, 2, 1, 1]
    assert choose_threads(100, 1) == 8


def test_processes_of_an_executor_share_the_cores(monkeypatch):
    monkeypatch.setattr(workers, "usable_cores", lambda: 8)
    monkeypatch.setattr(jobs, "usable_cores", lambda: 8)

    def threads_of(requested, per_machine):
        return jobs.job_threads(job_header([], remote=True, threads=requested, per_machine=per_machine))

    assert [threads_of(None, count) for count in (1, 2, 3, 20)] == [8, 4, 2, 1]
    assert [threads_of(3, count) for count in (1, 2, 3, 20)] == [3, 3, 2, 1]
    with ProcessPoolExecutor(5, mp_context=multiprocessing.get_context("spawn")) as processes:
        assert executors.wrap_executor(processes).per_machine() == 5
    with ThreadPoolExecutor(5) as others:
        assert executors.wrap_executor(others).per_machine() == 1


@pytest.mark.parametrize("threads", [None, 1, 2])
def test_the_engine_uses_the_threads_of_the_configuration(monkeypatch, tmp_path, threads):
    """Threads of one process are limited while jobs run, and not afterwards."""
    seen = []
    monkeypatch.setattr(workers, "usable_cores", lambda: 3)
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 5)
    compute = units.coarsen_with_failures
    monkeypatch.setattr(
        units, "coarsen_with_failures", lambda *a, **k: seen.append(num_threads()) or compute(*a, **k)
    )
    coarsen_dataset(CoarsenConfig("molecules:num_graphs=5", out=tmp_path / "s", workers=1, threads=threads))
    assert seen[-1] == (threads or 3) and num_threads() == 5


def chosen(monkeypatch, tmp_path, **values):
    """Return the number of workers of a run, without running it."""

    class Stop(Exception):
        pass

    def note(scheduler, count, threads):
        raise Stop(count)

    monkeypatch.setattr(run_module, "open_executor", note)
    out = tmp_path / f"s{len(list(tmp_path.iterdir()))}"
    with pytest.raises(Stop) as caught:
        coarsen_dataset(CoarsenConfig(out=out, **values))
    return caught.value.args[0]


def test_small_runs_stay_in_this_process(monkeypatch, tmp_path):
    monkeypatch.setattr(workers, "usable_cores", lambda: 4)
    small = {"dataset": "molecules:num_graphs=300"}
    large = {"dataset": "molecules:num_graphs=3000", "poolers": ("nmf:k=8,nmf:k=4",)}
    assert chosen(monkeypatch, tmp_path, **small) == 1
    assert chosen(monkeypatch, tmp_path, **large) > 1
    assert plan_run(CoarsenConfig(out=tmp_path / "p", **large)).workers > 1
    assert chosen(monkeypatch, tmp_path, **large, workers=1) == 1
    assert chosen(monkeypatch, tmp_path, **small, workers=3) == 3


def test_the_number_of_workers_depends_on_the_remaining_work(monkeypatch, tmp_path):
    monkeypatch.setattr(workers, "usable_cores", lambda: 4)
    values = {"dataset": "molecules:num_graphs=3000", "poolers": ("nmf:k=8,nmf:k=4",)}
    assert chosen(monkeypatch, tmp_path, **values, shard=(1, 3)) == 1


LEAVES = """
import numpy as np
from tgp.engine.contraction import ContractOptions, contract
from tgp.engine.level_method import LevelMethod
from tgp.ragged import Assignment
from dataclasses import dataclass

@dataclass(frozen=True)
class Params:
    pass

def assign(block, params, draw):
    return Assignment("hard", block.node_ptr, np.arange(block.num_nodes, dtype=np.int32))

def connect(block, assignment, params):
    return contract(block, assignment, ContractOptions())

METHOD = LevelMethod("mine", Params, assign, connect)
"""


@pytest.mark.slow
def test_workers_get_registered_methods_and_do_not_run_the_script_again(tmp_path):
    """A script without ``if __name__ == "__main__"`` registers a method."""
    (tmp_path / "mine.py").write_text(LEAVES)
    (tmp_path / "script.py").write_text(
        textwrap.dedent("""
        from pathlib import Path
        print("begin")
        from tgp.engine.methods import METHODS
        from tgp.registry import Entry
        METHODS.entries["mine"] = Entry("mine", "mine:METHOD", "Nothing")
        from tgp.build import CoarsenConfig, coarsen_dataset
        config = CoarsenConfig("molecules:num_graphs=20", poolers=("mine,graclus",), out=Path("s"), workers=2)
        print(coarsen_dataset(config).status)
        """)
    )
    found = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600
    )
    assert found.stdout.split() == ["begin", "complete"], found.stderr


def test_a_method_of_the_main_module_runs_in_this_process(monkeypatch, tmp_path):
    entry = Entry("mine", "__main__:METHOD", "Nothing")
    monkeypatch.setitem(METHODS.entries, "mine", entry)
    monkeypatch.setitem(METHODS._loaded, "mine", METHODS["nopool"])
    assert chosen(monkeypatch, tmp_path, poolers=("mine",), workers=4) == 1


@pytest.mark.slow
def test_workers_import_no_torch_and_compute_on_one_thread(tmp_path):
    """Modules that the parent has imported are not imported by workers."""
    code = (
        "import torch, os, sys\n"
        "from tgp.build.executors import open_executor\n"
        "from tgp.build.jobs import job_header, warm_up\n"
        "from tgp.engine.schedule import parse_schedule\n"
        "schedules = [parse_schedule('eigen:k=3,ndp,graclus')]\n"
        'look = \'(__import__("sys").modules.keys() & {"torch", "torch_geometric", "typer", "rich"}, \'\\\n'
        '    \'__import__("os").environ["OMP_NUM_THREADS"], __import__("os").environ["NUMBA_NUM_THREADS"])\'\n'
        "with open_executor(None, 2) as pool:\n"
        "    pool.executor.submit(warm_up, job_header(schedules, remote=True)).result()\n"
        "    print(pool.executor.submit(eval, look).result())\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600
    )
    assert found.stdout.strip() == "(set(), '1', '1')", found.stderr


def test_wrap_executor_reads_the_number_of_workers():
    with ThreadPoolExecutor(3) as pool:
        assert executors.wrap_executor(pool).in_flight() == 6


def test_wrap_executor_follows_the_size_of_a_cluster(monkeypatch):
    """The number of Dask workers can change, and does not depend on the cores of this machine."""
    now = [100.0]
    monkeypatch.setattr(cluster.time, "monotonic", lambda: now[0])

    class Client:
        threads = {"a": 2}

        def nthreads(self, callback_timeout):
            return self.threads

    class ClientExecutor:
        _client = Client()

    pool = executors.wrap_executor(ClientExecutor())
    assert pool.in_flight() == 4
    for threads, expected in (({"a": 2, "b": 30}, 64), ({}, 2)):
        Client.threads = threads
        now[0] += 5
        assert pool.in_flight() == expected
