"""All figures of ``tests/reliability/run.py``, with small numbers."""

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.reliability import damage, interrupts, readonly
from tests.reliability.harness import ENVIRONMENT, Job, Launcher, digests, failpoints, scratch, wrong_files
from tests.reliability.run import figures, parse
from tgp.build.executors import open_executor

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(os, "fork"), reason="needs fork and /proc"
)

JOB = Job(graphs=300, shard_size="120kB")


@pytest.fixture(scope="module")
def launcher():
    with scratch() as folder, Launcher(Path(folder)) as loaded:
        yield loaded


@pytest.fixture
def folder():
    """Temporary directory, in memory if possible, because a disk needs much time for hundreds of syncs."""
    with scratch() as name:
        yield Path(name)


def check(figure, count):
    assert figure.problems == []
    assert figure.count >= count, figure.note


@pytest.mark.slow
def test_kills_at_random_moments(launcher, folder):
    check(interrupts.random_kills(launcher, folder, JOB, 20), 20)


@pytest.mark.slow
def test_kills_at_every_failpoint(launcher, folder):
    assert len(failpoints()) >= 11
    check(interrupts.named_kills(launcher, folder, JOB, (1,)), len(failpoints()))


def test_a_limit_on_file_sizes(launcher, folder):
    check(interrupts.file_limits(launcher, folder, JOB, 2), 2)


def test_a_full_disk(launcher, folder):
    figure = interrupts.full_disk(launcher, folder, JOB, 1)
    if figure.note.startswith("not run"):
        pytest.skip(figure.note)
    check(figure, 1)


@pytest.mark.slow
def test_signals(launcher, folder):
    check(interrupts.signals(launcher, folder, JOB, 1), 4)


@pytest.mark.slow
def test_two_writers_and_a_reader(launcher, folder):
    for attempt in range(5):
        place = folder / str(attempt)
        place.mkdir()
        figure = interrupts.two_writers(launcher, place, JOB, 1)
        check(figure, 1)
        if not re.search(r"\b0 times absent", figure.note):
            break  # otherwise this process did not run before both writers had ended
    assert not re.search(r"\b0 times absent", figure.note)


def test_reading_writes_nothing(launcher, folder):
    check(readonly.read_only(launcher, folder, JOB, {**os.environ, **ENVIRONMENT}), 5)


def test_flipped_bits():
    found, read = damage.flips(60)
    check(found, 60)
    check(read, 60)


def test_truncations():
    found, read = damage.truncations(30)
    check(found, 30)
    check(read, 30)


def test_stopped_workers_do_not_block_the_end_of_a_run():
    """A worker that is killed while it holds the lock of the queue would make the other workers wait forever."""
    with open_executor(None, 2) as pool:
        workers = {pool.executor.submit(os.getpid).result() for _ in range(3)}
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        left = time.monotonic()
    assert (
        time.monotonic() - left < 60
    )  # the documented limit is 2 s, but only a hang fails on a busy machine
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


# Tests of the checks --------------------------------------------------------------------------------


def test_an_incomplete_file_is_reported(launcher, folder):
    assert launcher.run(JOB.arguments(folder / "s"))[0] == 0
    expected = digests(folder / "s")
    assert wrong_files(folder / "s", expected) == []
    shard = folder / "s" / "shard-00000.graphs.h5"
    shard.write_bytes(shard.read_bytes()[:-1])
    assert wrong_files(folder / "s", expected) == [shard.name]


def test_a_write_to_the_store_is_reported(launcher, folder):
    assert launcher.run(JOB.arguments(folder / "s"))[0] == 0
    environment = {**os.environ, **ENVIRONMENT, "TGP_WATCH_ITSELF": "1"}
    _, opened = readonly.watched(folder / "s", JOB.arguments(folder / "s"), environment)
    assert [event for event, _ in opened] == ["open"]


def test_wrong_data_is_reported():
    """Wrong data is allowed only for flipped bits in arrays of values of the fast profile."""
    case = {"kind": "flip", "file": "f", "at": 1, "profile": "fast", "verify": "found", "full": "refused"}
    for region, problems in (("offsets", 1), ("header", 1), ("json", 1), ("values", 0)):
        found, read = interrupts.Figure("a"), interrupts.Figure("b")
        damage._judge({**case, "region": region, "read": "wrong"}, found, read, damage.Counter())
        assert (len(found.problems), len(read.problems)) == (0, problems)


def test_the_options_select_the_figures():
    assert len(list(figures(parse([])))) == 10
    nothing = [
        "--kills",
        "0",
        "--cold-kills",
        "0",
        "--turns",
        "--times",
        "0",
        "--flips",
        "0",
        "--truncations",
        "0",
    ]
    assert list(figures(parse(nothing))) == []
