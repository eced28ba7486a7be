"""Any stage of a pooler can be replaced by another stage of the same kind."""

import importlib

import pytest
import torch
from torch_geometric.nn import GCNConv

from tgp.connect import SparseConnect
from tgp.lift import BaseLift
from tgp.poolers.table import POOLERS
from tgp.reduce import AggrReduce, BaseReduce, get_aggr
from tgp.testing.cases import IN_CHANNELS, Case
from tgp.testing.checks import mixed_batch


def importable(entry):
    """Return True if the module of a pooler exists."""
    module = entry.target.partition(":")[0]
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return False
    return True


CASES = [Case(entry.alias, entry) for entry in POOLERS if importable(entry)]
DENSE = [case for case in CASES if case.entry.traits["dense"]]
SPARSE = [case for case in CASES if not case.entry.traits["dense"] and case.alias != "nopool"]
"""All sparse poolers except the identity, which has no stages to replace."""
KEEPING = [case for case in SPARSE if case.alias in ("topk", "sag", "asap", "pan", "ndp")]
"""Poolers that keep some nodes and drop the others, as Kron reduction requires."""

AGGREGATIONS = {
    "sum": {},
    "mean": {},
    "max": {},
    "median": {},
    "lstm": {"in_channels": IN_CHANNELS},
    "set2set": {"in_channels": IN_CHANNELS, "processing_steps": 2},
}


@pytest.mark.parametrize("name", AGGREGATIONS)
@pytest.mark.parametrize("case", SPARSE, ids=str)
def test_any_aggregation_reduces_any_sparse_pooler(case, name):
    data, pooler = mixed_batch(), case.build()
    expected = data(pooler)
    pooler.reducer = AggrReduce(get_aggr(name, **AGGREGATIONS[name]))
    out = data(pooler)
    width = 2 * IN_CHANNELS if name == "set2set" else IN_CHANNELS
    assert out.x.shape == (expected.x.size(0), width)
    assert out.batch.tolist() == expected.batch.tolist()
    if name == "sum":
        torch.testing.assert_close(out.x, expected.x)
    GCNConv(width, 2)(out.x, out.edge_index, out.edge_weight).sum().backward()
    assert f"AggrReduce(aggr={pooler.reducer.aggr})" in repr(pooler)


@pytest.mark.parametrize("case", SPARSE, ids=str)
def test_a_replaced_reducer_can_be_trained_and_reset(case):
    data, pooler = mixed_batch(), case.build()
    pooler.reducer = AggrReduce(get_aggr("set2set", in_channels=IN_CHANNELS, processing_steps=2))
    assert pooler.is_trainable
    data(pooler).x.sum().backward()
    assert all(p.grad is not None for p in pooler.reducer.parameters())
    before = [p.clone() for p in pooler.reducer.parameters()]
    pooler.reset_parameters()
    assert any(
        not torch.equal(old, new) for old, new in zip(before, pooler.reducer.parameters(), strict=True)
    )


@pytest.mark.parametrize("case", DENSE, ids=str)
def test_dense_assignments_refuse_aggregations(case):
    data, pooler = mixed_batch(), case.build()
    pooler.reducer = AggrReduce(get_aggr("max"))
    with pytest.raises(ValueError, match="supports only sparse SelectOutput assignments"):
        data(pooler)


@pytest.mark.parametrize("case", KEEPING, ids=str)
def test_kron_connects_any_pooler_that_keeps_nodes(case):
    kron = pytest.importorskip("tgp.connect.kron_conn").KronConnect()
    data, pooler = mixed_batch(), case.build()
    expected = data(pooler)
    pooler.connector = kron
    out = data(pooler)
    torch.testing.assert_close(out.x, expected.x)
    assert out.edge_weight is not None and out.edge_weight.numel() == out.edge_index.size(1)
    assert (out.batch[out.edge_index[0]] == out.batch[out.edge_index[1]]).all(), "an edge left its graph"
    assert (out.edge_index[0] != out.edge_index[1]).all()
    GCNConv(IN_CHANNELS, 2)(out.x, out.edge_index, out.edge_weight).sum().backward()


def test_kron_numbers_supernodes_as_the_features_do():
    """Path 0-1-2-3 with 0 and 3 kept: one edge of weight 1/3 between the rows of 0 and 3."""
    kron = pytest.importorskip("tgp.connect.kron_conn").KronConnect()
    pooler = Case("topk", next(e for e in POOLERS if e.alias == "topk")).build(in_channels=1)
    pooler.connector = kron
    path = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])
    out = pooler(x=torch.tensor([[0.8], [0.1], [0.2], [0.9], [0.7]]), adj=path)
    pairs = map(tuple, out.edge_index.t().tolist())
    weights = dict(zip(pairs, [round(w, 5) for w in out.edge_weight.tolist()], strict=True))
    # Rank order: node 3 is row 0, node 0 is row 1, node 4 is row 2.
    assert weights == {(0, 1): 0.33333, (1, 0): 0.33333, (0, 2): 1.0, (2, 0): 1.0}


@pytest.mark.parametrize("case", SPARSE, ids=str)
def test_connectors_reducers_and_lifters_of_the_same_kind_can_be_replaced(case):
    data, pooler = mixed_batch(), case.build()
    pooler.connector = SparseConnect(reduce_op="max", remove_self_loops=False, degree_norm=True)
    pooler.reducer = BaseReduce()
    pooler.lifter = BaseLift("transpose", "mean")
    out = data(pooler)
    lifted = pooler(x=out.x, so=out.so, lifting=True, batch=data.batch, batch_pooled=out.batch)
    assert lifted.shape == data.x.shape
    assert out.edge_weight is not None and (out.edge_weight <= 1 + 1e-5).all()
