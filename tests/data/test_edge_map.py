"""Edge maps of levels: the same values in stores, transforms, batches and poolers."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.utils import scatter

import tgp
from tgp.connect.edge_attributes import edge_map
from tgp.data import PoolDataLoader, PooledBatch, PooledDataset, PreCoarsening, precoarsen
from tgp.errors import InputError, StoreDamagedError
from tgp.poolers import get_pooler
from tgp.select import SelectOutput
from tgp.store import StoreReader, verify_store
from tgp.testing.stores import forge_manifest, forge_shard

RULES = "edge_index=map,edge_attr=sum"


def make_graph(nodes, seed):
    draw = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, nodes, (2, 3 * nodes), generator=draw)
    attr = torch.randn(3 * nodes, 2, generator=draw)
    return Data(x=torch.randn(nodes, 3, generator=draw), edge_index=edges, edge_attr=attr)


@pytest.fixture(scope="module")
def graphs():
    """Directed graphs with parallel edges and self loops, in no order."""
    return [make_graph(nodes, seed) for seed, nodes in enumerate((9, 1, 14, 25, 2))]


@pytest.fixture
def store(graphs, tmp_path):
    tgp.coarsen(graphs, "graclus*2", out=tmp_path / "s", carry=RULES)
    return tmp_path / "s"


def expected_map(edge_index, cluster, pooled):
    known = {tuple(pair): place for place, pair in enumerate(pooled.t().tolist())}
    return [known.get((int(cluster[a]), int(cluster[b])), -1) for a, b in edge_index.t().tolist()]


def assert_maps(data):
    """Check the maps of all levels of a graph or batch."""
    fine = data.edge_index
    for level in data.pooled_data:
        assert level.edge_map.tolist() == expected_map(fine, level.so.cluster, level.edge_index)
        fine = level.edge_index


def same_maps(left, right):
    for one, two in zip(left.pooled_data, right.pooled_data, strict=True):
        assert torch.equal(one.edge_map, two.edge_map)


@pytest.mark.parametrize("in_memory", [False, True])
def test_stored_maps(graphs, store, in_memory):
    dataset = PooledDataset(store, in_memory=in_memory)
    assert StoreReader(store).manifest.minor == 4
    assert verify_store(store) == []
    batch = next(iter(PoolDataLoader(dataset, batch_size=5)))
    assert_maps(batch)
    for place, graph in enumerate(graphs):
        item = dataset[place]
        assert_maps(item)
        same_maps(batch.get_example(place), item)
        level = item.pooled_data[0]
        inside = level.edge_map >= 0
        size = level.edge_index.size(1)
        wanted = scatter(
            graph.edge_attr[inside].double(), level.edge_map[inside], dim_size=size, reduce="sum"
        )
        assert torch.equal(level.edge_attr, wanted.float())
    same_maps(PooledBatch.from_data_list([dataset[2], dataset[0]]), dataset.get_batch([2, 0]))


def test_workers_return_maps(store):
    dataset = PooledDataset(store)
    loader = PoolDataLoader(dataset, batch_size=2, num_workers=1)
    for batch, ids in zip(loader, ([0, 1], [2, 3], [4]), strict=True):
        assert_maps(batch)
        same_maps(batch, dataset.get_batch(ids))


def test_maps_are_read_only_if_they_are_wanted(store):
    level = PooledDataset(store, level_fields=["edge_attr"])[3].pooled_data[0]
    assert "edge_map" not in level and "edge_attr" in level


@pytest.mark.parametrize("schedule", ["graclus*2", "kmis,graclus", "hem:ratio=0.5,sep"])
def test_transforms_and_load_time(graphs, tmp_path, schedule):
    tgp.coarsen(graphs, schedule, out=tmp_path / "with", carry="edge_index=map")
    tgp.coarsen(graphs, schedule, out=tmp_path / "without")
    stored, plain = PooledDataset(tmp_path / "with"), PooledDataset(tmp_path / "without")
    assert "edge_map" not in plain[0].pooled_data[0]
    computed = PooledDataset(tmp_path / "without", carry="edge_index=map")
    made = [PreCoarsening(schedule, carry="edge_index=map")(graph.clone()) for graph in graphs]
    together = precoarsen([graph.clone() for graph in graphs], schedule, carry="edge_index=map")
    for place, data in enumerate(made):
        assert_maps(data)
        for other in (stored, computed, together):
            same_maps(data, other[place])
    batch = PooledBatch.from_data_list(made)
    same_maps(batch, stored.get_batch(range(5)))
    same_maps(batch, computed.get_batch(range(5)))
    for place, data in enumerate(made):
        same_maps(batch.get_example(place), data)
        same_maps(computed.get_batch(range(5)).get_example(place), data)


def test_a_level_that_is_no_contraction_has_no_map(graphs, tmp_path):
    tgp.coarsen(graphs[:1], "ndp,graclus", out=tmp_path / "s", carry="edge_index=map")
    assert verify_store(tmp_path / "s") == []
    first, second = PooledDataset(tmp_path / "s")[0].pooled_data
    assert "edge_map" not in first
    assert second.edge_map.tolist() == expected_map(first.edge_index, second.so.cluster, second.edge_index)


def test_an_attribute_of_graphs_with_this_name_is_joined_by_pyg():
    graphs = [Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2, edge_map=torch.tensor([-1]))] * 2
    assert PooledBatch.from_data_list(graphs).edge_map.tolist() == [-1, -1]


# -- poolers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["graclus", "kmis", "topk", "ec"])
def test_poolers_return_maps(graphs, name):
    pooler = get_pooler(name, in_channels=3)
    for data in (graphs[3], Batch.from_data_list([graphs[0], graphs[2], graphs[3]])):
        pooled = pooler(data, carry="edge_index=map")
        assert pooled.edge_map.tolist() == expected_map(data.edge_index, pooled.so.cluster, pooled.edge_index)
        assert "edge_map" not in pooler(data)


def test_pooled_attributes_are_one_segment_reduction(graphs):
    data, pooler = graphs[3], get_pooler("graclus")
    pooled = pooler(data, carry="edge_attr=max,edge_index=map")
    inside = pooled.edge_map >= 0
    size = pooled.edge_index.size(1)
    wanted = scatter(data.edge_attr[inside], pooled.edge_map[inside], dim_size=size, reduce="max")
    assert torch.equal(pooled.edge_attr, wanted)


def test_poolers_without_a_map(graphs):
    assert "edge_map" not in get_pooler("ndp")(graphs[3], carry="edge_index=map")
    assert "edge_map" not in get_pooler("mincut", in_channels=3, k=4)(graphs[3], carry="edge_index=map")


def test_maps_of_tensors():
    so = SelectOutput(cluster_index=torch.tensor([0, 0, 1, 2]), num_supernodes=3)
    edges = torch.tensor([[0, 0, 3, 2, 1], [1, 2, 0, 3, 2]])
    pooled = torch.tensor([[2, 0, 0], [0, 1, 1]])  # not sorted, with parallel edges
    assert edge_map(edges, so, pooled).tolist() == [-1, 2, 0, -1, 2]
    empty = torch.zeros(2, 0, dtype=torch.long)
    assert edge_map(empty, so, pooled).tolist() == []
    assert edge_map(edges, so, empty).tolist() == [-1] * 5
    with pytest.raises(InputError, match="several"):
        edge_map(edges, SelectOutput(s=torch.rand(4, 3)), pooled)


# -- damaged stores -------------------------------------------------------------------------------------------------


def edit_map(store, edit, path="levels/0/fields/edge_map"):
    def change(file):
        values = file[path][:]
        edit(values)
        file[path][:] = values

    forge_shard(store, change, "graclus-x2")


def find_wrong_values(store):
    """Return the findings about values. The records of the run no longer fit the shard, which is reported, too."""
    return [finding for finding in verify_store(store) if finding.field]


def read_all(store):
    dataset = PooledDataset(store)
    return dataset.get_batch(range(5)), [dataset[place] for place in range(5)]


@pytest.mark.parametrize("value", [-2, 100])
def test_ids_outside_of_the_graph(store, value):
    edit_map(store, lambda values: values.__setitem__(0, value))
    dataset = PooledDataset(store)
    with pytest.raises(StoreDamagedError, match="edge_map"):
        dataset.get_batch(range(5))
    with pytest.raises(StoreDamagedError, match="edge_map"):
        StoreReader(store).read_levels(0, "graclus-x2")
    (finding,) = find_wrong_values(store)
    assert finding.field == "/levels/0/fields/edge_map" and finding.graph == 0


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("to_none", [False, True])
def test_verify_finds_wrong_maps(store, level, to_none):
    def edit(values):
        place = int(np.argmax(values > 0))
        values[place] = -1 if to_none else values[place] - 1

    edit_map(store, edit, f"levels/{level}/fields/edge_map")
    (finding,) = find_wrong_values(store)
    assert finding.field == f"/levels/{level}/fields/edge_map" and "map of the finer edges" in finding.message
    read_all(store)  # no id is out of range


@pytest.mark.parametrize("level", [0, 1])
def test_maps_with_other_offsets(store, level):
    edit_map(store, lambda ptr: ptr.__setitem__(1, ptr[1] - 1), f"levels/{level}/ptr/edge_map")
    assert find_wrong_values(store)
    if level:  # the edges of the input graphs are in another file
        with pytest.raises(StoreDamagedError, match="one row for each edge of level 1"):
            read_all(store)


@pytest.mark.parametrize(
    "change", [{"dtype": "int32"}, {"ptrs": ["edge"]}, {"name": "edge_ids"}, {"tail": [1]}]
)
def test_the_manifest_is_checked(store, change):
    def edit(values):
        fields = values["hierarchies"][0]["levels"][0]["fields"]
        next(field for field in fields if field["name"] == "edge_map").update(change)

    forge_manifest(store, edit)
    with pytest.raises(StoreDamagedError):
        StoreReader(store)
