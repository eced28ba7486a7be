"""Run the mutation catalogue: every mutation of a store through every consumer, in child processes.

    python -m tests.store.mutation_runner                      # the whole catalogue
    python -m tests.store.mutation_runner --only NAME [...]    # some mutations (parts of names)
    python -m tests.store.mutation_runner --slice 3/10         # the fourth tenth of the catalogue
    python -m tests.store.mutation_runner --list

A child runs all consumers of one mutation with limits on memory and processor time. A consumer that kills the child is
a finding; the next child continues with the next consumer. The exit status is 1 if there are findings.
"""

import os

# Before numpy, torch and numba read them: a process that forks must have one thread.
if __name__ == "__main__":
    for _name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[_name] = "1"
    os.environ["TGP_DEBUG"] = ""

import argparse
import json
import random
import resource
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tests.store import mutation_consumers as consumers
from tests.store.mutation_stores import BASES, Forge, build_base

CPU_SECONDS = 20
WALL_SECONDS = 180
"""Limit for cells that wait. The limit for work is processor time, which does not depend on other processes."""

ADDRESS_SPACE = 2 << 30
RESIDENT = 1 << 30
"""Memory that a cell may use beyond that of the parent: address space, and peak resident size."""

GOOD = ("ok", "refused")


@dataclass(frozen=True)
class Cell:
    """End of one consumer of one mutation."""

    mutation: str
    consumer: str
    kind: str
    text: str
    seconds: float = 0.0

    @property
    def is_finding(self):
        """True if the cell ended neither in a typed error nor in correct data."""
        return self.kind not in GOOD


def _status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key))


def _limit_memory():
    limit = _status("VmSize") + ADDRESS_SPACE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _child(pipe, names, path, work, sabotage):
    """Run consumers and write one line of JSON before and after each of them."""
    code = 1
    try:
        os.setpgid(0, 0)
        sys.stdout.flush()
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        _limit_memory()
        if sabotage is not None:
            sabotage()
        for name in names:
            os.write(pipe, json.dumps([name]).encode() + b"\n")
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")  # reset the peak
            before, start = _status("VmRSS"), time.perf_counter()
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
            kind, text = consumers.run_consumer(name, path, work)
            signal.setitimer(signal.ITIMER_PROF, 0)
            used = _status("VmHWM") - before
            if used > RESIDENT and kind != "memory":
                kind, text = "memory", f"{used >> 20} MB resident ({kind}: {text})"
            took = round(time.perf_counter() - start, 3)
            line = json.dumps([name, kind, text[:600], took]).encode("utf-8", "replace")
            os.write(pipe, line + b"\n")
        code = 0
    finally:
        os._exit(code)


def _fork(names, path, work, sabotage):
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(read)
        _child(write, names, path, work, sabotage)
    os.close(write)
    return pid, read


def _lines(pid, read):
    """Yield the lines of a child, then its wait status. Kill it if nothing happens for too long."""
    pending, hung = b"", False
    while True:
        ready, _, _ = select.select([read], [], [], WALL_SECONDS)
        if not ready:
            hung = True
            os.kill(pid, signal.SIGKILL)
        data = os.read(read, 1 << 16)
        if not data:
            break
        *whole, pending = (pending + data).split(b"\n")
        for line in whole:
            yield json.loads(line)
    os.close(read)
    yield "hung" if hung else os.waitpid(pid, 0)[1]
    if hung:
        os.waitpid(pid, 0)


def run_cells(mutation, path, work, names, sabotage=None):
    """Run consumers of a mutated store in child processes and return their cells."""
    cells, left = [], list(names)
    while left:
        current, status = None, None
        for line in _lines(*_fork(left, path, work, sabotage)):
            if not isinstance(line, list):
                status = line
            elif len(line) == 1:
                current = line[0]
            else:
                cells.append(Cell(mutation, *line))
                left.remove(line[0])
                current = None
        if current is None:
            if left:
                raise RuntimeError(f"{mutation}: the child ended with status {status} before {left[0]}")
            break
        left.remove(current)
        cells.append(Cell(mutation, current, *_death(status)))
    return cells


def _death(status):
    if status == "hung":
        return "hang", f"no end after {WALL_SECONDS} s"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGPROF:
            return "hang", f"{CPU_SECONDS} s of processor time"
        return "crash", signal.Signals(number).name
    return "crash", f"exit status {os.WEXITSTATUS(status)}"


def _disagreements(mutation, cells):
    """Return a finding if ``verify`` accepts what it must report, and for every reader that refuses what it accepts."""
    found = {cell.consumer: cell for cell in cells}
    verified = found.get("verify")
    if verified is None or verified.kind != "ok":
        return []
    if mutation.unsound:
        return [Cell(mutation.name, "verify", "accepted", "verify accepts a store that it must report")]
    return [
        Cell(
            mutation.name, f"verify+{name}", "disagree", f"verify accepts, {name} refuses: {found[name].text}"
        )
        for name in consumers.READERS
        if name in found and found[name].kind == "refused"
    ]


class Workshop:
    """Folder with the base stores. Mutated copies are made below it.

    Args:
        folder: Empty directory.
    """

    def __init__(self, folder):
        self.folder = Path(folder)
        self._warmed = set()
        for base in BASES:
            build_base(base, self.folder / "bases" / base)

    def warm(self, names=consumers.CONSUMERS, bases=BASES):
        """Run consumers on the unchanged stores in this process, so that children have all modules and kernels."""
        cells, names = [], [name for name in names if name not in self._warmed]
        self._warmed.update(names)
        for base in bases:
            path, work = self.folder / "bases" / base, self._work(f"warm-{base}", base)
            cells += [Cell(base, name, *consumers.run_consumer(name, path, work)) for name in names]
        alive = [t.name for t in threading.enumerate() if t is not threading.main_thread()]
        if alive:
            raise RuntimeError(f"a process that forks must have one thread, got {alive}")
        return cells

    def _work(self, name, base):
        work = self.folder / "work" / name / "work"
        shutil.rmtree(work.parent, ignore_errors=True)
        work.mkdir(parents=True)
        (work / "base").write_text(base)
        return work

    def run(self, mutation, names=consumers.CONSUMERS, sabotage=None):
        """Apply a mutation to a copy of its base store and return the cells."""
        work = self._work(mutation.name.replace("/", "_")[:120], mutation.base)
        path = work.parent / "store"
        shutil.copytree(self.folder / "bases" / mutation.base, path)
        pid = os.fork()  # a mutation may leave broken HDF5 objects behind
        if not pid:
            _apply(mutation, path)
        if os.waitpid(pid, 0)[1]:
            return [Cell(mutation.name, "-", "invalid", "the mutation cannot be applied")]
        try:
            cells = run_cells(mutation.name, path, work, names, sabotage)
            return cells + _disagreements(mutation, cells)
        finally:
            shutil.rmtree(work.parent, ignore_errors=True)


def _apply(mutation, path):
    code = 1
    try:
        forge = Forge(path)
        after = mutation.apply(forge)
        forge.save()
        if after is not None:
            after()
        code = 0
    except BaseException:  # noqa: BLE001 - reported by the parent
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def run_all(workshop, mutations, names, jobs, progress=True):
    """Run mutations in ``jobs`` processes and return all cells."""
    cells = [cell for cell in workshop.warm(names or consumers.CONSUMERS) if cell.is_finding]
    slices = [workshop.folder / f"cells-{job}.jsonl" for job in range(jobs)]
    pids = []
    for job, file in enumerate(slices):
        pid = os.fork()
        if not pid:
            try:
                with open(file, "w") as out:
                    for number, mutation in enumerate(mutations[job::jobs]):
                        for cell in workshop.run(mutation, names or consumers.consumers_of(mutation)):
                            out.write(json.dumps(asdict(cell)) + "\n")
                        out.flush()
                        if progress and number % 20 == 0:
                            print(f"job {job}: {number} mutations", file=sys.stderr, flush=True)
                os._exit(0)
            finally:
                import traceback

                traceback.print_exc()
                os._exit(1)
        pids.append(pid)
    failed = [pid for pid in pids if os.waitpid(pid, 0)[1]]
    for file in slices:
        cells += [Cell(**json.loads(line)) for line in file.read_text().splitlines()]
    if failed:
        print(f"{len(failed)} jobs failed", file=sys.stderr)
    return cells


def run_sabotage(workshop, mutations):
    """Remove one check at a time and return the cells of the mutations that it stops."""
    from tests.store.mutation_sabotage import SABOTAGE

    workshop.warm({name for entry in SABOTAGE.values() for name in entry.consumers})
    cells = []
    for title, entry in SABOTAGE.items():
        for name in entry.mutations:
            found = workshop.run(mutations[name], entry.consumers, entry)
            cells += [replace(cell, mutation=f"{title}: {name}") for cell in found]
            if any(cell.is_finding for cell in found):
                break
    return cells


def summarize(cells, mutations):
    """Return a text with the findings, grouped by their cause."""
    import re

    groups = defaultdict(list)
    for cell in cells:
        if cell.is_finding:
            cause = re.sub(r"graph \d+|level \d+|'[^']*'|\d[\d,]*|/tmp\S*", "*", cell.text.split("\n")[0])
            groups[cell.kind, cause[:150]].append(cell)
    tags = {m.name: m.tags for m in mutations}
    lines = []
    for (kind, cause), found in sorted(groups.items(), key=lambda item: (item[0][0], -len(item[1]))):
        names = sorted({c.mutation for c in found})
        users = ", ".join(f"{n} {c}" for n, c in Counter(c.consumer for c in found).most_common())
        points = sorted({t for name in names for t in tags.get(name, ())})
        lines += [f"## {kind}: {cause}", f"{len(found)} cells; {' '.join(points)}", f"consumers: {users}"]
        lines += [f"first: {found[0].text[:300]!r}"]
        lines += [f"mutations: {', '.join(names[:12])}{' ...' if len(names) > 12 else ''}", ""]
    findings = sum(cell.is_finding for cell in cells)
    ends = Counter(cell.kind for cell in cells)
    lines.append(
        f"{len(mutations)} mutations, {len(cells)} cells, {findings} findings in {len(groups)} groups"
    )
    lines.append(", ".join(f"{kind} {count}" for kind, count in ends.most_common()))
    return "\n".join(lines)


def _write_cells(file, cells):
    file.write_text("".join(json.dumps(asdict(cell)) + "\n" for cell in cells))


def main():
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="parts of the names of mutations")
    parser.add_argument("--consumers", nargs="+", choices=list(consumers.CONSUMERS))
    parser.add_argument("--slice", metavar="I/N", help="run part I of N, with I from 0 to N-1")
    parser.add_argument("--sample", type=int, metavar="N", help="run N random mutations")
    parser.add_argument("--also", nargs="+", default=(), metavar="NAME", help="run these beside the sample")
    parser.add_argument(
        "--sabotage",
        type=Path,
        metavar="FILE",
        help="also remove one check at a time, run what it stops, and write these cells as lines of JSON",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="print the names of the mutations")
    parser.add_argument("--verbose", action="store_true", help="print every cell")
    parser.add_argument("--cells", type=Path, metavar="FILE", help="write all cells as lines of JSON")
    given = parser.parse_args()
    from tests.store.mutations import catalogue

    with tempfile.TemporaryDirectory(prefix="tgp-mutations-") as folder:
        workshop = Workshop(folder)
        chosen = known = catalogue(workshop.folder / "bases")
        if given.only:
            chosen = [m for m in chosen if any(part in m.name for part in given.only)]
        if given.slice:
            number, parts = map(int, given.slice.split("/"))
            chosen = chosen[number::parts]
        if given.sample:
            named = [m for m in chosen if m.name in given.also]
            rest = [m for m in chosen if m.name not in given.also and "S5" not in m.tags]
            chosen = [*named, *random.Random(given.seed).sample(rest, given.sample)]
        if given.list:
            print("\n".join(f"{m.name}  {' '.join(m.tags)}" for m in chosen))
            return 0
        cells = run_all(workshop, chosen, given.consumers, given.jobs)
        if given.sabotage:
            _write_cells(given.sabotage, run_sabotage(workshop, {m.name: m for m in known}))
    if given.cells:
        _write_cells(given.cells, cells)
    if given.verbose:
        for cell in cells:
            print(
                f"{cell.mutation:40} {cell.consumer:18} {cell.kind:8} {cell.seconds:6.2f}  {cell.text[:200]!r}"
            )
    print(summarize(cells, chosen))
    return int(any(cell.is_finding for cell in cells))


if __name__ == "__main__":
    sys.exit(main())
