"""Damaged and hostile input files end in one error of one line, in little time and memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("resource")
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc, makes FIFOs")

ROOT = Path(__file__).parents[2]
MAX_MEMORY = 400 << 20
"""Largest growth of the process over all cases, in bytes. The largest file of the catalogue has 40 MB."""


def run_catalogue():
    """Return the result of each case. A case that kills its process has the result ``None``."""
    results = {}
    while True:
        command = [sys.executable, "-m", "tests.sources.hostile_run", str(len(results))]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        results.update(zip(lines[::2], [*lines[1::2], None], strict=False))
        if done.returncode == 0:
            return results
        assert lines, done.stderr


@pytest.fixture(scope="module")
def results():
    return run_catalogue()


def test_catalogue_is_large(results):
    assert len(results) >= 300
    assert sum("command" in (result or {}) for result in results.values()) >= 35


def test_no_case_kills_the_process(results):
    assert [name for name, result in results.items() if result is None] == []


def test_every_case_is_an_error_of_one_line(results):
    found = {name: result["library"] for name, result in results.items() if result}
    assert {n: r for n, r in found.items() if r["kind"] != "TgpError" or "\n" in r["text"]} == {}


def test_no_case_needs_the_network(results):
    found = {name: result["library"]["text"] for name, result in results.items() if result}
    assert {name: text for name, text in found.items() if "download" in text or "network" in text} == {}


def test_no_case_fails_only_because_memory_is_short(results):
    """Without the limits of this test, such a case would fill the memory of the machine."""
    found = {name: result["library"]["text"] for name, result in results.items() if result}
    words = ("MemoryError", "nable to allocate", "can't allocate", "not enough memory")
    assert {name: text for name, text in found.items() if any(word in text for word in words)} == {}


def test_no_case_leaks_a_warning(results):
    found = {name: result["library"]["warnings"] for name, result in results.items() if result}
    assert {name: warnings for name, warnings in found.items() if warnings} == {}


def test_commands_exit_with_usage(results):
    found = {name: result["command"] for name, result in results.items() if result and "command" in result}
    wrong = {n: r for n, r in found.items() if r["status"] != 2 or ("\n" + r["text"]).count("\nError: ") != 1}
    assert wrong == {}


def test_memory_is_bounded(results):
    memory = {name: result["memory"] for name, result in results.items() if result}
    assert {name: used for name, used in memory.items() if used > MAX_MEMORY} == {}
