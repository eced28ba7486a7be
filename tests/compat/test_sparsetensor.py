"""``torch_sparse.SparseTensor`` is accepted if torch-sparse is installed. The tests use a replacement."""

import pytest
import torch

from tgp import imports
from tgp.poolers import get_pooler
from tgp.utils import ops

PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])


class StandIn:
    """Replacement for ``SparseTensor`` with the methods that tgp uses."""

    def __init__(self, row, col, value=None, sparse_sizes=None):
        self.parts, self.shape = (row, col, value), sparse_sizes

    def coo(self):
        return self.parts

    def sizes(self):
        return list(self.shape)

    def device(self):
        return self.parts[0].device


@pytest.fixture
def sparse_tensor(monkeypatch):
    monkeypatch.setattr(imports, "SparseTensor", StandIn)
    monkeypatch.setattr(imports, "HAS_TORCH_SPARSE", True)
    return StandIn(PATH[0], PATH[1], torch.arange(1.0, 7), (5, 5))


def test_conversions(sparse_tensor):
    index, weight = ops.connectivity_to_edge_index(sparse_tensor)
    assert index.tolist() == PATH.tolist() and weight.tolist() == [1, 2, 3, 4, 5, 6]
    assert ops.connectivity_to_torch_coo(sparse_tensor).shape == (5, 5)
    assert ops.connectivity_to_sparsetensor(sparse_tensor) is sparse_tensor
    assert ops.connectivity_to_sparsetensor(PATH, num_nodes=6).sizes() == [6, 6]
    loops, none = ops.add_remaining_self_loops(sparse_tensor)
    assert none is None and loops.coo()[0].numel() == 11


@pytest.mark.parametrize("alias", ["graclus", "topk", "nopool"])
def test_poolers_return_sparse_tensors(sparse_tensor, alias):
    pooler = get_pooler(alias, in_channels=1, order="index")
    out = pooler(x=torch.arange(5.0).unsqueeze(1), adj=sparse_tensor)
    assert isinstance(out.edge_index, StandIn) and out.edge_weight is None
    size = out.so.num_supernodes
    assert out.edge_index.sizes() == [size, size] and f"edge_index=[{size}, {size}]" in repr(out)


def test_precoarsening(sparse_tensor):
    level = get_pooler("graclus", order="index").precoarsening(sparse_tensor)
    assert level.so.num_nodes == 5 and level.edge_index.coo()[2].tolist() == [3, 4]
