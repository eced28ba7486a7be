"""coarsen_dataset: executors, interruptions and job arrays give the same bytes."""

import hashlib
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tgp.build import CoarsenConfig, coarsen_dataset, merge_store, plan_run, store_status
from tgp.build import run as run_module
from tgp.build.executors import wrap_executor
from tgp.build.merge import array_expression
from tgp.engine import coarsen
from tgp.errors import GraphError, InputError, StoreError, StoreMismatchError, UnknownNameError
from tgp.inspect import verify_by_recompute
from tgp.sources import open_source
from tgp.store import StoreReader, verify_store

DATASET = "molecules:num_graphs=60"
POOLERS = ("graclus*3", "random:ratio=0.3")
UNITS = 15_000
"""Shard size that gives several units."""


def config(out, **values):
    base = {"dataset": DATASET, "poolers": POOLERS, "seed": 3, "shard_size": UNITS}
    return CoarsenConfig(**(base | values), out=out)


def run(out, **values):
    return coarsen_dataset(config(out, **values))


def digest(folder: Path) -> dict[str, str]:
    """Return the checksum of every file of a store."""
    files = (p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != ".lock")
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store") / "reference"
    summary = run(folder)
    assert summary.status == "complete" and summary.num_units > 3
    return folder


@pytest.fixture(scope="module")
def reference(built):
    return digest(built)


@pytest.fixture
def store(built, tmp_path):
    """Copy of a complete store that a test may change."""
    return Path(shutil.copytree(built, tmp_path / "store"))


def test_a_store_holds_the_levels_of_the_engine(built):
    assert verify_store(built) == []
    assert verify_by_recompute(built, sample=None) == []
    reader = StoreReader(built)
    block = open_source(config(built).dataset).table.to_block()
    ids = np.arange(60)
    for name, schedule in zip(("graclus-x3", "random+ratio=0_3"), POOLERS, strict=True):
        for number, level in enumerate(coarsen(block, schedule, 3).levels):
            stored = reader.gather_level(ids, name, number)
            assert np.array_equal(stored.assignment.cluster, level.assignment.cluster)
            assert np.array_equal(stored.edge_index, level.block.edge_index())


def test_a_second_run_changes_no_file(store, reference):
    times = {p: p.stat().st_mtime_ns for p in store.rglob("*") if p.is_file()}
    again = run(store)
    assert again.status == "up to date" and again.units_done == 0
    assert digest(store) == reference
    assert all(p.stat().st_mtime_ns == t for p, t in times.items())


@pytest.mark.slow
def test_worker_processes_give_the_same_bytes(tmp_path, reference):
    summary = run(tmp_path, workers=2)
    assert summary.status == "complete"
    assert digest(tmp_path) == reference


def test_any_executor_gives_the_same_bytes(tmp_path, reference):
    with ThreadPoolExecutor(3) as pool:
        coarsen_dataset(config(tmp_path), executor=pool)
    assert digest(tmp_path) == reference


@pytest.mark.slow
def test_dask_gives_the_same_bytes(tmp_path, reference):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster:
        assert run(tmp_path, scheduler=cluster.scheduler_address).status == "complete"
    assert digest(tmp_path) == reference


@pytest.mark.slow
def test_an_executor_of_a_dask_client_gives_the_same_bytes(tmp_path, reference):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 1, "threads_per_worker": 5, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        executor = client.get_executor(pure=False)
        assert wrap_executor(executor).in_flight() == 10
        coarsen_dataset(config(tmp_path), executor=executor)
    assert digest(tmp_path) == reference


def test_a_missing_scheduler_is_reported(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    from tgp.build import dask_client

    monkeypatch.setattr(dask_client, "CONNECT_TIMEOUT", 0.3)
    with pytest.raises(InputError, match="no Dask scheduler answers"):
        run(tmp_path, scheduler="tcp://127.0.0.1:9")


def test_a_job_array_writes_one_store(tmp_path, reference):
    for job in (2, 0):
        assert run(tmp_path, shard=(job, 3)).status == "incomplete"
    status = store_status(tmp_path, 3)
    assert not status.complete and status.jobs == [1] and status.array == "1"
    assert all(unit % 3 == 1 for unit in status.missing)
    with pytest.raises(StoreError, match="not written yet"):
        merge_store(tmp_path)
    assert run(tmp_path, shard=(1, 3)).status == "complete"
    assert merge_store(tmp_path).status == "up to date"
    assert digest(tmp_path) == reference


def test_merge_publishes_a_finished_store(store, reference):
    (store / "manifest.json").unlink()
    assert not store_status(store).complete
    assert merge_store(store).status == "complete"
    assert digest(store) == reference


def test_array_expression():
    assert array_expression([]) == ""
    assert array_expression([9, 3, 8, 7, 7]) == "3,7-9"
    assert array_expression([0]) == "0"


@pytest.mark.parametrize("after", [0, 1, 4])
def test_an_interrupted_run_continues(tmp_path, reference, monkeypatch, after):
    seen = []

    def interrupt(step):
        seen.append(step.stage)
        if step.stage == "coarsening" and seen.count(step.stage) > after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        coarsen_dataset(config(tmp_path), progress=interrupt)
    assert not (tmp_path / "manifest.json").exists()
    assert run(tmp_path).status == "complete"
    assert digest(tmp_path) == reference


def test_a_missing_file_is_written_again(store, reference):
    next(iter(sorted(store.glob("shard-*.graclus-x3.h5")))).unlink()
    assert run(store).units_done == 1
    assert digest(store) == reference


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 4}, "seed 3 in the store, 4 asked for"),
        (
            {"dataset": "molecules:num_graphs=60:seed=1"},
            "option seed of the dataset: 0 in the store, 1 asked for",
        ),
        ({"dataset": "molecules:num_graphs=50"}, "number of graphs"),
        ({"profile": "small"}, "profile"),
        ({"shard_size": 5_000}, "cut into shards"),
        ({"poolers": ("graclus:order=degree*3",), "names": ("graclus-x3",)}, "order"),
        ({"add_degree": True}, "option add_degree of the dataset: not set in the store, on asked for"),
    ],
)
def test_a_mismatch_names_the_differences_and_changes_no_file(store, reference, change, named):
    with pytest.raises(StoreMismatchError) as caught:
        run(store, **change)
    assert any(named in difference.text for difference in caught.value.differences)
    with pytest.raises(StoreMismatchError) as planned:
        plan_run(config(store, **change))
    assert planned.value.differences == caught.value.differences
    assert digest(store) == reference


def test_force_rebuilds_a_store(tmp_path, reference):
    run(tmp_path, seed=4)
    run(tmp_path, force=True)
    assert digest(tmp_path) == reference


def test_an_added_hierarchy_uses_the_units_of_the_store(store, reference):
    summary = coarsen_dataset(CoarsenConfig(DATASET, out=store, poolers=("nopool",), seed=3))
    assert {h.name for h in summary.hierarchies} == {"graclus-x3", "random+ratio=0_3", "nopool"}
    after = digest(store)
    assert {k: v for k, v in after.items() if k in reference and k != "manifest.json"} == {
        k: v for k, v in reference.items() if k != "manifest.json"
    }
    assert verify_store(store) == []


def test_dry_run_writes_nothing(store, tmp_path):
    plan = plan_run(config(tmp_path / "s"))
    assert not (tmp_path / "s").exists()
    assert plan.num_graphs == 60 and plan.pending == plan.num_units * 3 and not plan.up_to_date
    assert plan_run(config(store)).up_to_date
    assert plan_run(config(store, force=True)).pending == plan.pending


def test_names_of_hierarchies(tmp_path):
    summary = run(tmp_path, names=("one", "two"), limit=5)
    assert [h.name for h in summary.hierarchies] == ["one", "two"]
    with pytest.raises(InputError, match="different names"):
        run(tmp_path / "x", poolers=("graclus", "graclus"))
    with pytest.raises(UnknownNameError, match="'graclus'"):
        run(tmp_path / "x", poolers=("graklus",))


@pytest.fixture
def failing(monkeypatch):
    """Let graphs of exactly 60 nodes fail."""
    import tgp.engine.coarsening as engine

    whole = engine.assign_level

    def assign(block, spec, draw):
        bad = np.flatnonzero(np.diff(block.node_ptr) == 60)
        if draw.level == 0 and bad.size:
            raise GraphError("test failure", graph=int(bad[0]))
        return whole(block, spec, draw)

    monkeypatch.setattr(engine, "assign_level", assign)
    return monkeypatch


def test_failed_graphs_are_recorded_and_can_be_retried(tmp_path, reference, failing):
    summary = run(tmp_path)
    nodes, _ = StoreReader(tmp_path).sizes()
    failed = {f.graph for name, f in summary.failures if name == "graclus-x3"}
    assert failed == set(np.flatnonzero(nodes == 60)) and failed
    assert all("test failure" in f.reason for _, f in summary.failures)
    assert run(tmp_path).failures == summary.failures  # up to date, still reported
    assert store_status(tmp_path).failures["graclus-x3"] == len(failed)
    failing.undo()
    again = run(tmp_path, retry_failed=True)
    assert again.failures == [] and 0 < again.units_done < len(reference)
    assert digest(tmp_path) == reference


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("pooler", ["nmf:k=4,nmf:k=2", "eigen:k=4:num_modes=2,eigen:k=2", "ndp,sep"])
def test_a_unit_where_every_graph_fails(tmp_path, monkeypatch, pooler, level):
    """The levels are empty but of the kind of the method, so that the store can be published and read."""
    import tgp.engine.coarsening as engine

    here, whole, whole_job = threading.local(), engine._run_levels, run_module.run_unit

    def fail(block, spec, length, key, dtype):
        if here.unit == 0 and key.level == level:
            raise GraphError("test failure", graph=0)
        return whole(block, spec, length, key, dtype)

    def job(task):
        here.unit = task.unit
        return whole_job(task)

    values = {"poolers": (pooler,), "shard_size": 10_000, "limit": 30}
    monkeypatch.setattr(engine, "_run_levels", fail)
    monkeypatch.setattr(run_module, "run_unit", job)
    monkeypatch.setattr(run_module, "warm_up", lambda *arguments: 0.0)
    out, clean = tmp_path / "s", tmp_path / "clean"
    summary = run(out, **values)
    monkeypatch.undo()
    run(clean, **values)
    stored, right = StoreReader(out), StoreReader(clean)
    lost = stored.manifest.spec.bounds[1]
    assert summary.num_units > 2 and lost > 1
    assert [(f.graph, f.level) for _, f in summary.failures] == [(g, level) for g in range(lost)]
    assert verify_store(out) == []
    name, ids = summary.hierarchies[0].name, np.arange(30)
    for depth in range(2):
        found, wanted = stored.gather_level(ids, name, depth), right.gather_level(ids, name, depth)
        assert found.assignment.kind == wanted.assignment.kind
        counts, expected = np.diff(found.super_ptr), np.diff(wanted.super_ptr)
        assert np.array_equal(counts[lost:], expected[lost:])
        assert np.array_equal(counts[:lost], expected[:lost] if depth < level else 0 * expected[:lost])
        assert stored.gather_level([0], name, depth).assignment.kind == wanted.assignment.kind
    run(out, retry_failed=True, **values)
    assert digest(out) == digest(clean)


@pytest.mark.linux
@pytest.mark.skipif(getattr(os, "geteuid", int)() == 0, reason="a superuser may write anywhere")
def test_a_read_only_target_is_reported(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StoreError, match="Permission denied"):
            run(tmp_path / "s")
    finally:
        tmp_path.chmod(0o700)


def test_a_target_that_is_a_file_is_reported(tmp_path):
    (tmp_path / "s").write_text("")
    with pytest.raises(StoreError, match="cannot write"):
        run(tmp_path / "s")


def test_metrics_can_be_left_out(tmp_path):
    run(tmp_path, metrics=False, limit=5)
    assert StoreReader(tmp_path).metrics("graclus-x3", 0) == {}
