"""``PoolDataLoader``: sources, workers, resuming, and failures."""

import os
import pickle
import signal
from itertools import chain

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    IterableDataset,
    SequentialSampler,
    SubsetRandomSampler,
)
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from tgp.data import PoolCollater, PoolDataLoader, PooledBatch, PooledDataset, precoarsen
from tgp.data.transport import Packer
from tgp.errors import InputError, StoreDamagedError

LEVELS = ["graclus", "graclus", "nopool"]


@pytest.fixture(scope="module")
def graphs(make_graphs):
    return make_graphs(40, seed=2)


@pytest.fixture(scope="module")
def store(make_store, graphs):
    return make_store(graphs, "graclus*2,nopool", units=3)


def counts(loader):
    return [batch.count.tolist() for batch in loader]


# -- same batches ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shuffle", [False, True])
def test_store_memory_and_list_give_the_same_batches(store, graphs, same, shuffle):
    options = {"batch_size": 7, "shuffle": shuffle, "seed": 3}
    reference = list(PoolDataLoader(precoarsen(graphs, LEVELS), **options))
    for dataset in (PooledDataset(store), PooledDataset(store, in_memory=True)):
        batches = list(PoolDataLoader(dataset, **options))
        assert len(batches) == len(reference) == 6
        for ours, other in zip(batches, reference, strict=True):
            same(ours, other)


def test_follow_batch_and_exclude_keys(store, graphs, same):
    options = {"batch_size": 8, "follow_batch": ["edge_attr"], "exclude_keys": ["x", "name"]}
    ours = next(iter(PoolDataLoader(PooledDataset(store), **options)))
    other = next(iter(PoolDataLoader(precoarsen(graphs, LEVELS), **options)))
    assert "x" not in ours and "edge_attr_batch" in ours
    same(ours, other)


def test_graphs_without_levels_equal_those_of_the_pyg_loader(graphs, same):
    left = next(iter(PoolDataLoader(graphs, batch_size=5)))
    right = next(iter(DataLoader(graphs, batch_size=5)))
    assert isinstance(left, PooledBatch)
    for key in right.to_dict():
        if not key.startswith("_"):
            same(left[key], right[key], key)


def test_pyg_loader_gives_the_same_batches(graphs, store, same):
    dataset = PooledDataset(store)
    for source in (precoarsen(graphs, LEVELS), dataset, list(dataset)):
        for left, right in zip(DataLoader(source, 4), PoolDataLoader(source, 4), strict=True):
            same(left, right)
            same(left.to_data_list(), right.to_data_list())


def test_other_objects_are_collated_by_pyg():
    collate = PoolCollater([])
    assert collate([[42], [99]])[0].tolist() == [42, 99]
    assert collate([1.5, 2.5]).tolist() == [1.5, 2.5]
    assert collate(["a", "b"]) == ["a", "b"]
    assert collate([{"k": 1}, {"k": 2}])["k"].tolist() == [1, 2]
    data = Data(x=torch.ones(2, 1), edge_index=torch.zeros(2, 0, dtype=torch.long))
    pair = collate([(data, 1), (data, 2)])
    assert isinstance(pair[0], PooledBatch) and pair[1].tolist() == [1, 2]


def test_only_a_collate_fn_of_this_package_is_accepted(graphs):
    with pytest.raises(InputError, match="collate_fn"):
        PoolDataLoader(graphs, batch_size=4, collate_fn=lambda items: items)
    loader = PoolDataLoader(
        graphs, batch_size=4, collate_fn=PoolCollater(graphs)
    )  # Lightning copies loaders so
    assert isinstance(next(iter(loader)), PooledBatch)


# -- samplers -------------------------------------------------------------------------------------


def test_torch_samplers(store):
    dataset = PooledDataset(store)
    chosen = PoolDataLoader(dataset, batch_size=4, sampler=SubsetRandomSampler([3, 5, 7]))
    assert sorted(i for b in counts(chosen) for i in b) == [3, 5, 7]
    batched = PoolDataLoader(dataset, batch_sampler=BatchSampler(SequentialSampler(dataset), 16, False))
    assert [len(b) for b in counts(batched)] == [16, 16, 8]
    seen = []
    for rank in range(3):
        share = DistributedSampler(dataset, num_replicas=3, rank=rank, shuffle=True, drop_last=False)
        seen += [i for b in counts(PoolDataLoader(dataset, batch_size=4, sampler=share)) for i in b]
    assert set(seen) == set(range(40))
    with pytest.raises(InputError, match="needs the order of the loader"):
        chosen.state_dict()
    with pytest.raises(InputError, match="max_nodes"):
        PoolDataLoader(dataset, sampler=SequentialSampler(dataset), max_nodes=5)


def test_batch_size_and_drop_last_are_attributes(store):
    loader = PoolDataLoader(PooledDataset(store), batch_size=7, drop_last=True)
    assert (loader.batch_size, loader.drop_last, len(loader)) == (7, True, 5)
    assert len(PoolDataLoader(PooledDataset(store), batch_size=7)) == 6


def test_iterable_and_unbatched_datasets(graphs):
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(graphs)

    assert [b.num_graphs for b in PoolDataLoader(Stream(), batch_size=16)] == [16, 16, 8]
    single = list(PoolDataLoader(graphs, batch_size=None))
    assert len(single) == 40 and isinstance(single[0], Data) and not isinstance(single[0], Batch)


def test_limits_count_the_chosen_levels(store):
    dataset = PooledDataset(store)
    loader = PoolDataLoader(
        dataset, batch_size=None, max_nodes=60, budget_levels=(0, 1), shuffle=True, seed=0
    )
    seen = []
    for batch in loader:
        total = batch.num_nodes + batch.pooled_data[0].num_nodes
        assert total <= 60 or batch.num_graphs == 1
        seen += batch.count.tolist()
    assert sorted(seen) == list(range(40))
    plain = PoolDataLoader(
        list(dataset), batch_size=None, max_nodes=60, budget_levels=(0, 1), shuffle=True, seed=0
    )
    assert counts(plain) == counts(
        loader.__class__(dataset, None, True, max_nodes=60, budget_levels=(0, 1), seed=0)
    )


def test_ranks_share_an_epoch(store):
    dataset = PooledDataset(store)
    for world in range(1, 9):
        loaders = [
            PoolDataLoader(dataset, batch_size=3, shuffle=True, seed=1, rank=r, world_size=world)
            for r in range(world)
        ]
        assert sorted(i for loader in loaders for b in counts(loader) for i in b) == list(range(40))


def test_order_follows_torch_seed(store):
    dataset = PooledDataset(store)
    orders = []
    for _ in range(2):
        torch.manual_seed(7)
        orders.append(counts(PoolDataLoader(dataset, batch_size=4, shuffle=True)))
    assert orders[0] == orders[1]
    generator = torch.Generator().manual_seed(1)
    loader = PoolDataLoader(dataset, batch_size=4, shuffle=True, generator=generator)
    assert counts(loader) != counts(loader)


# -- resuming -------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [(0, 0), (2, 0), (0, 2), (2, 1)])
def test_resume_in_the_middle_of_an_epoch(store, workers):
    dataset = PooledDataset(store)

    def make(count):
        return PoolDataLoader(dataset, batch_size=3, shuffle=True, seed=5, num_workers=count)

    whole = make(0)
    flat = counts(whole) + counts(whole)
    running = make(workers[0])
    stream = iter(running)
    assert [next(stream).count.tolist() for _ in range(5)] == flat[:5]
    state = running.state_dict()
    del stream
    resumed = make(workers[1])
    resumed.load_state_dict(pickle.loads(pickle.dumps(state)))
    assert counts(resumed) + counts(resumed) == flat[5:]


def test_the_state_after_the_last_batch_is_the_next_epoch(store):
    loader = PoolDataLoader(PooledDataset(store), batch_size=16, shuffle=True, seed=5)
    stream = iter(loader)
    for _ in range(3):
        next(stream)
    assert loader.state_dict()["epoch"] == 1
    other = PoolDataLoader(PooledDataset(store), batch_size=16, shuffle=True, seed=5)
    other.load_state_dict(loader.state_dict())
    assert counts(other) == counts(loader)
    loader.set_epoch(0)
    assert counts(loader) != counts(other)


# -- processes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_started_after_the_store_was_read(store, same, method):
    dataset = PooledDataset(store)
    reference = list(PoolDataLoader(dataset, batch_size=9, shuffle=True, seed=1))
    again = pickle.loads(pickle.dumps(dataset))
    loader = PoolDataLoader(
        again if method == "spawn" else dataset,
        batch_size=9,
        shuffle=True,
        seed=1,
        num_workers=2,
        multiprocessing_context=method,
    )
    for ours, other in zip(loader, reference, strict=True):
        same(ours, other)
        same(ours.to_data_list()[0], other.to_data_list()[0])


def test_persistent_workers(store):
    options = {"batch_size": 9, "shuffle": True, "seed": 1}
    plain = PoolDataLoader(PooledDataset(store), **options)
    loader = PoolDataLoader(PooledDataset(store), num_workers=2, persistent_workers=True, **options)
    for _ in range(3):
        assert counts(loader) == counts(plain)
    for _ in range(5):  # leave epochs half done
        next(iter(loader))
        next(iter(plain))
    assert counts(loader) == counts(plain)


def test_two_iterators_at_once_do_not_mix(store, same):
    loader = PoolDataLoader(PooledDataset(store), batch_size=7, num_workers=2)
    reference = list(PoolDataLoader(PooledDataset(store), batch_size=7))
    for left, right, expected in zip(loader, loader, reference, strict=True):
        same(left, expected)
        same(right, expected)


def test_a_change_in_place_does_not_change_other_tensors(store):
    batch = next(iter(PoolDataLoader(PooledDataset(store), batch_size=7, num_workers=1)))
    batch.x.add_(1)
    assert (batch.x._version, batch.edge_index._version, batch.batch._version) == (1, 0, 0)


def test_lists_in_workers(graphs, same):
    items = precoarsen(graphs, LEVELS)
    reference = list(PoolDataLoader(items, batch_size=16))
    for ours, other in zip(PoolDataLoader(items, batch_size=16, num_workers=2), reference, strict=True):
        same(ours, other)


def open_descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.linux
def test_a_batch_arrives_in_one_buffer(store):
    """All tensors of a batch from a worker lie side by side, and file descriptors are reused."""
    loader = PoolDataLoader(PooledDataset(store), batch_size=8, num_workers=1)
    stream = iter(loader)
    held = [next(stream)]
    before = open_descriptors()
    held += list(stream)
    assert open_descriptors() - before <= 4
    packer = Packer()
    packer.plan(held[0])
    spans = [(tensor.data_ptr(), tensor.nbytes) for _, tensor, _ in packer.tensors if tensor.numel()]
    assert len(spans) > 15
    assert max(start + size for start, size in spans) - min(spans)[0] <= packer.size


class Suicidal(PooledDataset):
    """Dataset that kills its worker process at one graph."""

    def __getitems__(self, indices):
        if 12 in indices and torch.utils.data.get_worker_info() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitems__(indices)


@pytest.mark.linux
def test_a_killed_worker_raises_an_error(store):
    loader = PoolDataLoader(Suicidal(store), batch_size=4, num_workers=2, timeout=600)
    with pytest.raises(RuntimeError, match="worker"):
        list(loader)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_shard_that_is_damaged_while_loading_is_named(make_store, graphs, workers):
    path = make_store(graphs, "graclus", units=4, profile="small")
    loader = PoolDataLoader(PooledDataset(path), batch_size=2, num_workers=workers)
    stream = iter(loader)
    next(stream)
    victim = path / "shard-00003.graphs.h5"
    content = bytearray(victim.read_bytes())
    content[: len(content) // 2] = bytes(len(content) // 2)
    victim.write_bytes(bytes(content))
    with pytest.raises(StoreDamagedError, match="shard-00003"):
        list(stream)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_shard_that_is_truncated_while_loading_is_named(make_store, graphs, workers):
    """The loop raises an error. The process is not killed by SIGBUS."""
    dataset = PooledDataset(make_store(graphs, "graclus", units=4))
    list(PoolDataLoader(dataset, batch_size=8))  # maps all shards, also for workers forked from here
    stream = iter(PoolDataLoader(dataset, batch_size=2, num_workers=workers))
    next(stream)
    os.truncate(dataset.reader.files.path / "shard-00003.main.h5", 0)
    with pytest.raises(StoreDamagedError, match=r"shard-00003\.main\.h5 was removed, replaced or truncated"):
        list(stream)


# -- moving ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    "schedule", ["graclus*2", "ndp,graclus", "kmis:scorer=degree", "eigen:k=3", "nmf:k=3"]
)
def test_moving_a_batch_moves_every_tensor(make_store, graphs, schedule, workers):
    """The meta device has no memory, so a tensor that is not moved or is read causes an error."""
    dataset = PooledDataset(make_store(graphs[:12], schedule))
    batch = next(iter(PoolDataLoader(dataset, batch_size=12, num_workers=workers)))
    moved = batch.to("meta", non_blocking=True)
    assert moved is batch
    for level in [moved, *moved.pooled_data]:
        tensors = [value for _, value in level if isinstance(value, torch.Tensor)]
        so = level.get("so")
        if so is not None:
            tensors += [so.batch, so.s, *(getattr(so, name) for name in so._extra_args)]
        assert tensors
        assert {t.device.type for t in tensors if t is not None} == {"meta"}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="pinned memory needs a GPU")
def test_pinned_batches(store, same):
    reference = list(PoolDataLoader(PooledDataset(store), batch_size=16))
    for workers in (0, 2):
        loader = PoolDataLoader(PooledDataset(store), batch_size=16, num_workers=workers, pin_memory=True)
        for ours, other in zip(loader, reference, strict=True):
            assert ours.x.is_pinned() and ours.pooled_data[0].so.cluster_index.is_pinned()
            same(ours.to("cuda", non_blocking=True).cpu(), other)


def test_a_model_trains_on_batches(store):
    from torch_geometric.nn import GCNConv, global_add_pool

    from tgp.reduce import BaseReduce

    torch.manual_seed(0)
    dataset = PooledDataset(store)
    convs = torch.nn.ModuleList([GCNConv(4, 8), GCNConv(8, 8), GCNConv(8, 8), GCNConv(8, 3)])
    reduce = BaseReduce()
    for batch in PoolDataLoader(dataset, batch_size=13, shuffle=True, seed=0):
        x = convs[0](batch.x, batch.edge_index, batch.edge_weight).relu()
        for conv, level in zip(convs[1:], batch.pooled_data, strict=True):
            x, ids = reduce(x=x, so=level.so, batch=level.so.batch)
            assert torch.equal(ids, level.batch)
            x = conv(x, level.edge_index, level.edge_weight)
        out = global_add_pool(x, level.batch, size=batch.num_graphs)
        torch.nn.functional.cross_entropy(out, batch.y).backward()
    assert all(np.isfinite(p.grad.numpy()).all() for p in convs.parameters())


# -- transforms of batches, block shuffle, profiler -------------------------------------------------


def add_sizes(batch):
    batch.sizes = batch.ptr.diff()
    return batch


@pytest.mark.parametrize("workers", [0, 2])
def test_a_transform_of_batches_runs_where_the_batch_is_made(store, same, workers):
    def transform(batch):
        worker = torch.utils.data.get_worker_info()
        batch.worker = -1 if worker is None else worker.id
        return add_sizes(batch)

    loader = PoolDataLoader(PooledDataset(store), 20, num_workers=workers, batch_transform=transform)
    plain = list(PoolDataLoader(PooledDataset(store), 20))
    for number, (batch, other) in enumerate(zip(loader, plain, strict=True)):
        assert batch.worker == (number if workers else -1)
        assert batch.sizes.tolist() == other.ptr.diff().tolist()
        same(batch.pooled_data, other.pooled_data)


def test_a_transform_of_batches_of_a_list(graphs):
    batch = next(iter(PoolDataLoader(precoarsen(graphs, LEVELS), 4, batch_transform=add_sizes)))
    assert batch.sizes.tolist() == [graph.num_nodes for graph in graphs[:4]]


@pytest.mark.parametrize("subset", [slice(None), slice(5, 33), [3, 30, 4, 17]])
def test_block_shuffle_of_a_store(store, subset):
    dataset = PooledDataset(store)[subset]
    loader = PoolDataLoader(dataset, 6, shuffle="block", seed=0)
    first, second = counts(loader), counts(loader)
    expected = sorted(dataset.count.tolist())
    assert [sorted(chain.from_iterable(epoch)) for epoch in (first, second)] == [expected] * 2
    assert first != second
    loader.set_epoch(0)
    assert counts(loader) == first


def test_block_shuffle_needs_the_order_of_the_loader(store):
    dataset = PooledDataset(store)
    with pytest.raises(InputError, match="'block'"):
        PoolDataLoader(dataset, 4, shuffle="blok")
    for options in ({"batch_size": None}, {"sampler": SequentialSampler(dataset)}):
        with pytest.raises(InputError, match="needs the order of the loader"):
            PoolDataLoader(dataset, shuffle="block", **options)


def test_the_profiler_sees_the_loader(store):
    loader = PoolDataLoader(PooledDataset(store), 8)
    with torch.profiler.profile() as profile:
        assert len(list(loader)) == 5
    assert any("DataLoader" in event.key for event in profile.key_averages())
