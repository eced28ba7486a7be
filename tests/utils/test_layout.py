"""Dense and segment views give the same results."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tgp.utils.layout import DenseView, SegmentView


def both(sizes, seed, weighted=True, shuffle=False):
    """Return a padded and a flat view of the same graphs; ``shuffle`` permutes nodes and edges."""
    g = torch.Generator().manual_seed(seed)
    width, k, count = max([*sizes, 1]), 3, len(sizes)
    mask = torch.arange(width) < torch.tensor(sizes).unsqueeze(1)
    adj = torch.randint(0, 3, (count, width, width), generator=g).double()
    adj = adj * mask.unsqueeze(1) * mask.unsqueeze(2)
    adj = adj if weighted else (adj > 0).double()
    s = torch.rand(count, width, k, generator=g, dtype=torch.float64)
    dense = DenseView(s, adj, mask)
    batch = mask.nonzero()[:, 0]
    order = torch.randperm(len(batch), generator=g) if shuffle else torch.arange(len(batch))
    place = torch.full((count, width), -1)
    place[mask] = order.argsort()
    graph, row, col = adj.nonzero(as_tuple=True)
    edges = torch.stack([place[graph, row], place[graph, col]])
    mix = torch.randperm(edges.size(1), generator=g)
    weight = adj[graph, row, col][mix] if weighted else None
    return dense, SegmentView(s[mask][order], edges[:, mix], weight, batch[order], count)


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=4), st.integers(0, 10**6), st.booleans(), st.booleans()
)
def test_views_agree(sizes, seed, weighted, shuffle):
    dense, flat = both(sizes, seed, weighted, shuffle)
    for name in ("quad", "degree_quad", "volume", "column_sums", "gram", "coarse"):
        torch.testing.assert_close(getattr(flat, name)(), getattr(dense, name)(), msg=name)
    torch.testing.assert_close(flat.counts, dense.counts)
    torch.testing.assert_close(
        flat.sum(flat.propagate(flat.assignment_image)), dense.sum(dense.propagate(dense.assignment_image))
    )
    for view in (dense, flat):
        edges = view.entries()
        rows, graph = view.rows()
        inner = view.sum_entries(edges.weight * (rows[edges.source] * rows[edges.target]).sum(-1), edges)
        torch.testing.assert_close(inner, view.quad())
        assert torch.equal(graph[edges.source], edges.graph)
        padded, mask = view.padded()
        assert mask.sum() == sum(sizes)
        torch.testing.assert_close(padded[mask].sum(0), rows.sum(0))
        spread = view.spread(view.counts.unsqueeze(-1)) * torch.ones_like(view.s)
        torch.testing.assert_close(view.sum(spread)[:, 0], view.counts**2)


def test_degrees_are_out_degrees_and_vectors_propagate():
    adj = torch.tensor([[0.0, 2.0], [0.0, 0.0]])
    s = torch.eye(2)
    dense = DenseView(s, adj)
    flat = SegmentView(s, torch.tensor([[0], [1]]), torch.tensor([[2.0]]))
    assert dense.degree[0].tolist() == flat.degree.tolist() == [2, 0]
    assert dense.propagate(torch.ones(1, 2))[0].tolist() == flat.propagate(torch.ones(2)).tolist() == [2, 0]
    assert dense.k == flat.k == 2


def test_views_without_adjacency_raise_errors():
    for view in (DenseView(torch.rand(1, 2, 2)), SegmentView(torch.rand(2, 2))):
        assert view.gram().shape == (1, 2, 2)
        with pytest.raises(ValueError, match=r"expected an .* for this formula"):
            view.quad()
    with pytest.raises(ValueError, match="adj must have shape"):
        DenseView(torch.rand(1, 2, 2), torch.rand(1, 3, 3))
    with pytest.raises(ValueError, match=r"s must have shape \[N, K\]"):
        SegmentView(torch.rand(1, 2, 2))
