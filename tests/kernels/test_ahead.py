"""Kernels that are compiled before they are called."""

import os
import subprocess
import sys

import numba
import pytest
from numba.core import config

from tgp.build import compilation
from tgp.kernels import ahead

SHARED = ("local_ids.join_rows", "contract._collect_entries", "undirected._fill_undirected")


def listed_kernels():
    found = {*compilation._COMMON, *compilation._SMALL_METRICS, *compilation._LARGE_METRICS}
    found.update(compilation._EXTERNAL)
    return sorted(found.union(*compilation._METHODS.values(), *compilation._EXTERNAL_METHODS.values()))


def test_signatures_are_read_from_annotations():
    ptr, index, number = numba.int64[::1], numba.int32[::1], numba.float64[::1]
    assert ahead.signature_of("local_ids.join_rows") == (index, index, ptr, ptr, ptr, index, numba.int64)
    assert ahead.signature_of("contract._fill_degree_norm") == (ptr, index, number, number, number)


def test_a_kernel_for_any_integer_has_no_signature():
    assert ahead.signature_of("_prims.uf_find") is None
    assert "_prims.uf_find" not in ahead.find_missing(["_prims.uf_find"])


@pytest.mark.parametrize("name", listed_kernels())
def test_listed_kernels_exist(name):
    assert hasattr(ahead._dispatcher(name), "py_func")


def test_missing_kernels_are_compiled_by_another_process(tmp_path):
    """Helpers write to the shared cache, and this process finds their files."""
    code = (
        "import sys, time\n"
        "from tgp.kernels import ahead\n"
        "names = sys.argv[1:]\n"
        "ahead._KERNELS_PER_HELPER = 3\n"
        "assert set(ahead.find_missing(names)) == set(names)\n"
        "with ahead.start_helpers(names, 5) as count:\n"
        "    assert count == 1, count\n"
        "    end = time.monotonic() + 600\n"
        "    while ahead.find_missing(names) and time.monotonic() < end:\n"
        "        time.sleep(0.05)\n"
        "assert all(map(ahead.is_ready, names))\n"
        "with ahead.start_helpers(ahead.find_missing(names), 5) as count:\n"
        "    assert count == 0\n"
        "assert not ahead._dispatcher(names[0]).overloads\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code, *SHARED], env=environment, check=True)


def test_no_process_is_started_without_a_cache(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError

    for name in SHARED:
        kernel = ahead._dispatcher(name)
        monkeypatch.setattr(kernel, "_cache", type("NoCache", (), {"cache_path": None}))
    monkeypatch.setattr(ahead.subprocess, "Popen", refuse)
    with ahead.start_helpers(ahead.find_missing(SHARED), 8) as count:
        assert count == 0


def test_without_compilation_nothing_is_missing(monkeypatch):
    monkeypatch.setattr(config, "DISABLE_JIT", True)
    monkeypatch.setattr(ahead, "_dispatcher", lambda name: len)
    assert ahead.find_missing(SHARED) == [] and ahead.is_ready(SHARED[0])


def test_a_helper_stops_when_the_process_that_started_it_has_ended(monkeypatch):
    compiled = []
    parents = iter([7, 7, 1, 1])
    monkeypatch.setattr(ahead.os, "getppid", lambda: next(parents))
    monkeypatch.setattr(ahead, "compile_ahead", compiled.extend)
    ahead._run_helper([*SHARED, "soft.soft_product"], parent=7)
    assert compiled == list(SHARED[:2])
