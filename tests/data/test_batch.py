"""``PooledBatch``: construction, splitting, moving, pickling."""

import copy
import pickle

import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData

from tgp.data import PoolDataLoader, PooledBatch, PooledDataset, graphs_to_arrays
from tgp.data.attributes import levels_to_data
from tgp.data.collate import LevelCountError, collate, separate
from tgp.data.convert import table_to_data
from tgp.data.transport import pack
from tgp.engine import coarsen, parse_schedule


def coarsened(graphs, schedule="graclus*2,nopool"):
    """Return the graphs and levels as arrays, and as a list of ``Data`` with levels."""
    table, _ = graphs_to_arrays(graphs)
    levels = coarsen(table.to_block(parse_schedule(schedule).needs), schedule).levels
    items = table_to_data(table)
    for data, row in zip(items, levels_to_data(levels), strict=True):
        data.pooled_data = row
    return table, levels, items


@pytest.fixture
def parts(make_graphs):
    return coarsened(make_graphs(7, smallest=0))


def test_batches_without_levels_equal_those_of_pyg(make_graphs, same):
    graphs = make_graphs(9, smallest=0)
    reference = Batch.from_data_list(graphs)
    ours = PooledBatch.from_arrays(graphs_to_arrays(graphs)[0])
    assert set(ours.keys()) == set(reference.keys())
    for key in reference.to_dict():
        same(ours[key], reference[key], key)


def test_arrays_and_data_lists_give_the_same_batch(make_graphs, same, schedules):
    for schedule in schedules:
        for weighted in (True, False):
            table, levels, items = coarsened(make_graphs(6, weighted=weighted), schedule)
            left = PooledBatch.from_arrays(table, levels)
            same(left, PooledBatch.from_data_list(items), schedule)


def test_levels_are_batches(parts):
    table, levels, items = parts
    batch = PooledBatch.from_arrays(table, levels)
    assert repr(batch).startswith("PooledDataBatch(")
    nodes = batch.num_nodes
    for number, level in enumerate(batch.pooled_data):
        assert level.num_graphs == batch.num_graphs == len(items)
        assert level.so.num_nodes == nodes
        assert level.ptr[-1] == level.num_nodes == level.batch.numel()
        assert level.get_example(2).num_nodes == items[2].pooled_data[number].num_nodes
        assert level.validate()
        nodes = level.num_nodes


def test_a_batch_splits_into_its_graphs(parts, same):
    table, levels, items = parts
    for batch in (PooledBatch.from_arrays(table, levels), PooledBatch.from_data_list(items)):
        for left, right in zip(batch.to_data_list(), items, strict=True):
            same(left, right)
        same(batch[-1], items[-1])
        same(batch[1:3], items[1:3])
        same(batch[[4, 0]], [items[4], items[0]])
        with pytest.raises(IndexError):
            batch.get_example(7)


def test_moving_a_batch_moves_its_levels(parts):
    table, levels, _ = parts
    batch = PooledBatch.from_arrays(table, levels).to("cpu", non_blocking=True)
    batch.to("meta")
    assert batch.x.is_meta
    assert all(level.so.cluster_index.is_meta and level.so.batch.is_meta for level in batch.pooled_data)
    assert batch.pooled_data[0].get_example(1).so.cluster_index.is_meta


def test_clone_and_deepcopy_share_no_memory(parts, same):
    table, levels, _ = parts
    batch = PooledBatch.from_arrays(table, levels)
    twin = batch.clone()
    same(twin, copy.deepcopy(batch))
    twin.pooled_data[0].edge_index.fill_(0)
    twin.x.zero_()
    same(batch, PooledBatch.from_arrays(table, levels))


def test_pickle_and_pack(parts, same):
    table, levels, items = parts
    for batch in (PooledBatch.from_arrays(table, levels), PooledBatch.from_data_list(items)):
        for twin in (
            pickle.loads(pickle.dumps(batch)),
            pack(batch).unpack(),
            pack(batch, shared=True).unpack(),
        ):
            same(twin, batch)
            same(twin.to_data_list(), items)
        nested = pack({"a": [batch, (torch.arange(3), "x")]}).unpack()
        same(nested["a"][0], batch)
        assert nested["a"][1][0].tolist() == [0, 1, 2]


def test_follow_batch_and_exclude_keys(parts, same):
    table, levels, items = parts
    reference = Batch.from_data_list(items, follow_batch=["edge_attr"], exclude_keys=["pooled_data", "x"])
    joined = PooledBatch.from_data_list(items, follow_batch=["edge_attr"], exclude_keys=["x"])
    gathered = PooledBatch.from_arrays(table, levels).follow(["edge_attr"])
    for batch in (joined, gathered):
        same(batch.edge_attr_batch, reference.edge_attr_batch)
        same(batch.edge_attr_ptr, reference.edge_attr_ptr)
    assert "x" not in joined and "pooled_data" in joined


def test_graphs_under_any_attribute_are_joined(parts):
    _, _, items = parts
    for data in items:
        data.coarse = data.pooled_data[0]
        data.mine = data.pop("pooled_data") if hasattr(data, "pop") else None
        if data.mine is None:
            data.mine = data["pooled_data"]
            del data["pooled_data"]
        data.words = ["a", "b"]
    batch = PooledBatch.from_data_list(items)
    assert batch.coarse.num_graphs == len(items)
    assert [level.num_graphs for level in batch.mine] == [len(items)] * 3
    assert batch.words == [["a", "b"]] * len(items)
    assert batch[2].words == ["a", "b"]


def test_different_numbers_of_levels_are_refused(parts):
    _, _, items = parts
    items[1].pooled_data = items[1].pooled_data[:2]
    with pytest.raises(LevelCountError, match="equal size"):
        PooledBatch.from_data_list(items)
    with pytest.raises(RuntimeError, match="pooled_data"):
        PooledBatch.from_data_list(items)


def test_collate_and_separate_as_functions(parts, same):
    _, _, items = parts
    for cls, options in ((PooledBatch, {}), (Data, {"increment": False, "add_batch": False})):
        out, slices, incs = collate(cls, items, **options)
        decrement = options.get("increment", True)
        for i, item in enumerate(items):
            same(separate(Data, out, i, slices, incs if decrement else None, decrement=decrement), item)
    assert "batch" not in out


def test_a_batch_that_was_not_made_from_graphs_cannot_be_split():
    with pytest.raises(RuntimeError, match="from_data_list"):
        PooledBatch(x=torch.zeros(2, 1), batch=torch.zeros(2, dtype=torch.long)).get_example(0)


def test_batches_of_batches(make_graphs):
    _, _, items = coarsened(make_graphs(7))
    halves = [PooledBatch.from_data_list(items[:3]), PooledBatch.from_data_list(items[3:])]
    whole = PooledBatch.from_data_list(halves)
    assert whole.num_nodes == sum(h.num_nodes for h in halves)
    assert int(whole.batch.max()) == len(items) - 1


def test_heterogeneous_graphs_are_joined_by_pyg():
    graphs = []
    for n in (2, 3):
        data = HeteroData()
        data["a"].x = torch.ones(n, 1)
        graphs.append(data)
    batch = PooledBatch.from_data_list(graphs)
    assert batch["a"].batch.tolist() == [0, 0, 1, 1, 1]
    assert batch.get_example(1)["a"].x.shape == (3, 1)


def test_attributes_with_batch_in_their_name_equal_those_of_pyg(same):
    graphs = [
        Data(
            x=torch.zeros(3, 1),
            edge_index=torch.zeros(2, 0, dtype=torch.long),
            part_batch=torch.tensor([0, 0, k]),
        )
        for k in (0, 2, 1)
    ]
    table = graphs_to_arrays(graphs)[0]
    ours, reference = PooledBatch.from_arrays(table), Batch.from_data_list(graphs)
    same(ours.part_batch, reference.part_batch)
    same(ours.to_data_list()[1].part_batch, graphs[1].part_batch)


def test_masks_are_computed_without_the_dense_matrix(make_graphs):
    table, block = graphs_to_arrays(make_graphs(5))
    (level,) = PooledBatch.from_arrays(table, coarsen(block, "eigen:k=3").levels).pooled_data
    assert level.so._s is None
    expected = torch.stack([part.so.s.any(dim=0) for part in level.to_data_list()])
    assert torch.equal(level.mask, expected)


@pytest.mark.parametrize("workers", [0, 1])
def test_attributes_that_a_class_joins_along_the_last_axis(make_store, workers):
    """``get_example`` split such attributes along the first axis."""

    class Columns(Data):
        def __cat_dim__(self, key, value, *args, **kwargs):
            return -1 if key == "wide" else super().__cat_dim__(key, value, *args, **kwargs)

    graphs = [
        Columns(
            x=torch.ones(n, 2),
            edge_index=torch.tensor([[0, 1], [1, 0]]),
            wide=torch.arange(3 * n).reshape(3, n),
        )
        for n in (2, 4, 3)
    ]
    dataset = PooledDataset(make_store(graphs, "graclus"))
    (batch,) = PoolDataLoader(dataset, batch_size=3, num_workers=workers)
    assert batch.wide.shape == (3, 9)
    for i, graph in enumerate(graphs):
        assert torch.equal(batch.get_example(i).wide, graph.wide)
        assert torch.equal(dataset[i].wide, graph.wide)
