"""LevelPooling: layer, pre-coarsening and engine agree bit for bit."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch_geometric.utils import erdos_renyi_graph

from tgp.connect import SparseConnect
from tgp.engine import coarsen
from tgp.poolers import get_pooler
from tgp.select import IdentitySelect, LevelSelect, SelectOutput
from tgp.src import LevelPooling
from tgp.utils.blocks import to_block

PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])


def batch_of_graphs(seed=0):
    torch.manual_seed(seed)
    sizes, edges, start = [7, 1, 12, 5], [], 0
    for n in sizes:
        edges.append(erdos_renyi_graph(n, 0.4) + start)
        start += n
    batch = torch.arange(4).repeat_interleave(torch.tensor(sizes))
    return torch.cat(edges, dim=1), batch


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"degree_norm": True},
        {"edge_weight_norm": True},
        {"count_edges": True, "remove_self_loops": False},
    ],
)
def test_layer_transform_and_engine_agree(weighted, flags):
    edges, batch = batch_of_graphs()
    weight = torch.rand(edges.size(1)) if weighted else None
    pooler = get_pooler("graclus", **flags)
    out = pooler(x=torch.rand(25, 3), adj=edges, edge_weight=weight, batch=batch)
    level = pooler.precoarsening(edges, weight, batch=batch)
    source = to_block(edges, weight, batch)
    engine = coarsen(source.block, [pooler._spec]).levels[0]
    assert np.array_equal(engine.assignment.cluster, out.so.cluster_index)
    assert torch.equal(out.edge_index, level.edge_index) and torch.equal(out.batch, level.batch)
    assert np.array_equal(engine.block.edge_index(), out.edge_index)
    if engine.block.weight is None:
        assert out.edge_weight is None and level.edge_weight is None
    else:
        assert np.array_equal(engine.block.weight.astype(np.float32), out.edge_weight)
        assert torch.equal(level.edge_weight, out.edge_weight)
    torch_edges, torch_weight = pooler.connector(edges, out.so, edge_weight=weight, batch_pooled=out.batch)
    assert torch.equal(torch_edges, out.edge_index)
    if torch_weight is not None:
        torch.testing.assert_close(torch_weight, out.edge_weight)


def test_levels_chain_and_offsets_continue_a_schedule():
    edges, batch = batch_of_graphs(1)
    pooler = get_pooler("graclus", seed=5)
    three = pooler.multi_level_precoarsening(3, edges, batch=batch)
    first = pooler.precoarsening(edges, batch=batch)
    rest = pooler.multi_level_precoarsening(
        2, first.edge_index, first.edge_weight, batch=first.batch, num_nodes=first.so.num_supernodes, level=1
    )
    for a, b in zip(three, [first, *rest], strict=True):
        assert torch.equal(a.so.cluster_index, b.so.cluster_index) and torch.equal(a.edge_index, b.edge_index)
        assert a.so.batch is not None and torch.equal(a.batch, b.batch)
    assert [a.so.num_nodes for a in three[1:]] == [a.so.num_supernodes for a in three[:-1]]
    alone = pooler.precoarsening(edges[:, edges[0] < 7], num_nodes=7)
    assert alone.batch.tolist() == [0] * alone.so.num_supernodes and alone.so.batch.tolist() == [0] * 7
    assert torch.equal(alone.so.cluster_index, first.so.cluster_index[:7])
    with pytest.raises(ValueError, match="'levels' must be >= 1"):
        pooler.multi_level_precoarsening(0, edges)
    with pytest.raises(ValueError, match="edge_index cannot be None"):
        pooler.precoarsening()


def test_order_of_nodes_in_the_batch_does_not_matter():
    edges, batch = batch_of_graphs(2)
    mixed = batch[torch.randperm(25, generator=torch.Generator().manual_seed(0))]
    places = torch.cat([(mixed == g).nonzero().squeeze(1) for g in range(4)])  # node -> its new id
    pooler = get_pooler("graclus")
    plain = pooler(x=torch.rand(25, 2), adj=edges, batch=batch)
    moved = pooler(x=torch.rand(25, 2), adj=places[edges], batch=mixed)
    assert not torch.equal(mixed, batch)
    assert torch.equal(moved.so.cluster_index[places], plain.so.cluster_index)
    assert torch.equal(moved.edge_index, plain.edge_index) and torch.equal(moved.batch, plain.batch)


def test_gradients_and_replaced_stages_use_torch():
    weight = torch.ones(6, requires_grad=True)
    pooler = get_pooler("graclus", order="index")
    out = pooler(x=torch.rand(4, 2), adj=PATH, edge_weight=weight)
    out.edge_weight.sum().backward()
    assert weight.grad.tolist() == [0, 0, 1, 1, 0, 0]
    with torch.no_grad():
        assert pooler(x=torch.rand(4, 2), adj=PATH, edge_weight=weight).edge_weight.tolist() == [1, 1]
    pooler.connector.remove_self_loops = False
    assert pooler(x=torch.rand(4, 2), adj=PATH).edge_index.size(1) == 4
    assert pooler.precoarsening(PATH).edge_index.size(1) == 4
    pooler.connector = SparseConnect(remove_self_loops=True)
    assert pooler(x=torch.rand(4, 2), adj=PATH).edge_index.size(1) == 2
    pooler.selector = IdentitySelect()
    assert pooler.precoarsening(PATH).so.num_supernodes == 4
    assert len(pooler.multi_level_precoarsening(2, PATH)) == 2


def test_a_given_assignment_is_used():
    so = SelectOutput(cluster_index=torch.tensor([0, 1, 1, 0]))
    out = get_pooler("graclus")(x=torch.ones(4, 1), adj=PATH, so=so)
    assert out.so is so and out.x.flatten().tolist() == [2, 2] and out.edge_index.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("form", ["coo", "csr"])
def test_results_have_the_container_of_the_input(form):
    adj = torch.sparse_coo_tensor(PATH, torch.ones(6), (4, 4), check_invariants=False).coalesce()
    adj = adj.to_sparse_csr() if form == "csr" else adj
    pooler = get_pooler("graclus", order="index")
    out = pooler(x=torch.ones(4, 1), adj=adj)
    assert out.edge_index.layout == adj.layout and out.edge_weight is None
    level = pooler.multi_level_precoarsening(2, adj)[1]
    assert level.edge_index.layout == adj.layout and level.so.num_supernodes == 1


def test_the_cache_detects_another_graph_and_releases_arrays():
    pooler = get_pooler("graclus", cached=True)
    a = pooler(x=torch.rand(4, 2), adj=PATH)
    b = pooler(x=torch.rand(4, 2), adj=PATH)
    assert a.so.cluster_index is b.so.cluster_index and a.so._link is None and a.edge_index is b.edge_index
    assert pooler(x=torch.rand(6, 2), adj=PATH).so.num_nodes == 6
    plain = get_pooler("graclus")(x=torch.rand(4, 2), adj=PATH)
    assert torch.equal(plain.edge_index, a.edge_index)


def test_copies_use_the_engine():
    for twin in (copy.deepcopy(get_pooler("graclus")), pickle.loads(pickle.dumps(get_pooler("graclus")))):
        assert twin._runs_by_engine()
        assert next(iter(twin.children())) is twin.selector and len(list(twin.children())) == 4


def test_generic_methods_and_selectors():
    pooler = LevelPooling("graclus", {"order": "index"}, seed=3)
    assert pooler.seed == 3 and pooler(x=torch.ones(4, 1), adj=PATH).so.cluster_index.tolist() == [0, 0, 1, 1]
    assert repr(LevelSelect("graclus")) == "LevelSelect(method=graclus, seed=0, s_inv_op=transpose)"
    with pytest.raises(ValueError, match="edge_index cannot be None"):
        LevelSelect("graclus")()
    with pytest.raises(ValueError, match=r"Unknown parameter of graclus 'ordr'\. Did you mean 'order'"):
        LevelPooling("graclus", {"ordr": "index"})
