"""Run the command ``tgp`` many times a minute.

Starting Python and loading compiled kernels takes longer than a small run. Therefore one server process loads everything,
builds a small store once, and then forks a child for each command. The child calls the entry point of ``tgp`` with its
arguments. Worker processes are forked too, instead of spawned. With ``cold=True`` a command starts as usual, in a new
Python process.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
PATIENCE = 300.0
"""Seconds after which a command is considered to hang."""


@dataclass
class Figure:
    """One row of the table of results.

    Args:
        name: Description of the test.
        count: Number of cases.
        note: Remark for the table.
        problems: One message for each case that went wrong.
        tally: Numbers that are added up if a figure is measured in several parts.
        largest: Numbers of which the largest part counts.
    """

    name: str
    count: int = 0
    note: str = ""
    problems: list[str] = field(default_factory=list)
    tally: Counter[str] = field(default_factory=Counter)
    largest: dict[str, float] = field(default_factory=dict)

    def expect(self, holds: bool, text: str) -> None:
        """Add a problem unless a guarantee holds."""
        if not holds:
            self.problems.append(text)

    def add(self, other: Figure) -> None:
        """Add the numbers of another portion of this figure."""
        self.count += other.count
        self.note = other.note
        self.problems += other.problems
        self.tally.update(other.tally)
        for name, value in other.largest.items():
            self.largest[name] = max(self.largest.get(name, 0.0), value)

    def row(self) -> dict[str, object]:
        """Return the content for a file of JSON."""
        return {**vars(self), "tally": dict(self.tally)}

    @classmethod
    def from_row(cls, row: dict[str, object]) -> Figure:
        """Return the figure of :meth:`row`."""
        return cls(**{**row, "tally": Counter(row["tally"])})

    def remark(self) -> str:
        """Return the text for the last column of the table."""
        numbers = [f"{number:,} {name}" for name, number in self.tally.items()]
        numbers += [f"{name} {value:,.2f}" for name, value in self.largest.items()]
        return "; ".join(filter(None, [self.note, ", ".join(numbers)]))


@dataclass(frozen=True)
class Job:
    """Arguments of the runs of a figure."""

    graphs: int = 2000
    shard_size: str = "250kB"
    workers: int = 2

    def arguments(self, out: Path, workers: int | None = None) -> list[str]:
        """Return the command line after ``tgp``."""
        words = [
            "coarsen",
            "--dataset",
            f"molecules:num_graphs={self.graphs}",
            "--shard-size",
            self.shard_size,
        ]
        return [*words, "--workers", str(workers or self.workers), "--quiet", "--out", str(out)]


def scratch() -> tempfile.TemporaryDirectory[str]:
    """Return a temporary directory, in memory if possible.

    The tests kill processes and not the machine, so a file in memory is as durable as a file on disk.
    """
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="tgp-reliability-", dir=memory)


def digests(path: Path, pattern: str = "**/*") -> dict[str, str]:
    """Return the digest of each file of a store by name."""
    found = {}
    for file in sorted(path.glob(pattern)):
        with contextlib.suppress(FileNotFoundError):  # a temporary file that was deleted meanwhile
            if file.is_file():
                found[str(file.relative_to(path))] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


def wrong_files(path: Path, expected: dict[str, str]) -> list[str]:
    """Return the files with a final name that differ from those of an undisturbed run.

    A killed process may leave its name in the lock file. The next run removes it.
    """
    found = {k: v for k, v in digests(path).items() if ".tmp-" not in k and not k.endswith(".lock")}
    return [name for name, digest in found.items() if expected.get(name) != digest]


def failpoints() -> list[str]:
    """Return the names of all failpoints in the source of the store."""
    texts = [p.read_text() for p in sorted((ROOT / "tgp" / "store").rglob("*.py"))]
    return sorted({name for text in texts for name in re.findall(r"failpoint\(\"([a-z:]+)\"\)", text)})


def members(session: int) -> list[int]:
    """Return the running processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(state[3]) == session and state[0] != "Z":
                    found.append(int(entry.name))
    return found


def _is_tracker(pid: int) -> bool:
    """Return True if a process is the resource tracker of Python. Killing it does not affect a run."""
    with contextlib.suppress(OSError):
        return b"resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return True


def wait_until_gone(session: int, seconds: float = 60.0) -> bool:
    """Wait for all processes of a session to end, and return True if they do."""
    deadline = time.monotonic() + seconds
    while members(session):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


class Run:
    """Running command, which is the leader of its own session."""

    def __init__(
        self, launcher: Launcher, pid: int, log: Path, process: subprocess.Popen[bytes] | None
    ) -> None:
        self.pid = pid
        self._launcher, self._log, self._process = launcher, log, process
        self._status: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal, or ``None`` while the command runs."""
        if self._status is None:
            if self._process is not None:
                self._status = self._process.poll()
            else:
                self._status = self._launcher.ask({"poll": self.pid})
        return self._status

    def wait(self, seconds: float = PATIENCE) -> int:
        """Wait for the command to end and return its exit status."""
        deadline = time.monotonic() + seconds
        while (status := self.poll()) is None:
            if time.monotonic() > deadline:
                for pid in members(self.pid):
                    self.kill(signal.SIGKILL, pid)
                raise TimeoutError(f"still running after {seconds} s: {self.text()}")
            time.sleep(0.005)
        return status

    def kill(self, number: int, pid: int | None = None) -> None:
        """Send a signal to the command or to one process of its session."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid or self.pid, number)

    def workers(self) -> list[int]:
        """Return the worker processes of the command."""
        return [pid for pid in members(self.pid) if pid != self.pid and not _is_tracker(pid)]

    def text(self) -> str:
        """Return the output of the command."""
        return self._log.read_text()


class Launcher:
    """Client of a server process that starts commands.

    Args:
        folder: Directory for logs and for the first store of the server.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._number = 0
        # A shell starts programs in the background with SIGINT ignored, and commands would inherit that.
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self._server = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), str(folder / "warm")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **ENVIRONMENT},
            cwd=folder,
        )
        if self._answer() != "ready":
            raise RuntimeError("the server process did not start")

    def __enter__(self) -> Launcher:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()

    def _answer(self) -> object:
        return json.loads(self._server.stdout.readline() or "null")

    def ask(self, request: dict[str, object]) -> object:
        """Send a request to the server and return its answer."""
        self._server.stdin.write(json.dumps(request).encode() + b"\n")
        self._server.stdin.flush()
        return self._answer()

    def start(
        self,
        arguments: list[str],
        *,
        environment: dict[str, str] | None = None,
        file_limit: int | None = None,
        cold: bool = False,
    ) -> Run:
        """Start the command ``tgp``.

        Args:
            arguments: Command line after ``tgp``.
            environment: Additional environment variables.
            file_limit: Largest size of any file that the command writes, in bytes.
            cold: Start a new Python process instead of a fork of the server.
        """
        self._number += 1
        log = self.folder / f"log-{self._number}"
        if cold:
            with open(log, "wb") as file:
                process = subprocess.Popen(
                    [sys.executable, "-m", "tgp_cli.main", *arguments],
                    stdout=file,
                    stderr=file,
                    stdin=subprocess.DEVNULL,
                    env={**os.environ, **ENVIRONMENT, **(environment or {})},
                    cwd=self.folder,
                    start_new_session=True,
                )
            return Run(self, process.pid, log, process)
        request = {
            "arguments": arguments,
            "log": str(log),
            "environment": environment or {},
            "limit": file_limit,
        }
        pid = self.ask(request)
        return Run(self, pid, log, None)

    def run(self, arguments: list[str], **options: object) -> tuple[int, str]:
        """Run the command ``tgp`` and return its exit status and output."""
        process = self.start(arguments, **options)
        status = process.wait()
        return status, process.text()


def _serve(warm: Path) -> None:
    """Run the server process: answer requests from stdin until it is closed."""
    import multiprocessing

    from tgp_cli.main import main, run

    real = multiprocessing.get_context
    if run(Job(graphs=200, workers=1).arguments(warm)) != 0:
        raise SystemExit("the first run failed")
    _reply("ready")
    while line := sys.stdin.readline():
        request = json.loads(line)
        if "poll" in request:
            pid, status = os.waitpid(request["poll"], os.WNOHANG)
            _reply(os.waitstatus_to_exitcode(status) if pid else None)
            continue
        if (pid := os.fork()) == 0:
            _configure_child(request)
            multiprocessing.get_context = lambda method=None: real("fork")
            main()
        _reply(pid)


def _configure_child(request: dict[str, object]) -> None:
    """Set the session, output, environment and arguments of a forked child."""
    os.setsid()
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT, 0o666)
    null = os.open(os.devnull, os.O_RDONLY)
    for old, new in ((null, 0), (log, 1), (log, 2)):
        os.dup2(old, new)
    os.environ.update(request["environment"])
    if request["limit"] is not None:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (request["limit"], request["limit"]))
    sys.argv = ["tgp", *request["arguments"]]


def _reply(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
