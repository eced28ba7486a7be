"""Code with dense output does not read values on the host.

Meta tensors have no values: every operation that would synchronize an accelerator (``bool``, ``int``, ``item``,
``nonzero``, ``unique``, ``bincount``, masks as indices) raises an error for them. Values of the same code are compared on
the CPU, where :func:`on_host` is patched to return False.
"""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.utils.formulas import FORMULAS
from tgp.utils import layout, losses, ops
from tgp.utils.layout import DenseView, SegmentView
from tgp.utils.ops import adjacency, assign, batching, connectivity, products
from tgp.utils.ops.batching import GraphLayout
from tgp.utils.ops.products import EdgeMatrix, max_over_edges


@pytest.fixture
def off_host(monkeypatch):
    """Let the library use the code for accelerators."""
    for module in (layout, adjacency, batching, connectivity, products):
        monkeypatch.setattr(module, "on_host", lambda *tensors: False)


def graphs():
    """Return two graphs with unsorted nodes, parallel edges, and weights that sum to 0."""
    torch.manual_seed(0)
    batch = torch.tensor([1, 0, 0, 1, 1, 0, 1])
    edges = torch.randint(0, 7, (2, 40))
    edges = edges[:, batch[edges[0]] == batch[edges[1]]]
    edges = torch.cat([edges, torch.tensor([[1, 1], [5, 5]])], dim=1)
    weight = torch.rand(edges.size(1), dtype=torch.float64)
    gone = (edges[0] == 1) & (edges[1] == 5)
    weight[gone] = 0.0
    weight[-2:] = torch.tensor([1.0, -1.0])
    return torch.rand(7, 3, dtype=torch.float64).softmax(-1), edges, weight, batch


def flat_view(s, edges, weight, batch, padded=None):
    places = GraphLayout(batch, s.size(0), 2, max_num_nodes=5)
    return SegmentView(s, edges, weight, batch, layout=places, padded=padded)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("of_padded", [True, False])
def test_flat_losses_read_nothing(name, weighted, of_padded):
    s, edges, weight, batch = (part.to("meta") for part in graphs())
    padded = torch.empty(2, 5, 3, dtype=s.dtype, device="meta", requires_grad=True) if of_padded else None
    view = flat_view(s.requires_grad_(), edges, weight if weighted else None, batch, padded)
    FORMULAS[name](view).sum().backward()
    assert view.coarse().device.type == "meta"


@pytest.mark.parametrize("name", FORMULAS)
def test_padded_losses_read_nothing(name):
    s = torch.empty(2, 5, 3, device="meta", requires_grad=True)
    mask = torch.empty(2, 5, dtype=torch.bool, device="meta")
    for real in (mask, None):
        FORMULAS[name](DenseView(s, torch.empty(2, 5, 5, device="meta"), real)).sum().backward()


def test_layouts_and_products_read_nothing():
    x, edges, weight, batch = (part.to("meta") for part in graphs())
    places = GraphLayout(batch, 7, 2, max_num_nodes=5)
    assert places.pad(x).shape == (2, 5, 3) and places.unpad(places.pad(x)).shape == (7, 3)
    assert places.mask().shape == (2, 5) and places.sum(x).shape == (2, 3)
    assert places.expand(x, places.matmul(x, x)).shape == (7, 3)
    matrix = EdgeMatrix(edges[0], edges[1], weight, 7)
    assert (matrix @ x).shape == (7, 3) and matrix.dots(x, x).shape == matrix.distances(
        x
    ).shape == weight.shape
    assert max_over_edges(x, edges[0], edges[1]).shape == (7, 3)
    for values in (weight, None):
        assert ops.weighted_degree(edges[0], values, 7).shape == (7,)
    assert ops.expand_compacted_rows(x, places.mask(), 10).shape == (10, 3)
    assert ops.get_mask_from_dense_s(x, batch, 2).shape == (2, 3)
    options = {"remove_self_loops": True, "degree_norm": True, "edge_weight_norm": True}
    assert ops.postprocess_adj_pool_dense(torch.empty(2, 3, 3, device="meta"), **options).shape == (2, 3, 3)
    assert ops.build_pooled_batch(2, 3, "meta").shape == (6,)
    assert losses.unbatched_orthogonality_loss(x).shape == ()


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("of_padded", [True, False])
def test_values_off_host(name, weighted, of_padded, off_host, monkeypatch):
    s, edges, weight, batch = graphs()
    weight = weight if weighted else None

    def value():
        padded = GraphLayout(batch, 7, 2, 5).pad(s) if of_padded else None
        return FORMULAS[name](flat_view(s, edges, weight, batch, padded))

    mine = value()
    monkeypatch.undo()
    torch.testing.assert_close(mine, value())


@pytest.mark.parametrize("name", FORMULAS)
def test_padded_values_off_host(name, off_host, monkeypatch):
    s, edges, weight, batch = graphs()
    places = GraphLayout(batch, 7, 2)
    adj = torch.zeros(2, 4, 4, dtype=s.dtype).index_put(
        (batch[edges[0]], places.slot[edges[0]] % 4, places.slot[edges[1]] % 4), weight, accumulate=True
    )
    mine = FORMULAS[name](DenseView(places.pad(s), adj, places.mask()))
    monkeypatch.undo()
    torch.testing.assert_close(mine, FORMULAS[name](DenseView(places.pad(s), adj, places.mask())))


@given(st.integers(1, 30), st.integers(0, 60), st.integers(1, 4), st.integers(0, 5), st.integers(0, 999))
def test_assignments_off_host(nodes, edges, graphs, rounds, seed):
    """A fixed number of rounds gives the assignment of the rounds on the host."""
    torch.manual_seed(seed)
    index = torch.randint(0, nodes, (2, edges))
    batch = torch.randint(0, graphs, (nodes,)) if seed % 2 else None
    kept = torch.randperm(nodes)[: 1 + seed % nodes]
    expected = ops.get_assignments(kept, index, rounds, batch, nodes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assign, "on_host", lambda *tensors: False)
        assert torch.equal(ops.get_assignments(kept, index, rounds, batch, nodes), expected)


def test_helpers_off_host(off_host, monkeypatch):
    x, edges, weight, batch = graphs()
    pooled = torch.tensor([9, 4, 4, 9, 9, 4, 9])  # graph ids need not be small

    def everything():
        places = GraphLayout(batch, 7, 2, max_num_nodes=5)
        mask = torch.tensor([True, False, True, True, True, False, True, True, True])
        index, values = ops.postprocess_adj_pool_sparse(
            edges,
            weight,
            7,
            remove_self_loops=True,
            degree_norm=True,
            edge_weight_norm=True,
            batch_pooled=pooled,
        )
        return (
            places.counts,
            places.slot,
            places.mask(),
            places.pad(x),
            ops.expand_compacted_rows(x, mask, 9),
            ops.expand_compacted_rows(x[:0], torch.zeros(4, dtype=torch.bool), 4),
            ops.weighted_degree(edges[0], None, 7),
            index,
            values,
        )

    mine = everything()
    monkeypatch.undo()
    for a, b in zip(mine, everything(), strict=True):
        torch.testing.assert_close(a, b)
