"""Stores have the same bytes on a processor without vector extensions.

A child process compiles the kernels for a generic x86-64 processor, turns off the dispatch of numpy and uses OpenBLAS kernels of
an old processor. It has its own cache of kernels, so it compiles everything.
"""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.build.reference_stores import compare, known_digests, read_recorded
from tgp.engine.revision import ENGINE_REVISION

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="the digests were recorded on Linux with an x86-64 processor",
)
ROOT = Path(__file__).resolve().parents[2]

CHILD = """
import sys
import numpy
from numba.core import config
from numba.core.registry import cpu_target
from tests.build import reference_stores
from tests.build.test_plain_cpu import numpy_features

assert cpu_target.target_context.codegen().magic_tuple()[1:] == ("generic", ""), "kernels for this processor"
assert numpy_features() == [], "numpy uses " + ", ".join(numpy_features())
reference_stores.main(sys.argv[1:])
"""


def numpy_features():
    """Return the vector extensions of this processor that numpy chooses at run time."""
    core = getattr(np, "_core", None) or np.core
    umath = core._multiarray_umath
    return [name for name in umath.__cpu_dispatch__ if umath.__cpu_features__.get(name)]


def digests_on_a_plain_cpu(folder, *arguments):
    """Build reference stores in a child process and return their digests."""
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(folder),
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "NPY_DISABLE_CPU_FEATURES": ",".join(numpy_features()),
        "OPENBLAS_CORETYPE": "Prescott",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_two_methods_have_the_same_bytes_on_a_plain_cpu(tmp_path):
    found = digests_on_a_plain_cpu(tmp_path, "--only", "graclus,kmis")
    assert compare(found, read_recorded(), ENGINE_REVISION) is None
    assert len(found) == 15  # five datasets: their graphs and two hierarchies


@pytest.mark.full
def test_all_methods_have_the_same_bytes_on_a_plain_cpu(tmp_path):
    found = digests_on_a_plain_cpu(tmp_path)
    assert compare(found, read_recorded(), ENGINE_REVISION) is None
    assert len(found) == len(known_digests(read_recorded(), ENGINE_REVISION))
