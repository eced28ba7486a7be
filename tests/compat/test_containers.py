"""Sparse poolers return connectivity of the type of the input, and the same graph for every type."""

import importlib.util

import pytest
import torch
from torch_geometric.utils import to_dense_adj

from tgp.poolers import get_pooler
from tgp.poolers.table import POOLERS

PATH = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])
WEIGHT = torch.tensor([1.0, 1, 2, 2, 1, 1, 3, 3])
PARAMS = {"in_channels": 4, "ratio": 0.5, "k": 3, "scorer": "degree"}


def there(entry):
    return importlib.util.find_spec(entry.target.partition(":")[0]) is not None


SPARSE = [entry.alias for entry in POOLERS if not entry.traits["dense"] and there(entry)]


def matrix(form):
    coo = torch.sparse_coo_tensor(PATH, WEIGHT, (5, 5), check_invariants=False)
    if form == "uncoalesced":
        half = torch.sparse_coo_tensor(
            PATH.repeat(1, 2), WEIGHT.repeat(2) / 2, (5, 5), check_invariants=False
        )
        assert not half.is_coalesced()
        return half
    coo = coo.coalesce()
    return (
        {"coo": coo, "csr": coo.to_sparse_csr(), "csc": coo.to_sparse_csc()}[form] if form != "coo" else coo
    )


@pytest.mark.parametrize("form", ["coo", "uncoalesced", "csr", "csc"])
@pytest.mark.parametrize("alias", SPARSE)
def test_the_result_has_the_type_of_the_input(alias, form):
    x = torch.rand(5, 4, generator=torch.Generator().manual_seed(0))
    batch = torch.zeros(5, dtype=torch.long)
    torch.manual_seed(1)
    pooler = get_pooler(alias, **PARAMS).eval()
    plain = pooler(x=x, adj=PATH, edge_weight=WEIGHT, batch=batch)
    adj = matrix(form)
    out = pooler(x=x, adj=adj, batch=batch)
    assert out.edge_weight is None and out.edge_index.layout == adj.layout
    torch.testing.assert_close(out.x, plain.x)
    size = out.so.num_supernodes
    expected = to_dense_adj(plain.edge_index, edge_attr=plain.edge_weight, max_num_nodes=size)[0]
    torch.testing.assert_close(out.edge_index.to_dense(), expected)


@pytest.mark.parametrize("alias", SPARSE)
def test_int32_edges_are_accepted(alias):
    x, batch = torch.rand(5, 4), torch.zeros(5, dtype=torch.long)
    pooler = get_pooler(alias, **PARAMS).eval()
    wide = pooler(x=x, adj=PATH, edge_weight=WEIGHT, batch=batch)
    narrow = pooler(x=x, adj=PATH.int(), edge_weight=WEIGHT, batch=batch)
    assert torch.equal(wide.x, narrow.x) and torch.equal(wide.edge_index, narrow.edge_index.long())
