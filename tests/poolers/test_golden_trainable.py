"""Published values of the trainable poolers on a weighted path of four nodes."""

import pytest
import torch
from torch import tensor
from torch_geometric.nn import ASAPooling as PyGASAP
from torch_geometric.nn import DMoNPooling as PyGDMoN
from torch_geometric.nn import SAGPooling as PyGSAG
from torch_geometric.nn import TopKPooling as PyGTopK
from torch_geometric.nn import dense_diff_pool, dense_mincut_pool
from torch_geometric.utils import erdos_renyi_graph

from tgp.poolers import get_pooler
from tgp.poolers.bnpool import BNPool
from tgp.select import EdgeContractionSelect, LaPoolSelect
from tgp.select.edge_contraction_select import maximal_matching
from tgp.utils.layout import SegmentView

EDGES = tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
WEIGHT = tensor([1.0, 1, 2, 2, 1, 1])
X = tensor([[1.0, 0], [0, 2], [3, 1], [-1, 1]])
BATCH = torch.zeros(4, dtype=torch.long)


def close(actual, expected, atol=2e-6):
    torch.testing.assert_close(actual.detach(), tensor(expected), rtol=1e-5, atol=atol)


def filled(alias, value=0.1, **kwargs):
    """Return a pooler with all parameters set to one value."""
    pooler = get_pooler(alias, in_channels=2, **kwargs).eval()
    for parameter in pooler.parameters():
        parameter.data.fill_(value)
    return pooler


def test_sag():
    out = filled("sag")(X, EDGES, batch=BATCH)
    assert out.so.node_index.tolist() == [1, 2]
    close(out.so.weight, [0.664037, 0.604368])


def test_sag_reads_edge_weights():
    """A convolution with the argument ``edge_weight`` gets the weights."""
    weighted = filled("sag")(X, EDGES, WEIGHT, batch=BATCH)
    assert not torch.allclose(weighted.so.weight, filled("sag")(X, EDGES, batch=BATCH).so.weight)


def test_asap():
    out = filled("asap")(X, EDGES, WEIGHT, batch=BATCH)
    assert out.so.cluster.tolist() == [-1, 1, 0, -1]
    close(out.x, [[0.642761, 0.912621], [0.946004, 0.666979]])
    close(out.so.weight, [0.647276, 0.686732])
    out = filled("asap")(X, EDGES, batch=BATCH)
    assert out.so.node_index.tolist() == [0, 2]
    close(out.so.weight, [0.633949, 0.659750])
    assert out.edge_index.size(1) == 0


def test_asap_soft_connect_equals_the_formula_of_the_paper():
    pooler = get_pooler("asap", in_channels=2, soft_connect=True, remove_self_loops=False)
    out = pooler(X, EDGES, WEIGHT, batch=BATCH)
    loops = torch.arange(4).repeat(2, 1)
    adj = torch.zeros(4, 4).index_put((EDGES[0], EDGES[1]), WEIGHT) + torch.eye(4)
    s = torch.zeros(4, 4)
    s[torch.cat([EDGES[0], loops[0]]), torch.cat([EDGES[1], loops[1]])] = out.so.attention.detach()
    kept = out.so.node_index[out.so.cluster_index.argsort()]
    expected = s[:, kept].t() @ adj @ s[:, kept]
    actual = torch.zeros(2, 2).index_put((out.edge_index[0], out.edge_index[1]), out.edge_weight.detach())
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize(
    ("method", "scores", "clusters", "rows"),
    [
        ("softmax", [0.901312, 1.5, 1.074443, 1.098688, 1.5, 0.925557], [0, 0, 1, 1], [[1.5, 3], [3, 3]]),
        ("tanh", None, [0, 1, 1, 2], [[1, 0], [4.324126, 4.324126], [-1, 1]]),
        ("sigmoid", None, [0, 1, 1, 2], [[1, 0], [4.055859, 4.055859], [-1, 1]]),
    ],
)
def test_edge_contraction(method, scores, clusters, rows):
    score = getattr(EdgeContractionSelect, f"compute_edge_score_{method}")
    pooler = get_pooler("ec", in_channels=2, edge_score_method=score)
    pooler.selector.lin.weight.data = tensor([[0.1, 0.2, 0.3, 0.4]])
    pooler.selector.lin.bias.data = tensor([0.05])
    out = pooler(X, EDGES, WEIGHT, batch=BATCH)
    if scores:
        close(pooler.selector.scores(X, EDGES), scores)
        assert out.edge_weight.tolist() == [2, 2]
    assert out.so.cluster_index.tolist() == clusters
    close(out.x, [[float(v) for v in row] for row in rows], atol=1e-5)


def test_matching_ends_on_multigraphs():
    """The graph has more parallel edges than pairs of nodes, and self loops."""
    edges = tensor([[0, 1, 2, 3, 0, 2] * 5, [1, 0, 3, 2, 0, 1] * 5])
    match = maximal_matching(edges, 4)
    assert match.nonzero().squeeze(1).tolist() == [0, 2]


def test_maxcut():
    pooler = filled("maxcut", mp_units=[2], mlp_units=[2])
    out = pooler(X, EDGES, WEIGHT, batch=BATCH)
    close(out.so.scores, [0.124493, 0.127938, 0.123476, 0.127031])
    assert out.so.cluster_index.tolist() == [0, 0, 0, 1]
    close(out.x, [[0.494921, 0.379351], [-0.127031, 0.127031]])
    assert out.edge_weight.tolist() == [1, 1]
    close(out.loss["maxcut_loss"], 0.015802)


@pytest.mark.parametrize("kwargs", [{}, {"ratio": 1}, {"assign_all_nodes": False}, {"s_inv_op": "inverse"}])
def test_maxcut_without_batch(kwargs):
    """A single graph needs no batch vector, even if nodes have no edges."""
    x = torch.cat([X, torch.ones(2, 2)])
    pooler = get_pooler("maxcut", in_channels=2, **kwargs)
    out = pooler(x, EDGES, WEIGHT)
    assert out.so.num_nodes == 6
    assert out.x.size(0) == out.so.num_supernodes
    assert pooler(out.x, so=out.so, lifting=True).shape == x.shape
    assert out.so.s_inv_op == kwargs.get("s_inv_op", "transpose")


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize(
    ("reg", "first", "third"),
    [
        (False, [0.136975, 0.136975, 0.372337, 0.353712], [0.237755, 0.237755, 0.237755, 0.286736]),
        (True, [0.136975, 0.045658, 0.093084, 0.070742], [0.237755, 0.237755, 0.118877, 0.095579]),
    ],
)
def test_lap(batched, reg, first, third):
    x = tensor([[2.0, 0], [0, 1], [1, 1], [0, 1], [1, 0], [3, 1]])
    path = tensor([[0, 1, 1, 2, 2, 3, 3, 4, 4, 5], [1, 0, 2, 1, 3, 2, 4, 3, 5, 4]])
    adj = torch.zeros(6, 6).index_put((path[0], path[1]), torch.ones(10)) if batched else path
    s = LaPoolSelect(reg, batched)(x, adj).s.view(6, -1)
    close(s[0], first)
    close(s[2], third)
    assert s[[1, 3, 4, 5]].tolist() == torch.eye(4).tolist()


def test_mincut():
    pooler = get_pooler("mincut", in_channels=2, k=2)
    pooler.selector.mlp.lins[0].weight.data = torch.eye(2)
    pooler.selector.mlp.lins[0].bias.data.zero_()
    loss = pooler(X, EDGES, WEIGHT).loss
    close(loss["cut_loss"], -0.310904)
    close(loss["ortho_loss"], 0.342214)


def test_bnpool_quality():
    s = tensor([[0.9, 0.1], [0.2, 0.8], [0.75, 0.25], [0.6, 0.4], [0.3, 0.7]])
    edges = tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])
    view = SegmentView(s, edges, None, tensor([0, 0, 0, 1, 1]))
    pooler = BNPool(2, 2)
    quality = pooler._quality(view, exact=True)
    close(quality * view.counts.square(), [9.144802, 2.957585], atol=1e-5)
    close(quality.mean(), 0.877743)
    pooler.num_neg_samples = 50  # the graph has fewer non-edges, so all are sampled
    close(pooler._quality(view, exact=False).mean(), 0.877743)


@pytest.mark.parametrize(("name", "text"), [("alpha_DP", "alpha_DP"), ("K_var", "K_var"), ("eta", "eta")])
def test_bnpool_parameters(name, text):
    with pytest.raises(ValueError, match=f"{text} must be positive"):
        BNPool(2, 3, **{name: 0.0})


def graphs(seed):
    torch.manual_seed(seed)
    edges = [erdos_renyi_graph(n, 0.4) for n in (6, 9, 7)]
    edge_index = torch.cat([edges[0], edges[1] + 6, edges[2] + 15], dim=1)
    return torch.randn(22, 4), edge_index, torch.arange(3).repeat_interleave(tensor([6, 9, 7]))


@pytest.mark.parametrize("seed", range(5))
def test_pyg_agrees(seed):
    """PyG computes the same pooled graphs."""
    x, edge_index, batch = graphs(seed)
    theirs = PyGTopK(4)
    ours = get_pooler("topk", in_channels=4, remove_self_loops=False)
    ours.selector.weight.data = theirs.select.weight.data
    compare(ours(x, edge_index, batch=batch), theirs(x, edge_index, batch=batch))
    theirs = PyGSAG(4)
    theirs.select.weight.data.fill_(
        1.0
    )  # with a negative sign PyG would keep the nodes with the lowest scores
    ours = get_pooler("sag", in_channels=4)
    ours.gnn.load_state_dict(theirs.gnn.state_dict())
    compare(ours(x, edge_index, batch=batch), theirs(x, edge_index, batch=batch))
    theirs = PyGASAP(4)
    theirs.select.weight.data.fill_(1.0)
    ours = get_pooler("asap", in_channels=4)
    ours.lin.load_state_dict(theirs.lin.state_dict())
    ours.att.load_state_dict(theirs.att.state_dict())
    ours.select_scorer.load_state_dict(theirs.gnn_score.state_dict())
    out, reference = ours(x, edge_index, batch=batch), theirs(x, edge_index, batch=batch)
    torch.testing.assert_close(out.x, reference[0])  # PyG connects by SᵀAS, so only the features are equal


def compare(out, reference):
    x, edge_index, _, batch = reference[:4]
    torch.testing.assert_close(out.x, x)
    assert out.batch.tolist() == batch.tolist()
    assert sorted(out.edge_index.t().tolist()) == sorted(edge_index.t().tolist())


def test_pyg_dense_losses_agree():
    torch.manual_seed(0)
    x, adj = torch.randn(2, 6, 3), torch.randint(0, 2, (2, 6, 6)).float()
    adj = ((adj + adj.mT) > 0).float()
    logits = torch.randn(2, 6, 4)
    s = logits.softmax(-1)
    diff, mincut, dmon = (get_pooler(a, in_channels=3, k=4) for a in ("diff", "mincut", "dmon"))
    _, _, link, entropy = dense_diff_pool(x, adj, logits, normalize=False)
    ours = diff.compute_loss(adj, s)
    torch.testing.assert_close(ours["link_loss"], link)
    torch.testing.assert_close(ours["entropy_loss"], entropy, rtol=1e-4, atol=1e-5)
    _, _, cut, ortho = dense_mincut_pool(x, adj, logits)
    ours = mincut.compute_loss(adj, s)
    torch.testing.assert_close(ours["cut_loss"], cut)
    torch.testing.assert_close(ours["ortho_loss"], ortho)
    theirs = PyGDMoN(3, 4)
    s_pyg, _, _, spectral, _, cluster = theirs(x, adj)
    ours = dmon.compute_loss(adj, s_pyg)
    torch.testing.assert_close(ours["spectral_loss"], spectral)
    torch.testing.assert_close(ours["cluster_loss"], cluster)
