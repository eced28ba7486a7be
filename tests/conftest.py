"""Fixed conditions for every test: thread counts, hypothesis profile, fresh kernels, real data."""

import gc
import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

# Before numpy, torch and numba read them.
os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("NUMBA_NUM_THREADS", "2")
# Threads that wait would otherwise use the core that the other worker of pytest needs.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import pytest
from hypothesis import HealthCheck, settings

gc.disable()  # until all tests are collected; modules and test items stay until the end

ROOT = Path(__file__).resolve().parents[1]

settings.register_profile(
    "tgp",
    derandomize=True,
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", settings.get_profile("tgp"), max_examples=10)  # for `make quick`
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "tgp"))


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="also run tests that take minutes")


def pytest_runtest_setup(item):
    if item.get_closest_marker("linux") and sys.platform != "linux":
        pytest.skip("needs Linux")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Skip tests over all level methods if the package of ``amg`` is not installed."""
    try:
        return (yield)
    except ImportError as error:
        if "needs the package 'pyamg'" in str(error) and find_spec("pyamg") is None:
            pytest.skip("pyamg is not installed")
        raise


def pytest_collection_modifyitems(config, items):
    if config.getoption("--full"):
        return
    left_out = [item for item in items if item.get_closest_marker("full")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("full")]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish():
    """Leave modules and test items out of later garbage collections, which would visit a million objects each time."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_configure(config):
    """Restore the handler of SIGINT. A suite that runs in the background ignores it, and commands would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def data_root():
    """Folder of the real graphs: ``TGP_TEST_DATA``, or ``shared/data`` beside the project."""
    given = os.environ.get("TGP_TEST_DATA")
    root = Path(given) if given else ROOT.parent / "shared" / "data"
    if not root.is_dir():
        pytest.skip("needs the real graphs: set TGP_TEST_DATA to their folder")
    return root
