"""Fuzz the reader and the verification of stores.

    python -m tests.fuzz.store_fuzz --seconds 3600 [--findings DIR]
    python -m tests.fuzz.store_fuzz --replay FILE [...]

Inputs are decoded by :mod:`tests.fuzz.store_edits`. With ``atheris`` (``pip install 'tgp-coarsen[fuzz]'``) new inputs
are chosen by the coverage of ``tgp.store``; without it, inputs of the corpus are changed at random. A child process does
the work with limits on memory and time. An input that ends in a wrong result, an error that is not a ``TgpError``, a
crash or a hang is kept in the directory of findings. Inputs that reach new code are added to ``--corpus``.
"""

import os

if __name__ == "__main__":  # not in a test process, whose environment others use
    for _name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[_name] = "1"

import argparse
import hashlib
import importlib.util
import json
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus" / "store"
CONSUMERS = ("verify", "read_single", "gather", "gather_in_memory")
SOMETIMES = (
    "loader",
    "inspect",
    "inspect_csv",
    "verify_command",
    "status",
    "merge",
    "continue_writing",
    "report",
)
"""Consumers of every input, and of every eighth one."""

CPU_SECONDS = 20
MEMORY = 2 << 30
MOST_BYTES = 96
MOST_RUNS = 4000
"""Length of an input, and number of inputs per process, so that no leak can reach the limit of memory."""


class Target:
    """Function that runs one input.

    Args:
        folder: Working directory, which contains the base stores.
        findings: Directory for inputs with findings.
    """

    def __init__(self, folder, findings):
        from tests.fuzz.store_edits import apply_input
        from tests.store import mutation_consumers
        from tests.store.mutation_stores import BASES, build_base

        self.apply_input = apply_input
        self.consumers = mutation_consumers
        self.bases = folder / "bases"
        self.work = folder / f"work-{os.getpid()}" / "work"
        self.store = self.work.parent / "store"
        self.findings = findings
        self.count = 0
        self.counter = folder / f"count-{os.getpid()}"
        self.work.mkdir(parents=True)
        for base in BASES:
            if not (self.bases / base / "manifest.json").exists():
                build_base(base, self.bases / base)
        for base in BASES:
            (self.work / "base").write_text(base)
            for name in (*CONSUMERS, *SOMETIMES):
                mutation_consumers.run_consumer(name, self.bases / base, self.work)

    def problems(self, data, names):
        """Run consumers on one input and yield every finding as (consumer, kind, text)."""
        base = self.apply_input(data, self.bases, self.store)
        (self.work / "base").write_text(base)
        self.consumers._oracle.cache_clear()
        ends = {}
        for name in names:
            kind, text = ends[name] = self.consumers.run_consumer(name, self.store, self.work)
            if kind not in ("ok", "refused"):
                yield name, kind, text
        if ends.get("verify", ("",))[0] == "ok":
            for name in self.consumers.READERS:
                if ends.get(name, ("",))[0] == "refused":
                    yield name, "disagree", f"verify accepts: {ends[name][1]}"

    def __call__(self, data):
        """Run one input; keep it and log it if it has findings."""
        data = bytes(data[:MOST_BYTES])
        self.count += 1
        self.counter.write_text(str(self.count))
        (self.findings / "current").write_bytes(data)
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        names = CONSUMERS if self.count % 8 else (*CONSUMERS, *SOMETIMES)
        for name, kind, text in self.problems(data, names):
            keep(self.findings, data, name, kind, text)
        signal.setitimer(signal.ITIMER_PROF, 0)


def keep(findings, data, consumer, kind, text):
    """Save an input with a finding, once per cause."""
    import re

    cause = re.sub(r"graph \d+|level \d+|'[^']*'|\d[\d,]*|/\S*", "*", text.split("\n")[0])[:150]
    key = hashlib.sha256(f"{kind} {cause}".encode("utf-8", "replace")).hexdigest()[:12]
    file = findings / f"{key}.bin"
    if not file.exists():
        file.write_bytes(data)
        with open(findings / "log.jsonl", "a") as log:
            entry = {"input": file.name, "consumer": consumer, "kind": kind, "text": text[:500]}
            log.write(json.dumps(entry) + "\n")


def limit():
    """Limit the memory and the processor time per input of this process."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)


def run_guided(folder, findings, corpus, seconds):
    """Fuzz with atheris until the time is over."""
    import atheris

    with atheris.instrument_imports(include=["tgp.store"]):
        import tgp.store.io.guard
        import tgp.store.read.reader
        import tgp.store.verify
        import tgp.store.write.writer  # noqa: F401
    target = Target(folder, findings)
    limit()
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={MOST_BYTES}",
        "-timeout=120",
        "-rss_limit_mb=0",
        "-len_control=0",
        f"-runs={MOST_RUNS}",
    ]
    arguments = [sys.argv[0], str(corpus), f"-artifact_prefix={findings}/", "-print_final_stats=1", *options]
    atheris.Setup(arguments, target)
    atheris.Fuzz()


def run_random(folder, findings, corpus, seconds, seed):
    """Fuzz with random changes of the corpus until the time is over."""
    target, rng = Target(folder, findings), random.Random(seed)
    limit()
    seeds = [file.read_bytes() for file in sorted(corpus.iterdir())] or [b""]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.randrange(1, 5)):
            place = rng.randrange(len(data) + 1)
            if rng.random() < 0.5 and place < len(data):
                data[place] = rng.randrange(256)
            else:
                data[place:place] = rng.randbytes(rng.randrange(1, 6))
        target(data)


def supervise(given):
    """Start children until the time is over. A child that dies leaves its input as a finding."""
    findings, start, seed = given.findings, time.monotonic(), given.seed
    findings.mkdir(parents=True, exist_ok=True)
    guided = importlib.util.find_spec("atheris") is not None and not given.random
    print(f"fuzzing {'with atheris' if guided else 'at random'} for {given.seconds} s", flush=True)
    with tempfile.TemporaryDirectory(prefix="tgp-fuzz-") as folder:
        corpus = given.corpus or Path(folder) / "corpus"
        corpus.mkdir(parents=True, exist_ok=True)
        for file in CORPUS.glob("*.bin"):
            shutil.copy(file, corpus)
        while (left := int(given.seconds - (time.monotonic() - start))) > 0:
            command = [
                sys.executable,
                "-m",
                "tests.fuzz.store_fuzz",
                "--child",
                folder,
                "--corpus",
                str(corpus),
            ]
            command += ["--findings", str(findings), "--seconds", str(left), "--seed", str(seed)]
            command += [] if guided else ["--random"]
            with open(findings / "output.txt", "ab") as output:
                try:
                    code = subprocess.run(
                        command, stdout=output, stderr=output, timeout=left + 300
                    ).returncode
                except subprocess.TimeoutExpired:
                    code = 0
            if code and int(given.seconds - (time.monotonic() - start)) > 0:
                data = (findings / "current").read_bytes() if (findings / "current").exists() else b""
                keep(findings, data, "child", "crash", f"exit status {code}")
            seed += 1
        inputs = sum(int(file.read_text() or 0) for file in Path(folder).glob("count-*"))
    (findings / "current").unlink(missing_ok=True)
    return show(findings, inputs)


def show(findings, inputs):
    """Print the number of inputs and the findings, and return 1 if there are any."""
    log = findings / "log.jsonl"
    entries = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    for entry in entries:
        print(f"{entry['input']}: {entry['consumer']}: {entry['kind']}: {entry['text'][:300]}")
    print(f"{inputs} inputs, {len(entries)} findings")
    return int(bool(entries))


def replay(files):
    """Run inputs and print what happens. Return 1 if there are findings."""
    bad = 0
    with tempfile.TemporaryDirectory(prefix="tgp-fuzz-") as folder:
        target = Target(Path(folder), Path(folder))
        limit()
        for file in files:
            found = list(target.problems(Path(file).read_bytes(), (*CONSUMERS, *SOMETIMES)))
            bad += len(found)
            for name, kind, text in found:
                print(f"{file}: {name}: {kind}: {text[:400]}", flush=True)
    print(f"{len(files)} inputs, {bad} findings")
    return int(bool(bad))


def main():
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--corpus", type=Path, help="directory that new inputs are added to")
    parser.add_argument("--random", action="store_true", help="do not use atheris")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--replay", nargs="+", metavar="FILE")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.replay:
        return replay(given.replay)
    if given.child is None:
        return supervise(given)
    if given.random:
        run_random(given.child, given.findings, given.corpus, given.seconds, given.seed)
    else:
        run_guided(given.child, given.findings, given.corpus, given.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
