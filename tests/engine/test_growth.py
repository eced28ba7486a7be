"""The work of methods grows linearly with the graph on every family: executed lines of the kernels are counted, not seconds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.bench_families import FAMILIES, exponent

ROOT = Path(__file__).resolve().parents[2]
SIZES = (500, 2000)
LIMIT = 1.35
"""Largest exponent of the operations over the edges. At these sizes, linear methods have 0.9 to 1.25; a quadratic one has 2."""

COUNT = """
import json, os, sys
import numpy as np
from tgp.kernels import _prims

# Not usable in Python. Replaced before other kernels import it.
_prims.lowest_bit = lambda word: np.uint64((int(word) & -int(word)).bit_length() - 1)

from tests.benchmarks.bench_families import FAMILIES
from tgp.engine import coarsen

counter = [0]
folder = os.path.join("tgp", "kernels") + os.sep

def local(frame, event, argument):
    counter[0] += event == "line"
    return local

def trace(frame, event, argument):
    return local if folder in frame.f_code.co_filename else None

counts = []
for text in sys.argv[2:]:
    for family in FAMILIES:
        for size in (3100, 8100) if "1000 leaves" in family else json.loads(sys.argv[1]):
            block = FAMILIES[family](size)
            coarsen(FAMILIES["grid"](20), text)
            counter[0] = 0
            sys.settrace(trace)
            coarsen(block, text)
            sys.settrace(None)
            counts.append((text, family, block.num_edges, counter[0]))
print(json.dumps(counts))
"""


def count_operations(*schedules, sizes=SIZES):
    """Return ``(schedule, family, edges, executed lines of kernels)`` for all families. Kernels run as Python code."""
    environment = {
        **os.environ,
        "NUMBA_DISABLE_JIT": "1",
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
    }
    command = [sys.executable, "-c", COUNT, json.dumps(sizes), *schedules]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "schedule", ["graclus", "graclus:two_hop=true:match_on=counts*2", "kmis", "kmis:order_k=2:max_size=8"]
)
def test_work_grows_linearly_on_every_family(schedule):
    counted = count_operations(schedule)
    assert {family for _, family, _, _ in counted} == set(FAMILIES)
    for family in FAMILIES:
        edges, lines = zip(*((e, n) for _, name, e, n in counted if name == family), strict=True)
        assert min(lines) > min(edges) / 2  # the kernels were traced
        growth = exponent(list(edges), list(lines))
        assert growth <= LIMIT, f"{schedule} on {family}: edges^{growth:.2f}"
