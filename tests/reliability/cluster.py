"""Failures of Dask clusters: a real scheduler and real workers on the loopback interface.

Each figure runs the command ``tgp coarsen --scheduler`` and checks its exit status, its message and the bytes of the store.
No command may end with status 70, and no message of Dask may reach the user.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.reliability.harness import ENVIRONMENT, Figure, digests, wrong_files

PATIENCE = 180.0
"""Seconds after which a command is considered to hang."""

CLUSTER = 5
"""Exit status for a cluster that failed."""

BAD_REVISION = "import tgp.engine.revision\ntgp.engine.revision.ENGINE_REVISION = 9\n"
"""Content of ``sitecustomize.py`` that gives a worker another revision of the engine."""

NO_TGP = "import sys\nsys.modules['tgp'] = None\n"
"""Content of ``sitecustomize.py`` that makes ``import tgp`` fail."""

SLOW = "import os, time\nsync = os.fsync\nos.fsync = lambda number: (time.sleep(0.1), sync(number))[1]\n"
"""Content of ``sitecustomize.py`` that makes each job take about half a second."""

ADAPTIVE = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    options = {"host": "127.0.0.1", "dashboard_address": None, "threads_per_worker": 1}
    with LocalCluster(n_workers=0, **options) as cluster:
        cluster.adapt(minimum=0, maximum=2, interval="200ms")
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@dataclass
class Command:
    """Running command ``tgp``."""

    process: subprocess.Popen[bytes]
    log: Path
    started: float = field(default_factory=time.monotonic)

    def text(self) -> str:
        """Return the output of the command so far."""
        return self.log.read_text(errors="replace")

    def wait(self, seconds: float = PATIENCE) -> int:
        """Wait for the command to end and return its exit status."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise TimeoutError(f"still running after {seconds} s: {self.text()}") from None

    def wait_for(self, found: Callable[[], object]) -> None:
        """Wait until a condition holds or the command ends."""
        deadline = time.monotonic() + PATIENCE
        while not found() and self.process.poll() is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"nothing happened in {PATIENCE} s: {self.text()}")
            time.sleep(0.02)


class Cluster:
    """Dask scheduler and workers on this machine. Leaving the block kills all of them.

    Args:
        folder: Directory for the scheduler file and the logs.
        allowed_failures: Number of workers that may die while they run the same task.
    """

    def __init__(self, folder: Path, allowed_failures: int = 3) -> None:
        self.folder = folder
        self.file = folder / "scheduler.json"
        self.workers: list[subprocess.Popen[bytes]] = []
        self._others: list[subprocess.Popen[bytes]] = []
        self._failures = str(allowed_failures)
        folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Cluster:
        try:
            self.start_scheduler()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in [*self.workers, *self._others]:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()

    def _start(
        self, words: list[str], name: str, environment: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        environment = {**os.environ, **ENVIRONMENT, **(environment or {})}
        number = len(self.workers) + len(self._others)
        with open(self.folder / f"{name}-{number}.log", "wb") as log:
            return subprocess.Popen(
                words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment, cwd=self.folder
            )

    def start_scheduler(self) -> None:
        """Start the scheduler and wait until it has written its scheduler file."""
        self.file.unlink(missing_ok=True)
        words = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--scheduler-file", str(self.file)]
        words += ["--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
        environment = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": self._failures}
        self.scheduler = self._start(words, "scheduler", environment)
        self._others.append(self.scheduler)
        deadline = time.monotonic() + PATIENCE
        while not self.file.exists():
            if self.scheduler.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the scheduler did not start")
            time.sleep(0.05)

    def add_worker(
        self,
        *,
        script: str | None = None,
        environment: dict[str, str] | None = None,
        prefix: tuple[str, ...] = (),
        flags: tuple[str, ...] = (),
    ) -> subprocess.Popen[bytes]:
        """Start a worker.

        Args:
            script: Content of ``sitecustomize.py``, which Python runs first.
            environment: Additional environment variables.
            prefix: Command that runs the command of the worker.
            flags: Options of Python.
        """
        words = [*prefix, sys.executable, *flags, "-m", "distributed.cli.dask_worker"]
        words += ["--scheduler-file", str(self.file), "--host", "127.0.0.1", "--no-dashboard"]
        words += ["--nthreads", "1", "--no-nanny", "--local-directory", str(self.folder)]
        environment = dict(environment or {})
        if script is not None:
            place = self.folder / f"site-{len(self.workers)}"
            place.mkdir()
            (place / "sitecustomize.py").write_text(script)
            environment["PYTHONPATH"] = os.pathsep.join([str(place), ENVIRONMENT["PYTHONPATH"]])
        worker = self._start(words, "worker", environment)
        self.workers.append(worker)
        return worker

    def wait_for_workers(self, count: int) -> None:
        """Wait until the scheduler knows this number of workers."""
        from distributed import Client

        with Client(scheduler_file=str(self.file), timeout=PATIENCE, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=PATIENCE)


@dataclass(frozen=True)
class Case:
    """Dataset and directories of a figure.

    Args:
        folder: Directory of the figure.
        graphs: Number of graphs.
        shard_size: Size of a shard file.
    """

    folder: Path
    graphs: int = 400
    shard_size: str = "80kB"

    @property
    def store(self) -> Path:
        """Directory of the store."""
        return self.folder / "shared" / "store"

    def arguments(self, out: Path) -> list[str]:
        """Return the command line after ``tgp``."""
        data = ["--dataset", f"molecules:num_graphs={self.graphs}", "--shard-size", self.shard_size]
        return ["coarsen", *data, "--out", str(out)]

    def start(self, scheduler: str | Path, timeout: float = 60.0) -> Command:
        """Start ``tgp coarsen --scheduler``."""
        self.store.parent.mkdir(exist_ok=True)
        return self._start(
            [*self.arguments(self.store), "--scheduler", str(scheduler)],
            {"TGP_WORKER_TIMEOUT": str(timeout)},
        )

    def _start(self, arguments: list[str], environment: dict[str, str]) -> Command:
        log = self.folder / f"tgp-{len(list(self.folder.glob('tgp-*')))}.log"
        with open(log, "wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "tgp_cli.main", *arguments],
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **ENVIRONMENT, **environment},
                cwd=self.folder,
                # A background job of a shell ignores SIGINT, and its children inherit that.
                preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.default_int_handler),
            )
        return Command(process, log)

    def expected(self) -> dict[str, str]:
        """Return the digests of the store that one process writes."""
        out = self.folder / "serial"
        if not out.exists():
            command = self._start([*self.arguments(out), "--workers", "1"], {})
            if command.wait() != 0:
                raise RuntimeError(command.text())
        return digests(out)

    def results(self) -> list[Path]:
        """Return the files of hierarchies that are written."""
        return [p for p in self.store.glob("shard-*.h5") if ".graphs." not in p.name]


def _judge(figure: Figure, command: Command, status: int, *texts: str) -> None:
    """Wait for a command, and check its exit status and its output."""
    found = command.wait()
    output = command.text()
    figure.count += 1
    figure.expect(found == status, f"expected status {status}, got {found}: {output}")
    for text in texts:
        figure.expect(text in output, f"expected {text!r} in: {output}")
    for word in ("Traceback", "unexpected", "UserWarning", "Sending large graph", "distributed."):
        figure.expect(word not in output, f"{word!r} reached the user: {output}")


def _judge_bytes(figure: Figure, case: Case, *, complete: bool = True) -> None:
    expected = case.expected()
    wrong = [name for name in wrong_files(case.store, expected) if not name.endswith(".lock")]
    figure.expect(not wrong, f"other bytes in {wrong}")
    left = [path.name for path in case.store.rglob(".tmp-*")]
    figure.expect(not left, f"temporary files are left: {left}")
    if complete:
        missing = expected.keys() - digests(case.store).keys() - {"records/.lock"}
        figure.expect(not missing, f"missing files: {sorted(missing)}")


def same_bytes(folder: Path) -> Figure:
    """Two workers write the bytes that one process writes, and Dask prints nothing."""
    figure, case = Figure("two workers"), Case(folder)
    with Cluster(folder / "cluster") as cluster:
        for _ in range(2):
            cluster.add_worker()
        cluster.wait_for_workers(2)
        _judge(figure, case.start(cluster.file), 0)
    _judge_bytes(figure, case)
    return figure


def wrong_workers(folder: Path) -> Figure:
    """A worker with another revision and workers without tgp are named before anything is computed."""
    figure, case = Figure("another revision, no tgp"), Case(folder)
    import distributed

    packages = str(Path(distributed.__file__).parents[1])
    with Cluster(folder / "cluster") as cluster:
        cluster.add_worker()
        bad = [
            cluster.add_worker(script=BAD_REVISION),
            cluster.add_worker(script=NO_TGP),
            # Without site packages, Python does not find a package that is installed in editable mode.
            cluster.add_worker(flags=("-S",), environment={"PYTHONPATH": packages}),
        ]
        cluster.wait_for_workers(4)
        texts = [f"process {worker.pid})" for worker in bad]
        words = ("3 of 4 workers", "engine revision 9", "cannot import tgp", *texts)
        _judge(figure, case.start(cluster.file), CLUSTER, *words)
        figure.expect(not case.results(), "a wrong worker has computed")
        for worker in bad:
            worker.kill()
            worker.wait()
        _judge(figure, case.start(cluster.file), 0)
    _judge_bytes(figure, case)
    return figure


def late_wrong_worker(folder: Path, script: str = BAD_REVISION) -> Figure:
    """A worker with another revision, or without tgp, that joins a running cluster refuses its first job."""
    figure, case = Figure("late worker of another revision"), Case(folder, graphs=1500)
    if script == NO_TGP:
        figure.name = "late worker without tgp"
    with Cluster(folder / "cluster") as cluster:
        cluster.add_worker(script=SLOW)
        cluster.wait_for_workers(1)
        command = case.start(cluster.file)
        command.wait_for(case.results)
        bad = cluster.add_worker(script=script)
        word = "engine revision 9" if script == BAD_REVISION else "cannot import tgp"
        _judge(figure, command, CLUSTER, f"process {bad.pid})", word)
        bad.kill()
        bad.wait()
        _judge(figure, case.start(cluster.file), 0)
    _judge_bytes(figure, case)
    return figure


def other_directory(folder: Path) -> Figure:
    """A worker that sees another directory under the path of the store is named. Nothing is computed."""
    figure, case = Figure("worker with another directory"), Case(folder)
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        figure.note = "not run: needs mount namespaces"
        return figure
    case.store.parent.mkdir()
    mount = f"mount -t tmpfs none '{case.store.parent}' && mkdir '{case.store}' && exec \"$@\""
    with Cluster(folder / "cluster") as cluster:
        bad = cluster.add_worker(prefix=("unshare", "-m", "sh", "-c", mount, "sh"))
        cluster.add_worker()
        cluster.wait_for_workers(2)
        words = ("1 of 2 workers", "does not share", f"process {bad.pid})")
        _judge(figure, case.start(cluster.file), CLUSTER, *words)
        figure.expect(not case.results(), "a wrong worker has computed")
    return figure


def no_workers(folder: Path) -> Figure:
    """A cluster without workers: a shown and bounded wait, Ctrl-C, and a worker that comes late."""
    figure, case = Figure("no workers, late first worker, Ctrl-C"), Case(folder)
    with Cluster(folder / "cluster") as cluster:
        words = ("waiting for workers of tcp://127.0.0.1", "no workers for 2 s", "TGP_WORKER_TIMEOUT")
        _judge(figure, case.start(cluster.file, timeout=2.0), CLUSTER, *words)
        command = case.start(cluster.file)
        command.wait_for(lambda: "waiting for workers" in command.text())
        command.process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        _judge(figure, command, 130, "Interrupted")
        figure.expect(time.monotonic() - sent < 30, "Ctrl-C was ignored for 30 s")
        command = case.start(cluster.file)
        command.wait_for(lambda: "waiting for workers" in command.text())
        cluster.add_worker()
        _judge(figure, command, 0)
    _judge_bytes(figure, case)
    return figure


def adaptive(folder: Path) -> Figure:
    """A cluster with ``adapt(minimum=0)`` starts its workers when the run submits its first task."""
    figure, case = Figure("adapt(minimum=0)"), Case(folder)
    with _adaptive_cluster() as address:
        _judge(figure, case.start(address), 0)
    _judge_bytes(figure, case)
    return figure


@contextlib.contextmanager
def _adaptive_cluster() -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", ADAPTIVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **ENVIRONMENT},
        start_new_session=True,
    )
    try:
        yield process.stdout.readline().decode().strip()
    finally:
        process.stdin.close()
        try:
            process.wait(30)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()


def killed_workers(folder: Path) -> Figure:
    """One of two workers is killed; all workers are killed; each worker dies in its first job."""
    figure, case = Figure("killed workers"), Case(folder, graphs=1200)
    with Cluster(folder / "cluster") as cluster:
        for _ in range(2):
            cluster.add_worker(script=SLOW)
        cluster.wait_for_workers(2)
        command = case.start(cluster.file, timeout=3.0)
        command.wait_for(case.results)
        cluster.workers[0].kill()
        command.wait_for(lambda: len(case.results()) > 3)
        cluster.workers[1].kill()
        _judge(figure, command, CLUSTER, "waiting for workers", "no workers for 3 s")
        _judge_bytes(figure, case, complete=False)
    with Cluster(folder / "second", allowed_failures=0) as cluster:
        cluster.add_worker(environment={"TGP_FAILPOINT": "shard:created"})
        cluster.wait_for_workers(1)
        _judge(figure, case.start(cluster.file), CLUSTER, "workers that ran it died", "of unit")
        cluster.add_worker()
        _judge(figure, case.start(cluster.file), 0)
    _judge_bytes(figure, case)
    return figure


def killed_scheduler(folder: Path, retry: bool = True) -> Figure:
    """The scheduler is killed; a new one continues the store.

    Args:
        folder: Empty directory.
        retry: Run the command once before the new scheduler starts. This takes 10 s.
    """
    figure, case = Figure("killed scheduler"), Case(folder, graphs=1500)
    with Cluster(folder / "cluster") as cluster:
        cluster.add_worker(script=SLOW)
        cluster.wait_for_workers(1)
        command = case.start(cluster.file)
        command.wait_for(case.results)
        cluster.scheduler.kill()
        _judge(figure, command, CLUSTER, "lost the Dask scheduler at tcp://127.0.0.1")
        if retry:
            _judge(figure, case.start(cluster.file), 2, "no Dask scheduler answers")
        cluster.start_scheduler()
        cluster.add_worker()
        _judge(figure, case.start(cluster.file), 0)
    _judge_bytes(figure, case)
    return figure


FIGURES: tuple[Callable[[Path], Figure], ...] = (
    same_bytes,
    wrong_workers,
    late_wrong_worker,
    lambda folder: late_wrong_worker(folder, NO_TGP),
    other_directory,
    no_workers,
    adaptive,
    killed_workers,
    killed_scheduler,
)
"""All figures. Each needs an empty directory."""
