"""``PooledDataset``: a PyG dataset over a store, with the levels that the transform attaches."""

import copy
import os
import pickle
import shutil

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import Subset, random_split
from torch_geometric.data import Dataset

from tgp.data import PooledBatch, PooledDataset, PreCoarsening, precoarsen
from tgp.engine import METHODS
from tgp.errors import DatasetError, InputError, StoreDamagedError, StoreMissingError, UnknownNameError


@pytest.fixture
def graphs(make_graphs):
    return make_graphs(23, smallest=0)


@pytest.fixture
def store(make_store, graphs):
    return make_store(graphs, "graclus*2,nopool", units=3)


LEVELS = ["graclus", "graclus", "nopool"]


@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("profile", ["fast", "small"])
def test_items_equal_the_transform(make_store, graphs, same, profile, in_memory):
    path = make_store(graphs, "graclus*2,nopool", units=3, profile=profile)
    dataset = PooledDataset(path, in_memory=in_memory)
    expected = precoarsen(graphs, LEVELS)
    assert isinstance(dataset, Dataset) and len(dataset) == len(graphs)
    for ours, reference in zip(dataset, expected, strict=True):
        same(ours, reference)


def test_batches_equal_the_transform_for_every_method(make_graphs, make_store, same, schedules):
    """Batches from disk, batches from memory, and graphs that are joined one by one have the same tensors."""
    rng = np.random.default_rng(0)
    for schedule in schedules:
        graphs = make_graphs(17, seed=len(schedule))
        dataset = PooledDataset(make_store(graphs, schedule, units=2))
        memory = PooledDataset(dataset.reader, in_memory=True)
        items = list(dataset)
        for _ in range(5):
            ids = rng.integers(0, len(graphs), size=int(rng.integers(1, 12))).tolist()
            reference = PooledBatch.from_data_list([items[i] for i in ids])
            same(dataset.get_batch(ids), reference, schedule)
            same(memory.get_batch(ids), reference, schedule)


SCHEDULES = {
    "nmf": [{"pooler": "nmf", "k": 3}, "nopool"],
    "eigen": [{"pooler": "eigen", "k": 3, "num_modes": 2}, "nopool"],
    "kmis": [("kmis", {"scorer": "degree"})] * 2,
}


@pytest.mark.parametrize("alias", list(METHODS))
@pytest.mark.parametrize("weighted", [True, False])
def test_store_equals_the_transform_for_every_method(make_graphs, make_store, same, alias, weighted):
    """Graphs and batches of a store have the levels that the poolers attach, graph by graph and as one block."""
    graphs = make_graphs(9, seed=4, weighted=weighted, rich=False, smallest=0)
    levels = SCHEDULES.get(alias, [alias] * 2)
    transform = PreCoarsening(levels, seed=3)
    dataset = PooledDataset(make_store(graphs, {"h": levels}, seed=3, units=2))
    single = [transform(data) for data in graphs]
    same(list(dataset), single)
    same(transform.block(graphs), single)
    ids = [8, 2, 2, 5]
    same(dataset.get_batch(ids), PooledBatch.from_data_list([single[i] for i in ids]))


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 1000),
    count=st.integers(1, 14),
    units=st.integers(1, 4),
    schedule=st.sampled_from([["graclus"], ["graclus"] * 3, ["nopool", "random"], ["random", "graclus"]]),
    weighted=st.booleans(),
    rich=st.booleans(),
)
def test_store_equals_transform_and_collate(
    make_graphs, make_store, same, seed, count, units, schedule, weighted, rich
):
    graphs = make_graphs(count, seed, weighted=weighted, rich=rich, smallest=0)
    dataset = PooledDataset(make_store(graphs, {"h": schedule}, seed=seed, units=min(units, count)))
    ids = np.random.default_rng(seed).integers(0, count, size=count + 2).tolist()
    expected = precoarsen([graphs[i] for i in ids], schedule, seed)
    same(dataset.get_batch(ids), PooledBatch.from_data_list(expected))
    same(dataset[ids[0]], expected[0])


def test_subsets(store):
    dataset = PooledDataset(store)
    counts = [data.count for data in dataset]
    assert counts == list(range(23))
    for index, expected in [
        (slice(2, 9, 3), counts[2:9:3]),
        (slice(None, 0.5), counts[: round(11.5)]),
        (slice(0.5, None), counts[round(11.5) :]),
        ([3, 1, -1], [3, 1, 22]),
        (torch.tensor([5, 5]), [5, 5]),
        (torch.arange(23) % 2 == 0, counts[::2]),
        (np.arange(4), counts[:4]),
        (np.arange(23) > 20, counts[21:]),
        (range(2, 5), [2, 3, 4]),
        ([], []),
    ]:
        subset = dataset[index]
        assert [data.count for data in subset] == expected
        assert len(subset) == len(expected)
    inner = dataset[10:20][[2, 3]]
    assert [data.count for data in inner] == [12, 13]
    assert inner.get_batch([1, 0]).count.tolist() == [13, 12]
    assert inner.get_batch([-1]).count.tolist() == [13]
    assert dataset.get_batch([-1]).count.tolist() == [22]
    assert dataset[-2].count == 21
    for bad in ("x", [0.5], 23):
        with pytest.raises(IndexError):
            dataset[bad]
    with pytest.raises(IndexError):
        inner.get_batch([2])


def test_shuffle_and_copy(store):
    dataset = PooledDataset(store)
    shuffled, order = dataset.shuffle(return_perm=True)
    assert [data.count for data in shuffled] == order.tolist()
    assert [data.count for data in dataset.copy([4, 2])] == [4, 2]
    assert len(dataset.copy()) == len(dataset)


def test_subsets_share_the_plan(store):
    dataset = PooledDataset(store)
    part = dataset[:4]
    part.get_batch([0, 1])
    assert dataset._plan() is part._plan() is dataset.copy()._plan()
    assert pickle.loads(pickle.dumps(dataset))._plan() is not dataset._plan()


def test_torch_subsets_reach_the_batch_path(store):
    dataset = PooledDataset(store)
    part = Subset(dataset, [4, 7, 1])
    assert part.__getitems__([2, 0]).to_batch().count.tolist() == [1, 4]
    left, right = random_split(dataset, [0.5, 0.5], generator=torch.Generator().manual_seed(0))
    assert len(left) + len(right) == 23


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int64]
)
def test_classes_of_labels_of_any_integer_type(make_store, graphs, dtype):
    for number, data in enumerate(graphs):
        data.y = torch.tensor([number % 2]).to(dtype)
    path = make_store(graphs, "graclus", units=1)
    dataset = PooledDataset(path)
    assert dataset.y.dtype == dtype and dataset.num_classes == 2
    assert PooledDataset(path, transform=lambda data: data).num_classes == 2


def test_properties(store, graphs):
    dataset = PooledDataset(store)
    assert (dataset.num_features, dataset.num_node_features, dataset.num_edge_features) == (4, 4, 2)
    assert dataset.num_classes == 3
    assert torch.equal(dataset.y, torch.cat([g.y for g in graphs]))
    assert torch.equal(dataset[5:8].y, torch.cat([g.y for g in graphs[5:8]]))
    nodes, edges = dataset[3:6].sizes()
    assert nodes.tolist() == [g.num_nodes for g in graphs[3:6]]
    assert edges.tolist() == [g.num_edges for g in graphs[3:6]]
    assert dataset.sizes(2)[0].tolist() == [g.pooled_data[1].num_nodes for g in dataset]
    assert repr(dataset) == "PooledDataset(23 graphs, main: 3 levels)"
    with pytest.raises(AttributeError, match="colour"):
        _ = dataset.colour
    assert not hasattr(PooledDataset(store, fields=["x"]), "y")
    assert PooledDataset(store, fields=["y", "edge_index"]).num_features == 0


@pytest.mark.parametrize("transform", [None, lambda data: data])
def test_no_graphs_have_no_classes(store, transform):
    dataset = PooledDataset(store, transform=transform)
    nothing = dataset[:0]
    assert nothing.num_classes == 0 < dataset.num_classes
    assert nothing.num_node_features == dataset.num_node_features > 0
    assert nothing.num_edge_features == dataset.num_edge_features


@pytest.mark.parametrize("in_memory", [False, True])
def test_selected_levels_and_fields(store, in_memory):
    dataset = PooledDataset(store, levels=[2], fields=["edge_index", "y"], in_memory=in_memory)
    full = PooledDataset(store)
    data = dataset[4]
    assert set(data.keys()) == {"edge_index", "y", "num_nodes", "pooled_data"}
    assert data.num_nodes == full[4].num_nodes
    assert len(data.pooled_data) == 1
    assert data.pooled_data[0].so.num_nodes == full[4].pooled_data[0].num_nodes
    batch, whole = dataset.get_batch([3, 4, 9]), full.get_batch([3, 4, 9])
    assert torch.equal(batch.pooled_data[0].edge_index, whole.pooled_data[1].edge_index)
    assert torch.equal(batch.pooled_data[0].so.batch, whole.pooled_data[0].batch)
    assert batch.num_nodes == whole.num_nodes
    assert batch.get_example(1).num_nodes == full[4].num_nodes
    bare = PooledDataset(store, levels=[], in_memory=in_memory)
    assert "pooled_data" not in bare[0] and "pooled_data" not in bare.get_batch([0])


def test_files_that_are_not_needed_are_not_opened(make_store, graphs, monkeypatch):
    """Without levels no hierarchy file is opened. A batch opens the shards of its graphs only."""
    from tgp.store.io.files import LocalFiles

    path = make_store(graphs, "graclus", units=4)
    opened = []
    monkeypatch.setattr(
        LocalFiles,
        "open",
        lambda self, name, real=LocalFiles.open: (opened.append(name), real(self, name))[1],
    )
    PooledDataset(path, levels=[]).get_batch([0, 1])
    assert set(opened) == {"shard-00000.graphs.h5"}


def test_several_hierarchies(make_store, graphs):
    path = make_store(graphs, {"fine": "graclus", "coarse": "graclus*3"})
    with pytest.raises(DatasetError, match=r"fine.*coarse|coarse.*fine"):
        PooledDataset(path)
    assert len(PooledDataset(path, "coarse")[0].pooled_data) == 3
    with pytest.raises(UnknownNameError, match="coarse"):
        PooledDataset(path, "corase")


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"levels": [4]}, r"\[1, 3\], got 4"),
        ({"levels": [-1]}, r"\[1, 3\], got -1"),
        ({"levels": [0, 1]}, "level 0 is the input graph"),
        ({"levels": [2, 1]}, "ascending"),
        ({"levels": [1, 1]}, "ascending"),
        ({"fields": ["z"]}, "field"),
        ({"fields": "x"}, "list of names"),
        ({"failed": "ignore"}, "failed"),
    ],
)
def test_bad_arguments(store, options, word):
    with pytest.raises((InputError, UnknownNameError), match=word):
        PooledDataset(store, **options)


def test_missing_store(tmp_path):
    with pytest.raises(StoreMissingError):
        PooledDataset(tmp_path / "nothing")


def test_failed_graphs(make_store, graphs):
    path = make_store(graphs, "graclus", failed=[4, 9])
    with pytest.raises(DatasetError, match="2 of 23 graphs") as caught:
        PooledDataset(path)
    assert "skip" in caught.value.hint
    dataset = PooledDataset(path, failed="skip")
    assert [data.count for data in dataset] == [i for i in range(23) if i not in (4, 9)]
    assert dataset.get_batch([4]).count.tolist() == [5]
    assert len(PooledDataset(path, levels=[])) == 23


def test_transform_is_applied_to_every_graph(store):
    def mark(data):
        data.marked = torch.tensor([data.count])
        return data

    dataset = PooledDataset(store, transform=mark)
    assert dataset[3].marked.tolist() == [3]
    assert dataset.get_batch([2, 5]).marked.tolist() == [2, 5]


@pytest.mark.parametrize("in_memory", [False, True])
def test_pickle_and_copy(store, same, in_memory):
    dataset = PooledDataset(store, in_memory=in_memory)[5:]
    dataset[0]
    twin = pickle.loads(pickle.dumps(dataset))
    for other in (twin, copy.copy(dataset), copy.deepcopy(dataset)):
        same(other.get_batch([1, 2]), dataset.get_batch([1, 2]))
    assert len(pickle.dumps(dataset)) < 20_000


def test_changing_a_batch_changes_no_other_batch(store, same):
    """A batch shares no memory with the store or with later batches."""
    for in_memory in (False, True):
        dataset = PooledDataset(store, in_memory=in_memory)
        for ids in ([0, 1, 2], [5, 2, 9]):
            before = dataset.get_batch(ids)
            changed = dataset.get_batch(ids)
            changed.x.zero_()
            changed.edge_index.zero_()
            for level in changed.pooled_data:
                level.edge_index.zero_()
                level.edge_weight.zero_()
            same(dataset.get_batch(ids), before)
        item = dataset[4]
        item.x.zero_()
        assert not torch.equal(dataset[4].x, item.x)


def test_a_shard_that_is_damaged_during_use_is_named(make_store, graphs):
    path = make_store(graphs, "graclus", units=3)
    dataset = PooledDataset(path)
    dataset[0]
    victim = path / "shard-00002.graphs.h5"
    size = victim.stat().st_size
    with open(victim, "r+b") as file:
        file.truncate(size // 2)
    with pytest.raises(StoreDamagedError, match="shard-00002"):
        dataset[22]
    os.unlink(victim)
    with pytest.raises((StoreDamagedError, StoreMissingError), match="shard-00002"):
        dataset[22]


@pytest.mark.parametrize("profile", ["fast", "small"])
@pytest.mark.parametrize("in_memory", [False, True])
def test_fields_of_any_type(make_graphs, make_store, profile, in_memory):
    graphs = make_graphs(6, rich=False)
    for number, data in enumerate(graphs):
        data.phase = torch.full((data.num_nodes, 2), 1 + number * 1j)
        data.short_index = torch.zeros(1, dtype=torch.int32)
    dataset = PooledDataset(make_store(graphs, "graclus", units=2, profile=profile), in_memory=in_memory)
    batch = dataset.get_batch([4, 1])
    assert torch.equal(batch.phase, torch.cat([graphs[4].phase, graphs[1].phase]))
    assert batch.short_index.tolist() == [0, graphs[4].num_nodes] and batch.short_index.dtype == torch.int32
    assert torch.equal(dataset[3].phase, graphs[3].phase)


def test_arrays_in_memory_outlive_the_store(make_store, graphs, same):
    path = make_store(graphs, "graclus*2", units=3)
    expected = PooledDataset(path).get_batch([0, 22, 9])
    dataset = PooledDataset(path, in_memory=True)
    shutil.rmtree(path)
    same(dataset.get_batch([0, 22, 9]), expected)
    assert torch.equal(dataset[9].x, graphs[9].x)
    assert torch.equal(dataset.y, torch.cat([g.y for g in graphs]))


def test_a_path_without_a_store_is_described(tmp_path):
    (tmp_path / "file").write_text("x")
    for path, message in ((tmp_path / "none", "no such directory"), (tmp_path / "file", "is a file")):
        for location in (path, str(path)):
            with pytest.raises(StoreMissingError, match=message) as caught:
                PooledDataset(location)
            assert caught.value.hint
