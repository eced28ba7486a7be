"""Functions of padded poolers compile to one graph. Compiled flat losses have the values of eager mode."""

import pytest
import torch
from torch.distributions import Beta

from tests.utils.formulas import FORMULAS
from tgp.utils import losses, ops
from tgp.utils.layout import DenseView, SegmentView
from tgp.utils.losses import balance, cut
from tgp.utils.ops.batching import GraphLayout
from tgp.utils.ops.products import max_over_edges, softmax_rows


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def padded_graphs(seed=0, graphs=2, size=5, k=3):
    torch.manual_seed(seed)
    mask = torch.arange(size) < torch.randint(2, size + 1, (graphs, 1))
    adj = torch.rand(graphs, size, size) * mask.unsqueeze(1) * mask.unsqueeze(2)
    return torch.randn(graphs, size, k), adj + adj.mT, mask


def flat_graphs(seed=0):
    torch.manual_seed(seed)
    batch = torch.tensor([0, 0, 0, 1, 1, 1, 1])
    edges = torch.randint(0, 7, (2, 30))
    edges = edges[:, batch[edges[0]] == batch[edges[1]]]
    return torch.randn(7, 3), edges, torch.rand(edges.size(1)), batch


def same_as_eager(function, *inputs):
    """Compare values and gradients of the first input."""
    results = []
    for call in (function, torch.compile(function, backend="aot_eager", fullgraph=True)):
        start = inputs[0].clone().requires_grad_()
        value = call(start, *inputs[1:])
        results.append((value.detach(), torch.autograd.grad(value.sum(), start)[0]))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", FORMULAS)
def test_padded_losses(name):
    def loss(logits, adj, mask):
        return FORMULAS[name](DenseView(logits.softmax(-1), adj, mask))

    same_as_eager(loss, *padded_graphs())


@pytest.mark.parametrize("name", FORMULAS)
def test_flat_losses(name):
    """Flat losses also compile to one graph if batch size and width are given."""

    def loss(logits, edges, weight, batch):
        layout = GraphLayout(batch, logits.size(0), 2, max_num_nodes=4)
        return FORMULAS[name](SegmentView(logits.softmax(-1), edges, weight, batch, layout=layout))

    same_as_eager(loss, *flat_graphs())


def test_padded_pooling():
    """Test assignment, coarse graph and features of a padded pooler."""

    def pool(logits, adj, mask):
        view = DenseView(softmax_rows(logits), adj, mask)
        coarse = ops.postprocess_adj_pool_dense(
            view.coarse(), remove_self_loops=True, degree_norm=True, edge_weight_norm=True
        )
        return coarse.sum() + view.product(view.s, logits).sum() + ops.rank3_trace(coarse).sum()

    same_as_eager(pool, *padded_graphs())


def test_losses_of_bnpool(monkeypatch):
    # torch remembers the formula of the first call; a compiled model may be that call
    monkeypatch.setattr(torch.distributions.kl, "_KL_MEMOIZE", {})

    def loss(raw, adj, mask):
        a, b = raw.exp(), raw.exp().flip(-1)
        prior = Beta(torch.ones(3), torch.ones(3), validate_args=False)
        kl = losses.kl_loss(Beta(a, b, validate_args=False), prior, mask=mask)
        rec = losses.weighted_bce_reconstruction_loss(raw @ raw.mT, adj, mask)
        return kl + rec + losses.cluster_connectivity_prior_loss(raw[0], 1.0, 1.0)

    same_as_eager(loss, *padded_graphs())


def test_layouts_and_products():
    def everything(x, edges, weight, batch):
        layout = GraphLayout(batch, x.size(0), 2, max_num_nodes=5)
        padded = layout.pad(x)
        lifted = layout.expand(x, layout.matmul(x, x))
        rows = ops.expand_compacted_rows(x, layout.mask(), 10)
        degree = ops.weighted_degree(edges[0], weight, 7)
        top = max_over_edges(x, edges[0], edges[1])
        parts = (padded, layout.unpad(padded), layout.sum(x), lifted, rows, degree, top)
        return sum(part.square().sum() for part in parts)

    same_as_eager(everything, *flat_graphs())


def test_sizes_are_dynamic():
    """Graphs of other sizes cause at most one recompilation."""

    def loss(logits, adj, mask):
        view = DenseView(logits.softmax(-1), adj, mask)
        return cut.mincut(view).sum() + balance.orthogonality(view).sum()

    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(loss, backend=counter, fullgraph=True)
    for graphs, size in ((2, 5), (3, 7), (4, 9), (5, 11), (6, 6)):
        inputs = padded_graphs(0, graphs, size)
        torch.testing.assert_close(compiled(*inputs), loss(*inputs))
    assert counter.frame_count <= 2


def test_export():
    class Loss(torch.nn.Module):
        def forward(self, logits, adj, mask):
            view = DenseView(logits.softmax(-1), adj, mask)
            return tuple(FORMULAS[name](view) for name in FORMULAS)

    graphs, size = torch.export.Dim("graphs", min=2), torch.export.Dim("size", min=3)
    shapes = ({0: graphs, 1: size}, {0: graphs, 1: size, 2: size}, {0: graphs, 1: size})
    exported = torch.export.export(Loss(), padded_graphs(), dynamic_shapes=shapes).module()
    for inputs in (padded_graphs(), padded_graphs(1, 4, 8)):
        for mine, other in zip(exported(*inputs), Loss()(*inputs), strict=True):
            torch.testing.assert_close(mine, other)
