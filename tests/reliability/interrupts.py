"""Figures of runs that are killed, interrupted, out of space, or not alone."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

from tests.reliability.harness import Figure, Job, Launcher, Run, digests, killpoints, torn, wait_until_gone

SEED = 20240229


END_LIMIT = 60.0
"""Seconds. The promise is 2 s and the longest time is printed; on a busy machine only a hang is wrong."""


def undisturbed(launcher: Launcher, job: Job, path: Path) -> tuple[dict[str, str], float]:
    """Digests of a run nobody disturbs, and its seconds."""
    started = time.monotonic()
    status, text = launcher.run(job.arguments(path))
    if status != 0:
        raise RuntimeError(f"an undisturbed run ended with {status}: {text}")
    return digests(path), time.monotonic() - started


def _finish(
    launcher: Launcher, job: Job, path: Path, expected: dict[str, str], figure: Figure, what: str
) -> None:
    """Run the same command to its end and compare every byte."""
    status, text = launcher.run(job.arguments(path))
    figure.expect(status == 0, f"{what}: the rerun ended with {status}: {text}")
    figure.expect(digests(path) == expected, f"{what}: bytes differ")


def random_kills(launcher: Launcher, folder: Path, job: Job, kills: int, cold: bool = False) -> Figure:
    """SIGKILL the parent or one worker at random moments, again and again until a store is complete."""
    figure = Figure(f"SIGKILL at random moments{', command started afresh' if cold else ''}")
    expected, duration = undisturbed(launcher, job, folder / f"whole-{cold}")
    if cold:
        duration = _timed(launcher, job, folder / "cold")
    rng = random.Random(SEED + cold)
    killed = {"parent": 0, "worker": 0}
    stores = 0
    while sum(killed.values()) < kills and stores < 5 + 4 * kills:
        path = folder / f"kill-{cold}-{stores}"
        stores += 1
        for _ in range(6):
            started = time.monotonic()
            run = launcher.start(job.arguments(path), cold=cold)
            time.sleep(rng.uniform(0.05, 0.7) * duration)
            workers = run.workers()
            victim = "worker" if workers and rng.random() < 0.5 else "parent"
            if run.poll() is None:
                run.kill(signal.SIGKILL, rng.choice(workers) if victim == "worker" else None)
            status = run.wait()
            killed[victim] += status != 0
            if status == 0:  # it was through before the kill: the machine has become faster
                duration = min(duration, time.monotonic() - started)
            figure.expect("Traceback" not in run.text(), f"traceback after a kill: {run.text()}")
            figure.expect(wait_until_gone(run.pid), "processes outlive the run")
            figure.expect(not torn(path, expected), f"torn after a kill: {torn(path, expected)}")
            if status == 0 or sum(killed.values()) >= kills:
                break
        _finish(launcher, job, path, expected, figure, f"store {stores - 1}")
    figure.count = sum(killed.values())
    figure.note = (
        f"{killed['parent']} parents, {killed['worker']} workers, {stores} stores of {len(expected)} files"
    )
    return figure


def _timed(launcher: Launcher, job: Job, path: Path) -> float:
    started = time.monotonic()
    launcher.run(job.arguments(path), cold=True)
    return time.monotonic() - started


def named_kills(launcher: Launcher, folder: Path, job: Job, turns: tuple[int, ...] = (1, 3)) -> Figure:
    """SIGKILL at every kill point of the writer."""
    figure = Figure("SIGKILL at every kill point")
    expected, _ = undisturbed(launcher, job, folder / "whole-points")
    points = killpoints()
    for point in points:
        for turn in turns:
            if point.startswith("manifest") and turn > 1:
                continue  # passed once
            path = folder / f"point-{point.replace(':', '-')}-{turn}"
            environment = {"TGP_FAILPOINT": f"{point}@{turn}"}
            run = launcher.start(job.arguments(path), environment=environment)
            status = run.wait()
            figure.count += 1
            figure.expect(status != 0, f"{point}@{turn}: was never reached")
            figure.expect(wait_until_gone(run.pid), f"{point}@{turn}: processes outlive the run")
            figure.expect(not torn(path, expected), f"{point}@{turn}: torn {torn(path, expected)}")
            _finish(launcher, job, path, expected, figure, f"{point}@{turn}")
    figure.note = f"{len(points)} points"
    return figure


def file_limits(launcher: Launcher, folder: Path, job: Job, times: int) -> Figure:
    """No file may grow beyond a random size: as a full disk, at any byte of any file."""
    figure = Figure("disk full (limit of file size)")
    expected, _ = undisturbed(launcher, job, folder / "whole-limits")
    largest = max(p.stat().st_size for p in (folder / "whole-limits").glob("*.h5"))
    rng = random.Random(SEED)
    for number in range(times):
        path = folder / f"limit-{number}"
        limit = rng.randrange(1, largest)
        status, text = launcher.run(job.arguments(path), file_limit=limit)
        figure.count += 1
        _check_full(figure, f"limit {limit}", status, text, path, expected)
        _finish(launcher, job, path, expected, figure, f"limit {limit}")
    return figure


def full_disk(launcher: Launcher, folder: Path, job: Job, times: int) -> Figure:
    """A file system that is really full, then given room."""
    figure = Figure("disk full (file system)")
    expected, _ = undisturbed(launcher, job, folder / "whole-full")
    size = sum(p.stat().st_size for p in (folder / "whole-full").glob("**/*"))
    rng = random.Random(SEED)
    for number in range(times):
        disk = folder / f"disk-{number}"
        room = rng.randrange(16 << 10, int(0.9 * size))
        if not mount(disk, f"size={room}"):
            figure.note = "not run: mounting is not allowed here"
            return figure
        try:
            status, text = launcher.run(job.arguments(disk / "s"))
            figure.count += 1
            _check_full(figure, f"room {room}", status, text, disk / "s", expected)
            mount(disk, f"remount,size={4 * size}")
            _finish(launcher, job, disk / "s", expected, figure, f"room {room}")
        finally:
            subprocess.run(["umount", "-l", str(disk)], check=True)
    return figure


def _check_full(
    figure: Figure, what: str, status: int, text: str, path: Path, expected: dict[str, str]
) -> None:
    lines = [line for line in text.splitlines() if line.startswith("Error:")]
    figure.expect(status == 4, f"{what}: status {status}: {text}")
    figure.expect(len(lines) == 1 and "no space left" in text, f"{what}: unclear message: {text}")
    figure.expect("Traceback" not in text, f"{what}: traceback: {text}")
    figure.expect(not torn(path, expected), f"{what}: torn {torn(path, expected)}")


def mount(path: Path, options: str) -> bool:
    """Mount (or remount) a file system in memory; whether that is allowed."""
    path.mkdir(exist_ok=True)
    try:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def signals(launcher: Launcher, folder: Path, job: Job, times: int) -> Figure:
    """SIGINT and SIGTERM in the middle of the work, one and two workers."""
    figure = Figure("SIGINT and SIGTERM")
    expected, _ = undisturbed(launcher, job, folder / "whole-signals")
    rng = random.Random(SEED)
    longest = 0.0
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        for workers in (1, 2):
            for turn in range(times):
                for attempt in range(5):
                    path = folder / f"signal-{status}-{workers}-{turn}-{attempt}"
                    run, seconds = _signalled(launcher, job, path, workers, number, rng.randrange(1, 4))
                    if run.wait() or digests(path) != expected:
                        break  # else it was through before the signal came
                longest = max(longest, seconds)
                figure.count += 1
                figure.expect(run.wait() == status, f"signal {number}: status {run.wait()}: {run.text()}")
                figure.expect("Traceback" not in run.text(), f"signal {number}: {run.text()}")
                figure.expect(wait_until_gone(run.pid), f"signal {number}: processes outlive the run")
                figure.expect(not torn(path, expected), f"signal {number}: torn {torn(path, expected)}")
                _finish(launcher, job, path, expected, figure, f"signal {number}")
    figure.expect(longest < END_LIMIT, f"took {longest:.2f} s to end")
    figure.note = f"slowest end {longest:.2f} s"
    return figure


def _signalled(
    launcher: Launcher, job: Job, path: Path, workers: int, number: int, shards: int
) -> tuple[Run, float]:
    """A run that got a signal once so many shards were there, and the seconds it took to end."""
    run = launcher.start(job.arguments(path, workers))
    while run.poll() is None and len(list(path.glob("shard-*.h5"))) < shards:
        time.sleep(0.002)
    sent = time.monotonic()
    run.kill(number)
    run.wait()
    return run, time.monotonic() - sent


def two_writers(launcher: Launcher, folder: Path, job: Job, times: int) -> Figure:
    """Two runs on one directory, and a reader that looks all the time."""
    from tgp.errors import StoreMissingError
    from tgp.store import StoreReader, verify_store

    figure = Figure("two writers and a reader at once")
    expected, _ = undisturbed(launcher, job, folder / "whole-two")
    absent = complete = 0
    for number in range(times):
        path = folder / f"two-{number}"
        runs = [launcher.start(job.arguments(path, workers)) for workers in (1, job.workers)]
        while any(run.poll() is None for run in runs):
            figure.expect(not torn(path, expected), f"torn while writing: {torn(path, expected)}")
            try:
                reader = StoreReader(path)
            except StoreMissingError:
                absent += 1
                continue
            complete += 1
            figure.expect(reader.num_graphs == job.graphs, "a reader saw a part of the graphs")
            figure.expect(not verify_store(path, semantics=False), "a reader saw an unsound store")
        for run in runs:
            figure.expect(run.wait() == 0, f"a writer ended with {run.wait()}: {run.text()}")
            wait_until_gone(run.pid)
        figure.count += 1
        figure.expect(digests(path) == expected, "bytes differ")
    figure.note = f"reader: {absent} times absent, {complete} times complete"
    return figure
