"""A sample of the mutation catalogue, and proof that it notices removed checks. ``make fuzz`` runs all of it."""

import json
import subprocess
import sys

import pytest

from tests.store.mutation_sabotage import SABOTAGE

pytestmark = [pytest.mark.linux]
CRITICAL = (
    "named/S1/complex128-as-f2-width-128",
    "named/S1/bool-as-u8",
    "named/S2/supernodes-without-representatives-2^62-1",
    "named/S3/supernodes-in-one-shard-2^34",
    "named/S3/graph-level-fields-only-2^34",
    "named/S8/one-unit-without-level-weights",
)
QUICK = (
    "verify",
    "read_single",
    "gather",
    "loader",
    "inspect",
    "inspect_csv",
    "export_npz",
    "status",
    "continue_writing",
)


def run(tmp_path, *options):
    """Run the catalogue in another process, because it forks, and return its cells."""
    cells = tmp_path / "cells.jsonl"
    command = [sys.executable, "-m", "tests.store.mutation_runner", "--cells", str(cells), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return [json.loads(line) for line in cells.read_text().splitlines()], done.stdout


def test_a_sample_of_the_catalogue_ends_in_typed_errors_or_correct_data(tmp_path):
    cells, text = run(tmp_path, "--sample", "24", "--seed", "14", "--also", *CRITICAL, "--consumers", *QUICK)
    bad = [cell for cell in cells if cell["kind"] not in ("ok", "refused")]
    assert not bad, text
    assert len({cell["mutation"] for cell in cells}) >= 24
    assert len(cells) >= 24 * len(QUICK)


def test_the_catalogue_notices_every_removed_check(tmp_path):
    cells, text = run(tmp_path, "--sabotage")
    found = {cell["mutation"].split(": ")[0] for cell in cells if cell["kind"] not in ("ok", "refused")}
    assert found == set(SABOTAGE), text
