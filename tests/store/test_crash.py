"""Kills at every failpoint, a full disk, and several writers: a published store is complete and has the same bytes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reliability.harness import digests, failpoints
from tgp.errors import StoreMissingError
from tgp.store import StoreReader, verify_store

MAKE = """
import sys
from tgp.store import StoreWriter
from tgp.testing.stores import random_table, store_spec, write_store
path, profile = sys.argv[1:3]
table = random_table(30, seed=5)
write_store(StoreWriter.open(path, store_spec(table, 2, profile)), table)
"""
pytestmark = pytest.mark.linux

POINTS = [
    "file:written",
    "file:renamed",
    "shard:created",
    "shard:written",
    "shard:synced",
    "shard:digested",
    "shard:renamed",
    "shard:durable",
    "shard:recorded",
    "manifest:before",
    "manifest:after",
]


def start(path, profile="fast", code=MAKE, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", code, str(path), profile],
        env={**os.environ, **environment},
        stderr=subprocess.PIPE,
        text=True,
    )


def run(path, profile="fast", code=MAKE, **environment):
    process = start(path, profile, code, **environment)
    _, errors = process.communicate(timeout=600)
    return process.returncode, errors


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Digests of the store of a run without kills, by profile."""
    found = {}
    for profile in ("fast", "small"):
        path = tmp_path_factory.mktemp("whole") / profile
        assert run(path, profile) == (0, "")
        found[profile] = digests(path)
    return found


def test_every_failpoint_is_listed():
    """A failpoint that is not listed would not be tested."""
    assert set(failpoints()) == set(POINTS)


@pytest.mark.parametrize("turn", [1, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_run_is_continued(tmp_path, undisturbed, point, turn):
    path = tmp_path / "s"
    code, _ = run(path, TGP_FAILPOINT=f"{point}@{turn}")
    reached = turn == 1 or not point.startswith("manifest:")
    assert code == (-signal.SIGKILL if reached else 0)
    try:
        reader = StoreReader(path)
    except StoreMissingError:
        pass
    else:  # a published store must be complete
        assert reader.num_graphs == 30
        assert verify_store(path) == []
    assert run(path) == (0, "")
    assert digests(path) == undisturbed["fast"]
    assert not list(path.glob("**/.tmp-*"))


@pytest.mark.slow
def test_a_run_killed_at_every_failpoint_is_continued(tmp_path, undisturbed):
    path = tmp_path / "s"
    for point in POINTS:
        run(path, "small", TGP_FAILPOINT=point)
    assert run(path, "small") == (0, "")
    assert digests(path) == undisturbed["small"]


FULL = """
import resource, sys
from tgp.errors import StoreFullError
limit = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
sys.argv[2] = "fast"
try:
    exec(open(sys.argv[1] + ".py").read())
except StoreFullError as error:
    print(error, error.hint, file=sys.stderr)
    sys.exit(4)
"""


@pytest.mark.parametrize("limit", [0, 100, 1000, 4096, 10_000])
def test_a_full_disk(tmp_path, undisturbed, limit):
    """A full disk raises ``StoreFullError`` and leaves no incomplete file, and the same command continues later."""
    path = tmp_path / "s"
    Path(f"{path}.py").write_text(MAKE)
    code, errors = run(path, str(limit), code=FULL)
    assert code == 4, errors
    assert "no space left while writing" in errors
    assert "run the same command again" in errors
    assert not list(path.glob("**/.tmp-*"))
    with pytest.raises(StoreMissingError):
        StoreReader(path)
    shards = {name: digest for name, digest in digests(path).items() if name.endswith(".h5")}
    assert shards.items() <= undisturbed["fast"].items()
    assert run(path) == (0, "")
    assert digests(path) == undisturbed["fast"]


@pytest.mark.parametrize("profile", ["fast", "small"])
def test_three_writers_at_the_same_time(tmp_path, undisturbed, profile):
    path = tmp_path / "s"
    writers = [start(path, profile) for _ in range(3)]
    for writer in writers:
        _, errors = writer.communicate(timeout=600)
        assert (writer.returncode, errors) == (0, "")
    assert digests(path) == undisturbed[profile]


def test_a_writer_is_killed_while_another_one_runs(tmp_path, undisturbed):
    path = tmp_path / "s"
    one, two = start(path, TGP_FAILPOINT="shard:written@2"), start(path)
    one.communicate(timeout=600)
    _, errors = two.communicate(timeout=600)
    assert (two.returncode, errors) == (0, "")
    assert run(path) == (0, "")
    assert digests(path) == undisturbed["fast"]
