"""Progress: a bar on a terminal, a line from time to time in a log, nothing if silent."""

import os
import re
import subprocess
import sys

import numba
import pytest

from tgp.build.progress import Step
from tgp_cli import _progress
from tgp_cli._output import Output

STEP = Step("coarsening", 12, 40, 1234.5, 3_400_000, 20.4)


@pytest.fixture
def log_every_step(monkeypatch):
    monkeypatch.setattr(_progress, "LOG_EVERY", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)


def test_a_log_gets_plain_lines(capsys, log_every_step, monkeypatch):
    with _progress.Progress(Output()) as progress:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
        progress(Step("opening the dataset"))
        progress(STEP)
        progress(Step("coarsening", 40, 40, 1234.5, 9, 0.0))
        progress("checking", 3, 7)
    found = capsys.readouterr()
    lines = [re.sub(r", [^,]* so far$", "", line) for line in found.err.splitlines()]
    assert found.out == "" and "\x1b" not in found.err
    assert lines == [
        "opening the dataset: running",
        "coarsening: 12 of 40 units, 1,234 graphs/s, 3.4 MB, about 20 s left",
        "coarsening: 40 of 40 units, 1,234 graphs/s, 9 B",
        "checking: 3 of 7",
    ]


def test_a_short_run_logs_nothing(capsys):
    with _progress.Progress(Output()) as progress:
        progress(STEP)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("options", [{"quiet": True}, {"json": True}])
def test_quiet_and_json_show_no_progress(capsys, log_every_step, options):
    with _progress.Progress(Output(**options)) as progress:
        progress(STEP)
    assert capsys.readouterr() == ("", "")


def compile_one():
    numba.njit(lambda x: x + 1)(1)


def test_a_log_announces_compilation_once(capsys):
    with _progress.Progress(Output()) as progress:
        progress(Step("opening the dataset"))
        progress(Step(_progress.COMPILING))
        assert capsys.readouterr().err == ""
        compile_one()
        compile_one()
        progress(Step("coarsening", 0, 2))
        assert capsys.readouterr().err == f"{_progress.COMPILING}\n"
    compile_one()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("options", [{"quiet": True}, {"json": True}])
def test_quiet_and_json_do_not_announce_compilation(capsys, options):
    with _progress.Progress(Output(**options)) as progress:
        progress(Step(_progress.COMPILING))
        compile_one()
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_the_first_run_announces_compilation(tmp_path):
    """The cache of kernels is empty at first. The message is printed before the run ends."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    words = [sys.executable, "-m", "tgp_cli.main", "coarsen", "-d", "er:num_graphs=5", "-p", "nopool"]
    words += ["--workers", "1", "--no-metrics", "-o"]
    command = [*words, str(tmp_path / "a")]
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment}
    with subprocess.Popen(command, **pipe) as first:
        line = first.stderr.readline()
        running = first.poll() is None
        rest = first.communicate()[1]
    assert (line, running, rest, first.returncode) == (f"{_progress.COMPILING}\n", True, "", 0)
    second = subprocess.run([*words, str(tmp_path / "b")], **pipe)
    assert (second.stderr, second.returncode) == ("", 0)


def test_a_terminal_shows_a_bar_and_removes_it(tmp_path):
    """Use a pseudoterminal as stderr."""
    pty = pytest.importorskip("pty")
    code = (
        "from tgp_cli._progress import Progress\n"
        "from tgp_cli._output import Output\n"
        "from tgp.build.progress import Step\n"
        "import time\n"
        "with Progress(Output()) as progress:\n"
        "    progress(Step('opening the dataset'))\n"
        "    progress(Step('coarsening', 12, 40, 1234.5, 3_400_000, 20.4))\n"
        "    time.sleep(0.3)\n"
    )
    parent, child = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen([sys.executable, "-c", code], stderr=child, env=environment)
    os.close(child)
    text = b""
    try:
        while piece := os.read(parent, 65536):
            text += piece
    except OSError:  # the other end is closed
        pass
    os.close(parent)
    assert process.wait() == 0
    assert b"12 of 40 units, 1,234 graphs/s, 3.4 MB, about 20 s left" in text
    assert text.rstrip().endswith(b"\x1b[2K") or b"\x1b[2K" in text.rpartition(b"left")[2]
