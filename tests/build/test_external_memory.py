"""Resident memory of runs on graphs larger than memory does not grow with the number of edges."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")

NUM_NODES = 20_000
MEASURE = """
import os, sys
from tgp.build import CoarsenConfig, coarsen_dataset, external, external_input
from tgp.engine.external.buckets import Limits

os.fsync = lambda descriptor: None  # slow, and without effect on memory
external_input.SCAN_SIZE = 1 << 14
external.choose_limits = lambda memory, nodes: Limits(1 << 14, 1 << 17)
coarsen_dataset(CoarsenConfig(sys.argv[1], out=sys.argv[2], poolers=sys.argv[3], memory="4GB"))
status = open("/proc/self/status").read()
print(int(status.split("VmHWM:")[1].split()[0]))
"""


def write_edges(path, num_edges, seed):
    edges = np.random.default_rng(seed).integers(0, NUM_NODES, (num_edges, 2), np.int32)
    if path.suffix == ".npy":
        np.save(path, edges)
    else:
        path.write_text("\n".join(f"{u} {v}" for u, v in edges.tolist()))


@pytest.mark.parametrize(
    ("suffix", "schedule"),
    [("npy", "hem*2"), ("txt", "hem*2"), ("npy", "kmis,hem"), ("npy", "graclus:two_hop=true,kmis")],
)
def test_four_times_as_many_edges_need_the_same_memory(tmp_path, suffix, schedule):
    """The peak is that of the process alone; ``ru_maxrss`` can be that of the process that started it."""
    peaks = []
    for number, num_edges in enumerate((10_000, 500_000, 2_000_000)):  # the first run fills the cache
        path = tmp_path / f"{number}.{suffix}"
        write_edges(path, num_edges, number)
        command = [sys.executable, "-c", MEASURE, str(path), str(tmp_path / f"s{number}"), schedule]
        peaks.append(int(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    # The difference is 3 million entries: 12 MB of rows, 24 MB of keys, and more than 200 MB in a run in memory.
    assert peaks[2] - peaks[1] < 10_000, peaks
