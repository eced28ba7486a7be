"""Ctrl-C and SIGTERM: the run ends, no process is left, and the same command continues."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# The store has many small units, so that one is always running when the signal arrives.
pytestmark = pytest.mark.linux

ARGUMENTS = [
    "coarsen",
    "--dataset",
    "molecules:num_graphs=3000",
    "--shard-size",
    "30kB",
    "-p",
    "graclus*3",
    "--out",
]


PATIENCE = 600
"""Seconds after which a run counts as hanging, even on a busy machine."""


def start(out, *more):
    """Start a run in its own session and wait until it writes shards."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tgp_cli.main", *ARGUMENTS, str(out), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and not list(Path(out).glob("shard-*.graclus-x3.h5")):
        if process.poll() is not None:
            assert process.returncode == 0, process.stderr.read()
            break
        time.sleep(0.02)
    return process


def members(session):
    """Return the running processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--workers", "2")], ids=["one", "two"])
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"]
)
def test_a_signal_ends_the_run(tmp_path, number, status, more):
    for attempt in range(5):
        out = tmp_path / f"s{attempt}"
        process = start(out, *more)
        if process.poll() is None:
            os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
        # tests/reliability/run.py measures the time; this test only checks that the run does not hang.
        _, err = process.communicate(timeout=PATIENCE)
        if process.returncode != 0:
            break  # otherwise the run was finished before the signal arrived: repeat
    assert process.returncode == status, err
    assert "Run the same command again" in err and "Traceback" not in err
    deadline = time.monotonic() + PATIENCE
    while members(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert members(process.pid) == []
    assert not (out / "manifest.json").exists() and list(out.glob("shard-*.h5"))


@pytest.mark.slow
def test_workers_end_when_the_parent_is_killed(tmp_path):
    process = start(tmp_path / "s", "--workers", "2")
    process.kill()
    process.communicate()
    deadline = time.monotonic() + PATIENCE
    while members(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert members(process.pid) == []
