"""``force``: it deletes only files that the store names, and two writers of different settings never publish a mix."""

import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time

import h5py
import numpy as np
import pytest

from tests.reliability.harness import digests
from tgp.errors import StoreDamagedError, StoreError, StoreMismatchError, StoreMissingError, StoreVersionError
from tgp.store import LocalFiles, StoreReader, StoreWriter, Task, read_spec, verify_store
from tgp.store.format.manifest import Manifest
from tgp.store.format.strict_json import seal
from tgp.store.io import portable
from tgp.store.write import discard
from tgp.store.write import writer as writer_module
from tgp.testing.stores import (
    build_store,
    forge_manifest,
    halving,
    halving_spec,
    random_table,
    readmit_shard,
    store_spec,
    write_store,
)

FORCE_POINTS = ["force-manifest", "force-shards", "force-records", "force-specs"]


@pytest.fixture
def other():
    """Table with other graphs than those of the store."""
    return random_table(30, seed=9)


def tree(path):
    """Return the content of every file below a directory, and the target of every link."""
    return {
        str(p.relative_to(path)): os.readlink(p) if p.is_symlink() else p.read_bytes()
        for p in sorted(path.rglob("*"))
        if p.is_symlink() or p.is_file()
    }


# Files of others ----------------------------------------------------------------------------------


def test_force_does_not_follow_a_link_to_the_records_of_another_store(tmp_path, table):
    build_store(tmp_path / "victim", table)
    before = tree(tmp_path / "victim")
    store = tmp_path / "store"
    store.mkdir()
    (store / "records").symlink_to(tmp_path / "victim" / "records")
    with pytest.raises(StoreDamagedError, match="records must be a directory, got a link"):
        StoreWriter.open(store, store_spec(table), force=True)
    with pytest.raises(StoreDamagedError, match="records must be a directory"):
        StoreWriter.open(store, store_spec(table))
    assert tree(tmp_path / "victim") == before


def test_a_link_to_the_store_itself_is_followed(tmp_path, table, other):
    build_store(tmp_path / "real", table)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_store(StoreWriter.open(tmp_path / "link", store_spec(other), force=True), other)
    assert verify_store(tmp_path / "real") == []
    assert StoreReader(tmp_path / "real").num_graphs == 30


@pytest.mark.parametrize(
    "content",
    [
        b'{"name": "My web page", "icons": []}',
        b'{"format": "other-store", "version": 1}',
        b"[1, 2]",
        b"not JSON",
        b"",
        b'{"format": "tgp-store"',
    ],
)
def test_force_does_not_delete_the_manifest_of_another_program(tmp_path, table, content):
    (tmp_path / "manifest.json").write_bytes(content)
    (tmp_path / "index.html").write_bytes(b"page")
    with pytest.raises(StoreError, match=r"manifest\.json is not the manifest of a store"):
        StoreWriter.open(tmp_path, store_spec(table), force=True)
    assert (tmp_path / "manifest.json").read_bytes() == content
    assert (tmp_path / "index.html").read_bytes() == b"page"


def test_force_does_not_delete_the_manifest_of_another_program_in_a_store(tmp_path, table):
    spec = build_store(tmp_path, table)
    (tmp_path / "manifest.json").write_bytes(b'{"name": "web page"}')
    before = tree(tmp_path)
    with pytest.raises(StoreError, match="is not the manifest of a store"):
        StoreWriter.open(tmp_path, spec, force=True)
    with pytest.raises(StoreError, match="is not the manifest of a store"):
        StoreWriter(tmp_path, spec).publish()
    assert tree(tmp_path) == before


def test_force_keeps_files_that_the_store_does_not_name(tmp_path, table, other):
    """Their names have the form of shards and records, but neither specification nor records name them."""
    build_store(tmp_path, table)
    kept = {
        "shard-00007.halve.h5": b"a unit that does not exist",
        "shard-00000.mine.h5": b"a hierarchy that does not exist",
        "shard-000000.halve.h5": b"six digits",
        "records/shard-00000.mine.json": b"notes",
        "records/shard-00009.halve.json": b"{}",
        "records/notes.json": b"notes",
        ".tmp-notes": b"not a temporary file of a store",
        ".tmp-0123456789abcdef-notes.txt": b"not a temporary file of a store",
    }
    for name, content in kept.items():
        (tmp_path / name).write_bytes(content)
    write_store(StoreWriter.open(tmp_path, store_spec(other), force=True), other)
    assert verify_store(tmp_path) == []
    found = tree(tmp_path)
    assert {name: found.get(name) for name in kept} == kept


def test_force_deletes_what_intact_records_name_if_the_specification_is_damaged(tmp_path, table, other):
    spec = store_spec(table, 3, hierarchies=[halving_spec("a"), halving_spec("b")])
    write_store(StoreWriter.open(tmp_path, spec), table)
    for name in ("manifest.json", "records/spec.json", "records/spec.a.json"):
        (tmp_path / name).write_bytes(b"{")
    (tmp_path / "records/shard-00001.b.json").write_bytes(b"{")
    with pytest.raises(StoreDamagedError):
        StoreWriter.open(tmp_path, store_spec(other))
    write_store(StoreWriter.open(tmp_path, store_spec(other), force=True), other)
    assert verify_store(tmp_path) == []
    # Nothing names this shard any more, so it is kept.
    assert [p.name for p in tmp_path.glob("*.[ab].h5")] == ["shard-00001.b.h5"]


def test_force_refuses_a_specification_of_another_program(tmp_path, table):
    (tmp_path / "records").mkdir()
    (tmp_path / "records/spec.json").write_bytes(b'{"openapi": "3.0"}')
    with pytest.raises(StoreError, match="is not a file of tgp"):
        StoreWriter.open(tmp_path, store_spec(table), force=True)
    assert (tmp_path / "records/spec.json").read_bytes() == b'{"openapi": "3.0"}'


@pytest.mark.parametrize("name", ["shard-00001.halve.h5", "records/shard-00000.graphs.json", "manifest.json"])
def test_force_refuses_links_before_it_deletes_anything(tmp_path, table, other, name):
    store, outside = tmp_path / "store", tmp_path / "outside"
    build_store(store, table)
    (store / name).rename(outside)
    (store / name).symlink_to(outside)
    before, content = tree(store), outside.read_bytes()
    with pytest.raises(StoreDamagedError, match="must be a plain file, got a link"):
        StoreWriter.open(store, store_spec(other), force=True)
    assert tree(store) == before
    assert outside.read_bytes() == content


def test_force_refuses_a_store_of_another_format_version(tmp_path, table):
    spec = build_store(tmp_path, table)
    forge_manifest(tmp_path, lambda values: values.update(version=2))
    values = dict(spec.base_json(), version=2)
    (tmp_path / "records/spec.json").write_bytes(seal(values))
    before = tree(tmp_path)
    with pytest.raises(StoreVersionError):
        StoreWriter.open(tmp_path, spec, force=True)
    assert tree(tmp_path) == before


def test_force_removes_a_store_that_was_copied_without_its_records(tmp_path, table, other):
    build_store(tmp_path, table)
    shutil.rmtree(tmp_path / "records")
    write_store(
        StoreWriter.open(tmp_path, store_spec(other, 1, hierarchies=[halving_spec("new")]), force=True), other
    )
    assert sorted(p.name for p in tmp_path.glob("*.h5")) == ["shard-00000.graphs.h5", "shard-00000.new.h5"]
    assert verify_store(tmp_path) == []


# Kills --------------------------------------------------------------------------------------------

FORCE = """
import sys
from tgp.store import StoreWriter
from tgp.testing.stores import random_table, store_spec, write_store
table = random_table(30, seed=9)
write_store(StoreWriter.open(sys.argv[1], store_spec(table), force=True), table)
"""


@pytest.mark.linux
@pytest.mark.parametrize(
    ("point", "records"), [*((point, "records") for point in FORCE_POINTS), ("force-manifest", "no records")]
)
def test_a_kill_during_force_loses_no_name(tmp_path, table, other, point, records):
    """The same command completes the store afterwards, and no file of the old store is left."""
    store = tmp_path / "store"
    write_store(StoreWriter.open(store, store_spec(table, 4, hierarchies=[halving_spec("old")])), table)
    (store / "notes.txt").write_bytes(b"mine")
    if records == "no records":
        shutil.rmtree(store / "records")
    command = [sys.executable, "-c", FORCE, str(store)]
    killed = subprocess.run(command, env={**os.environ, "TGP_FAILPOINT": point}, timeout=600, check=False)
    assert killed.returncode == -signal.SIGKILL
    with pytest.raises(StoreMissingError):
        StoreReader(store)
    write_store(StoreWriter.open(store, store_spec(other), force=True), other)
    assert (store / "notes.txt").read_bytes() == b"mine"
    (store / "notes.txt").unlink()
    write_store(StoreWriter.open(tmp_path / "new", store_spec(other)), other)
    assert digests(store) == digests(tmp_path / "new")


def test_every_failpoint_of_force_is_listed():
    import inspect
    import re

    assert re.findall(r'failpoint\("(.*?)"\)', inspect.getsource(discard)) == FORCE_POINTS


# Two writers with different settings --------------------------------------------------------------


def write_unit(writer, table, unit=0):
    bounds = writer.spec.bounds
    part = table.take(np.arange(bounds[unit], bounds[unit + 1]))
    writer.write_graphs(unit, part)
    for hierarchy in writer.spec.hierarchies:
        writer.write_hierarchy(unit, hierarchy.name, halving(part, len(hierarchy.schedule)))


@pytest.mark.parametrize("change", ["data", "units", "profile", "levels", "seed"])
def test_a_writer_notices_that_its_store_was_replaced(tmp_path, table, other, change):
    spec = store_spec(table)
    first = StoreWriter.open(tmp_path, spec)
    write_unit(first, table, 0)
    changed = {
        "data": store_spec(other),
        "units": store_spec(table, 3),
        "profile": store_spec(table, profile="small"),
        "levels": store_spec(table, hierarchies=[halving_spec(num_levels=2)]),
        "seed": store_spec(table, hierarchies=[halving_spec(seed=7)]),
    }[change]
    second = StoreWriter.open(tmp_path, changed, force=True)
    after = tree(tmp_path)
    with pytest.raises(
        StoreMismatchError, match="another process is writing other data or settings"
    ) as caught:
        write_unit(first, table, 1)
        write_unit(first, table, 0)
    assert caught.value.differences
    with pytest.raises(StoreError):
        first.publish()
    shards = {name for name in tree(tmp_path) if name.endswith("halve.h5")}
    assert not shards, "the hierarchy of the first writer must not come back"
    if change not in ("levels", "seed"):  # these two share the graphs
        assert tree(tmp_path) == after
    write_store(second, other if change == "data" else table)
    assert verify_store(tmp_path) == []
    with pytest.raises(StoreMismatchError):
        first.publish()
    assert read_spec(tmp_path).fingerprint == changed.fingerprint


def test_a_complete_writer_does_not_publish_over_its_successor(tmp_path, table):
    """The successor has other units: before, this was an IndexError or a manifest over its shards."""
    first = StoreWriter.open(tmp_path, store_spec(table, 2))
    write_unit(first, table, 0)
    write_unit(first, table, 1)
    second = StoreWriter.open(tmp_path, store_spec(table, 5), force=True)
    write_unit(second, table, 0)
    with pytest.raises(StoreMismatchError, match="cut into shards: 5 shards"):
        first.publish()
    assert not (tmp_path / "manifest.json").exists()
    write_store(second, table)
    assert verify_store(tmp_path) == []


@pytest.mark.parametrize("point", ["shard:renamed", "shard:durable", "file:written"])
def test_force_waits_until_a_shard_has_its_record(tmp_path, table, other, monkeypatch, point):
    """Another process replaces the store while this one is between the rename of a shard and its record."""
    first = StoreWriter.open(tmp_path, store_spec(table))
    opened, successor, seen = threading.Event(), [], []

    def replace_store():
        successor.append(StoreWriter.open(tmp_path, store_spec(other), force=True))
        opened.set()

    thread = threading.Thread(target=replace_store)

    def interrupt(name):
        if name == point and not seen:
            seen.append(name)
            thread.start()
            assert not opened.wait(0.2)

    monkeypatch.setattr(writer_module, "failpoint", interrupt)
    monkeypatch.setattr("tgp.store.io.files.failpoint", interrupt)
    first.write_graphs(0, table.take(np.arange(20)))
    thread.join()
    assert seen
    with pytest.raises(StoreMismatchError):
        first.write_graphs(1, table.take(np.arange(20, 40)))
    write_store(successor[0], other)
    assert verify_store(tmp_path) == []
    assert StoreReader(tmp_path).num_graphs == 30


@pytest.mark.parametrize("point", ["shard:created", "shard:written", "shard:synced", "shard:digested"])
def test_force_before_a_shard_gets_its_name(tmp_path, table, other, monkeypatch, point):
    first = StoreWriter.open(tmp_path, store_spec(table))
    successor = []

    def interrupt(name):
        if name == point and not successor:
            successor.append(StoreWriter.open(tmp_path, store_spec(other), force=True))

    monkeypatch.setattr(writer_module, "failpoint", interrupt)
    with pytest.raises(StoreMismatchError):
        first.write_graphs(0, table.take(np.arange(20)))
    assert not list(tmp_path.glob("*.h5")) + list(tmp_path.glob("**/.tmp-*"))
    write_store(successor[0], other)
    assert verify_store(tmp_path) == []


@pytest.mark.parametrize("locks", ["locks", "no locks"])
def test_a_shard_that_does_not_match_its_record_is_not_published(tmp_path, table, monkeypatch, locks):
    """A writer without locks (another machine or an older version) has replaced a shard by one of the same size."""
    if locks == "no locks":
        monkeypatch.setattr(portable, "fcntl", None)
        monkeypatch.setattr(portable, "msvcrt", None)
    spec = store_spec(table)
    writer = StoreWriter.open(tmp_path, spec)
    for unit in (0, 1):
        write_unit(writer, table, unit)
    file = tmp_path / "shard-00001.graphs.h5"
    content = bytearray(file.read_bytes())
    # Without locks the whole file is compared, otherwise both ends.
    content[len(content) // 2 if locks == "no locks" else -1] ^= 1
    file.write_bytes(content)
    with pytest.raises(StoreError, match=r"do not match their completion records.*shard-00001\.graphs\.h5"):
        writer.publish()
    assert not (tmp_path / "manifest.json").exists()
    assert writer.pending() == [Task(1, "graphs")]
    write_store(StoreWriter.open(tmp_path, spec), table)
    assert verify_store(tmp_path) == []


def test_a_writer_without_the_specification_of_the_store_writes_nothing(tmp_path, table):
    """A worker with a directory of the same name on its own disk."""
    spec = store_spec(table)
    StoreWriter.open(tmp_path / "shared", spec)
    (tmp_path / "own" / "records").mkdir(parents=True)
    with pytest.raises(StoreMismatchError, match="the specification of the store was deleted"):
        write_unit(StoreWriter(tmp_path / "own", spec), table)
    assert not list((tmp_path / "own").glob("**/*.h5"))


def test_the_specification_is_parsed_again_only_if_it_was_replaced(tmp_path, table, monkeypatch):
    """Also by writers that were pickled for a worker. Files that are younger than two seconds are always read."""
    from tgp.store.write import records

    spec = store_spec(table, 4)
    StoreWriter.open(tmp_path, spec)
    parsed, real = [], records.read_recorded_spec
    monkeypatch.setattr(records, "read_recorded_spec", lambda files: parsed.append(1) or real(files))
    for file in (tmp_path / "records").glob("spec*.json"):
        os.utime(file, (1e9, 1e9))
    for unit in range(4):
        write_unit(StoreWriter(tmp_path, spec), table, unit)
    assert len(parsed) == 2  # once for the graphs, once for the graphs and the hierarchy
    # A manifest is not parsed for a shard at all.
    StoreWriter(tmp_path, spec).publish()
    monkeypatch.setattr(Manifest, "from_bytes", lambda *_: pytest.fail("parsed"))
    write_unit(StoreWriter(tmp_path, spec), table, 0)
    monkeypatch.undo()
    StoreWriter.open(tmp_path, store_spec(table, 5), force=True)
    with pytest.raises(StoreMismatchError):
        write_unit(StoreWriter(tmp_path, spec), table)


STRESS = """
import os, sys
os.fsync = lambda descriptor: None  # faster, so that more steps of the two processes meet
from tgp.errors import StoreError
from tgp.store import StoreWriter
from tgp.testing.stores import halving_spec, random_table, store_spec, write_store
path, number, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
table = random_table(12, seed=number)
spec = store_spec(table, 2 + number, hierarchies=[halving_spec("halve", 1 + number, seed=number)])
for _ in range(rounds):
    try:
        write_store(StoreWriter.open(path, spec, force=True), table)
    except StoreError:
        pass
"""


@pytest.mark.linux
def test_two_processes_replace_the_same_store_again_and_again(tmp_path):
    """Whenever nobody holds the lock, a published store is complete and belongs to one of them."""
    store = tmp_path / "store"
    (store / "records").mkdir(parents=True)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", STRESS, str(store), str(number), "8"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in (0, 1)
    ]
    findings = []
    while any(process.poll() is None for process in processes):
        with LocalFiles(store).lock():
            if (store / "manifest.json").exists():
                findings += verify_store(store)
        time.sleep(0.01)
    results = [(process.communicate()[1], process.returncode) for process in processes]
    assert [code for _, code in results] == [0, 0], results
    assert findings == []
    table = random_table(12, seed=1)
    spec = store_spec(table, 3, hierarchies=[halving_spec("halve", 2, seed=1)])
    write_store(StoreWriter.open(store, spec, force=True), table)
    write_store(StoreWriter.open(tmp_path / "alone", spec), table)
    assert digests(store) == digests(tmp_path / "alone")


def test_a_reader_notices_that_its_store_is_rebuilt(tmp_path):
    """A rebuilt shard that differs only in the middle has the same size and the same ends."""
    table = random_table(400, seed=1, weighted=True)
    path = tmp_path / "s"
    build_store(path, table)
    reader = StoreReader(path)
    reader.gather_levels([0], "halve")
    name = "shard-00001.halve.h5"
    data = bytearray((path / name).read_bytes())
    with h5py.File(path / name) as file:
        place = file["levels/0/edge_weight"].id.get_offset()
    assert 4096 < place < len(data) - 5000
    data[place] ^= 1
    (path / name).write_bytes(data)
    readmit_shard(path, "halve", 1)
    reader.gather_levels([0], "halve")  # unit 0 is open and unchanged
    with pytest.raises(StoreDamagedError, match="is being rebuilt"):
        reader.gather_levels([399], "halve")
    assert StoreReader(path).gather_levels([399], "halve")
    (path / "manifest.json").unlink()
    with pytest.raises(StoreDamagedError, match="is being rebuilt"):
        pickle.loads(pickle.dumps(reader)).gather_graphs([0])


def test_a_reader_accepts_a_new_hierarchy(tmp_path):
    table = random_table(40, seed=1)
    build_store(tmp_path / "s", table)
    reader = StoreReader(tmp_path / "s")
    more = store_spec(table, hierarchies=[halving_spec("more", 1)])
    write_store(StoreWriter.open(tmp_path / "s", more), table)
    assert len(reader.gather_levels([0, 39], "halve")) == 3
