"""Graphs larger than memory whose store is divided over several files: the bytes of a run in memory, kills between files."""

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from tests.build import test_external
from tests.build.test_external import (
    SCHEDULE,
    canonical,
    random_edges,
    run_external,
    small_pieces,  # noqa: F401 - a fixture
    write_text,
)
from tgp.build import CoarsenConfig, coarsen_dataset
from tgp.data import PooledDataset
from tgp.errors import StoreMismatchError
from tgp.store import verify_store
from tgp_cli.main import run


def files_of(store):
    return {path.name: path.read_bytes() for path in sorted(store.glob("shard-*.h5"))}


def in_memory(folder, edges, weight, shard_edges):
    index, weight = canonical(edges, weight)
    arrays = {} if weight is None else {"edge_weight": weight}
    np.savez(folder / "c.npz", edge_index=index, num_nodes=int(index.max()) + 1, **arrays)
    options = {"poolers": SCHEDULE, "metrics": False, "shard_edges": shard_edges}
    coarsen_dataset(CoarsenConfig(str(folder / "c.npz"), out=folder / "in_memory", **options))
    return folder / "in_memory"


@pytest.mark.parametrize("shard_edges", [1, 333, 1500])
@pytest.mark.usefixtures("small_pieces")
def test_a_divided_store_has_the_bytes_of_a_run_in_memory(tmp_path, shard_edges):
    edges = random_edges(100, 300) if shard_edges == 1 else random_edges()
    weight = None
    if shard_edges != 1500:
        weight = np.random.default_rng(1).integers(1, 9, len(edges)).astype(np.float32)
    path = write_text(tmp_path / "graph.txt", edges, weight)
    assert run_external(path, tmp_path / "store", shard_edges=shard_edges).status == "complete"
    expected = in_memory(tmp_path, edges, weight, shard_edges)
    assert files_of(tmp_path / "store") == files_of(expected) and len(files_of(expected)) > 3
    assert verify_store(tmp_path / "store") == []
    # Without the setting, the store is continued as it is. Another one is a mismatch.
    assert run_external(path, tmp_path / "store").status == "up to date"
    with pytest.raises(StoreMismatchError, match="shard_edges"):
        run_external(path, tmp_path / "store", shard_edges=777)


POINTS = ("shard:written@2", "shard:renamed@3", "shard:recorded@7", "shard:recorded@11", "manifest:before")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.usefixtures("small_pieces")
def test_a_run_that_is_killed_between_two_files_continues(tmp_path):
    path = write_text(tmp_path / "graph.txt", random_edges())
    run_external(path, tmp_path / "whole", shard_edges=500)
    expected = files_of(tmp_path / "whole")
    for number, point in enumerate(POINTS):
        store = tmp_path / str(number)
        assert _killed_at(point, path, store) == -signal.SIGKILL, point
        kept = {name: (store / name).stat().st_mtime_ns for name in files_of(store)}
        assert run_external(path, store, shard_edges=500).status in ("complete", "up to date")
        assert files_of(store) == expected, point
        recorded = [name for name in kept if (store / name).stat().st_mtime_ns == kept[name]]
        assert len(recorded) >= len(kept) - 1, point  # the last file may have no record yet


def _killed_at(point, path, store):
    child = os.fork()
    if child == 0:
        status = 99
        try:
            os.environ["TGP_FAILPOINT"] = point
            options = ["--memory", "4GB", "-o", str(store), "-q", "--shard-edges", "500"]
            status = run(["coarsen", "-d", str(path), "-p", SCHEDULE, *options])
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.usefixtures("small_pieces")
def test_the_command_line_divides_and_status_and_merge_follow(tmp_path):
    path, store = write_text(tmp_path / "graph.txt", random_edges()), str(tmp_path / "s")
    options = ["--memory", "4GB", "-o", store, "--shard-edges", "500"]
    assert test_external.invoke(["coarsen", "-d", str(path), "-p", SCHEDULE, *options]).exit_code == 0
    assert len(PooledDataset(store).as_hierarchy()) == 3
    Path(store, "manifest.json").unlink()
    status = json.loads(test_external.invoke(["status", store, "--json"]).output)
    assert not status["complete"] and not status["missing"]
    assert test_external.invoke(["merge", store]).exit_code == 0
    assert test_external.invoke(["verify", store]).exit_code == 0
    (tmp_path / "s" / "shard-00000.graphs.r0002.h5").unlink()
    status = json.loads(test_external.invoke(["status", store, "--json"]).output)
    assert not status["complete"] and status["parts"]["graphs"] == [0]
    assert test_external.invoke(["verify", store]).exit_code == 1
