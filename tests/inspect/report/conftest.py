"""Stores for the tests of this folder."""

from dataclasses import replace

import numpy as np
import pytest

from tgp.ragged import Assignment, BlockCSR, Field, GraphTable, Hierarchy, Level
from tgp.store import FailureRecord, StoreWriter
from tgp.testing.stores import build_store, halving, halving_spec, random_hierarchy, random_table, store_spec

HOSTILE = "</script><script>alert('x')</script>\"'><img src=http://evil.test/x onerror=alert(1)>&lt;\u202e"


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """A store of forty graphs of about twenty nodes with one hierarchy of three levels."""
    path = tmp_path_factory.mktemp("report") / "store"
    build_store(path, random_table(40, seed=1, weighted=True))
    return path


@pytest.fixture(scope="session")
def hostile_store(tmp_path_factory):
    """A store in which every text contains markup and scripts."""
    path = tmp_path_factory.mktemp("report") / "hostile"
    table = random_table(6, seed=2)
    fields = {**table.fields, HOSTILE: replace(table.fields["x"], name=HOSTILE)}
    table = GraphTable(table.node_ptr, fields)
    level = {"method": HOSTILE, "params": {HOSTILE: HOSTILE}}
    spec = replace(
        store_spec(table, 1, hierarchies=[replace(halving_spec(), schedule=[level] * 3)]),
        dataset={"name": HOSTILE, HOSTILE: [HOSTILE]},
    )
    writer = StoreWriter.open(path, spec)
    writer.write_graphs(0, table)
    hierarchy = halving(table)
    levels = tuple(replace(one, method=HOSTILE) for one in hierarchy.levels)
    writer.write_hierarchy(
        0, "halve", replace(hierarchy, levels=levels), metrics={f"0/{HOSTILE}": np.zeros(6)},
        failures=[FailureRecord(3, 0, HOSTILE)],
    )  # fmt: skip
    writer.publish()
    return path


@pytest.fixture(scope="session")
def mixed_store(tmp_path_factory):
    """A store with all kinds of assignments, dropped nodes, graphs without supernodes and a graph without nodes."""
    path = tmp_path_factory.mktemp("report") / "mixed"
    table = random_table(12, seed=5)
    fields = {name: replace(f, ptr=np.append(f.ptr, f.ptr[-1])) for name, f in table.fields.items()}
    fields["y"] = Field("y", np.append(table.fields["y"].values, 0), np.arange(14))
    table = GraphTable(np.append(table.node_ptr, table.node_ptr[-1]), fields)
    kinds = ("hard", "onehot", "soft", "hard")
    spec = store_spec(table, 1, hierarchies=[halving_spec("mixed", len(kinds))])
    writer = StoreWriter.open(path, spec)
    writer.write_graphs(0, table)
    writer.write_hierarchy(0, "mixed", random_hierarchy(table.node_ptr, kinds, seed=3))
    writer.publish()
    return path


@pytest.fixture(scope="session")
def failed_store(tmp_path_factory):
    """A store of eight graphs; graph 3 could not be coarsened."""
    path = tmp_path_factory.mktemp("report") / "failed"
    table = random_table(8, seed=4)
    counts = np.diff(table.node_ptr)
    heads = np.where(np.arange(8) == 3, 0, (counts + 1) // 2)
    ptr = np.concatenate([[0], np.cumsum(heads)])
    local = np.arange(table.node_ptr[-1]) - np.repeat(table.node_ptr[:-1], counts)
    cluster = np.where(np.repeat(heads, counts) > 0, local // 2 + np.repeat(ptr[:-1], counts), -1)
    block = BlockCSR(np.zeros(ptr[-1] + 1, np.int64), np.zeros(0, np.int32), None, ptr)
    level = Level("halve", table.node_ptr, Assignment("hard", ptr, cluster.astype(np.int32)), block)
    writer = StoreWriter.open(path, store_spec(table, 1, hierarchies=[halving_spec(num_levels=1)]))
    writer.write_graphs(0, table)
    writer.write_hierarchy(
        0, "halve", Hierarchy(table.node_ptr, (level,)), failures=[FailureRecord(3, 0, "no luck")]
    )
    writer.publish()
    return path
