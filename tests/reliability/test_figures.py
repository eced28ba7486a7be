"""All figures of ``tests/reliability/run.py``, with small numbers."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.reliability import damage, interrupts, readonly, run, soak
from tests.reliability.harness import (
    ENVIRONMENT,
    ROOT,
    Figure,
    Job,
    Launcher,
    digests,
    failpoints,
    scratch,
    wrong_files,
)
from tgp.build.executors import open_executor
from tgp.engine.methods import METHODS

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
        if figure.tally["times absent for a reader"]:
            break  # otherwise this process did not run before both writers had ended
    assert figure.tally["times absent for a reader"]


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


@pytest.fixture
def two_parts(monkeypatch):
    """Two parts of ten cases whose last case of each portion is wrong in the second part. Return the cases that ran."""
    ran = []

    def part(name):
        def measure(first, count):
            ran.append((name, first, count))
            figure = Figure(name, count, tally=Counter(cases=count), largest={"largest": float(first)})
            figure.expect(name == "good", f"{first} is wrong")
            return [figure]

        return run.Part(10, 4, measure)

    monkeypatch.setattr(run, "PARTS", {name: part(name) for name in ("good", "bad")})
    return ran


def test_portions_are_kept_and_added_up(tmp_path, two_parts):
    path = tmp_path / "results.json"
    assert run.measure(run.Results(path), ["good"], 1e9, portions=1) == run.DONE
    assert two_parts == [("good", 0, 4)]
    assert run.measure(run.Results(path), ["good", "bad"], 1e9) == run.DONE
    assert two_parts == [(name, *case) for name in ("good", "bad") for case in ((0, 4), (4, 4), (8, 2))]
    results = run.Results(path)
    ((good, _),), ((bad, _),) = results.totals("good"), results.totals("bad")
    assert (good.count, good.tally, good.largest, good.problems) == (10, {"cases": 10}, {"largest": 8.0}, [])
    assert bad.problems == ["0 is wrong", "4 is wrong", "8 is wrong"]
    assert run.measure(results, ["good", "bad"], -1.0) == run.DONE  # nothing is left to start


def test_no_portion_starts_after_the_time(tmp_path, two_parts):
    assert run.measure(run.Results(tmp_path / "results.json"), ["good"], -1.0) == run.LEFT
    assert two_parts == []


def test_a_portion_that_stops_is_wrong(tmp_path, monkeypatch):
    def hang(first, count):
        raise TimeoutError("still running")

    monkeypatch.setattr(run, "PARTS", {"hang": run.Part(1, 1, hang)})
    run.measure(run.Results(tmp_path / "results.json"), ["hang"], 1e9)
    ((figure, _),) = run.Results(tmp_path / "results.json").totals("hang")
    assert figure.problems == ["still running"]


def test_all_cases_are_in_one_portion():
    for part in run.PARTS.values():
        sizes = []
        counted = run.Part(
            part.full,
            part.portion,
            lambda first, count, sizes=sizes: sizes.extend(range(first, first + count)),
        )
        for number in range(part.portions):
            counted.measure(number)
        assert sizes == list(range(part.full))


def test_soak_runs_differ_and_can_be_repeated():
    plans = [soak.Plan.draw(number) for number in range(200)]
    assert plans == [soak.Plan.draw(number) for number in range(200)] and len(set(plans)) == 200
    assert {kind for plan in plans for kind in plan.disturbances} == set(soak.DISTURBANCES)
    assert {schedule for plan in plans for schedule in plan.schedules} == set(soak.SCHEDULES)
    methods = set(METHODS.entries) - {
        "amg",
        "ugc",
        "voxel",
        "fps",
    }  # these need features, positions or a package
    assert {name for name in methods if not any(name in text for text in soak.SCHEDULES)} == set()


@pytest.mark.slow
def test_soak_and_training_with_kills(tmp_path):
    for module in ("soak", "ddp"):
        words = [sys.executable, "-m", f"tests.reliability.{module}", "--first", "1", "--count", "1"]
        done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        figure = Figure.from_row(json.loads(done.stdout.splitlines()[-1]))
        check(figure, 1)


def test_soak_notices_what_is_left(folder, launcher):
    (folder / "tmp").mkdir()
    before = soak.leftovers(folder)
    assert soak.leftovers(folder) == before
    with open(folder / "file", "w"):
        assert soak.leftovers(folder)["open files"] == before["open files"] + 1
    (folder / "tmp" / "left").touch()
    assert soak.leftovers(folder)["temporary files"] == ["left"]
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert soak.leftovers(folder)["children"] == before["children"] + 1
    finally:
        process.communicate()
