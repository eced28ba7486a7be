"""PyG's own ``DataLoader`` on graphs with levels, used as PyG users do."""

import pickle
import warnings

import pytest
import torch
from torch.utils.data import ConcatDataset, IterableDataset, Subset, random_split
from torch_geometric.data import Batch, Data, InMemoryDataset
from torch_geometric.loader import DataListLoader, DataLoader, DynamicBatchSampler, ImbalancedSampler

import tgp
from tgp.data import PoolDataLoader, PooledBatch, PreCoarsening, precoarsen


def make_graphs(count=12):
    """Return rings of different sizes with attributes of several types."""
    graphs = []
    for number in range(count):
        nodes = torch.arange(4 + number % 5)
        ring = torch.stack([nodes, nodes.roll(1)])
        edges = torch.cat([ring, ring.flip(0)], dim=1)
        graphs.append(
            Data(
                x=torch.rand(len(nodes), 3),
                edge_index=edges,
                y=torch.tensor([number % 2]),
                size=len(nodes),
                name=f"ring {number}",
            )
        )
    return graphs


class Rings(InMemoryDataset):
    """Dataset of a user, with a processed file."""

    def __init__(self, root, transform=None, pre_transform=None):
        super().__init__(root, transform, pre_transform)
        self.load(self.processed_paths[0])

    @property
    def processed_file_names(self):
        return "data.pt"

    def process(self):
        graphs = make_graphs()
        if self.pre_transform is not None:
            graphs = [self.pre_transform(graph) for graph in graphs]
        self.save(graphs, self.processed_paths[0])


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return tgp.coarsen(make_graphs(), "graclus*2", tmp_path_factory.mktemp("store") / "rings", progress=False)


def assert_same_batch(left, right):
    """Check that two batches have the same class, attributes, levels and assignments."""
    assert type(left) is type(right) and isinstance(left, PooledBatch)
    assert set(left.keys()) == set(right.keys()) and left.num_graphs == right.num_graphs
    for key in set(left.keys()) - {"pooled_data", "so"}:
        assert torch.equal(left[key], right[key]) if torch.is_tensor(left[key]) else left[key] == right[key]
    if "so" in left:
        assert torch.equal(left.so.s.to_dense(), right.so.s.to_dense())
        assert torch.equal(left.so.batch, right.so.batch)
    for one, other in zip(left.get("pooled_data", []), right.get("pooled_data", []), strict=True):
        assert_same_batch(one, other)


def assert_usable(batch):
    """Check what a model needs of a batch, and that it splits into its graphs."""
    nodes = batch.num_nodes
    for level in batch.pooled_data:
        assert level.so.num_nodes == nodes and level.ptr[-1] == level.num_nodes == len(level.batch)
        assert level.edge_index.max() < level.num_nodes
        nodes = level.num_nodes
    assert_same_batch(Batch.from_data_list(batch.to_data_list()), batch)


@pytest.mark.parametrize("workers", [0, 2])
def test_pooled_dataset(dataset, workers):
    ours = PoolDataLoader(dataset, batch_size=5, num_workers=workers)
    batches = list(DataLoader(dataset, batch_size=5, num_workers=workers))
    for batch, expected in zip(batches, ours, strict=True):
        assert_same_batch(batch, expected)
        assert_usable(batch)
        assert_usable(expected)


@pytest.mark.parametrize("workers", [0, 2])
def test_subset_and_random_split(dataset, workers):
    train, test = random_split(dataset, [8, 4], generator=torch.Generator().manual_seed(0))
    for part in (train, test, Subset(dataset, [3, 1, 7]), dataset[[3, 1, 7]], ConcatDataset([train, test])):
        (batch,) = DataLoader(part, batch_size=12, num_workers=workers)
        (expected,) = PoolDataLoader(part, batch_size=12, num_workers=workers)
        assert batch.name == [graph.name for graph in part]
        assert_same_batch(batch, expected)


def test_list_of_precoarsen():
    graphs = precoarsen(make_graphs(), ["graclus", "ndp"])
    for workers in (0, 2):
        (batch,) = DataLoader(graphs, batch_size=12, num_workers=workers)
        (expected,) = PoolDataLoader(graphs, batch_size=12)
        assert_same_batch(batch, expected)
        assert_usable(batch)


@pytest.mark.parametrize("method", ["graclus", "kmis", ("nmf", {"k": 3}), ("eigen", {"k": 3})])
def test_transform_and_pre_transform_of_a_dataset(tmp_path, method):
    levels = PreCoarsening([method, method])
    (expected,) = PoolDataLoader(precoarsen(make_graphs(), [method, method]), batch_size=12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # PyG warns if it cannot load a file with weights_only=True
        Rings(tmp_path / "pre", pre_transform=levels)
        before = Rings(tmp_path / "pre", pre_transform=levels)
    online = Rings(tmp_path / "plain", transform=levels)
    for dataset in (before, online, before[2:].copy()):
        (batch,) = DataLoader(dataset, batch_size=12)
        assert [len(batch.pooled_data), batch.num_graphs] == [2, len(dataset)]
        assert_usable(batch)
        if len(dataset) == 12:
            assert torch.equal(batch.pooled_data[1].edge_index, expected.pooled_data[1].edge_index)
            assert torch.equal(batch.pooled_data[1].so.s.to_dense(), expected.pooled_data[1].so.s.to_dense())


def test_a_dataset_of_one_graph(tmp_path):
    class Ring(Rings):
        def process(self):
            self.save([self.pre_transform(make_graphs(1)[0])], self.processed_paths[0])

    levels = PreCoarsening([("kmis", {"order_k": 1}), ("nmf", {"k": 2})])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            data = Ring(tmp_path, pre_transform=levels)[0]
            assert data.pooled_data[0].so.num_nodes == data.num_nodes == 4
            assert data.pooled_data[1].so.s.shape == (data.pooled_data[0].num_nodes, 2)
    torch.save(data, tmp_path / "graph.pt")
    again = torch.load(tmp_path / "graph.pt", weights_only=True)
    assert_same_batch(Batch.from_data_list([again]), Batch.from_data_list([data]))
    assert type(again) is type(data) and again.validate()


def test_tu_dataset(data_root, tmp_path):
    datasets = pytest.importorskip("torch_geometric.datasets")
    import shutil

    shutil.copytree(data_root / "TUDataset" / "MUTAG" / "raw", tmp_path / "MUTAG" / "raw")
    levels = PreCoarsening(["graclus", "ndp"])
    for _ in range(2):  # made, then read from its file
        mutag = datasets.TUDataset(tmp_path, "MUTAG", pre_transform=levels)
        batch = next(iter(DataLoader(mutag, batch_size=64, shuffle=True)))
        assert_usable(batch)
    plain = datasets.TUDataset(tmp_path, "MUTAG", transform=levels, force_reload=True)
    assert_usable(next(iter(DataLoader(plain, batch_size=64))))


def test_follow_batch_and_exclude_keys(dataset):
    options = {"batch_size": 12, "follow_batch": ["edge_index"], "exclude_keys": ["name", "x"]}
    (batch,), (expected,) = DataLoader(dataset, **options), PoolDataLoader(dataset, **options)
    assert "x" not in batch and batch.edge_index_batch.max() == 11
    assert_same_batch(batch, expected)
    (bare,) = DataLoader(dataset, batch_size=12, exclude_keys=["pooled_data"])
    assert "pooled_data" not in bare
    bare.pooled_data = [bare]  # an attribute of the user, which is not joined again
    assert bare.pooled_data == [bare]


def test_samplers_of_pyg(dataset):
    balanced = DataLoader(dataset, batch_size=4, sampler=ImbalancedSampler(dataset))
    assert sum(batch.num_graphs for batch in balanced) == 12
    limited = DataLoader(dataset, batch_sampler=DynamicBatchSampler(dataset, max_num=20, mode="node"))
    assert all(batch.num_nodes <= 20 for batch in limited)


def test_iterable_dataset_and_list_loader(dataset):
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(dataset)

    (batch,) = DataLoader(Stream(), batch_size=12)
    assert_usable(batch)
    (graphs,) = DataListLoader(dataset, batch_size=12)
    assert [graph.name for graph in graphs] == dataset.name


def test_pin_memory(dataset):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there may be no device to pin for
        (batch,) = DataLoader(dataset, batch_size=12, pin_memory=True)
    assert_usable(batch)


def test_pickle_and_copies(dataset):
    (batch,) = DataLoader(dataset, batch_size=12)
    for twin in (pickle.loads(pickle.dumps(batch)), batch.clone(), batch.to("cpu")):
        assert_same_batch(twin, batch)
        assert_usable(twin)


class Labeled(Data):
    """``Data`` class of a user with its own rule for ids."""

    def __inc__(self, key, value, *args, **kwargs):
        return 100 if key == "label_id" else super().__inc__(key, value, *args, **kwargs)


def test_own_data_class(tmp_path):
    graphs = [Labeled(**graph.to_dict(), label_id=torch.tensor([1])) for graph in make_graphs(3)]
    graphs = [PreCoarsening("graclus")(graph) for graph in graphs]
    for made in (graphs, pickle.loads(pickle.dumps(graphs))):
        (batch,) = DataLoader(made, batch_size=3)
        assert batch.label_id.tolist() == [1, 101, 201]
        assert isinstance(batch.get_example(1), Labeled) and batch.get_example(1).label_id.tolist() == [1]
        assert_usable(pickle.loads(pickle.dumps(batch)))
    InMemoryDataset.save(graphs, tmp_path / "file.pt")
    loaded = InMemoryDataset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyG says that it does not know this class
        loaded.load(tmp_path / "file.pt")
    assert isinstance(loaded[2], Labeled) and loaded[2].pooled_data[0].so.num_nodes == graphs[2].num_nodes
