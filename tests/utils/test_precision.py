"""Losses and sums of half-precision input equal those of float32; float64 stays float64.

The tolerance is 2 % of the scale of a loss, which is the largest value of its terms. Rounding the
assignment to bfloat16 alone changes each entry by up to 0.4 %.
"""

import pytest
import torch
from torch.distributions import Beta

from tests.utils.formulas import FORMULAS
from tgp.utils import losses, ops
from tgp.utils.layout import DenseView, SegmentView
from tgp.utils.ops.adjacency import coalesce_edges, delta_gcn_edges
from tgp.utils.ops.products import EdgeMatrix, max_over_edges, softmax_rows

HALF = [torch.bfloat16, torch.float16]
TOLERANCE = 2e-2
SCALES = {"link": None}
"""Scale of the value of a formula: 1, or ``None`` for its own size."""


def rings(graphs, size, k, seed=0):
    """Return rings of ``size`` nodes with a random assignment."""
    torch.manual_seed(seed)
    node = torch.arange(graphs * size)
    after = node + 1 - size * ((node + 1) % size == 0).long()
    edges = torch.cat([torch.stack([node, after]), torch.stack([after, node])], dim=1)
    return torch.randn(graphs * size, k).softmax(-1), edges, node // size


def close(value, expected, scale):
    assert torch.isfinite(value).all()
    limit = TOLERANCE * (expected.abs().max() if scale is None else max(scale, float(expected.abs().max())))
    assert (value.float() - expected.float()).abs().max() <= limit, (value, expected)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("graphs, size", [(2, 1000), (1, 2500), (1, 100_000)])
def test_flat_losses(name, dtype, graphs, size):
    formula, scale = FORMULAS[name], SCALES.get(name, 1.0)
    s, edges, batch = rings(graphs, size, 5)
    expected = formula(SegmentView(s, edges, None, batch, graphs))
    half = s.to(dtype).requires_grad_()
    value = formula(SegmentView(half, edges, torch.ones(edges.size(1), dtype=dtype), batch, graphs))
    assert value.dtype is torch.float32
    close(value, expected, scale)
    value.sum().backward()
    assert half.grad.dtype is dtype and torch.isfinite(half.grad).all()


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("dtype", HALF)
def test_padded_losses(name, dtype):
    formula, scale = FORMULAS[name], SCALES.get(name, 1.0)
    s, edges, _ = rings(1, 2500, 5)
    adj = torch.zeros(2500, 2500).index_put((edges[0], edges[1]), torch.tensor(1.0))
    expected = formula(DenseView(s, adj))
    half = s.to(dtype).requires_grad_()
    value = formula(DenseView(half, adj.to(dtype)))
    assert value.dtype is torch.float32
    close(value, expected, scale)
    value.sum().backward()
    assert torch.isfinite(half.grad).all()


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("padded", [True, False])
def test_autocast_changes_nothing(name, padded):
    formula = FORMULAS[name]
    s, edges, batch = rings(2, 500, 5)
    adj = torch.zeros(2, 500, 500)
    adj[batch[edges[0]], edges[0] % 500, edges[1] % 500] = 1.0

    def view():
        return DenseView(s.view(2, 500, 5), adj) if padded else SegmentView(s, edges, None, batch, 2)

    expected = formula(view())
    with torch.autocast("cpu", torch.bfloat16):
        value = formula(view())
        coarse = view().coarse()
    assert value.dtype is torch.float32 and coarse.dtype is torch.float32
    torch.testing.assert_close(value, expected)


@pytest.mark.parametrize("dtype", [*HALF, torch.float64])
def test_results_of_views_have_the_given_type(dtype):
    s, edges, batch = rings(2, 300, 4)
    x = torch.rand(600, 3).to(dtype)
    flat = SegmentView(s.to(dtype), edges, None, batch, 2)
    dense = DenseView(s.view(2, 300, 4).to(dtype), torch.ones(2, 300, 300, dtype=torch.bool))
    assert flat.coarse().dtype is dense.coarse().dtype is dtype
    assert flat.product(flat.s, x).dtype is dense.product(dense.s, x.view(2, 300, 3)).dtype is dtype
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    for view in (flat, dense):
        for value in (view.quad(), view.degree, view.counts, view.gram(), view.volume(), view.column_sums()):
            assert value.dtype is wide
    layout = flat.layout
    assert layout.sum(x).dtype is layout.matmul(x, x).dtype is dtype
    close(layout.sum(torch.ones(600, dtype=dtype)), torch.tensor([300.0, 300.0]), None)


@pytest.mark.parametrize("dtype", HALF)
def test_sums_over_edges(dtype):
    """Test a star with more edges than bfloat16 can count."""
    leaf = torch.arange(1, 5001)
    hub = torch.zeros_like(leaf)
    ones = torch.ones(5000, dtype=dtype)
    close(ops.weighted_degree(hub, ones, 5001)[0], torch.tensor(5000.0), None)
    close((EdgeMatrix(hub, leaf, ones, 5001) @ torch.ones(5001, dtype=dtype))[0], torch.tensor(5000.0), None)
    merged = coalesce_edges(torch.stack([hub, hub]), ones, 1)[1]
    close(merged, torch.tensor([5000.0]), None)
    values = torch.ones(5001, 1, dtype=dtype, requires_grad=True)
    max_over_edges(values, leaf, hub)[0].backward()
    close(values.grad.sum(), torch.tensor(1.0), None)
    _, weight = ops.postprocess_adj_pool_sparse(
        torch.stack([torch.cat([hub, leaf]), torch.cat([leaf, hub])]),
        torch.cat([ones, ones]),
        5001,
        degree_norm=True,
    )
    assert weight.dtype is dtype
    close(weight, torch.full((10_000,), 5000**-0.5), None)


@pytest.mark.parametrize("dtype", HALF)
def test_dense_post_processing(dtype):
    adj = 60_000 * torch.rand(2, 4, 4)  # the sum of a row is above the largest float16
    options = {"remove_self_loops": True, "degree_norm": True, "edge_weight_norm": True}
    expected = ops.postprocess_adj_pool_dense(adj, **options)
    value = ops.postprocess_adj_pool_dense(adj.to(dtype), **options)
    assert value.dtype is dtype
    close(value, expected, 1.0)


def test_divergence_of_beta_distributions():
    torch.manual_seed(0)
    a, b, c, d = (5 * torch.rand(4, 20, 3, dtype=torch.float64) + 0.05).unbind()
    a.requires_grad_()
    q, p = Beta(a, b), Beta(c, d)
    mine, other = losses.kl_loss(q, p), torch.distributions.kl_divergence(q, p).sum()
    torch.testing.assert_close(mine, other)
    torch.testing.assert_close(torch.autograd.grad(mine, a), torch.autograd.grad(other, a))


@pytest.mark.parametrize("dtype", HALF)
def test_losses_of_bnpool(dtype):
    torch.manual_seed(0)
    alpha, beta = 3 * torch.rand(2, 2000, 4) + 0.1, 3 * torch.rand(2, 2000, 4) + 0.1
    one = torch.ones(4)

    def kl(kind, **where):
        return losses.kl_loss(
            Beta(alpha.to(kind), beta.to(kind), validate_args=False),
            Beta(one.to(kind), one.to(kind)),
            **where,
        )

    mask = torch.rand(2, 2000) < 0.7
    value = kl(dtype, mask=mask)
    assert value.dtype is torch.float32
    close(value, kl(torch.float32, mask=mask), None)
    logits, labels = torch.randn(70_000), torch.rand(70_000) < 0.3
    expected, count = losses.sparse_bce_reconstruction_loss(logits, labels)
    value, half_count = losses.sparse_bce_reconstruction_loss(logits.to(dtype), labels)
    assert float(half_count) == float(count) == 70_000
    close(value, expected, None)
    adj = (torch.rand(1, 300, 300) < 0.1).float()
    rec = torch.randn(1, 300, 300)
    close(
        losses.weighted_bce_reconstruction_loss(rec.to(dtype), adj.to(dtype)),
        losses.weighted_bce_reconstruction_loss(rec, adj),
        None,
    )
    K = torch.randn(4, 4)
    close(
        losses.cluster_connectivity_prior_loss(K.to(dtype), 10.0, 1.0, torch.tensor([9.0e6, 4.0e6])),
        losses.cluster_connectivity_prior_loss(K, 10.0, 1.0, torch.tensor([9.0e6, 4.0e6])),
        None,
    )
    s = torch.rand(70_000, 3).softmax(-1)
    close(losses.unbatched_entropy_loss(s.to(dtype)), losses.unbatched_entropy_loss(s), None)


@pytest.mark.parametrize("dtype", HALF)
def test_inverse_has_the_type_of_the_matrix(dtype):
    s = torch.rand(6, 2)
    close(ops.pseudo_inverse(s.to(dtype)), ops.pseudo_inverse(s), None)
    assert ops.pseudo_inverse(s.to(dtype)).dtype is dtype
    hard = torch.sparse_coo_tensor(
        torch.stack([torch.arange(2000), torch.arange(2000) % 2]),
        torch.ones(2000),
        (2000, 2),
        check_invariants=True,
    )
    inverse = ops.pseudo_inverse(hard.to(dtype))
    assert inverse.dtype is dtype
    close(inverse.to_dense(), torch.linalg.pinv(hard.to_dense()), None)


def test_float64_without_weights():
    edges = torch.tensor([[0, 1, 1, 2, 2], [1, 0, 2, 1, 0]])
    assert ops.connectivity_to_torch_coo(edges, dtype=torch.float64).dtype is torch.float64
    assert ops.connectivity_to_torch_coo(edges).dtype is torch.float32
    exact = delta_gcn_edges(edges, torch.ones(5, dtype=torch.float64), 2.0, 3)[2]
    torch.testing.assert_close(
        delta_gcn_edges(edges, None, 2.0, 3, dtype=torch.float64)[2], exact, rtol=0, atol=0
    )
    assert ops.delta_gcn_matrix(edges, dtype=torch.float64)[1].dtype is torch.float64
    _, weight = ops.postprocess_adj_pool_sparse(edges, None, 3, degree_norm=True, dtype=torch.float64)
    assert weight.dtype is torch.float64
    view = SegmentView(torch.rand(3, 2, dtype=torch.float64), edges)
    for formula in FORMULAS.values():
        assert formula(view).dtype is torch.float64


@pytest.mark.parametrize("kind", [torch.bool, torch.int64, torch.int32])
def test_whole_numbers_as_weights(kind):
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    weight, s = torch.ones(4).to(kind), torch.rand(3, 2).softmax(-1)
    for loss in (losses.sparse_mincut_loss, losses.sparse_spectral_loss, losses.sparse_totvar_loss):
        torch.testing.assert_close(loss(edges, s, weight), loss(edges, s, torch.ones(4)))
    torch.testing.assert_close(
        losses.sparse_link_pred_loss(s, edges, weight), losses.sparse_link_pred_loss(s, edges)
    )
    assert ops.weighted_degree(edges[0], weight, 3).tolist() == [1, 2, 1]
    for function in (
        ops.delta_gcn_matrix,
        lambda e, w: ops.postprocess_adj_pool_sparse(e, w, 3, degree_norm=True),
    ):
        torch.testing.assert_close(function(edges, weight)[1], function(edges, torch.ones(4))[1])
    assert ops.real_weights(weight, torch.float64).dtype is torch.float64
    dense = torch.zeros(3, 3, dtype=kind).index_put((edges[0], edges[1]), weight)
    torch.testing.assert_close(losses.totvar_loss(s, dense), losses.sparse_totvar_loss(edges, s))


def test_softmax_under_autocast_is_float32():
    x = torch.randn(4, 3).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        assert softmax_rows(x).dtype is torch.float32
    assert softmax_rows(x).dtype is torch.bfloat16
