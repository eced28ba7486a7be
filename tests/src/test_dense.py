"""DenseSRCPooling: the four output modes agree, padded and flat."""

import pytest
import torch
from torch_geometric.utils import to_dense_adj

from tgp.connect import DenseConnect
from tgp.lift import BaseLift
from tgp.reduce import BaseReduce
from tgp.select import Select, SelectOutput
from tgp.src import DenseSRCPooling
from tgp.src.dense import LossTerm

K = 3


class Projection(Select):
    """Selector that returns the softmax of the first K features."""

    is_dense = True

    def __init__(self, batched):
        super().__init__()
        self.batched = batched

    def forward(self, x, mask=None, batch=None, **kwargs):
        s = x[..., :K].softmax(-1)
        if self.batched:
            return SelectOutput(s=s * mask.unsqueeze(-1), in_mask=mask)
        return SelectOutput(s=s, batch=batch)


class Toy(DenseSRCPooling):
    _loss_terms = (
        LossTerm("cut", lambda view: view.quad() / (view.degree_quad() + 1e-8), "cut_coeff"),
        LossTerm("size", lambda view, power: (view.column_sums() ** power).sum(-1), "size_coeff", ("power",)),
        LossTerm("never", lambda view: 1 / 0, "zero"),
    )
    cut_coeff, size_coeff, zero, power = 2.0, 0.5, 0.0, 2

    def __init__(self, batched=True, sparse_output=False, **kwargs):
        connector = DenseConnect(sparse_output=sparse_output and not batched)
        super().__init__(
            Projection(batched), BaseReduce(), BaseLift(), connector,
            adj_transpose=True, batched=batched, sparse_output=sparse_output, **kwargs,
        )  # fmt: skip


def graphs(directed=True, shuffle=True):
    """Return weighted graphs of 4, 0, 3 and 2 nodes, the last without edges, with unsorted ids and edges."""
    g = torch.Generator().manual_seed(3)
    batch = torch.tensor([0] * 4 + [2] * 3 + [3] * 2)
    edges = torch.tensor([[0, 1, 2, 2, 3, 4, 5, 5, 6], [1, 2, 0, 3, 1, 5, 4, 6, 5]])
    edges = edges if directed else torch.cat([edges, edges.flip(0)], dim=1)
    weight = torch.rand(edges.size(1), generator=g) + 0.5
    if not directed:
        weight = weight[:9].repeat(2)
    x = torch.randn(9, 4, generator=g)
    if shuffle:
        order, mix = torch.randperm(9, generator=g), torch.randperm(edges.size(1), generator=g)
        x, batch, edges, weight = x[order], batch[order], order.argsort()[edges][:, mix], weight[mix]
    return {"x": x, "adj": edges, "edge_weight": weight, "batch": batch}


@pytest.mark.parametrize("directed", [False, True])
def test_batched_and_unbatched_agree(directed):
    data = graphs(directed)
    padded, flat = Toy(True)(**data), Toy(False)(**data)
    assert padded.x.shape == (4, K, 4) and padded.edge_index.shape == (4, K, K) and padded.batch is None
    assert flat.batch.numel() == 4 * K and padded.so.s.shape == (4, 4, K) and flat.so.s.shape == (9, K)
    torch.testing.assert_close(padded.x, flat.x)
    torch.testing.assert_close(padded.edge_index, flat.edge_index)
    assert padded.loss.keys() == flat.loss.keys() == {"cut", "size", "never"}
    for name, value in padded.loss.items():
        torch.testing.assert_close(value, flat.loss[name], msg=name)
    assert torch.equal(padded.mask, flat.mask) and padded.mask.shape == (4, K)


@pytest.mark.parametrize("directed", [False, True])
def test_sparse_outputs_agree_with_dense_ones(directed):
    data = graphs(directed)
    dense = Toy(True)(**data)
    padded, flat = Toy(True, True)(**data), Toy(False, True)(**data)
    edges = torch.block_diag(*dense.edge_index.mT)
    torch.testing.assert_close(
        to_dense_adj(flat.edge_index, edge_attr=flat.edge_weight, max_num_nodes=12)[0], edges
    )
    torch.testing.assert_close(flat.x, dense.x.flatten(0, 1))
    valid = dense.mask.flatten()
    assert padded.x.size(0) == int(valid.sum()) == 9 and padded.batch.tolist() == [0, 0, 0, 2, 2, 2, 3, 3, 3]
    compact = to_dense_adj(padded.edge_index, edge_attr=padded.edge_weight, max_num_nodes=9)[0]
    torch.testing.assert_close(compact, edges[valid][:, valid])
    lifted = Toy(True, True)(x=padded.x, so=padded.so, lifting=True)
    assert lifted.shape == (4, 4, 4)
    assert Toy(False, True)(x=flat.x, so=flat.so, batch_pooled=flat.batch, lifting=True).shape == (9, 4)


@pytest.mark.parametrize("mode", [(True, False), (False, False), (False, True)])
def test_single_graph_with_trailing_isolated_node(mode):
    x, edges = torch.randn(5, 4), torch.tensor([[0, 1], [1, 0]])
    out = Toy(*mode)(x=x, adj=edges)
    assert out.so.num_nodes == 5
    assert out.x.shape == ((K, 4) if mode[1] else (1, K, 4))


def test_dense_adjacency_in_two_and_three_dimensions():
    x = torch.randn(4, 4)
    adj = (torch.rand(4, 4) > 0.5).float()
    adj = adj + adj.T
    flat, padded = Toy()(x=x, adj=adj), Toy()(x=x.unsqueeze(0), adj=adj.unsqueeze(0), mask=torch.ones(1, 4))
    torch.testing.assert_close(flat.edge_index, padded.edge_index)
    torch.testing.assert_close(flat.loss["cut"], padded.loss["cut"])
    unbatched = Toy(False)(x=x, adj=adj)
    torch.testing.assert_close(unbatched.edge_index, padded.edge_index)
    with pytest.raises(ValueError, match="edge_index cannot be None"):
        Toy()(x=x)


def test_losses_from_their_ingredients_and_batch_size():
    data = graphs()
    out = Toy(False)(**data, batch_size=6)
    assert out.x.shape == (6, K, 4) and out.mask.shape == (6, K) and out.batch.numel() == 6 * K
    assert Toy(True)(**data, batch_size=6).x.shape == (6, K, 4)
    flat = Toy(False).compute_sparse_loss(data["adj"], data["edge_weight"], out.so.s, data["batch"])
    torch.testing.assert_close(flat["cut"], Toy(True)(**data).loss["cut"])
    assert Toy().has_loss and not DenseSRCPooling().has_loss
    assert Toy().extra_repr_args() == {"batched": True, "cut_coeff": 2.0, "size_coeff": 0.5, "zero": 0.0}


def test_preprocessing_cache_is_keyed_and_readable():
    model = Toy(cache_preprocessing=True)
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    x = torch.randn(3, 4)
    model(x=x, adj=edges)
    kept = model.preprocessing_cache
    assert kept.shape == (1, 3, 3) and kept[0, 1, 0] == 1  # targets in rows
    model(x=x, adj=edges)
    assert model.preprocessing_cache is kept
    model(x=torch.randn(4, 4), adj=edges)
    assert model.preprocessing_cache.shape == (1, 4, 4)
    model.clear_cache()
    model(**graphs())
    assert model.preprocessing_cache is None


def test_preprocessing_matches_pyg_for_sorted_batches():
    data = graphs(shuffle=False)
    x, adj, mask = Toy().preprocessing(data["x"], data["adj"], data["edge_weight"], data["batch"])
    expected = to_dense_adj(data["adj"], data["batch"], data["edge_weight"]).mT
    torch.testing.assert_close(adj, expected)
    assert mask.sum(1).tolist() == [4, 0, 3, 2] and x.shape == (4, 4, 4)
    wide = Toy().preprocessing(data["x"], data["adj"], batch=data["batch"], max_num_nodes=7)
    assert wide[0].shape == (4, 7, 4) and wide[1].shape == (4, 7, 7)


def test_gradients_reach_features_and_weights():
    data = graphs()
    for mode in (True, False):
        x = data["x"].clone().requires_grad_()
        w = data["edge_weight"].clone().requires_grad_()
        out = Toy(mode)(x=x, adj=data["adj"], edge_weight=w, batch=data["batch"])
        (out.edge_index.sum() + out.loss["cut"]).backward()
        assert x.grad.isfinite().all() and w.grad.isfinite().all() and w.grad.abs().sum() > 0
