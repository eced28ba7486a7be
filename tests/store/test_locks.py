"""Locks of a store, links in place of its files, syncs of directories, and temporary files after errors."""

import errno
import os
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest

from tests.reliability.harness import digests
from tgp.errors import StoreDamagedError, StoreError, StoreFullError
from tgp.store import LocalFiles, StoreWriter, verify_store
from tgp.store.io import directory, locks, portable
from tgp.store.io.locks import Holder, LockWaitWarning
from tgp.testing.stores import build_store, store_spec, write_store


@pytest.fixture
def files(tmp_path):
    found = LocalFiles(tmp_path / "store")
    found.make()
    return found


@pytest.fixture
def impatient(monkeypatch):
    """Announce each wait at once."""
    monkeypatch.setattr(portable, "WAIT_SECONDS", 0.0)


# Links and other files in the place of the lock ---------------------------------------------------


@pytest.mark.parametrize("target", ["missing", "existing"])
def test_a_linked_lock_is_refused(tmp_path, files, target):
    outside = tmp_path / "outside"
    if target == "existing":
        outside.write_bytes(b"mine")
    (files.path / "records/.lock").symlink_to(outside)
    with pytest.raises(StoreDamagedError, match=r"\.lock must be a plain file, got a link"), files.lock():
        pass
    assert outside.exists() == (target == "existing")
    assert target == "missing" or outside.read_bytes() == b"mine"


def test_publishing_does_not_create_the_target_of_a_linked_lock(tmp_path, table):
    store, spec = tmp_path / "store", store_spec(table)
    writer = StoreWriter.open(store, spec)
    (store / "records/.lock").unlink(missing_ok=True)
    (store / "records/.lock").symlink_to(tmp_path / "outside")
    with pytest.raises(StoreDamagedError, match="plain file"):
        write_store(writer, table)
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("kind", ["fifo", "directory"])
def test_a_lock_that_is_not_a_file_is_refused(files, kind):
    path = files.path / "records/.lock"
    path.mkdir() if kind == "directory" else os.mkfifo(path)
    with pytest.raises(StoreDamagedError, match="plain file"), files.lock():
        pass


def test_the_content_of_a_lock_with_a_second_name_is_kept(tmp_path, files):
    outside = tmp_path / "outside"
    outside.write_bytes(b"")
    os.link(outside, files.path / "records/.lock")
    with files.lock() as locked:
        assert locked
        assert outside.read_bytes() == b""
    outside.write_bytes(b"mine")
    with files.lock():
        assert outside.read_bytes() == b"mine"


def test_other_content_of_a_lock_is_kept(files):
    path = files.path / "records/.lock"
    path.write_bytes(b"notes of another program\n")
    with files.lock() as locked:
        assert locked
    assert path.read_bytes() == b"notes of another program\n"


def test_a_lock_that_was_deleted_is_not_held_by_two(files):
    """The second process waits for a file that the first one deletes; it must not lock the deleted file."""
    entered, go_on, order = threading.Event(), threading.Event(), []
    descriptor = os.open(files.path / "records/.lock", os.O_RDWR | os.O_CREAT)
    assert portable.lock_file(descriptor, wait=True)

    def second():
        with files.lock(on_wait=lambda *_: None):
            order.append(os.stat(files.path / "records/.lock").st_ino)
            entered.set()
            go_on.wait(600)

    thread = threading.Thread(target=second)
    thread.start()
    (files.path / "records/.lock").unlink()
    portable.close_locked(descriptor)
    assert entered.wait(600)
    third = os.open(files.path / "records/.lock", os.O_RDWR)
    assert os.fstat(third).st_ino == order[0]
    assert portable.lock_file(third, wait=False) is False
    go_on.set()
    thread.join()
    portable.close_locked(third)


@pytest.mark.parametrize("name", ["shard-00000.graphs.h5", "records/spec.json", "manifest.json"])
def test_a_pipe_in_the_place_of_a_file_is_not_read(files, name):
    os.mkfifo(files.path / name)
    for call in (files.size, files.open, files.map, lambda n: files.read(n, 100)):
        with pytest.raises(StoreDamagedError, match="plain file"):
            call(name)


def test_a_file_that_becomes_a_link_after_the_check_is_not_followed(tmp_path, files, monkeypatch):
    """The check and the opening of a file are one call."""
    (tmp_path / "secret").write_bytes(b"secret")
    (files.path / "a").write_bytes(b"public")
    real = os.lstat

    def swap(path, **options):
        found = real(path, **options)
        (files.path / "a").unlink()
        (files.path / "a").symlink_to(tmp_path / "secret")
        return found

    monkeypatch.setattr(os, "lstat", swap)
    try:
        content = files.read("a", 100)
    except StoreDamagedError:
        content = b""
    assert content in (b"", b"public")


def test_directories_are_replaced_by_links_while_a_file_is_written(tmp_path, files):
    """The file stays in the directory that was opened."""
    outside = tmp_path / "outside"
    outside.mkdir()
    with files.temporary("records/spec.json") as temp:
        (files.path / "records").rename(files.path / "moved")
        (files.path / "records").symlink_to(outside)
        os.write(temp.descriptor, b"content")
        temp.rename()
        temp.sync()
    assert not list(outside.iterdir())
    assert (files.path / "moved/spec.json").read_bytes() == b"content"
    with pytest.raises(StoreDamagedError, match="must be a directory"):
        files.write("records/spec.json", b"more")
    with pytest.raises(StoreDamagedError, match="must be a directory"):
        files.remove("records/spec.json")
    assert not list(outside.iterdir())


@pytest.mark.parametrize("descriptors", [True, False])
def test_links_are_refused_without_descriptors_of_directories(tmp_path, table, monkeypatch, descriptors):
    monkeypatch.setattr(portable, "_DIRECTORY_DESCRIPTORS", descriptors)
    build_store(tmp_path / "victim", table)
    before = digests(tmp_path / "victim")
    store = tmp_path / "store"
    store.mkdir()
    (store / "records").symlink_to(tmp_path / "victim/records")
    with pytest.raises(StoreDamagedError, match="must be a directory"):
        StoreWriter.open(store, store_spec(table), force=True)
    assert digests(tmp_path / "victim") == before
    build_store(tmp_path / "plain", table)
    assert verify_store(tmp_path / "plain") == []


@pytest.mark.linux
def test_a_forked_process_does_not_keep_the_lock(files):
    """A child that is forked while the lock is held inherits the open file."""
    reader, writer = os.pipe()
    with files.lock():
        child = os.fork()
        if not child:
            os.close(writer)
            os.read(reader, 1)  # until the parent is done
            os._exit(0)
        os.close(reader)
    descriptor = os.open(files.path / "records/.lock", os.O_RDWR)
    try:
        assert portable.lock_file(descriptor, wait=False) is True
    finally:
        os.close(writer)
        os.waitpid(child, 0)
        portable.close_locked(descriptor)


# Waiting ------------------------------------------------------------------------------------------


def test_waiting_for_a_lock_is_announced_with_the_holder(files, impatient):
    told, done = [], threading.Event()

    def second():
        with files.lock(on_wait=lambda path, holder: told.append((path, holder)) or done.set()):
            pass

    thread = threading.Thread(target=second)
    with files.lock():
        thread.start()
        assert done.wait(600)
    thread.join()
    [(path, holder)] = told
    assert path == files.path / "records/.lock"
    assert holder == Holder(os.getpid(), Holder.this_process().host, holder.since)
    assert (files.path / "records/.lock").read_bytes() == b""


def test_waiting_for_a_shared_lock_is_announced(files, impatient):
    told, done = [], threading.Event()

    def second():
        with files.lock(on_wait=lambda path, holder: told.append(holder) or done.set()):
            pass

    thread = threading.Thread(target=second)
    with files.lock(shared=True), files.lock(shared=True):
        thread.start()
        assert done.wait(600)
    thread.join()
    assert told == [None]


def test_the_default_announcement_is_a_warning(files, impatient):
    with pytest.warns(
        LockWaitWarning, match=r"waiting for the lock of .*store, held by process 5 on a since 20"
    ):
        locks.warn_waiting(files.path / "records/.lock", Holder(5, "a", "2026-01-01T00:00:00Z"))
    with pytest.warns(LockWaitWarning, match="held by another process"):
        locks.warn_waiting(files.path / "records/.lock", None)


def test_a_free_lock_is_not_announced(files, monkeypatch):
    monkeypatch.setattr(portable, "WAIT_SECONDS", 3600.0)
    for shared in (True, False):
        with files.lock(shared=shared, on_wait=lambda *_: pytest.fail("announced")) as locked:
            assert locked


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"pid 12 host a since 2026-01-01T00:00:00Z",
        b"pid 12 host a since 2026-01-01T00:00:00Z\nmore",
        b"pid 0 host a since 2026-01-01T00:00:00Z\n",
        b"pid 12345678901 host a since 2026-01-01T00:00:00Z\n",
        b"pid 12 host \x1b[31m since 2026-01-01T00:00:00Z\n",
        b"pid 12 host a b since 2026-01-01T00:00:00Z\n",
        b"pid 12 host " + b"a" * 64 + b" since 2026-01-01T00:00:00Z\n",
        b"pid 12 host a since yesterday\n",
        "pid ١٢ host a since 2026-01-01T00:00:00Z\n".encode(),
        b"\xff" * 100,
    ],
)
def test_other_texts_do_not_name_a_holder(text):
    assert Holder.from_bytes(text) is None


def test_the_name_of_this_process_is_a_valid_text(monkeypatch):
    for node in ("host", "", "h\x1b[31mé\n", "." * 100, "x" * 300):
        monkeypatch.setattr("platform.node", lambda node=node: node)
        holder = Holder.this_process()
        assert Holder.from_bytes(holder.to_bytes()) == holder


def test_the_name_of_a_killed_process_is_removed(tmp_path, table):
    spec = build_store(tmp_path, table)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    holder = Holder(ended.pid, Holder.this_process().host, "2026-01-01T00:00:00Z")
    assert not holder.is_alive
    (tmp_path / "records/.lock").write_bytes(holder.to_bytes())
    with directory.open_directory(tmp_path, "records") as folder:
        assert locks._read_holder(folder) is None
    StoreWriter.open(tmp_path, spec)
    assert (tmp_path / "records/.lock").read_bytes() == b""


# Syncs and temporary files ------------------------------------------------------------------------


def failing_sync(monkeypatch, number, directories=True):
    real = os.fsync

    def sync(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode) == directories:
            raise OSError(number, os.strerror(number))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.ENOSYS])
def test_a_file_system_that_cannot_sync_directories_is_tolerated(tmp_path, table, monkeypatch, number):
    failing_sync(monkeypatch, number)
    spec = build_store(tmp_path / "a", table)
    write_store(StoreWriter.open(tmp_path / "a", spec, force=True), table)
    monkeypatch.undo()
    build_store(tmp_path / "b", table)
    assert digests(tmp_path / "a") == digests(tmp_path / "b")


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.EIO, StoreError), (errno.ENOSPC, StoreFullError), (errno.EDQUOT, StoreFullError)],
)
def test_an_error_of_the_disk_while_a_directory_is_synced_is_raised(
    tmp_path, table, monkeypatch, number, kind
):
    writer = StoreWriter.open(tmp_path, store_spec(table))
    failing_sync(monkeypatch, number)
    with pytest.raises(kind):
        write_store(writer, table)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EINVAL])
def test_an_error_while_a_file_is_synced_is_raised(tmp_path, table, monkeypatch, number):
    writer = StoreWriter.open(tmp_path, store_spec(table))
    failing_sync(monkeypatch, number, directories=False)
    with pytest.raises(StoreError):
        write_store(writer, table)
    assert not list(tmp_path.glob("**/.tmp-*")) + list(tmp_path.glob("*.h5"))


@pytest.mark.linux
@pytest.mark.parametrize("call", ["write", "ftruncate", "fsync", "close", "replace", "flock"])
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()], ids=["full", "interrupt"]
)
def test_no_temporary_file_stays_after_an_error(tmp_path, table, monkeypatch, call, error):
    """Network file systems report a full disk again when the file is closed."""
    writer = StoreWriter.open(tmp_path, store_spec(table))

    def break_call(module, name):
        real = getattr(module, name)

        def fail(*arguments, **options):
            found = arguments[0] if name == "replace" else os.readlink(f"/proc/self/fd/{arguments[0]}")
            if ".tmp-" in str(found):
                if name == "close":
                    real(*arguments)
                raise error
            return real(*arguments, **options)

        monkeypatch.setattr(module, name, fail)

    break_call(portable.fcntl if call == "flock" else os, call)
    if call == "close":
        break_call(os, "fsync")
    if call == "flock" and isinstance(error, OSError):
        writer.write_graphs(0, table.take(np.arange(20)))  # no locks on this file system
    else:
        with pytest.raises((StoreFullError, KeyboardInterrupt)):
            writer.write_graphs(0, table.take(np.arange(20)))
    monkeypatch.undo()
    assert not list(tmp_path.glob("**/.tmp-*"))
    write_store(StoreWriter.open(tmp_path, writer.spec), table)
    assert verify_store(tmp_path) == []
