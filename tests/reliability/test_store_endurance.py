"""Many random kills and many flipped bits. The environment variable ``TGP_ENDURANCE`` multiplies their number."""

import os
import random
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.reliability.harness import digests
from tgp.errors import StoreMissingError, StoreVersionError
from tgp.store import StoreReader, verify_store
from tgp.testing.stores import build_store, random_table

TIMES = int(os.environ.get("TGP_ENDURANCE", "1"))

MAKE = """
import sys
from tgp.store import StoreWriter
from tgp.testing.stores import random_table, store_spec, write_store
table = random_table(400, seed=5)
write_store(StoreWriter.open(sys.argv[1], store_spec(table, 40)), table)
"""


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path):
    """Kill and continue a run until the store is complete. It must equal the store of an undisturbed run."""
    command = [sys.executable, "-c", MAKE]
    start = time.perf_counter()
    subprocess.run([*command, tmp_path / "whole"], check=True)
    duration = time.perf_counter() - start
    expected = digests(tmp_path / "whole")
    rng = random.Random(1)
    kills = 0
    for round_ in range(2 * TIMES):
        path = tmp_path / f"s{round_}"
        for _ in range(8):
            process = subprocess.Popen([*command, path])
            try:
                process.wait(rng.uniform(0.3, 1.0) * duration)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                kills += 1
            shards = {k: v for k, v in digests(path).items() if k.endswith(".h5") and ".tmp-" not in k}
            assert shards.items() <= expected.items(), "an unfinished shard got its final name"
            try:
                StoreReader(path)
            except StoreMissingError:
                continue
            assert verify_store(path) == []
        subprocess.run([*command, path], check=True)
        assert digests(path) == expected
    assert kills


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["fast", "small"])
def test_every_flipped_bit_is_found(tmp_path, profile):
    build_store(tmp_path, random_table(12, seed=1), num_units=1, profile=profile)
    rng = np.random.default_rng(TIMES)
    names = ["manifest.json", "shard-00000.graphs.h5", "shard-00000.halve.h5"]
    for _ in range(300 * TIMES):
        file = tmp_path / names[rng.integers(3)]
        original = file.read_bytes()
        data = bytearray(original)
        at = int(rng.integers(len(data)))
        data[at] ^= 1 << int(rng.integers(8))
        file.write_bytes(data)
        try:
            found = bool(verify_store(tmp_path, semantics=False))
        except StoreVersionError:
            found = True
        file.write_bytes(original)
        assert found, f"flip at {at} of {file.name}"
