"""Runs on several machines, simulated on one: a Dask scheduler with worker processes, and job arrays."""

import contextlib
import hashlib
import importlib.util
import random
import subprocess
import sys
import time

import pytest

from tgp.build import CoarsenConfig, coarsen_dataset
from tgp_cli.main import run as tgp

DATASET = "molecules:num_graphs=400"
SHARD_SIZE = 80_000
WORDS = ["coarsen", "--dataset", DATASET, "--shard-size", f"{SHARD_SIZE}B", "--quiet"]


def digests(folder):
    files = (p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != ".lock")
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    out = tmp_path_factory.mktemp("serial") / "s"
    config = CoarsenConfig(dataset=DATASET, shard_size=SHARD_SIZE, out=out)
    summary = coarsen_dataset(config)
    assert summary.status == "complete" and summary.num_units >= 6
    return digests(out)


@contextlib.contextmanager
def cluster(folder, workers):
    """Start a Dask scheduler and workers on this machine; yield the scheduler file and the worker processes."""
    file = folder / "scheduler.json"
    common = ["--scheduler-file", str(file), "--host", "127.0.0.1"]
    processes = []

    def start(kind, *more):
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *common, "--no-dashboard", *more]
        log = open(folder / f"{kind}-{len(processes)}.log", "wb")  # noqa: SIM115 - belongs to the process
        with log:
            processes.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=folder))

    try:
        start("scheduler", "--port", "0")
        for _ in range(workers):
            start("worker", "--nthreads", "1", "--no-nanny", "--local-directory", str(folder))
        from distributed import Client

        deadline = time.monotonic() + 600
        while not file.exists() and time.monotonic() < deadline:
            assert processes[0].poll() is None, (folder / "scheduler-0.log").read_text()
            time.sleep(0.05)
        with Client(scheduler_file=str(file), timeout=600, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=600)
        yield file, processes[1:]
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


@pytest.mark.slow
def test_the_death_of_a_dask_worker_does_not_change_the_bytes(tmp_path, serial):
    pytest.importorskip("distributed")
    with cluster(tmp_path, 2) as (file, workers):
        seen = []

        def progress(step):
            if step.stage == "coarsening":
                seen.append(step.done)
            if step.stage == "coarsening" and workers[0].poll() is None and len(seen) == 3:
                workers[0].kill()

        config = CoarsenConfig(
            dataset=DATASET, shard_size=SHARD_SIZE, out=tmp_path / "s", scheduler=str(file)
        )
        summary = coarsen_dataset(config, progress=progress)
        assert workers[0].wait(600) == -9 and workers[1].poll() is None
    assert summary.status == "complete" and summary.units_missing == 0
    assert digests(tmp_path / "s") == serial


def expand_array(text):
    """Return the numbers of an array expression."""
    found = []
    for word in filter(None, text.strip().split(",")):
        low, _, high = word.partition("-")
        found += range(int(low), int(high or low) + 1)
    return found


def test_status_lists_the_jobs_that_did_not_run(tmp_path, serial, capsys):
    """Some jobs of an array do not run. ``tgp status`` lists them, and a second array runs them."""
    out, jobs = str(tmp_path / "s"), 5
    order = list(range(jobs))
    random.Random(4).shuffle(order)
    for job in order[:2]:
        assert tgp([*WORDS, "--out", out, "--shard", f"{job}/{jobs}"]) == 0
    capsys.readouterr()
    assert tgp(["status", out, "--missing", "--jobs", str(jobs)]) == 3
    missing = expand_array(capsys.readouterr().out)
    assert missing == sorted(order[2:])
    assert tgp(["merge", out]) == 3
    for job in missing:
        assert tgp([*WORDS, "--out", out, "--shard", f"{job}/{jobs}"]) == 0
    capsys.readouterr()
    assert tgp(["merge", out]) == 0
    assert tgp(["status", out, "--missing", "--jobs", str(jobs)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].strip() == ""
    assert digests(tmp_path / "s") == serial


def test_merge_publishes_a_store_without_manifest(tmp_path, serial):
    out = tmp_path / "s"
    for job in range(2):
        assert tgp([*WORDS, "--out", str(out), "--shard", f"{job}/2"]) == 0
    (out / "manifest.json").unlink()
    assert tgp(["status", str(out)]) == 3
    assert tgp(["merge", str(out)]) == 0
    assert digests(out) == serial


@pytest.mark.slow
def test_job_arrays_and_worker_processes_can_be_mixed(tmp_path, serial):
    """One unit is written by a job of an array, the others by worker processes."""
    out = tmp_path / "s"
    assert tgp([*WORDS, "--out", str(out), "--shard", "3/1000"]) == 0
    assert len(list(out.glob("shard-*.h5"))) == 2
    assert tgp([*WORDS, "--out", str(out), "--workers", "2"]) == 0
    assert digests(out) == serial


@pytest.mark.skipif(importlib.util.find_spec("distributed") is not None, reason="distributed is installed")
def test_without_distributed_the_message_names_the_package(tmp_path, capsys):
    assert tgp([*WORDS, "--out", str(tmp_path / "s"), "--scheduler", "tcp://127.0.0.1:1"]) == 2
    assert "tgp-coarsen[dask]" in capsys.readouterr().err
