"""Thousands of wrong calls must raise errors that name the argument. They must not be accepted or end the process.

The normal suite makes about 550 calls and ``--full`` makes all. ``TGP_FUZZ_CALLS`` sets their number. The conformance checks
``refusals`` and ``acceptance`` make every kind of call for every pooler once, without a process of their own.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.linux

CHILD = Path(__file__).with_name("child.py")
ALL = int(os.environ.get("TGP_FUZZ_CALLS", "6000"))
SAMPLE = (0, 6000, 11)
"""First, last and step of the calls of the sample, from almost three rounds with different seeds."""


def fuzz(first, last, step):
    """Return the number of calls and the problems. If a child process dies, a new one continues with the next call."""
    made, problems = 0, []
    while first < last:
        command = [sys.executable, str(CHILD), str(first), str(last), str(step)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1500)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        calls = {line["number"]: line["call"] for line in lines if "call" in line}
        results = {line["number"]: line["problem"] for line in lines if "problem" in line}
        assert calls or not done.returncode, done.stderr[-2000:]
        made += len(results)
        problems += [f"{calls[number]}: {problem}" for number, problem in results.items() if problem]
        died = [number for number in calls if number not in results]
        if not died:
            break
        problems.append(f"{calls[died[0]]}: the process ended with status {done.returncode}")
        first, made = died[0] + step, made + 1
    return made, problems


def test_a_crash_is_reported_with_its_call(tmp_path, monkeypatch):
    """A child that dies is a problem of its last call, and the following calls are made."""
    script = tmp_path / "child.py"
    script.write_text(
        "import json, os, sys\n"
        "for n in range(int(sys.argv[1]), int(sys.argv[2])):\n"
        "    print(json.dumps({'number': n, 'call': f'call {n}'}), flush=True)\n"
        "    n != 2 or os.abort()\n"
        "    print(json.dumps({'number': n, 'problem': None}), flush=True)\n"
    )
    monkeypatch.setitem(globals(), "CHILD", script)
    made, problems = fuzz(0, 5, 1)
    assert made == 5
    assert problems == ["call 2: the process ended with status -6"]


def check(made, problems):
    text = "\n".join(problems[:40])
    assert not problems, f"{len(problems)} of {made} calls:\n{text}"


def test_a_sample_of_wrong_calls():
    made, problems = fuzz(*SAMPLE)
    assert made >= 500
    check(made, problems)


@pytest.mark.full
def test_all_wrong_calls():
    made, problems = fuzz(0, ALL, 1)
    assert made >= min(ALL, 5000)
    check(made, problems)
