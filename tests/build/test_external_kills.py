"""Runs on graphs larger than memory that are killed, interrupted, or find a full disk: they continue and end with the same bytes."""

import functools
import os
import shutil
import signal

import numpy as np
import pytest

from tests.build.test_external import (
    SCHEDULE,
    assert_same_store,
    files_of,
    random_edges,
    run_external,
    run_in_memory,
    small_pieces,  # noqa: F401 - a fixture
    write_text,
)
from tests.sources.test_edge_files import make_edges, write_file
from tgp.build import external_input
from tgp.engine.external import buckets, journal, row_files
from tgp.errors import InputError
from tgp_cli.main import run

resource = pytest.importorskip("resource")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

POINTS = [
    "input:scan", "input:scan@3", "input:ids", "input:bounds", "input:fill", "input:fill@4", "input:merge@2", "digest", "store",
    "shard:written", "shard:renamed", "level1:assign", "level1:fill@2", "level1:merge", "level2:assign", "level3:merge",
    "shard:recorded@2", "manifest:before", "manifest:after",
]  # fmt: skip
MIXED_POINTS = [
    "level1:order",
    "level1:order@3",
    "level1:assign",
    "level2:assign",
    "level3:order",
    "level3:merge",
]


@pytest.mark.parametrize(
    ("schedule", "points"),
    [(SCHEDULE, POINTS), ("kmis:force_undirected=true,graclus:two_hop=true,kmis", MIXED_POINTS)],
    ids=["hem", "mixed"],
)
@pytest.mark.usefixtures("small_pieces")
def test_a_killed_run_continues_and_ends_with_the_same_bytes(tmp_path, schedule, points):
    edges = random_edges()
    weight = np.random.default_rng(1).random(len(edges)).astype(np.float32)
    path = write_text(tmp_path / "graph.txt", 2 * edges, weight)
    run_external(path, tmp_path / "whole", schedule)
    expected = files_of(tmp_path / "whole")
    for number, point in enumerate(points):
        store = tmp_path / f"store{number}"
        failing = {"TGP_FAILPOINT": point}
        assert run_in_child(path, store, schedule, environment=failing) == -signal.SIGKILL, point
        assert run_external(path, store, schedule).status in ("complete", "up to date")
        assert files_of(store) == expected, point
        assert not (tmp_path / f"store{number}.scratch").exists()


def run_in_child(path, store, schedule=SCHEDULE, *, prepare=lambda: None, environment=None):
    """Run the command in a forked process, with compiled kernels. Return its status, negative for a signal.

    Args:
        path: File of edges.
        store: Store to write.
        schedule: Schedule of the levels.
        prepare: Function that the child calls first.
        environment: Variables of its environment.
    """
    child = os.fork()
    if child == 0:
        status = 99
        try:
            os.environ.update(environment or {})
            signal.signal(signal.SIGINT, signal.default_int_handler)
            prepare()
            arguments = [
                "coarsen",
                "-d",
                str(path),
                "-p",
                schedule,
                "--memory",
                "4GB",
                "-o",
                str(store),
                "-q",
            ]
            status = run(arguments)
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Trigger:
    """Count the writes of a run, and send a signal at one of them, after half of the bytes of a bucket.

    Args:
        at: Number of the write, from 1; 0 for none.
        number: Signal.
    """

    def __init__(self, at=0, number=signal.SIGKILL):
        self.at, self.number, self.count = at, number, 0

    def install(self, replace=setattr):
        """Replace the functions that write, in this process."""
        write_all = buckets.write_all

        def write_half(file, data):
            if self.count + 1 == self.at:
                write_all(file, data[: len(data) // 2])
            self.hit()
            write_all(file, data)

        replace(buckets, "write_all", write_half)
        for owner, name in (
            (row_files.RowWriter, "append"),
            (row_files.RowWriter, "sync"),
            (buckets.Buckets, "remove"),
            (journal.Journal, "_write"),
            (journal.Journal, "_clear"),
            (journal.Journal, "remove"),
        ):
            replace(owner, name, self.wrap(getattr(owner, name)))

    def wrap(self, function):
        def call(*arguments):
            self.hit()
            return function(*arguments)

        return call

    def hit(self):
        self.count += 1
        if self.count == self.at:
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize(
    ("number", "status", "kind"),
    [
        (signal.SIGKILL, -signal.SIGKILL, "text"),
        (signal.SIGKILL, -signal.SIGKILL, "npz"),
        (signal.SIGINT, 130, "npz"),
    ],
)
@pytest.mark.usefixtures("small_pieces")
def test_a_run_that_is_stopped_between_two_records_continues(tmp_path, monkeypatch, number, status, kind):
    """The run is stopped at writes of all stages, also in the bucket sort, and once more when it continues."""
    edges = random_edges(300, 900)
    weight = np.random.default_rng(1).random(len(edges)).astype(np.float32)
    if kind == "text":
        path, weight = write_text(tmp_path / "graph.txt", edges), None
    else:
        path = tmp_path / "graph.npz"
        np.savez(path, edge_index=edges.T, edge_weight=weight)
    trigger = Trigger()
    with monkeypatch.context() as patch:
        trigger.install(patch.setattr)
        run_external(path, tmp_path / "whole")
    assert trigger.count > 100
    expected = run_in_memory(tmp_path, edges, weight)
    assert_same_store(tmp_path / "whole", expected)
    for at in np.linspace(1, trigger.count, 9).astype(int).tolist():
        store = tmp_path / f"store{at}"
        assert run_in_child(path, store, prepare=Trigger(at, number).install) == status, at
        assert run_in_child(path, store, prepare=Trigger(9, number).install) in (status, 0), at
        assert run_external(path, store).status in ("complete", "up to date"), at
        assert_same_store(store, expected)
        shutil.rmtree(store)


@pytest.mark.parametrize("kind", ["a.txt.gz", "a.parquet", "ogb"])
@pytest.mark.usefixtures("small_pieces")
def test_other_kinds_of_files_continue_from_their_positions(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(external_input, "SCAN_SIZE", 8)
    monkeypatch.setattr(external_input, "_CHECKPOINT", 20)
    edges, weight = make_edges()
    # Weights, because edges that are read twice are added up.
    path = write_file(tmp_path, kind, edges, weight)
    run_external(path, tmp_path / "whole")
    for number, point in enumerate(("input:scan@2", "input:scan@4", "input:fill@1")):
        store = tmp_path / f"store{number}"
        assert run_in_child(path, store, environment={"TGP_FAILPOINT": point}) == -signal.SIGKILL, point
        run_external(path, store)
        assert files_of(store) == files_of(tmp_path / "whole"), point


def test_a_second_run_at_the_same_time_is_refused(tmp_path):
    from tgp.build.scratch import open_scratch

    path = write_text(tmp_path / "graph.txt", random_edges())
    with open_scratch(tmp_path / "store.scratch", "first") as held:
        held.record("step", 1)
        with pytest.raises(InputError, match="another run uses"):
            run_external(path, tmp_path / "store")
        assert held.folder.exists()
    assert not (tmp_path / "store.scratch").exists()
    run_external(path, tmp_path / "store")


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_other_files_in_the_place_of_the_temporary_files_are_not_deleted(tmp_path, kind):
    path, scratch = write_text(tmp_path / "graph.txt", random_edges()), tmp_path / "store.scratch"
    if kind == "folder":
        scratch.mkdir()
        (scratch / "thesis.txt").write_text("years of work")
    elif kind == "file":
        scratch.write_text("years of work")
    else:
        scratch.symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"store\.scratch is needed for temporary files"):
        run_external(path, tmp_path / "store")
    assert (
        scratch.is_symlink()
        or "years of work" in (scratch / "thesis.txt" if kind == "folder" else scratch).read_text()
    )
    assert not (tmp_path / "store").exists()


def test_errors_that_would_come_again_leave_no_temporary_files(tmp_path):
    (tmp_path / "graph.txt").write_text("0 1\n-1 2\n")
    with pytest.raises(ValueError, match="ids from 0"):
        run_external(tmp_path / "graph.txt", tmp_path / "store")
    assert [path.name for path in tmp_path.iterdir()] == ["graph.txt"]


def limit_files(size):
    """Let writes beyond this size fail. The signal that the system also sends is ignored by Python."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.usefixtures("small_pieces")
def test_a_full_disk_ends_with_status_4_and_the_run_continues(tmp_path):
    """A limit of the size of files stands for a full disk."""
    text, array = write_text(tmp_path / "graph.txt", random_edges()), tmp_path / "graph.npy"
    np.save(array, random_edges())
    run_external(text, tmp_path / "whole")
    stages = {"numbers of a text": (text, 20_000), "bucket": (array, 5000), "rows": (array, 10_000)}
    stages |= {"graph": (array, 13_000), "levels": (array, 17_000)}
    for number, (stage, (path, limit)) in enumerate(stages.items()):
        store = tmp_path / f"store{number}"
        assert run_in_child(path, store, prepare=functools.partial(limit_files, limit)) == 4, stage
        assert store.with_name(f"{store.name}.scratch").exists()
        assert store.exists() == (stage in ("graph", "levels"))
        run_external(path, store)
        assert_same_store(store, tmp_path / "whole")
