"""Error messages contain the key phrases of tgp 1.0.2, because user code may match them."""

import re

import pytest
import torch
from torch_geometric.data import Data

from tgp.data import PreCoarsening
from tgp.lift import BaseLift
from tgp.poolers import get_pooler
from tgp.reduce import AggrReduce, BaseReduce, GlobalReduce, get_aggr
from tgp.reduce.get_aggr import resolve_reduce_op
from tgp.select import SelectOutput

X = torch.rand(3, 4)
BATCH = torch.tensor([0, 0, 0, 1, 1, 1])
EDGES = torch.tensor([[0, 1, 2], [1, 2, 0]])


def hard():
    return SelectOutput(cluster_index=torch.tensor([0, 0, 1]), num_nodes=3, num_supernodes=2)


def dense():
    return SelectOutput(s=torch.softmax(torch.rand(6, 2), -1))


CASES = [
    (
        lambda: BaseReduce()(X, hard(), return_batched=True),
        ValueError,
        "return_batched=True is only supported for dense assignment matrices",
    ),
    (
        lambda: AggrReduce(get_aggr("sum"))(torch.rand(6, 4), dense()),
        ValueError,
        "AggrReduce supports only sparse SelectOutput assignments",
    ),
    (lambda: AggrReduce("sum"), TypeError, "aggr must be a PyG Aggregation, got"),
    (
        lambda: AggrReduce(get_aggr("sum"))(X[:, 0]),
        ValueError,
        "Readout mode expects x to be 2D [N, F] or 3D [B, N, F], got ndim=1",
    ),
    (lambda: get_aggr("nope"), ValueError, "Unknown aggregator alias: 'nope'"),
    (
        lambda: resolve_reduce_op(3),
        TypeError,
        "reduce_op must be a string alias or a PyG Aggregation instance, got",
    ),
    (
        lambda: GlobalReduce()(torch.rand(1, 1, 1, 1)),
        ValueError,
        "readout expects x to be 2D [N, F] or 3D [B, N, F], got ndim=4",
    ),
    (
        lambda: GlobalReduce()(X, mask=torch.ones(3).bool()),
        ValueError,
        "mask is only supported for dense x with shape [B, N, F]",
    ),
    (
        lambda: GlobalReduce()(X, size=2),
        ValueError,
        "size is only supported for sparse readout when batch is provided",
    ),
    (
        lambda: GlobalReduce()(torch.rand(2, 3, 4), mask=torch.ones(2, 2).bool()),
        ValueError,
        "mask must have shape [B, N] matching x.shape[:2]",
    ),
    (lambda: BaseLift("foo")(torch.rand(2, 4), hard()), RuntimeError, "'matrix_op' must be one of"),
    (
        lambda: BaseLift(reduce_op="foo")(torch.rand(2, 4), hard()),
        ValueError,
        "Encountered invalid `reduce` argument 'foo'",
    ),
    (
        lambda: BaseLift()(torch.rand(5, 4), dense(), batch=BATCH),
        ValueError,
        "Unexpected pooled feature shape",
    ),
    (
        lambda: BaseLift()(torch.rand(4, 4), dense(), batch=BATCH, batch_pooled=torch.tensor([0, 0, 1])),
        ValueError,
        "batch_pooled has an unexpected length",
    ),
    (
        lambda: PreCoarsening([]),
        ValueError,
        "`poolers` must be a non-empty pooler, level config, or sequence",
    ),
    (
        lambda: PreCoarsening([("mincut", {"in_channels": 2, "k": 2})]),
        ValueError,
        "The pooler must not be trainable",
    ),
    (lambda: PreCoarsening("nope"), ValueError, "Unknown pooler"),
    (lambda: PreCoarsening([{"k": 3}]), ValueError, "Pooler config must include a pooler name or instance"),
    (
        lambda: PreCoarsening("ndp")(Data(x=X)),
        ValueError,
        "edge_index cannot be None for precoarsening",
    ),
    (
        lambda: get_pooler("graclus").precoarsening(),
        ValueError,
        "edge_index cannot be None for precoarsening",
    ),
    (
        lambda: get_pooler("graclus").multi_level_precoarsening(levels=0, edge_index=EDGES),
        ValueError,
        "'levels' must be >= 1, got 0",
    ),
    (
        lambda: get_pooler("topk"),
        TypeError,
        "Missing required argument(s) for pooler 'topk' (TopkPooling): in_channels",
    ),
]


@pytest.mark.parametrize(("call", "kind", "phrase"), CASES, ids=[case[2][:40] for case in CASES])
def test_key_phrases(call, kind, phrase):
    with pytest.raises(kind, match=re.escape(phrase)):
        call()


def test_too_many_rows_are_refused():
    with pytest.raises(ValueError, match=re.escape("x must have shape [N, F]")):
        BaseReduce()(torch.rand(5, 4), hard())
