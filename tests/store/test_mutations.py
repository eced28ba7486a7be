"""A sample of the mutation catalogue, and proof that it notices removed checks. ``make fuzz`` runs all of it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.mutation_sabotage import SABOTAGE

pytestmark = [pytest.mark.linux]
ROOT = Path(__file__).resolve().parents[2]
CRITICAL = (
    "named/S1/complex128-as-f2-width-128",
    "named/S1/bool-as-u8",
    "named/S2/supernodes-without-representatives-2^62-1",
    "named/S3/supernodes-in-one-shard-2^34",
    "named/S3/graph-level-fields-only-2^34",
    "named/S8/one-unit-without-level-weights",
    "named/level-field/bool-bytes-of-255",
    "named/level-field/name-so",
)
QUICK = ("verify", "read_single", "gather", "loader", "inspect", "status", "continue_writing")
SAMPLE = 12


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run a sample in another process, because it forks. Return its cells, the cells without checks, and its output."""
    folder = tmp_path_factory.mktemp("mutations")
    files = [folder / "cells.jsonl", folder / "sabotage.jsonl"]
    command = [sys.executable, "-m", "tests.store.mutation_runner", "--sample", str(SAMPLE), "--seed", "14"]
    command += ["--also", *CRITICAL, "--consumers", *QUICK, "--cells", files[0], "--sabotage", files[1]]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=ROOT)
    assert done.returncode in (0, 1) and all(file.exists() for file in files), done.stderr
    cells, removed = ([json.loads(line) for line in file.read_text().splitlines()] for file in files)
    return cells, removed, done.stdout


def findings(cells):
    """Return the cells that end neither in a typed error nor in correct data."""
    return [cell for cell in cells if cell["kind"] not in ("ok", "refused")]


def test_a_sample_of_the_catalogue_ends_in_typed_errors_or_correct_data(run):
    cells, _, output = run
    assert not findings(cells), output
    assert len({cell["mutation"] for cell in cells}) == SAMPLE + len(CRITICAL)
    assert len(cells) == (SAMPLE + len(CRITICAL)) * len(QUICK)


@pytest.mark.parametrize("check", SABOTAGE)
def test_the_catalogue_notices_a_removed_check(run, check):
    _, removed, _ = run
    cells = [cell for cell in removed if cell["mutation"].startswith(f"{check}: ")]
    assert cells
    assert findings(cells)
