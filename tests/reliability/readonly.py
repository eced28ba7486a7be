"""Figures of reading a store that must not be modified."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.reliability.harness import Figure, Job, Launcher, digests
from tests.reliability.interrupts import mount

READERS = ("inspect", "verify", "status")

WATCH = """
import json, os, sys
root, opened = os.path.realpath(sys.argv[1]), []
CHANGES = {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink", "os.chmod"}
WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

def hook(event, arguments):
    if event not in CHANGES and not (event == "open" and (arguments[2] or 0) & WRITE):
        return
    if isinstance(arguments[0], int) or (event == "os.mkdir" and os.path.isdir(arguments[0])):
        return  # a file that is already open, or a directory that already exists
    path = os.path.realpath(os.fsdecode(arguments[0]))
    if path.startswith(root):
        opened.append([event, path])

sys.addaudithook(hook)
import numpy as np
from tgp.store import StoreReader
from tgp_cli.main import run
reader = StoreReader(root)
ids = np.arange(reader.num_graphs)
reader.gather_graphs(ids)
for name, info in reader.hierarchies.items():
    for level in range(info.depth):
        reader.gather_level(ids, name, level)
statuses = [run([command, root]) for command in ("inspect", "verify", "status")]
statuses.append(run(sys.argv[2:]))
if os.environ.get("TGP_WATCH_ITSELF"):
    open(os.path.join(root, "made"), "w").close()
print(json.dumps([statuses, opened]))
"""


def watched(store: Path, arguments: list[str], environment: dict[str, str]) -> tuple[list[int], list[str]]:
    """Run all reading commands and ``tgp`` with arguments in one process.

    Returns:
        Exit statuses, and the operations that wrote to the store.
    """
    command = [sys.executable, "-c", WATCH, str(store), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return tuple(json.loads(done.stdout.splitlines()[-1]))


def read_only(launcher: Launcher, folder: Path, job: Job, environment: dict[str, str]) -> Figure:
    """Read a whole store and run its command again: both must work without writing anything."""
    figure = Figure("store that must not be modified")
    path = folder / "read-only"
    launcher.run(job.arguments(path))
    before = digests(path)
    statuses, opened = watched(path, job.arguments(path), environment)
    figure.count += len(statuses) + 1
    figure.expect(statuses == [0, 0, 0, 0], f"statuses {statuses}")
    figure.expect(not opened, f"opened for writing: {opened}")
    figure.expect(digests(path) == before, "bytes changed")
    disk = folder / "read-only-disk"
    if not mount(disk, "size=64m"):
        figure.note = "opened files recorded only: mounting is not allowed here"
        return figure
    try:
        shutil.copytree(path, disk / "s")
        mount(disk, "remount,ro")
        for words in ([name, str(disk / "s")] for name in READERS):
            status, text = launcher.run(words)
            figure.count += 1
            figure.expect(status == 0, f"{words[0]} on a read-only disk: {status}: {text}")
        status, text = launcher.run(job.arguments(disk / "s"))
        figure.count += 1
        figure.expect(status == 0, f"coarsen of a finished store on a read-only disk: {status}: {text}")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
    figure.note = "opened files recorded, and a disk mounted read-only"
    return figure
