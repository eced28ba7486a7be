"""Progress: a bar on a terminal, a line from time to time in a log, nothing if silent."""

import os
import re
import subprocess
import sys

import pytest

from tests.cli.screens import run_in_terminal
from tgp.build.progress import Step
from tgp_cli import _progress
from tgp_cli._output import Output

STEP = Step("coarsening", 1204, 4110, share=0.4, elapsed=12.0, remaining=20.4)
TEXT = "coarsening 1,204 of 4,110 graphs, 12 s, about 20 s left"


@pytest.fixture
def log_every_step(monkeypatch):
    monkeypatch.setattr(_progress, "LOG_EVERY", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)


def test_a_log_gets_plain_lines(capsys, log_every_step, monkeypatch):
    with _progress.Progress(Output()) as progress:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
        progress(Step("opening the dataset"))
        progress(STEP)
        progress(Step("coarsening", 4110, 4110, share=1.0, elapsed=33.0, remaining=0.0))
        progress("checking", 3000, 7000)
    found = capsys.readouterr()
    assert found.out == "" and "\x1b" not in found.err
    assert found.err.splitlines() == [
        "opening the dataset, 0 s",
        TEXT,
        "coarsening 4,110 of 4,110 graphs, 33 s",
        "checking 3,000 of 7,000, 0 s",
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


def test_a_log_announces_compilation_once(capsys):
    with _progress.Progress(Output()) as progress:
        progress(Step("loading kernels"))
        assert capsys.readouterr().err == ""
        progress(Step("compiling", 1, 16, "kernel", elapsed=0.2))
        progress(Step("compiling", 2, 16, "kernel", elapsed=1.2))
        assert capsys.readouterr().err == "compiling kernel 1 of 16, 0 s\n"


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
    assert re.fullmatch(r"compiling kernel \d+ of \d+, \d+ s\n", line)
    assert (running, first.returncode) == (True, 0) and "compiling" not in rest
    second = subprocess.run([*words, str(tmp_path / "b")], **pipe)
    assert "compil" not in second.stdout + second.stderr and second.returncode == 0


@pytest.mark.parametrize("columns", [30, 60, 120])
def test_a_terminal_shows_a_line_and_removes_it(columns):
    """Use a pseudoterminal as stderr. The time moves on although no step arrives."""
    pytest.importorskip("pty")
    code = (
        "from tgp_cli._progress import Progress\n"
        "from tgp_cli._output import Output\n"
        "from tgp.build.progress import Step\n"
        "import time\n"
        "with Progress(Output()) as progress:\n"
        "    progress(Step('opening the dataset'))\n"
        "    progress(Step('coarsening', 1204, 4110, share=0.4, elapsed=12.0, remaining=20.4))\n"
        "    time.sleep(1.5)\n"
    )
    text = run_in_terminal([sys.executable, "-c", code], columns)
    if columns >= 60:
        assert TEXT in text and "4,110 graphs, 13 s" in text
    assert max(len(line) for line in re.split(r"\r|\n|\x1b\[[0-9;?]*[A-Za-z]", text)) <= columns
    assert text.rstrip().endswith("\x1b[2K") or "\x1b[2K" in text.rpartition("graphs")[2]
