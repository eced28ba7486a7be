"""Attributes that methods need in layers, transforms and heterogeneous graphs."""

import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData

from tests.build.test_needs import make_graphs
from tgp.data import PreCoarsening, precoarsen
from tgp.errors import InputError, UnknownNameError
from tgp.poolers import get_pooler


def equal(one, other):
    return torch.equal(one.so.s.to_dense(), other.so.s.to_dense()) and torch.equal(
        one.edge_index, other.edge_index
    )


def test_layer_equals_the_transform():
    graphs = make_graphs(3)
    for graph in graphs:
        level = PreCoarsening("simmatch", seed=4)(graph).pooled_data[0]
        pooler = get_pooler("simmatch", seed=4)
        assert equal(pooler(x=graph.x, adj=graph.edge_index), level)
        assert equal(pooler(graph), level)
        assert equal(pooler.precoarsening(graph.edge_index, x=graph.x), level)
        two = pooler.multi_level_precoarsening(2, graph.edge_index, x=graph.x)
        for mine, theirs in zip(two, PreCoarsening("simmatch*2", seed=4)(graph).pooled_data, strict=True):
            assert equal(mine, theirs)


def test_a_batch_in_any_order_of_nodes():
    graphs = make_graphs(3)
    batch = Batch.from_data_list(graphs)
    pooler = get_pooler("simmatch", ratio=0.4)
    out = pooler(x=batch.x, adj=batch.edge_index, batch=batch.batch)
    # Graphs are interleaved. The order inside each graph stays, because ties are broken by it.
    order = torch.argsort(torch.arange(batch.num_nodes) - batch.ptr[batch.batch], stable=True)
    place = torch.argsort(order)
    moved = pooler(x=batch.x[order], adj=place[batch.edge_index], batch=batch.batch[order])
    assert torch.equal(moved.so.s.to_dense(), out.so.s.to_dense()[order])


def test_the_cache_depends_on_the_features():
    graph = make_graphs(1)[0]
    cached, plain = get_pooler("simmatch", cached=True), get_pooler("simmatch")
    for x in (graph.x, graph.x.flip(0), graph.x):
        assert equal(cached(x=x, adj=graph.edge_index), plain(x=x, adj=graph.edge_index))
    assert not equal(plain(x=graph.x, adj=graph.edge_index), plain(x=graph.x.flip(0), adj=graph.edge_index))


def test_gradients_pass_the_reduction_only():
    graph = make_graphs(1)[0]
    x = graph.x.clone().requires_grad_()
    get_pooler("simmatch")(x=x, adj=graph.edge_index).x.sum().backward()
    assert torch.equal(x.grad, torch.ones_like(x))


def test_missing_and_wrong_arguments():
    graph = make_graphs(1)[0]
    pooler = get_pooler("simmatch")
    with pytest.raises(InputError, match="simmatch needs the node attribute 'x': expected a tensor"):
        pooler.precoarsening(graph.edge_index, num_nodes=graph.num_nodes)
    with pytest.raises(InputError, match="'x' is not finite"):
        pooler(x=torch.full_like(graph.x, torch.nan), adj=graph.edge_index)
    with pytest.raises(UnknownNameError, match="pos"):
        pooler(x=graph.x, adj=graph.edge_index, pos=graph.x)


def test_half_precision_features():
    graph = make_graphs(1)[0]
    out = get_pooler("simmatch")(x=graph.x.bfloat16(), adj=graph.edge_index)
    expected = get_pooler("simmatch")(x=graph.x.bfloat16().float(), adj=graph.edge_index)
    assert torch.equal(out.so.cluster_index, expected.so.cluster_index)


def test_a_batch_in_a_transform():
    """A batch has one level of such a method. Later levels need the engine, which reduces the features."""
    graphs = make_graphs(3)
    batch = Batch.from_data_list(graphs)
    level = PreCoarsening("simmatch")(batch).pooled_data[0]
    assert level.num_nodes == sum(g.pooled_data[0].num_nodes for g in precoarsen(graphs, "simmatch"))
    with pytest.raises(
        InputError, match=r"simmatch needs x on a later level.*Coarsen graphs before they are joined"
    ):
        PreCoarsening("graclus,simmatch")(batch)


def test_carried_and_needed_features_are_both_present():
    graphs = make_graphs(3)
    found = precoarsen(graphs, "simmatch,simmatch", carry={"x": "mean"})
    plain = precoarsen(graphs, "simmatch,simmatch")
    for mine, theirs in zip(found, plain, strict=True):
        assert all(equal(a, b) for a, b in zip(mine.pooled_data, theirs.pooled_data, strict=True))
        assert "x" in mine.pooled_data[1] and "x" not in theirs.pooled_data[1]


def hetero_graph():
    generator = torch.Generator().manual_seed(1)
    data = HeteroData()
    data["paper"].x = torch.randn(12, 4, generator=generator)
    data["author"].x = torch.randn(7, 2, generator=generator)
    ring = torch.arange(12)
    data["paper", "cites", "paper"].edge_index = torch.stack([ring, (ring + 1) % 12])
    data["author", "writes", "paper"].edge_index = torch.stack([ring % 7, ring])
    return data


def test_heterogeneous_graphs():
    data = hetero_graph()
    levels = PreCoarsening("simmatch*2")(data).pooled_data
    assert levels[0]["paper"].num_nodes < 12 and levels[1]["paper"].num_nodes < levels[0]["paper"].num_nodes
    # Columns of zeros that fill up the narrower type change nothing.
    wide = hetero_graph()
    wide["author"].x = torch.nn.functional.pad(wide["author"].x, (0, 2))
    for mine, theirs in zip(levels, PreCoarsening("simmatch*2")(wide).pooled_data, strict=True):
        for kind in ("paper", "author"):
            assert torch.equal(mine[kind].so.cluster_index, theirs[kind].so.cluster_index)
    del data["author"].x
    data["author"].num_nodes = 7
    with pytest.raises(InputError, match="'x': expected a tensor on every node type, got none on 'author'"):
        PreCoarsening("simmatch")(data)
    data["author"].x = torch.full((7, 1), torch.nan)
    with pytest.raises(InputError, match=r"node type 'author': 'x'.*not finite"):
        PreCoarsening("simmatch")(data)


def test_input_key():
    graph = make_graphs(1)[0]
    outer = Data(inner=graph, num_nodes=1)
    transform = PreCoarsening("simmatch*2", input_key="inner")
    expected = PreCoarsening("simmatch*2")(graph).pooled_data
    assert all(equal(a, b) for a, b in zip(transform(outer).pooled_data, expected, strict=True))
