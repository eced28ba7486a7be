"""The padded and the flat layout give the same losses. Losses are finite and gradients correct."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.utils.formulas import FORMULAS
from tgp.utils.layout import DenseView, SegmentView


def both_views(sizes, k, seed, density=0.5):
    """Return a padded and a flat view of random weighted graphs of these sizes."""
    g = torch.Generator().manual_seed(seed)
    widest = max([*sizes, 1])
    s = torch.zeros(len(sizes), widest, k, dtype=torch.float64)
    adj = torch.zeros(len(sizes), widest, widest, dtype=torch.float64)
    mask = torch.zeros(len(sizes), widest, dtype=torch.bool)
    for i, n in enumerate(sizes):
        s[i, :n] = torch.rand(n, k, generator=g, dtype=torch.float64).softmax(-1)
        draw = torch.rand(n, n, generator=g, dtype=torch.float64)
        upper = (draw * (draw < density)).triu(1)
        adj[i, :n, :n] = upper + upper.t()
        mask[i, :n] = True
    graph, row, col = adj.nonzero(as_tuple=True)
    start = torch.tensor([0, *torch.tensor(sizes).cumsum(0).tolist()[:-1]]) if sizes else torch.zeros(0)
    edges = torch.stack([start[graph] + row, start[graph] + col])
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    shuffle = torch.randperm(edges.size(1), generator=g)
    flat = SegmentView(s[mask], edges[:, shuffle], adj[graph, row, col][shuffle], batch, len(sizes))
    return DenseView(s, adj, mask), flat


@pytest.mark.parametrize("name", FORMULAS)
@given(
    sizes=st.lists(st.integers(0, 7), min_size=1, max_size=5), k=st.integers(1, 4), seed=st.integers(0, 99)
)
def test_layouts_agree(name, sizes, k, seed):
    dense, flat = both_views(sizes, k, seed)
    a, b = FORMULAS[name](dense), FORMULAS[name](flat)
    assert torch.isfinite(a).all()
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def with_assignment(view, s):
    """Return a view of the same graphs with another assignment."""
    if isinstance(view, DenseView):
        return DenseView(s, view.adj, view.mask)
    return SegmentView(s, view.edge_index, view.edge_weight, view.batch, view.num_graphs)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("layout", [0, 1])
def test_all_zero_assignment_is_finite(name, layout):
    view = both_views([3, 0, 4], 2, 0)[layout]
    zeros = torch.zeros_like(view.s).requires_grad_()
    value = FORMULAS[name](with_assignment(view, zeros)).sum()
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(zeros.grad).all()


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("layout", [0, 1])
def test_gradcheck(name, layout):
    view = both_views([4, 3], 3, 1)[layout]
    # Away from the kinks of sorting and absolute values.
    noise = torch.rand(view.s.shape, generator=torch.Generator().manual_seed(5), dtype=view.s.dtype)
    start = (view.s + 0.01 * noise).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda s: FORMULAS[name](with_assignment(view, s)).sum(), (start,), eps=1e-7, atol=1e-5
    )


def test_skewed_sizes():
    """Test one large graph among many small ones."""
    dense, flat = both_views([1] * 20 + [40], 3, 3)
    torch.testing.assert_close(dense.gram(), flat.gram())


@pytest.mark.parametrize("name", FORMULAS)
def test_no_nodes_at_all(name):
    """Test that losses and gradients without any nodes are finite in both layouts."""
    edges = torch.empty(2, 0, dtype=torch.long)
    for size in ((0, 3), (1, 0, 3), (0, 0, 3)):
        s = torch.zeros(size, requires_grad=True)
        if len(size) == 2:
            view = SegmentView(s, edges)
        else:
            view = DenseView(s, torch.zeros(size[0], 0, 0))
        value = FORMULAS[name](view).sum()
        assert torch.isfinite(value)
        if value.requires_grad:
            value.backward()
    batch = torch.empty(0, dtype=torch.long)
    assert torch.isfinite(FORMULAS[name](SegmentView(torch.zeros(0, 3), edges, None, batch, 2))).all()
