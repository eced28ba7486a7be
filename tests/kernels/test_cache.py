"""The cache of compiled kernels: optional, checked, private."""

import errno
import importlib.util
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
import types
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core import caching, config, serialize
from numba.core.errors import TypingError

from tgp.kernels import _cache, _cache_folders
from tgp.kernels._prims import kernel

SOURCE = """
from tgp.kernels._prims import kernel

@kernel
def add(a, b):
    return a + b

@kernel
def double(a):
    return 2 * a
"""


def load_module(path):
    """Import a module again, so that its kernels have nothing in memory."""
    spec = importlib.util.spec_from_file_location("tiny_kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def state(monkeypatch):
    monkeypatch.setattr(_cache_folders, "_state", {"warned": False})
    _cache_folders.refused.clear()


def set_cache_dir(monkeypatch, folder):
    """Set ``NUMBA_CACHE_DIR``. numba reads the environment again if any of its variables has changed."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder))
    monkeypatch.setattr(config, "CACHE_DIR", str(folder))


def set_home(monkeypatch, folder):
    """Replace the cache directory of the user."""
    monkeypatch.setattr(caching, "AppDirs", lambda **_: types.SimpleNamespace(user_cache_dir=str(folder)))


@pytest.fixture
def source(tmp_path, state, monkeypatch):
    """File with two kernels. Its own directory, the home and the temporary directory cannot hold cache files."""
    (tmp_path / "file").write_text("")
    set_home(monkeypatch, tmp_path / "file")
    monkeypatch.setattr(_cache_folders.tempfile, "gettempdir", lambda: str(tmp_path / "file"))
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "__pycache__").write_text("not a directory")
    (folder / "tiny.py").write_text(SOURCE)
    return folder / "tiny.py"


@pytest.fixture
def chosen(tmp_path, monkeypatch):
    """Directory of ``NUMBA_CACHE_DIR``."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    set_cache_dir(monkeypatch, folder)
    return folder


def run_kernels(source):
    """Call both kernels and return the number that were loaded from the cache."""
    module = load_module(source)
    assert (module.add(2, 3), module.double(4.5)) == (5, 9.0)
    return sum(sum(k.stats.cache_hits.values()) for k in (module.add, module.double))


def entries(folder):
    return sorted(folder.rglob("*.nbc"))


def run_with_one_warning(source):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        hits = run_kernels(source)
    (warning,) = [w for w in caught if issubclass(w.category, _cache.KernelCacheWarning)]
    assert "Set NUMBA_CACHE_DIR" in str(warning.message)
    return hits, str(warning.message)


def test_second_process_loads_the_files(source, chosen):
    assert run_kernels(source) == 0
    assert len(entries(chosen)) == 2
    assert run_kernels(source) == 2
    assert not list(chosen.rglob("*.tmp"))


# -- directories that cannot be used --------------------------------------------------------------------------------


def test_without_a_directory_kernels_are_compiled_in_memory(source, tmp_path, monkeypatch):
    set_cache_dir(monkeypatch, tmp_path / "file")
    hits, text = run_with_one_warning(source)
    assert hits == 0
    assert str(tmp_path / "file") in text and str(source.parent) in text
    assert load_module(source).add.stats.cache_path is None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EACCES, errno.EIO])
def test_a_failed_write_is_reported_once(source, chosen, monkeypatch, number):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(_cache.os, "replace", fail)
    hits, text = run_with_one_warning(source)
    assert hits == 0
    assert str(chosen) in text and os.strerror(number) in text
    assert not list(chosen.rglob("*.tmp")) + entries(chosen)


def test_a_directory_that_becomes_a_file_is_reported(source, chosen):
    module = load_module(source)
    assert module.add(1, 2) == 3
    for file in entries(chosen):
        file.unlink()
        file.parent.rmdir()
    chosen.rmdir()
    chosen.write_text("a file now")
    with pytest.warns(_cache.KernelCacheWarning, match="cannot write"):
        assert module.add(1.5, 1) == 2.5


@pytest.mark.linux
def test_a_process_that_may_not_write_files_ends_normally(source, chosen):
    """A limit of the file size is what a full disk or a quota looks like to the program."""
    code = f"""
import resource, sys
sys.path.insert(0, {str(source.parent)!r})
import tiny
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
print(tiny.add(2, 3), tiny.double(4.5))
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(chosen), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "5 9.0\n")
    assert done.stderr.count("KernelCacheWarning") == 1
    assert str(chosen) in done.stderr and "File too large" in done.stderr


def test_only_the_first_worker_of_a_pool_reports(state, monkeypatch):
    for identity, expected in (((2,), 0), ((1,), 1)):
        monkeypatch.setattr(multiprocessing.current_process(), "_identity", identity)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _cache.warn_once("no directory")
        assert len(caught) == expected


# -- damaged and foreign files --------------------------------------------------------------------------------------


def flip_middle(data):
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


DAMAGE = {
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "one byte missing": lambda data: data[:-1],
    "bit flipped in the code": flip_middle,
    "bit flipped in the digest": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "zeros": lambda data: bytes(len(data)),
    "text": lambda data: b"garbage",
    "two entries": lambda data: data + data,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=list(DAMAGE))
def test_a_damaged_file_is_compiled_again_and_replaced(source, chosen, damage):
    run_kernels(source)
    before = [file.read_bytes() for file in entries(chosen)]
    for file, data in zip(entries(chosen), before, strict=True):
        file.write_bytes(damage(data))
    changed = sum(file.read_bytes() != data for file, data in zip(entries(chosen), before, strict=True))
    assert changed == 2
    assert run_kernels(source) == 0
    assert run_kernels(source) == 2


def test_a_file_of_another_signature_is_not_used(source, chosen):
    """Two processes that start at the same time could exchange the files of numba's own cache."""
    module = load_module(source)
    module.add(2, 3)
    (first,) = entries(chosen)
    module.add(2.0, 3.0)
    (second,) = set(entries(chosen)) - {first}
    second.write_bytes(first.read_bytes())
    again = load_module(source)
    assert again.add(0.25, 0.5) == 0.75
    assert not again.add.stats.cache_hits


def test_a_directory_in_place_of_a_file(source, chosen):
    run_kernels(source)
    for file in entries(chosen):
        file.unlink()
        file.mkdir()
    hits, text = run_with_one_warning(source)
    assert hits == 0 and str(chosen) in text


def test_an_edited_source_is_compiled_again(source, chosen):
    run_kernels(source)
    source.write_text(SOURCE.replace("a + b", "a + b + 10"))
    _cache.hash_sources.cache_clear()
    assert load_module(source).add(2, 3) == 15


def test_the_digest_of_a_source_includes_imported_kernel_modules(tmp_path, monkeypatch):
    """numba's own cache does not notice that a function of another file has changed."""
    monkeypatch.setattr(_cache, "__file__", str(tmp_path / "_cache.py"))
    (tmp_path / "_prims.py").write_text("from tgp.kernels.array_types import IntArray\n")
    (tmp_path / "array_types.py").write_text("IntArray = 1\n")
    (tmp_path / "other.py").write_text("")
    (tmp_path / "top.py").write_text("from tgp.kernels._prims import kernel\n")
    digests = set()
    for name in ("top.py", "_prims.py", "array_types.py", "other.py"):
        with open(tmp_path / name, "a") as file:
            file.write("# edited\n")
        digests.add(_cache.hash_sources.__wrapped__(str(tmp_path / "top.py")))
    assert len(digests) == 3


# -- directories that others can write to ---------------------------------------------------------------------------

posix = pytest.mark.skipif(os.name == "nt", reason="needs file modes")


class Planted:
    """Object whose unpickling leaves a trace."""

    def __init__(self, trace):
        self.trace = str(trace)

    def __reduce__(self):
        return os.mkdir, (self.trace,)


def plant(source, folder, trace):
    """Put a file that runs code when it is read, with a correct digest, in place of every entry."""
    run_kernels(source)
    cache = _cache.KernelCache(load_module(source).add.py_func)
    for file in entries(folder):
        cache._write(file, serialize.dumps((Planted(trace), None)))
    load_module(source)


@posix
@pytest.mark.parametrize("kind", ["leaf", "parent", "link"])
def test_a_directory_that_every_user_can_write_to_is_not_used(source, chosen, tmp_path, monkeypatch, kind):
    plant(source, chosen, tmp_path / "trace")
    shared = entries(chosen)[0].parent if kind == "leaf" else chosen
    shared.chmod(0o777)
    if kind == "link":
        (tmp_path / "link").symlink_to(chosen)
        set_cache_dir(monkeypatch, tmp_path / "link")
    hits, text = run_with_one_warning(source)
    assert hits == 0
    assert not (tmp_path / "trace").exists()
    assert "every user can write to" in text and "777" in text


@posix
def test_a_sticky_parent_is_accepted(source, chosen):
    chosen.chmod(0o1777)
    run_kernels(source)
    assert run_kernels(source) == 2


@posix
def test_a_directory_of_another_user_is_not_used(source, chosen, monkeypatch):
    run_kernels(source)
    folder = entries(chosen)[0].parent
    if os.geteuid() == 0:
        os.chown(folder, 12345, 12345)
    else:
        mine = os.geteuid()
        monkeypatch.setattr(_cache.os, "geteuid", lambda: mine + 1)
    hits, text = run_with_one_warning(source)
    assert hits == 0 and "belongs to user" in text


@posix
def test_the_directory_of_the_user_replaces_a_refused_one(source, chosen, tmp_path, monkeypatch):
    chosen.chmod(0o777)
    home = tmp_path / "home"
    set_home(monkeypatch, home)
    hits, text = run_with_one_warning(source)
    assert hits == 0 and str(chosen) in text
    assert len(entries(home)) == 2
    assert run_kernels(source) == 2


# -- the decorator --------------------------------------------------------------------------------------------------


def test_importing_kernels_writes_no_files(source, chosen):
    load_module(source)
    assert list(chosen.iterdir()) == []


def test_flush_removes_the_files_of_one_kernel(source, chosen):
    run_kernels(source)
    module = load_module(source)
    module.add(2, 3)
    module.add._cache.flush()
    assert [file.name.split("-")[0] for file in entries(chosen)] == ["tiny.double"]


def test_without_compilation_the_function_itself_is_returned(monkeypatch):
    monkeypatch.setattr(config, "DISABLE_JIT", True)

    def half(a):
        return a / 2

    assert kernel(half) is half
    assert kernel(nogil=False)(half) is half


def test_arrays_of_other_layouts_have_their_own_files(source, chosen):
    module = load_module(source)
    values = np.arange(6.0)
    for array in (values, values[::2], values.reshape(2, 3), values.astype(np.float32)):
        np.testing.assert_array_equal(module.double(array), array * 2)
    assert len(entries(chosen)) == 4
    assert Path(module.double.stats.cache_path).parent == chosen


def test_functions_with_a_closure_are_not_cached():
    """Two of them can have the same code and different variables."""

    def make(step):
        @kernel
        def add(value):
            return value + step

        return add

    one, two = make(1), make(2)
    assert (one(1), two(1)) == (2, 3)
    assert not isinstance(one._cache, _cache.KernelCache)


@pytest.fixture
def temporary(source, tmp_path, monkeypatch):
    """Folder of temporary files, where nothing else can hold cache files. Returns the expected cache directory."""
    monkeypatch.setattr(config, "CACHE_DIR", "")
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(_cache_folders.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    return tmp_path / "temporary" / f"tgp-kernels-{_cache_folders._user_id()}"


def test_a_missing_home_leads_to_a_private_temporary_directory(source, temporary):
    with pytest.warns(_cache.KernelCacheWarning, match="temporary files: expected a writable home"):
        assert load_module(source).add(1, 2) == 3
    assert temporary.stat().st_mode & 0o777 == 0o700
    assert len(list(temporary.glob("*/*.nbc"))) == 1
    again = load_module(source)
    assert again.add(1, 2) == 3 and sum(again.add.stats.cache_hits.values()) == 1


@pytest.mark.parametrize("kind", ["link", "file", "mode", "owner"])
def test_a_temporary_directory_of_others_is_not_used(source, temporary, tmp_path, monkeypatch, kind):
    if kind == "link":
        (tmp_path / "target").mkdir(mode=0o700)
        temporary.symlink_to(tmp_path / "target")
    elif kind == "file":
        temporary.write_text("")
    else:
        temporary.mkdir(mode=0o700)
        temporary.chmod(0o755 if kind == "mode" else 0o700)
    if kind == "owner":
        mine = os.geteuid()
        monkeypatch.setattr(_cache_folders, "_user_id", lambda: mine)
        monkeypatch.setattr(_cache.os, "geteuid", lambda: mine + 1)
    with pytest.warns(_cache.KernelCacheWarning, match="not cached"):
        assert load_module(source).add(1, 2) == 3
    assert not list(tmp_path.glob("**/*.nbc"))


def claim_of(module, owner):
    """Write a claim for ``add(1, 2)`` and return its file."""
    cache, codegen = module.add._cache, module.add.targetctx.codegen()
    path = cache._claim_path((numba.typeof(1), numba.typeof(2)), codegen)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(owner)
    return path


def test_a_claim_of_a_process_that_has_ended_is_replaced(source, chosen):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    module = load_module(source)
    path = claim_of(module, f"{socket.gethostname()} {ended.pid}")
    assert module.add(1, 2) == 3 and not path.exists()
    assert len(list(chosen.glob("*/*.nbc"))) == 1


def test_a_process_waits_for_a_claim_and_then_compiles(source, chosen, monkeypatch):
    """The claim of another machine cannot be checked. It ends the wait after some time, never a process."""
    monkeypatch.setattr(_cache, "CLAIM_SECONDS", 0.2)
    waits = []
    monkeypatch.setattr(_cache.time, "sleep", waits.append)
    module = load_module(source)
    path = claim_of(module, "another-machine 1")
    assert module.add(1, 2) == 3
    assert waits and not path.exists()


def test_a_kernel_that_fails_to_compile_leaves_no_claim(source, chosen):
    module = load_module(source)
    with pytest.raises(TypingError):
        module.add("a", 1)
    assert not list(chosen.glob("*/*.claim"))


COMPILE_BOTH = """
import importlib.util, sys
from numba.core import event

class Listener(event.Listener):
    def on_start(self, happened):
        print(happened.data["dispatcher"].py_func.__name__, flush=True)

    def on_end(self, happened):
        pass

spec = importlib.util.spec_from_file_location("tiny_kernels", sys.argv[1])
module = sys.modules["tiny_kernels"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
sys.stdin.readline()
with event.install_listener("numba:compile", Listener()):
    for function in (module.add, module.double):
        function(*range(1, 1 + function.py_func.__code__.co_argcount))
"""


def test_processes_that_start_together_compile_each_kernel_once(source, chosen):
    command = [sys.executable, "-c", COMPILE_BOTH, str(source)]
    runs = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    for run in runs:
        run.stdin.write("\n")
        run.stdin.flush()
    compiled = [name for run in runs for name in run.communicate()[0].split()]
    assert sorted(compiled) == ["add", "double"] and {run.returncode for run in runs} == {0}


def test_threads_that_call_a_new_kernel_at_the_same_time_compile_it_once(source, chosen):
    module = load_module(source)
    begin = threading.Barrier(4)

    def call(number):
        begin.wait()
        return module.add(number, 2)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(call, range(4))) == [2, 3, 4, 5]
    assert len(module.add.overloads) == 1
    assert not list(chosen.glob("*/*.claim"))


def test_kernels_do_not_import_linear_algebra(tmp_path):
    """numba asks for it when it imports its array functions to compile. Functions of others can still use it.

    A kernel that is loaded needs no array functions of numba. Importing them takes a fifth of the time of a short run.
    """
    code = (
        "import sys\n"
        "import numpy as np\n"
        "from tgp.kernels._prims import uf_find\n"
        "assert uf_find(np.array([0, 0]), 1) == 0\n"
        "assert 'scipy.linalg' not in sys.modules\n"
        "print('numba.np.arraymath' in sys.modules)\n"
        "import numba\n"
        "assert numba.njit(lambda a: np.dot(a, a))(np.ones(3)) == 3.0\n"
        "assert 'scipy.linalg' in sys.modules\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", code]
    first, second = (
        subprocess.run(command, check=True, env=environment, capture_output=True, text=True).stdout
        for _ in range(2)
    )
    assert (first, second) == ("True\n", "False\n")
