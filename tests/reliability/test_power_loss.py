"""State of the disk after a power cut, for any subset of the bytes that were not synced.

The order of system calls decides it. A rename may reach the disk at any time. The content of a file is durable only after
fsync of the file, and its name only after fsync of its directory. Therefore the content of a file must be synced before it gets
its final name, the name of a shard must be synced before its record gets its final name, and all of them before the manifest.
"""

import os
from pathlib import Path

import pytest

from tgp.store import StoreWriter, verify_store
from tgp.testing.stores import random_table, store_spec, write_store

pytestmark = pytest.mark.linux


class Log:
    """Record of writes, syncs and renames, from which the durable files at any time follow."""

    def __init__(self, monkeypatch):
        self.events = []
        self._spy(monkeypatch, "write", lambda fd, *_: ("write", self._path(fd)))
        self._spy(monkeypatch, "ftruncate", lambda fd, *_: ("write", self._path(fd)))
        self._spy(monkeypatch, "fsync", lambda fd: ("sync", self._path(fd)))
        self._spy(monkeypatch, "replace", self._rename)
        self._spy(monkeypatch, "link", self._rename)

    def _spy(self, monkeypatch, name, describe):
        real = getattr(os, name)

        def call(*arguments, **options):
            event = describe(*arguments, **options)
            result = real(*arguments, **options)
            self.events.append(event)
            return result

        monkeypatch.setattr(os, name, call)

    def _rename(self, source, target, src_dir_fd=None, dst_dir_fd=None):
        """Describe a call whose paths are relative to the descriptor of a directory."""
        old = os.path.join("" if src_dir_fd is None else self._path(src_dir_fd), source)
        return "name", old, os.path.join("" if dst_dir_fd is None else self._path(dst_dir_fd), target)

    @staticmethod
    def _path(fd):
        return os.readlink(f"/proc/self/fd/{fd}")

    def check(self):
        """Replay the record; yield each final name with the set of names that were durable before."""
        clean, pending, durable = set(), set(), set()
        for kind, path, *rest in self.events:
            if kind == "write":
                clean.discard(path)
            elif kind == "sync" and os.path.isdir(path):
                durable |= {name for name in pending if os.path.dirname(name) == path}
                pending -= durable
            elif kind == "sync":
                clean.add(path)
            else:
                assert path in clean, f"{rest[0]} got its name before its content was synced"
                yield rest[0], frozenset(durable)
                pending.add(rest[0])
        assert not pending, f"the names were never synced: {pending}"


@pytest.mark.parametrize("profile", ["fast", "small"])
def test_records_and_the_manifest_are_written_after_durable_shards(tmp_path, monkeypatch, profile):
    path = (tmp_path / "s").resolve()
    table = random_table(12, seed=2)
    log = Log(monkeypatch)
    write_store(StoreWriter.open(path, store_spec(table, 2, profile)), table)
    named = dict(log.check())
    shards = {str(p) for p in path.glob("*.h5")}
    assert len(shards) == 4
    for shard in shards:
        record = str(path / "records" / f"{Path(shard).stem}.json")
        assert shard in named[record], f"{record} may exist without {shard}"
    assert shards | {str(p) for p in path.glob("records/shard-*.json")} <= named[str(path / "manifest.json")]
    assert verify_store(path) == []


def test_a_missing_sync_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    table = random_table(12, seed=2)
    log = Log(monkeypatch)
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    write_store(StoreWriter.open((tmp_path / "s").resolve(), store_spec(table)), table)
    with pytest.raises(AssertionError, match="before its content was synced"):
        list(log.check())
