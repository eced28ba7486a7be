"""Check that a malicious store is rejected with the name of the invalid item, without a hang and with little memory."""

import contextlib
import sys
import time

import pytest

from tgp.errors import StoreDamagedError
from tgp.store import StoreReader, verify_store


@contextlib.contextmanager
def bounded(megabytes=100):
    """Check that the block ends within 30 s and, on Linux, allocates less than ``megabytes``."""
    if sys.platform != "linux":
        yield
        return
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # reset the peak memory use
    before, start = memory("VmRSS"), time.perf_counter()
    yield
    assert time.perf_counter() - start < 30
    assert memory("VmHWM") - before < 1000 * megabytes


def memory(key):
    """Return a memory figure of this process in kilobytes."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key))


def refused(path, item, read=None):
    """Check that reading and verifying both fail with the name of the invalid item."""
    with bounded(), pytest.raises(StoreDamagedError) as caught:
        reader = StoreReader(path)
        (read or (lambda r: r.gather_graphs([0])))(reader)
    assert item in str(caught.value), str(caught.value)
    with bounded():
        findings = verify_store(path)
    assert any(item in f.message for f in findings), findings
