"""Writing, reading, locking, worker processes and signals without the calls that only some operating systems have."""

import builtins
import errno
import os
import pickle
import signal
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from tgp.build.executors import open_executor
from tgp.build.workers import start_worker, usable_cores
from tgp.errors import StoreDamagedError, StoreError, StoreMismatchError
from tgp.store import StoreReader, StoreWriter, verify_store
from tgp.store.io import failpoint, portable
from tgp.store.io.files import LocalFiles
from tgp.testing.stores import build_store, halving_spec, random_table, store_spec, write_store
from tgp_cli._errors import Terminated, catch_signals


class FakeMsvcrt:
    """Byte locks with the interface of ``msvcrt``: one owner per file and position, which is a file descriptor."""

    LK_NBLCK, LK_UNLCK = 2, 0

    def __init__(self):
        self.owners = {}

    def locking(self, descriptor, mode, size):
        status = os.fstat(descriptor)
        position = os.lseek(descriptor, 0, os.SEEK_CUR)
        assert position < 2**31, "the C library of Windows takes 32-bit positions"
        key = (status.st_dev, status.st_ino, position, size)
        if mode == self.LK_UNLCK:
            if self.owners.pop(key, None) != descriptor:
                raise PermissionError(errno.EACCES, "not locked by this descriptor")
        elif self.owners.setdefault(key, descriptor) != descriptor:
            raise PermissionError(errno.EACCES, "locked")


class OpenFiles:
    """Paths of the files in a directory that are open, to refuse what Windows refuses."""

    def __init__(self, monkeypatch, folder):
        self.folder = str(folder)
        self.paths = {}
        self._open, self._close = os.open, os.close
        self._replace, self._rename, self._unlink = os.replace, os.rename, os.unlink
        monkeypatch.setattr(os, "open", self.open)
        monkeypatch.setattr(os, "close", self.close)
        monkeypatch.setattr(os, "replace", self.replace)
        monkeypatch.setattr(os, "rename", self.rename)
        monkeypatch.setattr(os, "unlink", self.unlink)

    def open(self, path, *arguments, **options):
        inside = str(path).startswith(self.folder)
        if inside and os.path.isdir(path):
            raise PermissionError(errno.EACCES, "a directory cannot be opened", str(path))
        descriptor = self._open(path, *arguments, **options)
        if inside:
            self.paths[descriptor] = str(path)
        return descriptor

    def close(self, descriptor):
        self.paths.pop(descriptor, None)
        self._close(descriptor)

    def refuse_open(self, *paths):
        for path in paths:
            if str(path) in self.paths.values():
                raise PermissionError(errno.EACCES, "the file is open", str(path))

    def replace(self, source, target):
        self.refuse_open(source, target)
        self._replace(source, target)

    def rename(self, source, target):
        self.refuse_open(source, target)
        if os.path.exists(target):
            raise FileExistsError(errno.EEXIST, "the target exists", str(target))
        self._rename(source, target)

    def unlink(self, path, **options):
        self.refuse_open(path)
        self._unlink(path, **options)


@pytest.fixture
def windows(monkeypatch, tmp_path):
    """Simulate Windows: no ``fcntl``, no POSIX calls, and open files can be neither renamed nor deleted."""
    monkeypatch.setattr(portable, "WINDOWS", True)
    monkeypatch.setattr(portable, "fcntl", None)
    monkeypatch.setattr(portable, "msvcrt", FakeMsvcrt())
    monkeypatch.setattr(portable, "_REPLACE_PAUSES", (0.0,))
    for name in ("pread", "pwrite", "fork", "sched_getaffinity"):
        monkeypatch.delattr(os, name)
    return OpenFiles(monkeypatch, tmp_path)


@pytest.fixture
def no_locks(monkeypatch):
    """Simulate a platform without any file locks."""
    monkeypatch.setattr(portable, "fcntl", None)
    monkeypatch.setattr(portable, "msvcrt", None)


# Writing and reading ------------------------------------------------------------------------------


def content(path):
    return {p.relative_to(path): p.read_bytes() for p in path.glob("**/*") if p.is_file()}


def test_a_store_written_on_windows_has_the_same_bytes(tmp_path, table, profile, request):
    build_store(tmp_path / "posix", table, profile=profile)
    request.getfixturevalue("windows")
    build_store(tmp_path / "windows", table, profile=profile)
    assert content(tmp_path / "windows") == content(tmp_path / "posix")
    assert verify_store(tmp_path / "windows") == []


def test_a_store_is_continued_and_extended_on_windows(tmp_path, table, windows):
    spec = store_spec(table)
    first = StoreWriter.open(tmp_path, spec)
    first.write_graphs(1, table.take(np.arange(20, 40)))
    write_store(StoreWriter.open(tmp_path, spec), table)
    more = store_spec(table, hierarchies=[halving_spec("more")])
    write_store(pickle.loads(pickle.dumps(StoreWriter.open(tmp_path, more))), table)
    reader = StoreReader(tmp_path)
    assert list(reader.hierarchies) == ["halve", "more"]
    np.testing.assert_array_equal(reader.gather_graphs(np.arange(40)).node_ptr, table.node_ptr)
    assert not windows.paths


@pytest.mark.parametrize("fixture", ["windows", "no_locks"])
def test_force_replaces_a_store(tmp_path, table, request, fixture):
    request.getfixturevalue(fixture)
    build_store(tmp_path / "store", table)
    (tmp_path / "store/notes.txt").write_bytes(b"mine")
    first = StoreWriter.open(tmp_path / "store", store_spec(table))
    other = random_table(30, seed=9)
    write_store(StoreWriter.open(tmp_path / "store", store_spec(other), force=True), other)
    assert verify_store(tmp_path / "store") == []
    assert (tmp_path / "store/notes.txt").read_bytes() == b"mine"
    with pytest.raises(StoreMismatchError):
        first.write_graphs(0, table.take(np.arange(20)))
    assert verify_store(tmp_path / "store") == []


def test_links_are_refused_on_windows(tmp_path, table, windows):
    build_store(tmp_path / "victim", table)
    before = content(tmp_path / "victim")
    (tmp_path / "store").mkdir()
    (tmp_path / "store/records").symlink_to(tmp_path / "victim/records")
    with pytest.raises(StoreDamagedError, match="must be a directory"):
        StoreWriter.open(tmp_path / "store", store_spec(table), force=True)
    (tmp_path / "store/records").unlink()
    (tmp_path / "store/records").mkdir()
    (tmp_path / "store/records/.lock").symlink_to(tmp_path / "outside")
    with pytest.raises(StoreDamagedError, match="plain file"):
        StoreWriter.open(tmp_path / "store", store_spec(table), force=True)
    assert not (tmp_path / "outside").exists()
    assert content(tmp_path / "victim") == before
    assert not windows.paths


@pytest.mark.parametrize("link", ["missing", "not supported"])
@pytest.mark.parametrize("fixture", ["windows", "no_locks"])
def test_specifications_are_written_without_hard_links(tmp_path, table, monkeypatch, request, link, fixture):
    request.getfixturevalue(fixture)
    if link == "missing":
        monkeypatch.delattr(os, "link")
    else:

        def refuse(*_, **__):
            raise OSError(errno.EPERM, "no links")

        monkeypatch.setattr(os, "link", refuse)
    files = LocalFiles(tmp_path)
    assert files.write("a", b"first", exclusive=True)
    assert not files.write("a", b"second", exclusive=True)
    assert (tmp_path / "a").read_bytes() == b"first"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    build_store(tmp_path / "store", table)
    assert verify_store(tmp_path / "store") == []


def test_an_exclusive_rename_that_another_process_wins(tmp_path, monkeypatch, windows):
    """The target appears after the check and before the rename."""
    monkeypatch.delattr(os, "link")
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / "target").write_bytes(b"theirs")
    monkeypatch.setattr(portable, "_exists", lambda *_: False)
    assert not portable.rename_exclusive(tmp_path / "mine", tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == b"theirs"


def test_a_file_that_is_read_for_a_moment_is_replaced(tmp_path, monkeypatch, windows):
    calls = []

    def busy_once(source, target):
        calls.append(target)
        if len(calls) == 1:
            raise PermissionError(errno.EACCES, "in use")
        windows.replace(source, target)

    monkeypatch.setattr(os, "replace", busy_once)
    LocalFiles(tmp_path).write("a", b"content")
    assert (tmp_path / "a").read_bytes() == b"content"
    assert len(calls) == 2


def test_a_file_that_stays_in_use_is_reported(tmp_path, windows):
    descriptor = os.open(tmp_path / "a", os.O_RDWR | os.O_CREAT)
    with pytest.raises(StoreError, match="cannot write") as caught:
        LocalFiles(tmp_path).write("a", b"content")
    assert "Close all programs" in caught.value.hint
    os.close(descriptor)
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("size", [0, 10_000])
def test_files_are_mapped_without_posix_flags(tmp_path, monkeypatch, windows, size):
    for name in ("MAP_SHARED", "PROT_READ"):
        monkeypatch.delattr(portable.mmap, name)
    (tmp_path / "a").write_bytes(bytes(range(100)) * (size // 100))
    with open(tmp_path / "a", "rb") as file:
        mapped = portable.map_file(file)
    np.testing.assert_array_equal(mapped, np.tile(np.arange(100, dtype=np.uint8), size // 100))
    assert not mapped.flags.writeable or not size


# Locks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("platform", ["posix", "windows"])
def test_one_descriptor_at_a_time_holds_a_lock(tmp_path, request, platform):
    if platform == "windows":
        request.getfixturevalue("windows")
    one, two = (os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert portable.lock_file(one, wait=True) is True
    assert portable.lock_file(two, wait=False) is False
    acquired = threading.Event()

    def wait_for_lock():
        portable.lock_file(two, wait=True)
        acquired.set()

    thread = threading.Thread(target=wait_for_lock, daemon=True)
    thread.start()
    assert not acquired.wait(0.1)
    portable.close_locked(one)
    assert acquired.wait(600)
    portable.close_locked(two)


def test_a_platform_without_locks(tmp_path, table, no_locks):
    build_store(tmp_path, table)
    assert verify_store(tmp_path) == []
    descriptor = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    assert portable.lock_file(descriptor, wait=True) is None
    portable.close_locked(descriptor)


def test_temporary_files_are_kept_where_locks_cannot_show_their_writer(tmp_path, table, no_locks):
    spec = build_store(tmp_path, table)
    left = tmp_path / ".tmp-0123456789abcdef-shard-00000.graphs.h5"
    left.write_bytes(b"half")
    StoreWriter.open(tmp_path, spec)
    assert left.exists()


def test_temporary_files_of_dead_writers_are_removed_on_windows(tmp_path, table, windows):
    spec = build_store(tmp_path, table)
    dead = tmp_path / ".tmp-0123456789abcdef-shard-00000.graphs.h5"
    dead.write_bytes(b"half")
    writer = StoreWriter.open(tmp_path, spec)
    assert not dead.exists()
    with writer.files.temporary("shard-00009.graphs.h5") as living:
        assert writer.files.remove_stale() == []
        assert living.path.exists()
    assert not living.path.exists()


def test_a_file_system_that_refuses_locks(tmp_path, monkeypatch, windows):
    def refuse(*_):
        raise OSError(errno.EINVAL, "not supported")

    monkeypatch.setattr(portable.msvcrt, "locking", refuse)
    descriptor = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    assert portable.lock_file(descriptor, wait=True) is None
    portable.close_locked(descriptor)


# Processes and signals ----------------------------------------------------------------------------


def test_cores_are_counted_without_an_affinity(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    assert 1 <= usable_cores() <= os.cpu_count()


def test_memory_is_estimated_without_the_resource_module(monkeypatch):
    from tgp.build import estimates

    real = builtins.__import__

    def without_resource(name, *arguments, **options):
        if name == "resource":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without_resource)
    assert estimates._peak_resident_bytes() == 0


def test_workers_start_without_a_signal_mask(monkeypatch):
    """Only the module of the executors loses the calls: ``multiprocessing`` of this system needs them."""
    few = SimpleNamespace(**{name: getattr(signal, name) for name in dir(signal) if "pthread" not in name})
    monkeypatch.setattr("tgp.build.executors.signal", few)
    with open_executor(None, 2) as pool:
        assert pool.executor.submit(abs, -3).result() == 3


def test_a_worker_is_configured_with_the_signals_of_windows(monkeypatch):
    """Windows has SIGINT and SIGTERM, but neither SIGKILL nor SIGHUP nor signal masks."""
    handlers = {}
    few = SimpleNamespace(
        SIGINT=signal.SIGINT,
        SIGTERM=signal.SIGTERM,
        SIG_IGN=signal.SIG_IGN,
        SIG_DFL=signal.SIG_DFL,
        signal=handlers.__setitem__,
    )
    monkeypatch.setattr("tgp.build.workers.signal", few)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    start_worker()
    assert handlers == {signal.SIGINT: signal.SIG_IGN, signal.SIGTERM: signal.SIG_DFL}


def test_sigterm_ends_a_command_without_pthread_kill(monkeypatch):
    import sys

    for name in ("pthread_kill", "pthread_sigmask"):
        monkeypatch.delattr(signal, name)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    before = signal.getsignal(signal.SIGTERM)
    try:
        catch_signals()
        with pytest.raises(Terminated):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_failpoint_kills_without_sigkill(monkeypatch):
    sent = []
    monkeypatch.setenv("TGP_FAILPOINT", "file:written")
    monkeypatch.setattr(os, "kill", lambda *call: sent.append(call))
    monkeypatch.setattr(failpoint, "_passed", {})
    failpoint.failpoint("file:written")
    assert sent == [(os.getpid(), failpoint._KILL)]


def test_file_names_are_valid_on_windows(store):
    """No reserved characters or device names, and no two names that differ in case only."""
    names = [p.name for p in store.glob("**/*")]
    assert len({name.lower() for name in names}) == len(names)
    for name in names:
        assert not set(name) & set('<>:"/\\|?*')
        assert name.partition(".")[0].lower() not in {"con", "prn", "aux", "nul"}


def test_a_large_graph_table_is_written_on_windows(tmp_path, windows):
    """HDF5 writes arrays of several megabytes at positions that are not in order."""
    table = random_table(20_000, seed=3)
    build_store(tmp_path, table, num_units=1)
    assert verify_store(tmp_path, semantics=False) == []
