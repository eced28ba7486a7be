"""Functions that kernels share: the decorator, random numbers, rows, union-find, heaps."""

import ast
import gc
import heapq
import operator
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core import event, types
from numba.core.registry import cpu_target
from numba.core.types import functions

import tgp.kernels
from tests.reference.graclus import hash_u64
from tgp.kernels import _compiler, _prims

FOLDER = Path(tgp.kernels.__file__).parent
ROOT = FOLDER.parents[1]


def test_kernel_caches_machine_code_and_releases_the_gil():
    assert _prims.uf_find.targetoptions["nogil"] and _prims.uf_find.targetoptions["nopython"]
    assert _prims.fill_transpose.stats.cache_path is not None
    assert _prims._mix_bits.targetoptions["inline"] == "always"


def test_inner_kernels_have_no_wrapper_and_can_be_called():
    """A call from Python compiles a second version, because calling a missing wrapper ends the process."""

    @_prims.kernel(inner=True)
    def double(x):
        return 2 * x

    @_prims.kernel
    def outer(x):
        return double(x) + 1

    assert outer(3) == 7 and len(double.overloads) == 1
    assert double.targetoptions["no_cpython_wrapper"] and not outer.targetoptions["no_cpython_wrapper"]
    assert double(3) == 6 and double(2.5) == 5.0


def test_inner_kernels_have_no_machine_code_of_their_own():
    """They are part of their callers. Machine code for each of them takes a fifth of the time to compile."""

    @_prims.kernel(inner=True)
    def double(x):
        return 2 * x

    @_prims.kernel
    def outer(x):
        return double(x) + 1

    assert outer(3) == 7
    ((compiled,), (caller,)) = double.overloads.values(), outer.overloads.values()
    engine = compiled.library.codegen._engine
    assert not engine.is_symbol_defined(compiled.fndesc.llvm_func_name)
    assert engine.is_symbol_defined(caller.fndesc.llvm_func_name)
    assert double.stats.cache_path is None


def test_implementations_are_remembered_while_a_kernel_is_compiled():
    """Kernels with other options have implementations of their own. Other functions are compiled as numba does it."""
    usual = functions.BaseFunction.get_call_type
    found = dict(_compiler._implementations)
    with _compiler.remember_implementations("test"):
        assert functions.BaseFunction.get_call_type is not usual
        context = cpu_target.typing_context
        add = context.resolve_value_type(operator.add)
        args = (types.int64, types.float64)
        first = add.get_call_type(context, args, {})
        assert add.get_call_type(context, args, {}) is first
        assert first.return_type == types.float64
        assert len(_compiler._implementations["test"]) == 1
    assert functions.BaseFunction.get_call_type is usual
    assert _compiler._implementations.pop("test") and _compiler._implementations == found


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_paused_while_a_kernel_is_compiled(enabled):
    seen = []
    factor = 2

    @_prims.kernel
    def multiply(x):
        return factor * x  # a function with a closure is not cached

    class Listener(event.Listener):
        def on_start(self, happened):
            seen.append(gc.isenabled())

        def on_end(self, happened):
            pass

    was_enabled = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with event.install_listener("numba:compile", Listener()):
            multiply(3)
        assert seen == [False] and gc.isenabled() == enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_only_the_shared_module_calls_njit(path):
    used = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
    assert ("njit" in used) == (path.name == "_prims.py")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_kernels_import_only_the_shared_modules(path):
    """A change of a kernel must not require that kernels of other methods are compiled again.

    Modules of one method may import each other. Python code of a module imports the module of other kernels, not the kernels.
    """
    imports = [n.module for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom)]
    ours = {module for module in imports if module and module.startswith("tgp.")} - {"tgp.kernels"}
    own = {
        f"tgp.kernels.{other.stem}"
        for other in FOLDER.glob("coding_tree*.py")
        if path.stem.startswith("coding_tree")
    }
    private = {
        "_prims.py": ("_cache", "_compiler"),
        "_cache.py": ("_cache_folders",),
        # One kernel for all steps of a small graph. It is compiled again if one of these modules changes.
        "coding_tree_single.py": ("ahead", "csr", "undirected"),
        "carry.py": ("_vectors",),
        "contract_ranges.py": ("_vectors", "contract"),  # rows are merged by the kernel of small graphs
        "communities.py": ("_vectors",),
        "external_matching.py": ("local_matching",),  # the same matching, of rows that are files
        "mis.py": ("_vectors",),
        "rank_ranges.py": ("mis",),  # the kernels of kmis for one large graph
    }.get(path.name, ())
    own |= {f"tgp.kernels.{name}" for name in private}
    assert ours <= {"tgp.kernels._prims", "tgp.kernels.array_types"} | own


@given(st.integers(0, 2**63 - 1), st.integers(0, 99), st.integers(0, 2**31), st.integers(0, 9))
def test_hash_equals_the_reference(seed, level, node, draw):
    bits = hash_u64(seed, level, node, draw)
    assert _prims.hash_u64(seed, level, node, draw) == bits
    assert _prims.hash_uniform(seed, level, node, draw) == (bits >> 11) / 2**53


def test_normal_numbers_have_mean_zero_and_variance_one():
    drawn = np.array([_prims.hash_normal(1, 2, i, 0) for i in range(20_000)])
    assert abs(drawn.mean()) < 0.03 and abs(drawn.std() - 1) < 0.03


def test_transpose_of_a_rectangular_matrix():
    # [[0, 5, 0, 6, 7], [8, 9, 0, 0, 0]] with the entry 6 twice.
    indptr, indices = np.array([0, 4, 6]), np.array([1, 3, 3, 4, 0, 1], np.int32)
    weight = np.array([5.0, 6.0, 6.5, 7.0, 8.0, 9.0])
    ptr, rows, values = np.empty(6, np.int64), np.empty(6, np.int32), np.empty(6)
    _prims.fill_transpose(indptr, indices, weight, True, ptr, rows, values)
    assert ptr.tolist() == [0, 1, 3, 3, 5, 6]
    assert rows.tolist() == [1, 0, 1, 0, 0, 0]
    assert values.tolist() == [8.0, 5.0, 9.0, 6.0, 6.5, 7.0]


@given(st.integers(1, 12).flatmap(lambda n: st.lists(st.tuples(*[st.integers(0, n - 1)] * 2), max_size=15)))
def test_roots_are_the_smallest_members_of_their_sets(pairs):
    parent = np.arange(12)
    label = list(range(12))
    for a, b in pairs:
        _prims.uf_union(parent, a, b)
        low, high = sorted((label[a], label[b]))
        label = [low if x == high else x for x in label]
    assert [_prims.uf_find(parent, i) for i in range(12)] == label


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=30))
def test_heap_equals_heapq(entries):
    keys, items = np.empty(30), np.empty(30, np.int64)
    size = 0
    for key, item in entries:
        size = _prims.heap_push(keys, items, size, float(key), item)
    expected = list(entries)
    heapq.heapify(expected)
    while size:
        assert (keys[0], items[0]) == heapq.heappop(expected)
        size = _prims.heap_remove_min(keys, items, size)
    assert not expected


@given(st.lists(st.integers(0, 3), min_size=1, max_size=20), st.integers(0, 3))
def test_heap_inside_an_array_keeps_the_value_of_each_entry(keys, start):
    size = len(keys)
    key = np.concatenate([np.full(start, -1.0), np.array(keys, float)])
    item, value = np.arange(-start, size), 10.0 * np.arange(-start, size)
    for at in range(size // 2 - 1, -1, -1):
        _prims.heap_sink_entry(key, item, value, start, size, at)
    assert key[:start].tolist() == [-1.0] * start
    assert (key[start], item[start]) == min((k, i) for i, k in enumerate(keys))
    assert [(k, i) for k, i in sorted(zip(key[start:], item[start:], strict=True))] == sorted(
        (k, i) for i, k in enumerate(keys)
    )
    assert value.tolist() == (10.0 * item).tolist()


@pytest.mark.slow
def test_other_versions_of_numba_compile_kernels_with_the_same_results(tmp_path):
    script = """
import hashlib, sys
import numba
if sys.argv[1] == "other":
    numba.__version__ = "0.99.0"
from tgp.engine.coarsening import coarsen
from tgp.testing.graphs import grid2d
from tgp.kernels import _cache
levels = coarsen(grid2d(9, 9), "graclus,sep").levels
arrays = [array for level in levels for array in level.arrays().values()]
print(hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest())
print(_cache.IS_KNOWN_NUMBA, "tgp.kernels._compiler" in sys.modules)
"""
    found = {}
    for version in ("known", "other"):
        folder = {"NUMBA_CACHE_DIR": str(tmp_path)} if version == "other" else {}
        done = subprocess.run(
            [sys.executable, "-c", script, version],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env={**os.environ, **folder},
        )
        assert done.returncode == 0, done.stderr
        found[version] = done.stdout.split()
    assert found["known"][0] == found["other"][0]
    assert found["known"][1:] == ["True", "True"] and found["other"][1:] == ["False", "False"]
