"""One graph larger than memory on a Dask cluster: the same bytes, also when workers die."""

import contextlib
import signal

import numpy as np
import pytest

from tests.build.test_external import assert_same_store, random_edges, run_external, small_pieces  # noqa: F401
from tests.reliability.cluster import BAD_REVISION, Cluster
from tgp.build import dask_client, external_ranges
from tgp.build.cluster import ClusterError
from tgp_cli.main import run as tgp

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.slow


@pytest.fixture(params=["hem*3"])
def whole(request, tmp_path, small_pieces, monkeypatch):  # noqa: F811
    """Return a file of edges and the store that one process writes. Every step then runs on the workers."""
    np.save(tmp_path / "graph.npy", random_edges())
    run_external(tmp_path / "graph.npy", tmp_path / "whole", request.param)
    monkeypatch.setattr(external_ranges, "MIN_ENTRIES", 0)
    monkeypatch.setattr(external_ranges, "ENTRIES_PER_NODE", 0)
    return tmp_path / "graph.npy", tmp_path / "whole"


@pytest.mark.parametrize("whole", ["hem*3", "kmis:score_heuristic=w-greedy,hem,graclus"], indirect=True)
def test_a_cluster_gives_the_bytes_of_one_process(request, tmp_path, whole):
    schedule = request.node.callspec.params["whole"]
    options = {"n_workers": 2, "threads_per_worker": 2, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster:
        words = [
            "coarsen",
            "-d",
            str(whole[0]),
            "-p",
            schedule,
            "--memory",
            "4GB",
            "--threads",
            "2",
            "--quiet",
        ]
        assert tgp([*words, "-o", str(tmp_path / "s"), "--scheduler", cluster.scheduler_address]) == 0
    assert_same_store(tmp_path / "s", whole[1])


@contextlib.contextmanager
def cluster_of(folder, *environments, allowed_failures=3):
    """Start a scheduler and one worker for each dictionary of environment variables; yield the cluster."""
    with Cluster(folder / "cluster", allowed_failures) as cluster:
        for environment in environments:
            cluster.add_worker(environment=environment)
        cluster.wait_for_workers(len(environments))
        yield cluster


def test_workers_that_die_cost_their_ranges_only(tmp_path, whole):
    """A worker is killed after it has computed its third range. The other one takes its place, and the client notices nothing."""
    dying = {"TGP_FAILPOINT": "range:computed@3"}
    with cluster_of(tmp_path, dying, {}) as cluster:
        run_external(whole[0], tmp_path / "s", scheduler=str(cluster.file))
        assert cluster.workers[0].wait(600) == -signal.SIGKILL and cluster.workers[1].poll() is None
    assert_same_store(tmp_path / "s", whole[1])


def test_a_range_that_kills_all_workers_ends_the_run_and_it_continues(tmp_path, whole):
    dying = {"TGP_FAILPOINT": "range:computed@4"}
    with cluster_of(tmp_path, dying, dying, allowed_failures=0) as cluster:
        with pytest.raises(ClusterError, match=r"the job '\w+ \d+ of \d+' failed, because the Dask workers"):
            run_external(whole[0], tmp_path / "s", scheduler=str(cluster.file))
        assert (tmp_path / "s.scratch" / "journal.json").exists()
        cluster.add_worker()
        cluster.wait_for_workers(1)
        run_external(whole[0], tmp_path / "s", scheduler=str(cluster.file))
    assert_same_store(tmp_path / "s", whole[1])


def test_an_interrupted_run_continues_in_one_process(tmp_path, whole, monkeypatch):
    """Ctrl-C arrives while the workers compute the second level. An earlier scheduler does not delete its files."""

    def interrupt(step):
        if "level 2" in step.stage:
            raise KeyboardInterrupt

    with cluster_of(tmp_path, {}) as cluster, pytest.raises(KeyboardInterrupt):
        run_external(whole[0], tmp_path / "s", scheduler=str(cluster.file), progress=interrupt)
    monkeypatch.setattr(dask_client, "CONNECT_TIMEOUT", 0.3)
    kept = (tmp_path / "s.scratch" / "journal.json").read_text()
    assert "level1:merge" in kept
    with pytest.raises(ValueError, match="no Dask scheduler answers"):
        run_external(whole[0], tmp_path / "s", scheduler="tcp://127.0.0.1:9")
    assert (tmp_path / "s.scratch" / "journal.json").read_text() == kept
    run_external(whole[0], tmp_path / "s")
    assert_same_store(tmp_path / "s", whole[1])


def test_a_worker_of_another_engine_is_named_before_the_start(tmp_path, whole):
    with Cluster(tmp_path / "cluster") as cluster:
        bad = cluster.add_worker(script=BAD_REVISION)
        cluster.wait_for_workers(1)
        with pytest.raises(ClusterError, match=rf"process {bad.pid}\) .*engine revision 9"):
            run_external(whole[0], tmp_path / "s", scheduler=str(cluster.file))
    assert not (tmp_path / "s").exists()
