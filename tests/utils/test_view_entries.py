"""Quantiles and numbers of entries of a view are the same on the host and elsewhere."""

import pytest
import torch

from tgp.utils import layout as layouts
from tgp.utils.layout import DenseView, SegmentView
from tgp.utils.ops import batching


@pytest.fixture
def away_from_host(monkeypatch):
    for module in (layouts, batching):
        monkeypatch.setattr(module, "on_host", lambda *tensors: False)


def graphs():
    generator = torch.Generator().manual_seed(2)
    batch = torch.tensor([2, 0, 0, 2, 3, 0, 2, 2, 3])
    s = torch.rand(9, 4, generator=generator, dtype=torch.float64)
    edges = torch.tensor([[0, 3, 0, 1, 5, 1, 4, 8, 6], [3, 0, 3, 2, 1, 2, 8, 4, 6]])
    return s, edges, batch


def test_quantiles_without_padding(away_from_host):
    s, _, batch = graphs()
    view = SegmentView(s, batch=batch, batch_size=4)
    position = torch.tensor([1, 0, 2, 0])
    mine = view.column_quantile(position)
    assert "max_count" not in view.layout.__dict__
    for graph in (0, 2, 3):
        expected = s[batch == graph].sort(0, descending=True).values[position[graph]]
        assert torch.equal(mine[graph], expected)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("ordered", [True, False])
def test_parallel_edges_are_one_entry(weighted, ordered, request):
    s, edges, batch = graphs()
    weight = torch.tensor([1.0, 2.0, 3.0, 1.0, 0.0, -1.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    if ordered:
        order = torch.tensor([0, 1, 3, 6])
        edges, weight = edges[:, order], weight[order]
        edges = edges[:, (edges[0] * 9 + edges[1]).argsort()]
    weight = weight if weighted else None
    dense = torch.zeros(9, 9, dtype=torch.float64).index_put(
        tuple(edges),
        torch.ones(edges.size(1), dtype=torch.float64) if weight is None else weight,
        accumulate=True,
    )
    view = SegmentView(s, edges, weight, batch, 4)
    total, count = view.variation()
    gaps = dense * torch.cdist(s, s, p=1)
    for graph in range(4):
        rows = batch == graph
        assert count[graph] == (dense[rows] != 0).sum()
        torch.testing.assert_close(total[graph], gaps[rows].sum())
    request.getfixturevalue("away_from_host")
    torch.testing.assert_close(view.variation(), (total, count))
    single = DenseView(s, dense)
    torch.testing.assert_close(single.variation()[1], count.sum().view(1))
