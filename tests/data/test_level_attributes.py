"""Attributes of levels in datasets, batches and loaders."""

import pickle

import numpy as np
import pytest
import torch
from torch_geometric.loader import DataLoader

from tgp.data import PoolDataLoader, PooledBatch, PooledDataset
from tgp.errors import InputError, UnknownNameError
from tgp.ragged.fields import take_ragged
from tgp.store import HierarchySpec, MemoryWriter, StoreReader, StoreSpec, data_digest
from tgp.testing.stores import random_hierarchy, random_level_fields, random_table

KINDS = ("hard", "onehot", "soft")


@pytest.fixture(scope="module")
def stored():
    """Return a reader of a store with two hierarchies, one of them with attributes, and these levels."""
    table = random_table(9, seed=3, min_nodes=1, max_nodes=9, features=2)
    made = (random_hierarchy(table.node_ptr, KINDS, seed=seed) for seed in range(1000))
    # A dense level without supernodes, which a graph that failed has, cannot be joined with others.
    plain = next(h for h in made if all(np.diff(level.super_ptr).all() for level in h.levels))
    levels = random_level_fields(plain)
    schedule = [{"method": level.method, "params": {}} for level in levels.levels]
    specs = (HierarchySpec("h", schedule, carry="auto"), HierarchySpec("plain", schedule))
    writer = MemoryWriter(StoreSpec({"name": "t"}, data_digest(table), 9, (0, 9), "fast", specs))
    writer.write_graphs(0, table)
    writer.write_hierarchy(0, "h", levels)
    writer.write_hierarchy(0, "plain", plain)
    writer.publish()
    return StoreReader(writer.files), levels


def expected(level, name, ids):
    field = level.fields[name]
    rows = take_ragged(field.ptr, np.asarray(ids))[1]
    return torch.from_numpy(field.values[rows])


NAMES = [
    "pos", "half", "num_members", "y", "short", "train_mask", "z", "no_columns", "edge_attr", "a/b.c",
]  # fmt: skip


def check_batch(batch, levels, ids):
    for graph, level in zip(batch.pooled_data, levels.levels, strict=True):
        for name in NAMES:
            wanted = expected(level, name, ids)
            assert graph[name].dtype == wanted.dtype and torch.equal(graph[name], wanted), name
        assert [len(texts) for texts in graph.title] == [
            int(n) for n in np.diff(level.super_ptr)[np.asarray(ids, int)]
        ]


@pytest.mark.parametrize("in_memory", [False, True])
def test_batches(stored, same, in_memory):
    reader, levels = stored
    dataset = PooledDataset(reader, "h", in_memory=in_memory)
    ids = [4, 0, 8, 4]
    batch = dataset.get_batch(ids)
    check_batch(batch, levels, ids)
    graphs = [dataset[i] for i in ids]
    same(batch, PooledBatch.from_data_list(graphs))
    for graph, i in zip(graphs, ids, strict=True):
        for level, whole in zip(graph.pooled_data, levels.levels, strict=True):
            assert torch.equal(level.pos, expected(whole, "pos", [i]))
            assert level.title == [f"n{levels.levels.index(whole)}-{k}" for k in range(level.num_nodes)]
    for position in range(len(ids)):
        same(batch.get_example(position), graphs[position])
    same(PooledBatch.from_arrays(reader.gather_graphs(ids), reader.gather_levels(ids, "h")), batch)


def test_loaders(stored, same):
    reader, levels = stored
    dataset = PooledDataset(reader, "h")
    wanted = [dataset.get_batch(range(low, min(low + 4, 9))) for low in (0, 4, 8)]
    for loader in (
        PoolDataLoader(dataset, batch_size=4),
        DataLoader(dataset, batch_size=4),
        PoolDataLoader(dataset, batch_size=4, num_workers=1),
    ):
        for found, batch in zip(loader, wanted, strict=True):
            same(found, batch)
    check_batch(wanted[0], levels, range(4))


def test_chosen_attributes(stored):
    reader, levels = stored
    dataset = PooledDataset(reader, "h", levels=[2], level_fields=["pos", "edge_attr"])
    (level,) = dataset.get_batch([1, 2]).pooled_data
    assert torch.equal(level.pos, expected(levels.levels[1], "pos", [1, 2]))
    assert {"pos", "edge_attr"} <= set(level.keys()) and not {"y", "half", "title"} & set(level.keys())
    plan = dataset._plan().layout
    assert (
        sum("/fields/" in c.source.path for c in plan.columns if c.source and c.source.part == "hierarchy")
        == 2
    )
    assert "pos" not in PooledDataset(reader, "h", level_fields=()).get(0).pooled_data[0]
    with pytest.raises(UnknownNameError, match="pso"):
        PooledDataset(reader, "h", level_fields=["pso"])
    with pytest.raises(InputError, match="list of names"):
        PooledDataset(reader, "h", level_fields="pos")


def test_subsets_copies_and_other_hierarchies(stored, same):
    reader, levels = stored
    dataset = PooledDataset(reader, "h", level_fields=["pos"])
    subset = dataset[[7, 3, 1]]
    (batch,) = PoolDataLoader(subset, batch_size=3)
    assert torch.equal(batch.pooled_data[0].pos, expected(levels.levels[0], "pos", [7, 3, 1]))
    same(pickle.loads(pickle.dumps(subset)).get_batch([0, 1, 2]), batch)
    assert "pos" not in dataset.with_hierarchy("plain")[0].pooled_data[0]
    assert "pos" in dataset.with_hierarchy("plain").with_hierarchy("h")[0].pooled_data[0]


def test_one_graph_with_levels(stored):
    reader, levels = stored
    hierarchy = PooledDataset(reader, "h").as_hierarchy(4)
    assert torch.equal(hierarchy[2].pos, expected(levels.levels[1], "pos", [4]))
