"""Many different runs in one process, each compared with an undisturbed run.

    python -m tests.reliability.soak --first 0 --count 100

A run chooses a dataset, a schedule, a profile, attributes, workers and threads at random, from its number. It is written three
times: by ``tgp coarsen`` with kills and signals until it is complete, by another ``tgp coarsen`` with other workers and threads,
and by :func:`tgp.coarsen` in this process. All three must have the same bytes. The store is verified, and an epoch of it is
loaded. After each run nothing may be left: temporary files, processes, threads, open files, shared memory. The memory of this
process is compared between the middle and the end of all runs.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.reliability.harness import (
    Figure,
    Launcher,
    Run,
    digests,
    failpoints,
    members,
    scratch,
    wait_until_gone,
    wrong_files,
)

if TYPE_CHECKING:
    from tgp.data import PooledDataset

PRIVATE = "TGP_SOAK_PRIVATE"
"""Environment variable that says that no other program uses ``/dev/shm``."""

GROWTH_LIMIT = 48.0
"""Megabytes that the memory of the process may grow in the second half of the runs. Compiled kernels are loaded on first use."""

DATASETS = (
    "molecules:num_graphs={many}", "families:num_graphs={many}", "points:num_graphs={few}", "er:num_graphs={few}",
    "sbm:num_graphs={few}", "grid:num_graphs={few}:num_nodes={nodes}", "ba:num_graphs={few}:num_nodes={nodes}",
    "regions:num_nodes={nodes}",
)  # fmt: skip
SCHEDULES = (
    "graclus*2", "graclus*3", "kmis*2", "ndp,ndp", "ndp,eigen:k=4", "sep*2", "nmf:k=3", "eigen:k=5", "hem:ratio=0.3",
    "hem*3", "lv:ratio=0.5", "leiden", "louvain", "affinity*2", "collapse", "bistride*2", "simmatch", "partition:k=4",
    "random:ratio=0.5,graclus", "kmis,nopool,graclus",
)  # fmt: skip
DISTURBANCES = ("none", "kill", "kill worker", "SIGINT", "SIGTERM", "failpoint")
LONGEST_WAIT = 3.0
ENDS = {"SIGINT": 130, "SIGTERM": 143}


@dataclass(frozen=True)
class Plan:
    """Settings of one run."""

    number: int
    dataset: str
    schedules: tuple[str, ...]
    seed: int
    profile: str
    shard_size: str
    carry: str
    workers: tuple[int, int]
    threads: tuple[int, int]
    disturbances: tuple[str, ...]

    @classmethod
    def draw(cls, number: int) -> Plan:
        """Return the settings of the run with this number."""
        rng = random.Random(f"soak-{number}")
        sizes = {
            "many": rng.randrange(20, 200),
            "few": rng.randrange(2, 20),
            "nodes": rng.randrange(50, 800),
        }
        return cls(
            number,
            rng.choice(DATASETS).format(**sizes),
            tuple(rng.sample(SCHEDULES, rng.choice((1, 1, 2, 3)))),
            rng.randrange(1000),
            rng.choice(("fast", "small")),
            rng.choice(("40kB", "150kB", "1MB", "64MB")),
            rng.choice(("", "", "auto")),
            (rng.choice((1, 2)), rng.choice((1, 2))),
            (rng.choice((1, 2)), rng.choice((1, 2))),
            tuple(rng.choice(DISTURBANCES) for _ in range(rng.choice((1, 1, 2, 3)))),
        )

    def arguments(self, out: Path, which: int) -> list[str]:
        """Return the command line after ``tgp``; the two variants differ in workers and threads."""
        words = ["coarsen", "--dataset", self.dataset, "--seed", str(self.seed), "--profile", self.profile]
        for schedule in self.schedules:
            words += ["--pooler", schedule]
        words += ["--carry", self.carry] if self.carry else []
        words += ["--shard-size", self.shard_size, "--workers", str(self.workers[which])]
        return [*words, "--threads", str(self.threads[which]), "--quiet", "--out", str(out)]

    def coarsen(self, out: Path) -> PooledDataset:
        """Write the store in this process and return its dataset."""
        import tgp

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # advice on schedules that fit the graphs better
            return tgp.coarsen(
                self.dataset,
                list(self.schedules),
                out,
                seed=self.seed,
                profile=self.profile,
                shard_size=self.shard_size,
                carry=self.carry or None,
                workers=1,
                progress=False,
            )


def disturb(run: Run, kind: str, duration: float, rng: random.Random) -> None:
    """Wait for a random part of the duration, then kill or signal a run."""
    time.sleep(rng.uniform(0.05, 0.9) * min(duration, LONGEST_WAIT))
    if run.poll() is not None:
        return
    if kind == "kill worker":
        for worker in run.workers()[:1]:
            run.kill(signal.SIGKILL, worker)
    elif kind in ENDS:
        run.kill(getattr(signal, kind))
    elif kind == "kill":
        run.kill(signal.SIGKILL)


class Soak:
    """State of a series of runs.

    Args:
        launcher: Server that starts commands.
        folder: Directory for the stores.
    """

    def __init__(self, launcher: Launcher, folder: Path) -> None:
        self.launcher, self.folder = launcher, folder
        self.figure = Figure("soak: random runs")
        self.points = failpoints()

    def run(self, number: int) -> None:
        """Carry out one run and check its store and what it leaves."""
        plan, rng = Plan.draw(number), random.Random(f"disturb-{number}")
        before = leftovers(self.folder)
        disturbed, other, here = (self.folder / f"{number}-{name}" for name in "abc")
        status, text, seconds = self._whole(plan, other)
        self.figure.count += 1
        if status != 0:
            self._expect(plan, False, f"ended with {status}: {text[-300:]}")
            return
        expected = digests(other)
        for kind in plan.disturbances:
            self._disturbed(plan, disturbed, kind, seconds, rng, expected)
        status, text = self.launcher.run(plan.arguments(disturbed, 0))
        self._expect(plan, status == 0, f"the rerun ended with {status}: {text[-300:]}")
        self._expect(plan, digests(disturbed) == expected, "bytes differ after interruptions")
        dataset = plan.coarsen(here)
        self._expect(plan, digests(here) == expected, "tgp.coarsen writes other bytes than the command")
        self._read(plan, here, dataset, rng)
        del dataset
        for path in (disturbed, other, here):
            self._expect(plan, not list(path.rglob(".tmp-*")), "temporary files are left")
            shutil.rmtree(path)
        gc.collect()
        self._expect(plan, leftovers(self.folder) == before, f"left: {before} -> {leftovers(self.folder)}")

    def _expect(self, plan: Plan, holds: bool, text: str) -> None:
        self.figure.expect(holds, f"{plan}: {text}")

    def _whole(self, plan: Plan, path: Path) -> tuple[int, str, float]:
        started = time.monotonic()
        status, text = self.launcher.run(plan.arguments(path, 1))
        return status, text, time.monotonic() - started

    def _disturbed(
        self, plan: Plan, path: Path, kind: str, seconds: float, rng: random.Random, expected: dict[str, str]
    ) -> None:
        environment = {"TGP_FAILPOINT": rng.choice(self.points)} if kind == "failpoint" else None
        run = self.launcher.start(plan.arguments(path, 0), environment=environment)
        disturb(run, kind, seconds, rng)
        status = run.wait()
        self._expect(plan, wait_until_gone(run.pid), f"{kind}: processes outlive the run")
        self._expect(plan, "Traceback" not in run.text(), f"{kind}: {run.text()[-500:]}")
        self._expect(plan, not wrong_files(path, expected), f"{kind}: {wrong_files(path, expected)}")
        if kind in ENDS:
            self._expect(plan, status in (0, ENDS[kind], -getattr(signal, kind)), f"{kind}: status {status}")
        self.figure.tally["undisturbed" if status == 0 else "interruptions"] += 1

    def _read(self, plan: Plan, path: Path, dataset: PooledDataset, rng: random.Random) -> None:
        from tgp.data import PoolDataLoader
        from tgp.store import verify_store

        self._expect(plan, verify_store(path) == [], "verify has findings")
        options = {"num_workers": 1} if rng.random() < 0.1 else {}
        loader = PoolDataLoader(dataset, rng.choice((1, 7, 32, 128)), shuffle=True, seed=0, **options)
        graphs = sum(batch.num_graphs for batch in loader)
        self._expect(plan, graphs == len(dataset), f"an epoch has {graphs} of {len(dataset)} graphs")
        self.figure.tally["loaded graphs"] += graphs


def leftovers(folder: Path) -> dict[str, object]:
    """Return what a finished run could leave: processes, threads, open files, shared memory and temporary files."""
    children = [pid for pid in members(os.getsid(0)) if _parent(pid) == os.getpid()]
    threads = [thread.name for thread in threading.enumerate()]
    mapped = re.findall(r"(?:/dev/shm|/memfd:)\S*", Path("/proc/self/maps").read_text())
    found = {
        "children": len(children),
        "threads": sorted(threads),
        "open files": len(os.listdir("/proc/self/fd")),
        "mapped shared memory": len(mapped),
        "temporary files": sorted(path.name for path in (folder / "tmp").iterdir()),
    }
    if os.environ.get(PRIVATE):  # other programs use /dev/shm, too
        found["files of shared memory"] = sorted(p.name for p in Path("/dev/shm").iterdir() if p != folder)
    return found


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return -1


def resident() -> float:
    """Return the anonymous memory of this process in megabytes, after unused memory was given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no RssAnon in /proc/self/status")


def soak(first: int, count: int) -> Figure:
    """Carry out runs with consecutive numbers in this process and return their figure."""
    with scratch() as name, Launcher(Path(name)) as launcher:
        # Python removes its temporary directories when it ends, but not if it is killed: only this process is checked.
        tempfile.tempdir = str(Path(name) / "tmp")
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(name) / "inductor")  # torch creates it on import
        (Path(name) / "tmp").mkdir()
        status, text = launcher.run(["warmup"])  # so that runs do not wait for the compiler
        if status != 0:
            raise RuntimeError(f"tgp warmup ended with {status}: {text}")
        series = Soak(launcher, Path(name))
        middle = 0.0
        for number in range(first, first + count):
            series.run(number)
            if number == first + count // 2:
                middle = resident()
        figure = series.figure
        growth = resident() - middle
        figure.largest["MB grown in the second half at most"] = max(0.0, round(growth, 1))
        figure.expect(growth < GROWTH_LIMIT, f"memory grew by {growth:.0f} MB in {count // 2} runs")
    return figure


def _use_private_memory() -> None:
    """Start this program again with its own ``/dev/shm``, if that is allowed, so that all files there are its own."""
    if PRIVATE in os.environ or shutil.which("unshare") is None:
        return
    mount = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh"]
    if subprocess.run([*mount, "true"], capture_output=True, check=False).returncode == 0:
        words = [*mount, sys.executable, "-m", "tests.reliability.soak", *sys.argv[1:]]
        os.execvpe(words[0], words, os.environ | {PRIVATE: "1"})


def main() -> None:
    """Run the command line and print the figure as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", type=int, default=0, help="number of the first run")
    parser.add_argument("--count", type=int, default=100)
    given = parser.parse_args()
    _use_private_memory()
    figure = soak(given.first, given.count)
    print(json.dumps(figure.row()))
    sys.exit(bool(figure.problems))


if __name__ == "__main__":
    main()
