"""Runs ``tgp`` as a user does, but many times a minute.

Starting Python and loading compiled kernels takes longer than a small run. So one process loads everything, runs
a small store once, and from then on forks a child per command; the child calls the entry point of ``tgp`` with
its arguments. Worker processes are forked too, instead of spawned. Everything else is the real command;
``cold=True`` uses that alone.
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
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
PATIENCE = 300.0
"""Seconds after which a command counts as hanging."""


@dataclass
class Figure:
    """One line of the table: what was done, how often, what went wrong."""

    name: str
    count: int = 0
    note: str = ""
    problems: list[str] = field(default_factory=list)

    def expect(self, holds: bool, text: str) -> None:
        """Note a broken promise."""
        if not holds:
            self.problems.append(text)


@dataclass(frozen=True)
class Job:
    """What all runs of a figure do."""

    graphs: int = 2000
    shard_size: str = "250kB"
    workers: int = 2

    def arguments(self, out: Path, workers: int | None = None) -> list[str]:
        """Words after ``tgp``."""
        words = [
            "coarsen",
            "--dataset",
            f"molecules:num_graphs={self.graphs}",
            "--shard-size",
            self.shard_size,
        ]
        return [*words, "--workers", str(workers or self.workers), "--quiet", "--out", str(out)]


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder in memory if there is one: a killed process does not lose what it wrote, synced or not."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="tgp-reliability-", dir=memory)


def digests(path: Path) -> dict[str, str]:
    """Name and digest of every file of a store."""
    found = {}
    for file in sorted(path.glob("**/*")):
        with contextlib.suppress(FileNotFoundError):  # temporary files come and go
            if file.is_file():
                found[str(file.relative_to(path))] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


def torn(path: Path, expected: dict[str, str]) -> list[str]:
    """Files with a final name that are not those of an undisturbed run."""
    found = {k: v for k, v in digests(path).items() if ".tmp-" not in k}
    return [name for name, digest in found.items() if expected.get(name) != digest]


def killpoints() -> list[str]:
    """Every kill point named in the store's source."""
    texts = [p.read_text() for p in sorted((ROOT / "tgp" / "store").glob("*.py"))]
    return sorted({name for text in texts for name in re.findall(r"failpoint\(\"([a-z:]+)\"\)", text)})


def members(session: int) -> list[int]:
    """Living processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(state[3]) == session and state[0] != "Z":
                    found.append(int(entry.name))
    return found


def _is_tracker(pid: int) -> bool:
    """Whether a process is the one Python keeps beside spawned workers; runs do not miss it."""
    with contextlib.suppress(OSError):
        return b"resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return True


def wait_until_gone(session: int, seconds: float = 60.0) -> bool:
    """Whether every process of a session ends in time."""
    deadline = time.monotonic() + seconds
    while members(session):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


class Run:
    """A running command, leader of a session of its own."""

    def __init__(
        self, launcher: Launcher, pid: int, log: Path, process: subprocess.Popen[bytes] | None
    ) -> None:
        self.pid = pid
        self._launcher, self._log, self._process = launcher, log, process
        self._status: int | None = None

    def poll(self) -> int | None:
        """Exit status, negative for a signal; ``None`` while it runs."""
        if self._status is None:
            if self._process is not None:
                self._status = self._process.poll()
            else:
                self._status = self._launcher.ask({"poll": self.pid})
        return self._status

    def wait(self, seconds: float = PATIENCE) -> int:
        """Wait for the end."""
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
        """The processes that work for the command."""
        return [pid for pid in members(self.pid) if pid != self.pid and not _is_tracker(pid)]

    def text(self) -> str:
        """What it printed."""
        return self._log.read_text()


class Launcher:
    """Starts commands from a loaded process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._number = 0
        self._server = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), str(folder / "warm")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **ENVIRONMENT},
            cwd=folder,
        )
        if self._answer() != "ready":
            raise RuntimeError("the loaded process did not come up")

    def __enter__(self) -> Launcher:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()

    def _answer(self) -> object:
        return json.loads(self._server.stdout.readline() or "null")

    def ask(self, request: dict[str, object]) -> object:
        """One request, one answer."""
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
        """Start ``tgp`` with arguments; ``file_limit`` bounds the size of any file it writes."""
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
        """Exit status and text of a command."""
        process = self.start(arguments, **options)
        status = process.wait()
        return status, process.text()


def _serve(warm: Path) -> None:
    """The loaded process: reads requests from stdin until it is closed."""
    import multiprocessing

    from tgp_cli.main import main, run

    real = multiprocessing.get_context
    if run(Job(graphs=200, workers=1).arguments(warm)) != 0:
        raise SystemExit("the first run failed")
    _say("ready")
    while line := sys.stdin.readline():
        request = json.loads(line)
        if "poll" in request:
            pid, status = os.waitpid(request["poll"], os.WNOHANG)
            _say(os.waitstatus_to_exitcode(status) if pid else None)
            continue
        if (pid := os.fork()) == 0:
            _become(request)
            multiprocessing.get_context = lambda method=None: real("fork")
            main()
        _say(pid)


def _become(request: dict[str, object]) -> None:
    """Turn a forked child into the command of a request."""
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


def _say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
