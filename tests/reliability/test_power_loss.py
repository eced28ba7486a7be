"""What is on disk after a power cut, whichever of the unsynced bytes survived.

The order of system calls decides it. Renames may reach the disk at any time, contents only by fsync of the file, and
a name for sure only by fsync of its folder. So: a file's content is synced before it gets its final name, a shard's name is
synced before its record gets one, and all of that before the manifest.
"""

import os
from pathlib import Path

import pytest

from tgp.store import StoreWriter, verify_store
from tgp.testing.stores import random_table, store_spec, write_store


class Log:
    """Notes writes, syncs and renames, and tells what was certainly on disk at any moment."""

    def __init__(self, monkeypatch):
        self.events = []
        self._spy(monkeypatch, "write", lambda fd, *_: ("write", self._path(fd)))
        self._spy(monkeypatch, "ftruncate", lambda fd, *_: ("write", self._path(fd)))
        self._spy(monkeypatch, "fsync", lambda fd: ("sync", self._path(fd)))
        self._spy(monkeypatch, "replace", lambda a, b: ("name", str(a), str(b)))
        self._spy(monkeypatch, "link", lambda a, b: ("name", str(a), str(b)))

    def _spy(self, monkeypatch, name, describe):
        real = getattr(os, name)

        def call(*arguments):
            event = describe(*arguments)
            result = real(*arguments)
            self.events.append(event)
            return result

        monkeypatch.setattr(os, name, call)

    @staticmethod
    def _path(fd):
        return os.readlink(f"/proc/self/fd/{fd}")

    def check(self):
        """Replays the log; yields each final name with the names that were durable when it was given."""
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
                assert path in clean, f"{rest[0]} was named before its content was synced"
                yield rest[0], frozenset(durable)
                pending.add(rest[0])
        assert not pending, f"never certain to have a name: {pending}"


@pytest.mark.parametrize("profile", ["fast", "small"])
def test_nothing_is_announced_before_it_is_durable(tmp_path, monkeypatch, profile):
    path = (tmp_path / "s").resolve()
    table = random_table(12, seed=2)
    log = Log(monkeypatch)
    write_store(StoreWriter.open(path, store_spec(table, 2, profile)), table)
    named = dict(log.check())
    shards = {str(p) for p in path.glob("*.h5")}
    assert len(shards) == 4
    for shard in shards:
        record = str(path / "records" / f"{Path(shard).stem}.json")
        assert shard in named[record], f"{record} could outlive {shard}"
    assert shards | {str(p) for p in path.glob("records/shard-*.json")} <= named[str(path / "manifest.json")]
    assert verify_store(path) == []


def test_the_log_notices_a_missing_sync(tmp_path, monkeypatch):
    """The check can fail: without fsync it does."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    table = random_table(12, seed=2)
    log = Log(monkeypatch)
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    write_store(StoreWriter.open((tmp_path / "s").resolve(), store_spec(table)), table)
    with pytest.raises(AssertionError, match="before its content was synced"):
        list(log.check())
