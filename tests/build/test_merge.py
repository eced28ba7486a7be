"""``status`` and ``merge``: work that grows with the number of units only linearly, and visible waiting."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from tgp.build.merge import merge_store, store_status
from tgp.errors import StoreDamagedError, StoreMismatchError
from tgp.store import LocalFiles, StoreWriter, read_spec, verify_store
from tgp.store.format import fingerprint, manifest
from tgp.store.format.strict_json import seal
from tgp.testing.stores import build_store, random_table, store_spec, write_store


@pytest.fixture(scope="module")
def table():
    return random_table(48, seed=4, min_nodes=4, max_nodes=6)


@pytest.fixture(autouse=True)
def no_syncs(monkeypatch):
    """Skip syncs, which take most of the time of stores with many small files."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


class Counter:
    """Number of calls of the functions whose cost grows with the number of units."""

    def __init__(self, monkeypatch):
        self.calls = {}
        for owner, name in (
            (manifest.Manifest, "from_bytes"),
            (manifest, "read_recorded_spec"),
            (fingerprint.StoreSpec, "part_fingerprint"),
            (fingerprint.StoreSpec, "__post_init__"),
            (os, "listdir"),
            (os, "scandir"),
        ):
            self._count(monkeypatch, owner, name)

    def _count(self, monkeypatch, owner, name):
        real = getattr(owner, name)

        def call(*arguments, **options):
            self.calls[name] = self.calls.get(name, 0) + 1
            return real(*arguments, **options)

        monkeypatch.setattr(owner, name, call)


def forget_manifest(path):
    (path / "manifest.json").unlink()


@pytest.mark.parametrize("action", ["status", "status without records", "merge", "run", "continue"])
def test_the_number_of_expensive_calls_does_not_depend_on_the_number_of_units(
    tmp_path, table, monkeypatch, action
):
    counts = []
    for units in (3, 12):
        path = tmp_path / str(units)
        spec = build_store(path, table, num_units=units)
        with monkeypatch.context() as patch:
            if action == "status without records":
                for file in (path / "records").glob("shard-*"):
                    file.unlink()
            elif action != "status":
                forget_manifest(path)
            counter = Counter(patch)
            if action.startswith("status"):
                assert store_status(path).complete
            elif action == "merge":
                merge_store(path)
            elif action == "run":
                StoreWriter.open(path, spec).publish()
            else:
                assert StoreWriter.open(path, spec).pending() == []
            counts.append(counter.calls)
    assert counts[0] == counts[1]
    assert counts[0].get("from_bytes", 0) <= 2


def test_a_specification_of_many_units_is_listed_quickly(tmp_path, table, monkeypatch):
    """No file is opened for a unit without a record, and the fingerprints are computed once."""
    StoreWriter.open(tmp_path, store_spec(table))
    units = 50_000
    base = dict(store_spec(table).base_json(), num_graphs=48, bounds=[0] * units + [48])
    (tmp_path / "records/spec.json").write_bytes(seal(base))
    counter = Counter(monkeypatch)
    opened, real = [], os.open
    monkeypatch.setattr(os, "open", lambda *a, **o: opened.append(a[0]) or real(*a, **o))
    status = store_status(tmp_path)
    assert (status.num_units, len(status.missing)) == (units, units)
    assert len(opened) < 30
    assert counter.calls["part_fingerprint"] < 10


def test_a_specification_of_too_many_units_is_refused(tmp_path, table):
    StoreWriter.open(tmp_path, store_spec(table))
    base = dict(store_spec(table).base_json(), bounds=[0] * 200_000 + [48])
    (tmp_path / "records/spec.json").write_bytes(seal(base))
    with pytest.raises(StoreDamagedError, match="bounds"):
        store_status(tmp_path)


# Waiting ------------------------------------------------------------------------------------------


def read_line(stream, seconds=60):
    """Return the next line of a stream, or an empty text if there is none in time."""
    found = []
    thread = threading.Thread(target=lambda: found.append(stream.readline()), daemon=True)
    thread.start()
    thread.join(seconds)
    return found[0] if found else ""


@pytest.mark.linux
def test_merge_says_that_it_waits_and_can_be_interrupted(tmp_path, table):
    path = tmp_path / "store"
    build_store(path, table)
    forget_manifest(path)
    command = [sys.executable, "-m", "tgp_cli.main", "merge", str(path)]
    with LocalFiles(path).lock():
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            line = read_line(process.stderr)
            assert re.search(
                rf"waiting for the lock of {path}, held by process {os.getpid()} on \S+ since 20", line
            )
            process.send_signal(signal.SIGINT)
            process.wait(600)
        finally:
            process.kill()
            _, errors = process.communicate()
    assert process.returncode == 130
    assert "Interrupted" in errors
    assert not (path / "manifest.json").exists()
    assert subprocess.run(command, capture_output=True, text=True, check=False).returncode == 0
    assert verify_store(path) == []


def test_merge_waits_for_the_lock(tmp_path, table, monkeypatch):
    build_store(tmp_path, table)
    forget_manifest(tmp_path)
    monkeypatch.setattr("tgp.store.io.portable.WAIT_SECONDS", 3600.0)
    done = threading.Event()
    thread = threading.Thread(target=lambda: merge_store(tmp_path) and done.set())
    with LocalFiles(tmp_path).lock():
        thread.start()
        time.sleep(0.1)
        assert not (tmp_path / "manifest.json").exists()
    thread.join()
    assert done.is_set()


def test_merge_does_not_publish_a_store_that_was_replaced(tmp_path, table, monkeypatch):
    """Another process replaces the store after ``merge`` has read its specification."""
    build_store(tmp_path, table)
    forget_manifest(tmp_path)
    stale = read_spec(tmp_path)
    write_store(StoreWriter.open(tmp_path, store_spec(table, 3), force=True), table)
    forget_manifest(tmp_path)
    monkeypatch.setattr("tgp.build.merge.read_spec", lambda path: stale)
    with pytest.raises(StoreMismatchError):
        merge_store(tmp_path)
    assert not (tmp_path / "manifest.json").exists()
    monkeypatch.undo()
    merge_store(tmp_path)
    assert verify_store(tmp_path) == []
    assert json.loads((tmp_path / "manifest.json").read_bytes())["bounds"] == [0, 16, 32, 48]
