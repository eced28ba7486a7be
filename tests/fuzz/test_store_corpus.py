"""Replay the corpus of the store fuzzer: no input may have a finding."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.store_edits import Cursor
from tests.fuzz.store_fuzz import CORPUS

pytestmark = [pytest.mark.linux]
SAMPLE = 24


def test_the_corpus_is_small_and_has_no_findings():
    files = sorted(CORPUS.glob("*.bin"))
    assert len(files) >= 60
    assert sum(file.stat().st_size for file in files) < 200_000
    chosen = random.Random(14).sample(files, SAMPLE)  # `make fuzz` starts with all of them
    command = [sys.executable, "-m", "tests.fuzz.store_fuzz", "--replay", *map(str, chosen)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(f"{SAMPLE} inputs, 0 findings\n")


def test_a_cursor_returns_zeros_after_the_end():
    cursor = Cursor(b"\x05\x01")
    assert cursor.choice("abc") == "c"
    assert bool(cursor)
    assert cursor.number(4) == 1
    assert not cursor
    assert cursor.integer() == 0
