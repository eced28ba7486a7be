"""Writing a store: equal bytes, continuing, mismatches, adding hierarchies, force, several writers."""

import dataclasses
import pickle
import shutil
import threading
import time

import numpy as np
import pytest

from tests.reliability.harness import digests
from tgp.build.merge import store_status
from tgp.errors import InputError, StoreDamagedError, StoreError, StoreMismatchError
from tgp.ragged import BlockCSR, Field, GraphTable, Hierarchy
from tgp.store import (
    FailureRecord,
    HierarchySpec,
    Manifest,
    StoreReader,
    StoreWriter,
    Task,
    data_digest,
    read_manifest,
    read_spec,
    verify_store,
)
from tgp.store.format import constants as fmt
from tgp.store.write import writer as writer_module
from tgp.testing.stores import build_store, halving, halving_spec, random_table, store_spec, write_store


def unit_of(table, spec, unit):
    """Return the graphs of one unit."""
    return table.take(np.arange(spec.bounds[unit], spec.bounds[unit + 1]))


def test_equal_input_gives_equal_bytes(tmp_path, table, profile):
    build_store(tmp_path / "a", table, profile=profile)
    time.sleep(1.1)  # so that a time stamp in a file would differ
    build_store(tmp_path / "b", table, profile=profile)
    assert digests(tmp_path / "a") == digests(tmp_path / "b")


def test_bytes_do_not_depend_on_the_order_of_writing(tmp_path, table, profile):
    build_store(tmp_path / "a", table, profile=profile)
    spec = store_spec(table, profile=profile)
    writer = StoreWriter.open(tmp_path / "b", spec)
    for unit in (1, 0):
        part = unit_of(table, spec, unit)
        metrics = {f"{level}/nodes": np.diff(part.node_ptr) for level in range(3)}
        writer.write_hierarchy(unit, "halve", halving(part), metrics=metrics)
        writer.write_graphs(unit, part)
    writer.publish()
    assert digests(tmp_path / "a") == digests(tmp_path / "b")


def test_an_incomplete_store_is_continued(tmp_path, table):
    spec = store_spec(table, 3)
    first = StoreWriter.open(tmp_path, spec)
    assert len(first.pending()) == 6
    first.write_graphs(1, unit_of(table, spec, 1))
    assert not first.is_complete
    before = (tmp_path / "shard-00001.graphs.h5").stat().st_mtime_ns
    again = StoreWriter.open(tmp_path, spec)
    assert Task(1, "graphs") not in again.pending()
    assert len(again.pending()) == 5
    with pytest.raises(StoreError, match="5 parts are not written yet"):
        again.publish()
    write_store(again, table)
    assert again.is_complete
    assert again.pending() == []
    assert (tmp_path / "shard-00001.graphs.h5").stat().st_mtime_ns == before
    assert verify_store(tmp_path) == []


@pytest.mark.parametrize(
    "damage", ["missing file", "truncated file", "missing record", "truncated record", "wrong record"]
)
def test_incomplete_files_are_written_again(tmp_path, table, damage):
    spec = store_spec(table)
    writer = StoreWriter.open(tmp_path, spec)
    for unit in range(2):
        writer.write_graphs(unit, unit_of(table, spec, unit))
    shard, record = tmp_path / "shard-00001.graphs.h5", tmp_path / "records/shard-00001.graphs.json"
    if damage == "missing file":
        shard.unlink()
    elif damage == "truncated file":
        shard.write_bytes(shard.read_bytes()[:-1])
    elif damage == "missing record":
        record.unlink()
    elif damage == "truncated record":
        record.write_bytes(record.read_bytes()[:-20])
    else:
        shutil.copy(tmp_path / "records/shard-00000.graphs.json", record)
    assert StoreWriter.open(tmp_path, spec).pending() == [
        Task(0, "halve"),
        Task(1, "graphs"),
        Task(1, "halve"),
    ]


def changed(spec, **changes):
    """Return a copy of a specification with other values."""
    return dataclasses.replace(spec, **changes)


def test_a_mismatch_lists_the_differences(tmp_path, table):
    spec = build_store(tmp_path, table)
    before = digests(tmp_path)
    other = random_table(40, seed=2, weighted=True)
    deeper = HierarchySpec("halve", [{"method": "halve", "params": {"k": 2}}] * 3, 5)
    cases = {
        "although the description of the dataset is the same": changed(spec, data_digest=data_digest(other)),
        "number of graphs: 40 in the store, 30": changed(spec, num_graphs=30, bounds=(0, 20, 30)),
        "cut into shards: 2 shards": changed(spec, bounds=(0, 10, 40)),
        "profile: 'fast' in the store, 'small'": changed(spec, profile="small"),
        "level 1: parameter k: not set in the store, 2 asked for": changed(spec, hierarchies=(deeper,)),
        "seed 0 in the store, 5": changed(spec, hierarchies=(deeper,)),
        "3 levels in the store, 2": changed(spec, hierarchies=(halving_spec(num_levels=2),)),
        "differs in case only": changed(spec, hierarchies=(halving_spec("HALVE"),)),
    }
    for text, asked in cases.items():
        with pytest.raises(StoreMismatchError) as caught:
            StoreWriter.open(tmp_path, asked)
        assert any(text in str(line) for line in caught.value.differences), (text, caught.value.differences)
        assert text in str(caught.value)
    assert digests(tmp_path) == before


def test_mismatch_with_an_interrupted_run(tmp_path, table):
    spec = store_spec(table)
    StoreWriter.open(tmp_path, spec).write_graphs(0, unit_of(table, spec, 0))
    with pytest.raises(StoreMismatchError, match="profile"):
        StoreWriter.open(tmp_path, changed(spec, profile="small"))
    assert read_spec(tmp_path) == spec


def test_the_origin_of_the_data_is_not_compared(tmp_path, table):
    spec = build_store(tmp_path, table)
    before = digests(tmp_path)
    writer = StoreWriter.open(tmp_path, changed(spec, dataset={"name": "moved"}))
    assert writer.is_complete
    writer.publish()
    assert digests(tmp_path) == before


def test_a_new_hierarchy_changes_no_existing_shard(tmp_path, table):
    spec = build_store(tmp_path / "a", table)
    before = digests(tmp_path / "a", "*.h5")
    stored = read_spec(tmp_path / "a")
    writer = StoreWriter.open(
        tmp_path / "a", changed(stored, hierarchies=(halving_spec("again", 2, seed=3),))
    )
    assert not writer.is_complete
    assert writer.pending() == [Task(0, "again"), Task(1, "again")]
    assert list(StoreReader(tmp_path / "a").hierarchies) == ["halve"]
    write_store(writer, table)
    assert writer.is_complete
    reader = StoreReader(tmp_path / "a")
    assert list(reader.hierarchies) == ["again", "halve"]
    assert reader.hierarchies["again"].depth == 2
    after = digests(tmp_path / "a", "*.h5")
    assert {name: after[name] for name in before} == before
    assert verify_store(tmp_path / "a") == []
    # A store with both hierarchies from the start has the same bytes.
    at_once = changed(spec, hierarchies=(halving_spec(), halving_spec("again", 2, seed=3)))
    write_store(StoreWriter.open(tmp_path / "b", at_once), table)
    assert digests(tmp_path / "a") == digests(tmp_path / "b")


def test_two_runs_add_different_hierarchies(tmp_path, table):
    spec = store_spec(table, hierarchies=[halving_spec("a")])
    one = StoreWriter.open(tmp_path, spec)
    two = StoreWriter.open(tmp_path, changed(spec, hierarchies=(halving_spec("b"),)))
    assert {task.part for task in two.pending()} == {"graphs", "b"}
    write_store(one, table)
    assert {task.part for task in two.pending()} == {"b"}
    write_store(two, table)
    assert list(StoreReader(tmp_path).hierarchies) == ["a", "b"]


def test_a_hierarchy_is_added_to_a_store_without_records(tmp_path, table):
    spec = build_store(tmp_path, table)
    shutil.rmtree(tmp_path / "records")
    before = digests(tmp_path, "*.h5")
    writer = StoreWriter.open(tmp_path, changed(spec, hierarchies=(halving_spec("more"),)))
    assert {task.part for task in writer.pending()} == {"more"}
    write_store(writer, table)
    assert list(StoreReader(tmp_path).hierarchies) == ["halve", "more"]
    assert {k: v for k, v in digests(tmp_path, "*.h5").items() if k in before} == before


def test_force_rebuilds_the_named_hierarchies_and_keeps_the_others(tmp_path, table):
    spec = store_spec(table, hierarchies=[halving_spec("a"), halving_spec("b")])
    write_store(StoreWriter.open(tmp_path, spec), table)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "shard-of-mine.h5").write_text("mine")
    renewed = changed(spec, hierarchies=(halving_spec("a", num_levels=2),))
    writer = StoreWriter.open(tmp_path, renewed, force=True)
    assert not (tmp_path / "manifest.json").exists()
    assert {task.part for task in writer.pending()} == {"graphs", "a"}
    write_store(writer, table)
    reader = StoreReader(tmp_path)
    assert {name: info.depth for name, info in reader.hierarchies.items()} == {"a": 2, "b": 3}
    # With other graphs, all hierarchies of the old store are deleted.
    other = random_table(40, seed=2)
    write_store(StoreWriter.open(tmp_path, store_spec(other), force=True), other)
    assert list(StoreReader(tmp_path).hierarchies) == ["halve"]
    assert not list(tmp_path.glob("*.a.h5")) + list(tmp_path.glob("records/*.b.json"))
    assert (tmp_path / "notes.txt").read_text() == (tmp_path / "shard-of-mine.h5").read_text() == "mine"


def test_force_replaces_a_damaged_store(tmp_path, table):
    spec = build_store(tmp_path, table)
    (tmp_path / "manifest.json").write_text("{")
    (tmp_path / "records/spec.json").write_text("{")
    writer = StoreWriter.open(tmp_path, spec, force=True)
    write_store(writer, table)
    assert verify_store(tmp_path) == []


def test_temporary_files_of_dead_writers_are_removed(tmp_path, table):
    spec = build_store(tmp_path, table)
    dead = tmp_path / ".tmp-0123456789abcdef-shard-00000.graphs.h5"
    dead.write_bytes(b"half")
    writer = StoreWriter.open(tmp_path, spec)
    assert not dead.exists()
    with writer.files.temporary("shard-00009.graphs.h5") as temp:
        StoreWriter.open(tmp_path, spec)
        assert temp.path.exists()
    assert not temp.path.exists()


def test_a_failed_write_leaves_no_file(tmp_path, table):
    spec = store_spec(table)
    writer = StoreWriter.open(tmp_path, spec)
    bad = unit_of(table, spec, 0)
    fields = {**bad.fields, "z": Field("z", np.array(["text"] * 20, object), np.arange(21))}
    with pytest.raises(InputError, match="z: arrays of type object"):
        writer.write_graphs(0, GraphTable(bad.node_ptr, fields))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["records"]
    writer.write_graphs(0, bad)


def test_parts_that_do_not_match_the_specification_are_refused(tmp_path, table):
    spec = store_spec(table)
    writer = StoreWriter.open(tmp_path, spec)
    part = unit_of(table, spec, 0)
    with pytest.raises(InputError, match="unit must lie in"):
        writer.write_graphs(2, part)
    with pytest.raises(InputError, match="got 40 graphs"):
        writer.write_graphs(0, table)
    with pytest.raises(InputError, match="no hierarchy 'other'"):
        writer.write_hierarchy(0, "other", halving(part))
    with pytest.raises(InputError, match="failures of unit 1: expected graphs 20:40"):
        writer.write_hierarchy(
            1, "halve", halving(unit_of(table, spec, 1)), failures=[FailureRecord(3, 0, "local id")]
        )
    for metrics, text in (
        ({"quality": np.ones(20)}, "'<level>/<name>'"),
        ({"3/quality": np.ones(20)}, "a level below 3"),
        ({"0/quality": np.ones(19)}, "each of 20 graphs"),
    ):
        with pytest.raises(InputError, match=text):
            writer.write_hierarchy(0, "halve", halving(part), metrics=metrics)


def test_units_with_different_fields_are_refused(tmp_path, table):
    spec = store_spec(table, hierarchies=())
    writer = StoreWriter.open(tmp_path, spec)
    writer.write_graphs(0, unit_of(table, spec, 0))
    part = unit_of(table, spec, 1)
    writer.write_graphs(1, GraphTable(part.node_ptr, {k: v for k, v in part.fields.items() if k != "y"}))
    with pytest.raises(StoreError, match="the fields of unit 1 differ"):
        writer.publish()


def test_a_pickled_writer_writes_a_store(tmp_path, table):
    spec = store_spec(table)
    writer = pickle.loads(pickle.dumps(StoreWriter.open(tmp_path, spec)))
    write_store(writer, table)
    assert verify_store(tmp_path) == []


def test_a_reader_sees_a_complete_store_or_none(tmp_path, table):
    """Open a store repeatedly in a thread while it is written and extended."""
    path = tmp_path / "s"
    stop, trouble, opened = threading.Event(), [], []

    def read():
        while not stop.is_set():
            try:
                reader = StoreReader(path)
                opened.append(len(reader.hierarchies))
                reader.gather_levels(np.arange(40), "halve")
            except FileNotFoundError:
                continue
            except StoreError as error:
                trouble.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    spec = build_store(path, table)
    for number in range(3):
        write_store(
            StoreWriter.open(path, changed(spec, hierarchies=(halving_spec(f"h{number}", 1),))),
            table,
        )
    stop.set()
    thread.join()
    assert not trouble
    assert opened


def test_the_manifest_is_parsed_only_when_it_changes(tmp_path, table, monkeypatch):
    spec = build_store(tmp_path, table)
    parsed = []
    monkeypatch.setattr(
        writer_module, "read_manifest", lambda files: parsed.append(1) or read_manifest(files)
    )
    writer = StoreWriter.open(tmp_path, spec)
    assert writer.is_complete
    assert writer.pending() == []
    writer.publish()
    assert len(parsed) == 1
    other = StoreWriter.open(tmp_path, changed(spec, hierarchies=(halving_spec("more"),)))
    write_store(other, table)
    parsed.clear()
    assert list(writer.read_manifest().hierarchies) == ["halve", "more"]
    assert writer.is_complete
    assert len(parsed) == 1
    (tmp_path / "manifest.json").unlink()
    assert writer.read_manifest() is None


def test_the_status_of_a_store_parses_its_manifest_twice(tmp_path, table, monkeypatch):
    """The number does not depend on the number of units."""
    build_store(tmp_path, table, num_units=8)
    parsed = []
    original = Manifest.from_bytes
    monkeypatch.setattr(Manifest, "from_bytes", lambda *arguments: parsed.append(1) or original(*arguments))
    assert store_status(tmp_path).complete
    assert len(parsed) == 2


def test_a_damaged_manifest_is_reported_unless_force_is_given(tmp_path, table):
    spec = build_store(tmp_path, table)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(StoreDamagedError, match=r"manifest\.json"):
        StoreWriter.open(tmp_path, spec)
    assert StoreWriter(tmp_path, spec).read_manifest() is None
    StoreWriter.open(tmp_path, spec, force=True)


# Stores of an older version -----------------------------------------------------------------------


def asked_today(spec, **changes):
    """Return a specification with the values that were added after format 1.0."""
    values = {"engine": 1, "metrics": True, **changes}
    hierarchies = tuple(dataclasses.replace(h, **values) for h in spec.hierarchies)
    return changed(spec, hierarchies=hierarchies)


@pytest.mark.parametrize("state", ["complete", "without records", "interrupted"])
def test_a_store_without_engine_revision_is_continued(tmp_path, table, state):
    """Its records keep their fingerprints, so no shard is written again."""
    spec = store_spec(table)
    writer = StoreWriter.open(tmp_path, spec)
    if state == "interrupted":
        writer.write_graphs(0, unit_of(table, spec, 0))
        writer.write_hierarchy(0, "halve", halving(unit_of(table, spec, 0)))
    else:
        write_store(writer, table)
    assert b"engine" not in (tmp_path / "records/spec.halve.json").read_bytes()
    if state == "without records":
        shutil.rmtree(tmp_path / "records")
    before = {p.name: p.stat().st_mtime_ns for p in tmp_path.glob("*.h5")}
    again = StoreWriter.open(tmp_path, asked_today(spec))
    assert again.spec.fingerprint == spec.fingerprint
    assert again.is_complete == (state != "interrupted")
    assert len(again.pending()) == (2 if state == "interrupted" else 0)
    write_store(again, table)
    after = {p.name: p.stat().st_mtime_ns for p in tmp_path.glob("*.h5")}
    assert {name: after[name] for name in before} == before
    assert b"engine" not in (tmp_path / "manifest.json").read_bytes()
    assert verify_store(tmp_path) == []


def test_a_store_without_engine_revision_is_extended(tmp_path, table):
    spec = build_store(tmp_path, table)
    before = digests(tmp_path, "*.h5")
    more = changed(spec, hierarchies=(halving_spec(), halving_spec("more", 2)))
    writer = StoreWriter.open(tmp_path, asked_today(more, metrics=False))
    assert {task.part for task in writer.pending()} == {"more"}
    write_store(writer, table)
    assert {name: digests(tmp_path, "*.h5")[name] for name in before} == before
    manifest = StoreWriter(tmp_path, spec).read_manifest()
    assert {h.name: (h.engine, h.metrics) for h in manifest.spec.hierarchies} == {
        "halve": (None, None),
        "more": (1, False),
    }
    assert StoreWriter.open(tmp_path, asked_today(more, metrics=False)).is_complete
    with pytest.raises(StoreMismatchError, match="without quality figures in the store"):
        StoreWriter.open(tmp_path, asked_today(more))
    assert verify_store(tmp_path) == []


def test_another_engine_revision_is_a_mismatch(tmp_path, table):
    spec = build_store(tmp_path, table)
    with pytest.raises(StoreMismatchError, match="engine revision 1 in the store"):
        StoreWriter.open(tmp_path, asked_today(spec, engine=2))


# Limits of readers --------------------------------------------------------------------------------


def test_levels_that_a_reader_would_refuse_are_not_written(tmp_path, table):
    spec = store_spec(table, hierarchies=[halving_spec(num_levels=1)])
    writer = StoreWriter.open(tmp_path, spec)
    part = unit_of(table, spec, 0)
    [level] = halving(part, 1).levels
    double = part.node_ptr * 2
    theta = np.broadcast_to(np.float32(0), (part.num_nodes, fmt.MAX_WIDTH + 1))
    for changes, coarse, match in (
        ({"super_ptr": double}, double, "must not have more supernodes than nodes"),
        ({"theta": theta}, level.block.node_ptr, "expected at most 1048576 columns, got 1048577"),
    ):
        empty = BlockCSR(np.zeros(coarse[-1] + 1, np.int64), np.zeros(0, np.int32), None, coarse)
        given = dataclasses.replace(level.assignment, **changes)
        bad = dataclasses.replace(level, assignment=given, coarse=empty)
        with pytest.raises(InputError, match=match):
            writer.write_hierarchy(0, "halve", Hierarchy(part.node_ptr, (bad,)))
    assert not list(tmp_path.glob("*.h5")) + list(tmp_path.glob("**/.tmp-*"))


def test_fields_and_metrics_that_a_reader_would_refuse_are_not_written(tmp_path, table):
    spec = store_spec(table)
    writer = StoreWriter.open(tmp_path, spec)
    part = unit_of(table, spec, 0)
    for name, values, match in (
        ("edge_index", np.zeros((3, 0), np.int64), r"edge_index: tail must be \[2\]"),
        ("n" * 2000, np.zeros(20), "name must be a name of limited length"),
    ):
        ptr = np.zeros(21, np.int64) if name == "edge_index" else np.arange(21)
        axis = -1 if name == "edge_index" else 0
        entry = Field(name, values, ptr, axis=axis, shifted=name == "edge_index")
        with pytest.raises(InputError, match=match):
            writer.write_graphs(0, GraphTable(part.node_ptr, {name: entry}))
    for values in (np.zeros((20, 2, 2)), np.zeros(20, complex), np.array(["a"] * 20)):
        with pytest.raises(InputError, match="at most 2 axes and a real type"):
            writer.write_hierarchy(0, "halve", halving(part), metrics={"0/a": values})
    wide = GraphTable(np.array([0] * 20 + [2**40]), {})
    with pytest.raises(InputError, match="too many nodes"):
        writer.write_graphs(0, wide)
