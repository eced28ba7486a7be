"""How a store made to hurt has to be met: refused by name, quickly, and without much memory."""

import contextlib
import time

import pytest

from tgp.errors import StoreDamagedError
from tgp.store import StoreReader, verify_store


@contextlib.contextmanager
def bounded():
    """What happens inside does not hang and takes less than 100 MB."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # forget the highest memory use so far
    before, start = memory("VmRSS"), time.perf_counter()
    yield
    assert time.perf_counter() - start < 30
    assert memory("VmHWM") - before < 100_000


def memory(key):
    """Kilobytes of this process."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key))


def refused(path, item, read=None):
    """Reading and verifying both name the culprit."""
    with bounded(), pytest.raises(StoreDamagedError) as caught:
        reader = StoreReader(path)
        (read or (lambda r: r.gather_graphs([0])))(reader)
    assert item in str(caught.value), str(caught.value)
    with bounded():
        findings = verify_store(path)
    assert any(item in f.message for f in findings), findings
