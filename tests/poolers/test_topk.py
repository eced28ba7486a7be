"""``TopkPooling``: known values, and comparison with PyG's ``TopKPooling``."""

import pytest
import torch
from torch_geometric.nn import TopKPooling as PygTopK
from torch_geometric.utils import erdos_renyi_graph

from tgp.poolers import TopkPooling
from tgp.select import TopkSelect

PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
WEIGHT = torch.tensor([1.0, 1, 2, 2, 1, 1])
X = torch.tensor([[1.0, 0], [0, 2], [3, 1], [-1, 1]])
ZEROS = torch.zeros(4, dtype=torch.long)


def golden(p, **kwargs):
    pooler = TopkPooling(2, **kwargs)
    pooler.selector.weight.data = torch.tensor([p])
    return pooler


def test_golden_ratio():
    pooler = golden([3.0, 4.0])
    out = pooler(x=X, adj=PATH, edge_weight=WEIGHT, batch=ZEROS)
    torch.testing.assert_close(out.x, torch.tensor([[2.967082, 0.989027], [0, 1.843337]]))
    assert out.so.node_index.tolist() == [1, 2] and out.so.cluster_index.tolist() == [1, 0]
    assert out.edge_index.tolist() == [[1, 0], [0, 1]] and out.edge_weight.tolist() == [2, 2]
    lifted = pooler(x=out.x, so=out.so, lifting=True)
    torch.testing.assert_close(lifted, torch.tensor([[0, 0], [0, 1.698946], [2.934525, 0.978175], [0, 0]]))


def test_golden_min_score():
    out = golden([0.3, 0.4], min_score=0.2)(x=X, adj=PATH, batch=ZEROS)
    torch.testing.assert_close(out.so.weight, torch.tensor([0.266536, 0.439444]), atol=1e-6, rtol=0)
    assert out.so.node_index.tolist() == [1, 2] and out.so.cluster_index.tolist() == [0, 1]
    all_kept = golden([0.3, 0.4], min_score=0.01)(x=X, adj=PATH)
    assert all_kept.so.num_supernodes == 4


@pytest.mark.parametrize(
    "kwargs", [{"ratio": 0.5}, {"ratio": 0.3}, {"ratio": 3}, {"ratio": None, "min_score": 0.12}]
)
@pytest.mark.parametrize("seed", range(5))
def test_same_as_pyg(kwargs, seed):
    torch.manual_seed(seed)
    edges = torch.cat([erdos_renyi_graph(9, 0.4), erdos_renyi_graph(6, 0.5) + 9], dim=1)
    batch = torch.tensor([0] * 9 + [1] * 6)
    x, weight = torch.randn(15, 5), torch.rand(edges.size(1))
    theirs = PygTopK(5, **{**kwargs, "ratio": kwargs["ratio"] or 0.5}, multiplier=1.7)
    ours = TopkPooling(5, **{**kwargs, "ratio": kwargs["ratio"] or 0.5}, multiplier=1.7)
    ours.selector.load_state_dict(theirs.select.state_dict())
    out = ours(x=x, adj=edges, edge_weight=weight, batch=batch)
    px, pe, pw, pb, perm, _ = theirs(x, edges, weight, batch)
    torch.testing.assert_close(out.x, px)
    assert torch.equal(out.edge_index, pe) and torch.equal(out.edge_weight, pw) and torch.equal(out.batch, pb)
    assert torch.equal(out.so.node_index[out.so.cluster_index.argsort()], perm)


@pytest.mark.parametrize(
    ("ratio", "count"), [(1.0, 4), (1, 1), (0.5, 2), (0.0, 0), (10, 4), (2, 2), (0.3, 2), (1.5, 1)]
)
def test_ratio(ratio, count):
    assert TopkSelect(ratio=ratio)(torch.rand(4)).num_supernodes == count


def test_among_equal_scores_the_smaller_id_is_kept():
    batch = torch.tensor([1, 0, 1, 0, 1, 0])
    so = TopkSelect(ratio=2)(torch.ones(6), batch=batch)
    assert so.node_index.tolist() == [0, 1, 2, 3] and so.cluster_index.tolist() == [2, 0, 3, 1]
    assert TopkSelect(ratio=0.5)(torch.arange(1.0, 6)).node_index.tolist() == [2, 3, 4]


def test_one_dimensional_features_attention_and_dtype():
    out = TopkPooling(1)(x=torch.tensor([1.0, 4, 2, 3]), adj=PATH)
    assert out.x.shape == (2, 1) and out.so.node_index.tolist() == [1, 3]
    assert not TopkPooling(1).is_trainable and TopkPooling(2).is_trainable
    by_attention = golden([1.0, 0.0])(x=torch.ones(4, 5), adj=PATH, attn=X)
    assert by_attention.so.node_index.tolist() == [0, 2] and by_attention.x.shape == (2, 5)
    double = golden([1.0, 0.0])(x=X.double(), adj=PATH, edge_weight=WEIGHT.double())
    assert double.x.dtype == double.edge_weight.dtype == torch.float64


def test_inverse_lift_returns_the_rows_and_gradients_reach_the_projection():
    pooler = golden([3.0, 4.0], lift="inverse")
    out = pooler(x=X, adj=PATH)
    torch.testing.assert_close(pooler(x=out.x, so=out.so, lifting=True)[[1, 2]], X[[1, 2]])
    out.x.sum().backward()
    assert pooler.selector.weight.grad.abs().sum() > 0
    before = pooler.selector.weight.clone()
    pooler.reset_parameters()
    assert not torch.equal(before, pooler.selector.weight) and "multiplier=1.0" in repr(pooler)


def test_errors():
    with pytest.raises(ValueError, match="'ratio' and 'min_score'"):
        TopkPooling(2, ratio=None)
    with pytest.raises(AssertionError, match="one score per node"):
        TopkSelect()(torch.rand(4, 2))
    with pytest.raises(NotImplementedError):
        TopkPooling(2)(x=X)
