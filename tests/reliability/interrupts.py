"""Figures of runs that are killed, interrupted, out of disk space, or concurrent with other runs."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

from tests.reliability.harness import (
    Figure,
    Job,
    Launcher,
    Run,
    digests,
    failpoints,
    wait_until_gone,
    wrong_files,
)

SEED = 20240229

END_LIMIT = 60.0
"""Seconds until an interrupted run must end. The documented limit is 2 s. The longest time is printed, but on a busy machine
only a hang counts as wrong."""


def undisturbed(launcher: Launcher, job: Job, path: Path) -> tuple[dict[str, str], float]:
    """Run a command without kills, and return the digests of its store and its duration in seconds."""
    started = time.monotonic()
    status, text = launcher.run(job.arguments(path))
    if status != 0:
        raise RuntimeError(f"an undisturbed run ended with {status}: {text}")
    return digests(path), time.monotonic() - started


def _finish(
    launcher: Launcher, job: Job, path: Path, expected: dict[str, str], figure: Figure, what: str
) -> None:
    """Run the same command again to its end and compare all bytes."""
    status, text = launcher.run(job.arguments(path))
    figure.expect(status == 0, f"{what}: the rerun ended with {status}: {text}")
    figure.expect(digests(path) == expected, f"{what}: bytes differ")


def random_kills(
    launcher: Launcher, folder: Path, job: Job, kills: int, cold: bool = False, seed: int = SEED
) -> Figure:
    """Kill the parent or one worker at random times, repeatedly until a store is complete."""
    figure = Figure(f"SIGKILL at random moments{', new Python process' if cold else ''}")
    expected, duration = undisturbed(launcher, job, folder / f"whole-{cold}")
    if cold:
        duration = _cold_duration(launcher, job, folder / "cold")
    rng = random.Random(seed + cold)
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
            if status == 0:  # the run ended before the kill, so it is faster than the first run
                duration = min(duration, time.monotonic() - started)
            figure.expect("Traceback" not in run.text(), f"traceback after a kill: {run.text()}")
            figure.expect(wait_until_gone(run.pid), "processes outlive the run")
            figure.expect(
                not wrong_files(path, expected), f"wrong files after a kill: {wrong_files(path, expected)}"
            )
            if status == 0 or sum(killed.values()) >= kills:
                break
        _finish(launcher, job, path, expected, figure, f"store {stores - 1}")
    figure.count = sum(killed.values())
    figure.tally.update({"parents": killed["parent"], "workers": killed["worker"], "stores": stores})
    return figure


def _cold_duration(launcher: Launcher, job: Job, path: Path) -> float:
    started = time.monotonic()
    launcher.run(job.arguments(path), cold=True)
    return time.monotonic() - started


def named_kills(launcher: Launcher, folder: Path, job: Job, turns: tuple[int, ...] = (1, 3)) -> Figure:
    """Kill a run at every failpoint of the writer."""
    figure = Figure("SIGKILL at every failpoint")
    expected, _ = undisturbed(launcher, job, folder / "whole-points")
    points = failpoints()
    for point in points:
        for turn in turns:
            if point.startswith("manifest") and turn > 1:
                continue  # a run passes it once
            path = folder / f"point-{point.replace(':', '-')}-{turn}"
            environment = {"TGP_FAILPOINT": f"{point}@{turn}"}
            run = launcher.start(job.arguments(path), environment=environment)
            status = run.wait()
            figure.count += 1
            figure.expect(status != 0, f"{point}@{turn}: was never reached")
            figure.expect(wait_until_gone(run.pid), f"{point}@{turn}: processes outlive the run")
            figure.expect(
                not wrong_files(path, expected), f"{point}@{turn}: wrong files {wrong_files(path, expected)}"
            )
            _finish(launcher, job, path, expected, figure, f"{point}@{turn}")
    figure.tally["failpoints"] = len(points)
    return figure


def file_limits(launcher: Launcher, folder: Path, job: Job, times: int) -> Figure:
    """Limit the size of all files to a random number of bytes, which has the same effect as a full disk."""
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
    """Run on a file system that becomes full, enlarge it, and run again."""
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
    figure.expect(not wrong_files(path, expected), f"{what}: wrong files {wrong_files(path, expected)}")


def mount(path: Path, options: str) -> bool:
    """Mount or remount a file system in memory, and return True if that is allowed."""
    path.mkdir(exist_ok=True)
    try:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def signals(launcher: Launcher, folder: Path, job: Job, times: int) -> Figure:
    """Send SIGINT and SIGTERM to runs with one and two workers."""
    figure = Figure("SIGINT and SIGTERM")
    expected, _ = undisturbed(launcher, job, folder / "whole-signals")
    rng = random.Random(SEED)
    longest = 0.0
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        for workers in (1, 2):
            for turn in range(times):
                for attempt in range(5):
                    path = folder / f"signal-{status}-{workers}-{turn}-{attempt}"
                    run, seconds = _run_and_signal(launcher, job, path, workers, number, rng.randrange(1, 4))
                    if run.wait() or digests(path) != expected:
                        break  # otherwise the run ended before the signal arrived
                longest = max(longest, seconds)
                figure.count += 1
                figure.expect(run.wait() == status, f"signal {number}: status {run.wait()}: {run.text()}")
                figure.expect("Traceback" not in run.text(), f"signal {number}: {run.text()}")
                figure.expect(wait_until_gone(run.pid), f"signal {number}: processes outlive the run")
                figure.expect(
                    not wrong_files(path, expected),
                    f"signal {number}: wrong files {wrong_files(path, expected)}",
                )
                _finish(launcher, job, path, expected, figure, f"signal {number}")
    figure.expect(longest < END_LIMIT, f"took {longest:.2f} s to end")
    figure.largest["seconds to exit at most"] = longest
    return figure


def _run_and_signal(
    launcher: Launcher, job: Job, path: Path, workers: int, number: int, shards: int
) -> tuple[Run, float]:
    """Send a signal to a run after it wrote ``shards`` shards; return the run and the seconds until it ended."""
    run = launcher.start(job.arguments(path, workers))
    while run.poll() is None and len(list(path.glob("shard-*.h5"))) < shards:
        time.sleep(0.002)
    sent = time.monotonic()
    run.kill(number)
    run.wait()
    return run, time.monotonic() - sent


def two_writers(launcher: Launcher, folder: Path, job: Job, times: int) -> Figure:
    """Run two commands on one directory while a reader opens the store repeatedly."""
    from tgp.errors import StoreMissingError
    from tgp.store import StoreReader, verify_store

    figure = Figure("two writers and a reader at once")
    expected, _ = undisturbed(launcher, job, folder / "whole-two")
    absent = complete = 0
    for number in range(times):
        path = folder / f"two-{number}"
        runs = [launcher.start(job.arguments(path, workers)) for workers in (1, job.workers)]
        while any(run.poll() is None for run in runs):
            figure.expect(
                not wrong_files(path, expected), f"wrong files while writing: {wrong_files(path, expected)}"
            )
            try:
                reader = StoreReader(path)
            except StoreMissingError:
                absent += 1
                continue
            complete += 1
            figure.expect(reader.num_graphs == job.graphs, "a reader found only some of the graphs")
            figure.expect(not verify_store(path, semantics=False), "a reader found a damaged store")
        for run in runs:
            figure.expect(run.wait() == 0, f"a writer ended with {run.wait()}: {run.text()}")
            wait_until_gone(run.pid)
        figure.count += 1
        figure.expect(digests(path) == expected, "bytes differ")
    figure.tally.update({"times absent for a reader": absent, "times complete": complete})
    return figure
