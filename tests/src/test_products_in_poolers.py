"""Products over edges inside poolers equal formulas with one row per edge."""

import pytest
import torch
from torch_geometric.nn import GraphConv

from tests.reference import trainable as reference
from tgp.poolers import SAGPooling, get_pooler
from tgp.poolers.asap import ASAPExecution
from tgp.src.inputs import PoolInputs
from tgp.utils.ops import add_remaining_self_loops
from tgp.utils.ops.products import EdgeMatrix


def random(*shape, grad=False):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=grad)


def graph(seed):
    torch.manual_seed(seed)
    edges = torch.randint(0, 20, (2, 70))
    return random(20, 4, grad=True), edges, torch.rand(70, dtype=torch.float64) + 0.1


def same_gradients(pooler, x, mine, expected):
    inputs = [x, *(p for p in pooler.parameters() if p.requires_grad)]
    scale = torch.randn_like(mine)
    gradients = [
        torch.autograd.grad((out * scale).sum(), inputs, allow_unused=True) for out in (mine, expected)
    ]
    for a, b in zip(*gradients, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("weighted", [True, False])
def test_asap(weighted):
    x, edges, weight = graph(0)
    pooler = get_pooler("asap", in_channels=4).double()
    edges, weight = add_remaining_self_loops(edges, weight if weighted else None, 1.0, 20)
    run = ASAPExecution(pooler, PoolInputs(x=x, adj=edges, edge_weight=weight))
    mine, alpha = run.inputs.x, run.attention
    expected, other = reference.asap_neighbourhoods(pooler, x, edges)
    torch.testing.assert_close(mine, expected)
    torch.testing.assert_close(alpha, other)
    same_gradients(pooler, x, mine, expected)
    fitness = pooler._fitness(x, edges, EdgeMatrix(edges[1], edges[0], weight, 20))
    torch.testing.assert_close(fitness, reference.asap_fitness(pooler, x, edges, weight))
    same_gradients(pooler, x, fitness, reference.asap_fitness(pooler, x, edges, weight))


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("options", [{}, {"flow": "target_to_source"}, {"aggr": "mean"}, {"bias": False}])
def test_sag(weighted, options):
    x, edges, weight = graph(4)
    weight = weight if weighted else None
    pooler = SAGPooling(4)
    pooler.gnn = GraphConv(4, 1, **options)
    pooler = pooler.double()
    mine = pooler._scored(PoolInputs(x=x, adj=edges, edge_weight=weight))
    expected = pooler.gnn(x, edges, edge_weight=weight)
    torch.testing.assert_close(mine, expected)
    same_gradients(pooler, x, mine, expected)


@pytest.mark.parametrize("weighted", [True, False])
def test_maxcut(weighted):
    x, edges, weight = graph(1)
    net = get_pooler("maxcut", in_channels=4, mp_units=[5, 3], mlp_units=[4]).double().selector.score_net
    weight = weight if weighted else None
    mine, expected = net(x, edges, weight), reference.maxcut_scores(net, x, edges, weight)
    torch.testing.assert_close(mine, expected)
    same_gradients(net, x, mine, expected)


def test_edge_contraction():
    x, edges, _ = graph(2)
    options = {"edge_score_method": lambda raw, *_: raw, "add_to_edge_score": 0.0}
    selector = get_pooler("ec", in_channels=4, **options).double().selector
    mine, expected = selector.scores(x, edges), reference.edge_contraction_raw(selector, x, edges)
    torch.testing.assert_close(mine, expected)
    same_gradients(selector, x, mine, expected)


@pytest.mark.parametrize("batched", [True, False])
def test_reconstruction_of_graphs_of_all_sizes(batched):
    torch.manual_seed(3)
    sizes = torch.tensor([1, 40, 7, 2, 33, 12])
    batch, start = torch.arange(6).repeat_interleave(sizes), sizes.cumsum(0) - sizes
    edges = torch.cat([torch.randint(0, n, (2, n)) + s for n, s in zip(sizes, start, strict=True)], dim=1)
    pooler = get_pooler("bnpool", in_channels=4, k=3, batched=batched).double().eval()
    out = pooler(x=random(len(batch), 4), adj=edges, batch=batch)
    rows = out.so.s[out.so.in_mask] if batched else out.so.s
    adj = reference.dense_matrix(*edges, None, len(batch))
    expected = [
        reference.reconstruction(rows[batch == g], pooler.K, adj[batch == g][:, batch == g]) for g in range(6)
    ]
    torch.testing.assert_close(out.loss["quality"], torch.stack(expected).mean())
