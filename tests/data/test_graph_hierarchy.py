"""``GraphHierarchy``: pooling, lifting and moving to a device."""

import pytest
import torch
from torch_geometric.data import Data

from tgp.data import GraphHierarchy, PooledBatch, PooledDataset, PreCoarsening, lift_to_nodes, precoarsen
from tgp.errors import InputError


def grid(side):
    ids = torch.arange(side * side).reshape(side, side)
    pairs = torch.cat(
        [
            torch.stack([ids[:, :-1].flatten(), ids[:, 1:].flatten()]),
            torch.stack([ids[:-1].flatten(), ids[1:].flatten()]),
        ],
        dim=1,
    )
    return Data(x=torch.randn(side * side, 5), edge_index=torch.cat([pairs, pairs.flip(0)], dim=1))


@pytest.fixture
def hierarchy(make_store):
    return PooledDataset(make_store([grid(8)], "graclus*3")).as_hierarchy()


def test_pool_and_lift(hierarchy):
    assert len(hierarchy) == 3 and hierarchy[0].num_nodes == 64
    assert repr(hierarchy).startswith("GraphHierarchy(64 -> ")
    top = hierarchy.pool(hierarchy.data.x, 3)
    assert top.shape == (hierarchy[3].num_nodes, 5)
    torch.testing.assert_close(top.sum(0), hierarchy.data.x.sum(0))
    torch.testing.assert_close(hierarchy.pool(hierarchy.pool(hierarchy.data.x, 1), 3, start=1), top)
    down = hierarchy.lift(top, 3)
    assert down.shape == (64, 5)
    torch.testing.assert_close(down, hierarchy.lift(hierarchy.lift(top, 3, stop=1), 1))
    # Every node gets the row of the supernode it ends up in.
    cluster = torch.arange(64)
    for level in hierarchy.levels:
        cluster = level.so.cluster_index[cluster]
    torch.testing.assert_close(down, top[cluster])


def test_gradients_flow(hierarchy):
    x = hierarchy.data.x.clone().requires_grad_()
    hierarchy.lift(hierarchy.pool(x, 2), 2).sum().backward()
    assert (x.grad > 0).all()


def test_store_equals_transform(make_store, same):
    data = grid(6)
    stored = PooledDataset(make_store([data], "graclus*2")).as_hierarchy()
    same(stored.data, PreCoarsening(["graclus", "graclus"])(data))


def test_a_device_gets_one_copy(hierarchy):
    there = hierarchy.to("meta")
    assert there.device.type == "meta" and there.levels[0].so.cluster_index.is_meta
    assert hierarchy.to("meta") is there
    assert there.to("cpu") is hierarchy
    assert hierarchy.to("cpu") is hierarchy
    assert hierarchy.device.type == "cpu" and not hierarchy.data.x.is_meta


def test_expand_refuses_a_list(hierarchy):
    values = [1] * hierarchy[1].num_nodes
    with pytest.raises(InputError, match=r"expected a torch\.Tensor, got list"):
        hierarchy.expand(values, 1)
    assert len(hierarchy.expand(torch.tensor(values), 1)) == hierarchy.data.num_nodes


def test_a_batch_is_lifted_graph_by_graph(make_graphs):
    graphs = precoarsen(make_graphs(5), ["graclus", "graclus"])
    batch = PooledBatch.from_data_list(graphs)
    x = torch.randn(batch.pooled_data[-1].num_nodes, 3)
    whole = lift_to_nodes(x, batch.pooled_data)
    start = 0
    for i, data in enumerate(graphs):
        n = data.pooled_data[-1].num_nodes
        part = lift_to_nodes(x[start : start + n], data.pooled_data)
        torch.testing.assert_close(whole[batch.ptr[i] : batch.ptr[i + 1]], part)
        start += n


def test_invalid_arguments_are_refused(hierarchy, make_store):
    with pytest.raises(InputError, match="one row"):
        lift_to_nodes(torch.zeros(3, 1), hierarchy.levels)
    for level in (-1, 4, "1", 1.5, None, True):
        with pytest.raises(
            InputError, match=r"level is out of range: expected a whole number from 0 to \d, got"
        ):
            hierarchy.pool(hierarchy.data.x, level)
    with pytest.raises(InputError, match="finer level first, got 2 and 1"):
        hierarchy.pool(hierarchy.data.x, 1, start=2)
    with pytest.raises(InputError, match="levels"):
        GraphHierarchy(grid(3))
    with pytest.raises(InputError, match="gaps"):
        PooledDataset(make_store([grid(4)], "graclus*2"), levels=[2]).as_hierarchy()
