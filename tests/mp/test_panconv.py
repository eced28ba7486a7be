"""PANConv against a dense evaluation of its formula."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.nn import PANConv as PyGPANConv

from tgp import imports
from tgp.mp import PANConv
from tgp.poolers import PANPooling


def reference(layer, x, adj):
    """Features and M from a dense adjacency with targets in rows."""
    power = torch.eye(len(adj), dtype=x.dtype)
    total, stored, scale = torch.zeros_like(power), torch.zeros_like(power), 1.0
    for n in range(layer.filter_size + 1):
        power = power if n == 0 else power @ adj
        scale = scale * layer.weight[n]
        total, stored = total + scale * power, stored + (power != 0)
    norm = (stored > 0).sum(1).to(x.dtype).rsqrt()
    matrix = norm.unsqueeze(1) * total * norm.unsqueeze(0)
    return layer.lin(matrix @ x), matrix


@given(st.integers(1, 7), st.integers(0, 3), st.integers(0, 99))
def test_values_and_gradients(size, length, seed):
    torch.manual_seed(seed)
    edges = torch.randint(0, size, (2, 2 * size))  # parallel edges and loops included
    x = torch.randn(size, 3, dtype=torch.float64, requires_grad=True)
    layer = PANConv(3, 4, length).double()
    torch.nn.init.uniform_(layer.weight, 0.2, 0.9)
    adj = torch.zeros(size, size, dtype=torch.float64).index_put(
        (edges[1], edges[0]), torch.ones(2 * size, dtype=torch.float64), accumulate=True
    )
    expected, matrix = reference(layer, x, adj)
    mine, sparse = layer(x, edges)
    assert sparse.layout is torch.sparse_coo and sparse.is_coalesced()
    torch.testing.assert_close(mine, expected)
    torch.testing.assert_close(sparse.to_dense(), matrix)
    inputs = (x, layer.weight, layer.lin.weight)
    for a, b in zip(
        torch.autograd.grad((mine.square().sum() + sparse.to_dense().sum()), inputs),
        torch.autograd.grad((expected.square().sum() + matrix.sum()), inputs),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_matrices_have_targets_in_rows(layout):
    torch.manual_seed(0)
    edges, weight = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 1]]), torch.tensor([1.0, 2.0, 0.5, 1.0])
    dense = torch.zeros(3, 3).index_put((edges[1], edges[0]), weight)
    layer, x = PANConv(2, 2, 2), torch.randn(3, 2)
    out, matrix = layer(x, dense.to_sparse_coo() if layout == "coo" else dense.to_sparse_csr())
    expected, met = reference(layer, x, dense)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(matrix.to_dense(), met)
    assert matrix.layout is (torch.sparse_coo if layout == "coo" else torch.sparse_csr)


class StandIn:
    """Replacement for ``torch_sparse.SparseTensor`` with the methods that tgp uses."""

    def __init__(self, row, col, value=None, sparse_sizes=None):
        self.parts, self.shape = (row, col, value), sparse_sizes

    def coo(self):
        return self.parts

    def sizes(self):
        return list(self.shape)


def test_sparse_tensors(monkeypatch):
    """A ``SparseTensor`` gives a ``SparseTensor``. Its values are ignored."""
    monkeypatch.setattr(imports, "SparseTensor", StandIn)
    monkeypatch.setattr(imports, "HAS_TORCH_SPARSE", True)
    torch.manual_seed(0)
    row, col = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    layer, x = PANConv(2, 2, 2), torch.randn(3, 2)
    out, matrix = layer(x, StandIn(row, col, 7 * torch.ones(4), (3, 3)))
    expected, met = layer(x, torch.stack([col, row]))
    torch.testing.assert_close(out, expected)
    assert isinstance(matrix, StandIn)
    torch.testing.assert_close(matrix.parts[2], met.values())


def test_parameters_are_those_of_pyg():
    mine, other = PANConv(3, 4, 2), PyGPANConv(3, 4, 2)
    assert {k: v.shape for k, v in mine.state_dict().items()} == {
        k: v.shape for k, v in other.state_dict().items()
    }
    assert repr(mine) == repr(other)
    torch.manual_seed(1)
    mine.reset_parameters()
    torch.manual_seed(1)
    other.reset_parameters()
    mine.load_state_dict(other.state_dict())


def test_the_pooler_accepts_the_matrix():
    torch.manual_seed(0)
    edges = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    x, matrix = PANConv(3, 4, 2)(torch.randn(4, 3), edges)
    out = PANPooling(4)(x, matrix)
    assert out.x.shape == (2, 4)


def test_ids_out_of_range_are_refused():
    with pytest.raises(ValueError, match=r"edge_index .*\[0, 3\), got 3"):
        PANConv(2, 2, 1)(torch.rand(3, 2), torch.tensor([[0, 3], [1, 0]]))


def test_half_precision():
    torch.manual_seed(0)
    edges, x = torch.randint(0, 40, (2, 300)), torch.rand(40, 4)
    layer = PANConv(4, 4, 3)
    layer.lin = torch.nn.Identity()
    expected, matrix = layer(x, edges)
    for dtype in (torch.bfloat16, torch.float16):
        out, met = layer.to(dtype)(x.to(dtype), edges)
        assert out.dtype is dtype and met.dtype is dtype
        scale = expected.abs().max()
        assert (out.float() - expected).abs().max() <= 2e-2 * scale
        assert (met.to_dense().float() - matrix.to_dense()).abs().max() <= 2e-2 * matrix.values().abs().max()
