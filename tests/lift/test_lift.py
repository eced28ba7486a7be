"""``BaseLift`` with every matrix and every layout."""

import pytest
import torch

from tgp.lift import BaseLift, Lift
from tgp.select import SelectOutput

PARTIAL = SelectOutput(
    node_index=torch.tensor([0, 2]),
    cluster_index=torch.tensor([0, 1]),
    weight=torch.tensor([2.0, 4.0]),
    num_nodes=3,
)
BATCH = torch.tensor([1, 0, 1, 2, 0])


@pytest.mark.parametrize(
    ("op", "rows"), [("precomputed", [2, 0, 4]), ("transpose", [2, 0, 4]), ("inverse", [0.5, 0, 0.25])]
)
def test_golden_partial_assignment(op, rows):
    assert BaseLift(op)(torch.ones(2, 1), PARTIAL).flatten().tolist() == rows


@pytest.mark.parametrize("op", ["precomputed", "transpose", "inverse"])
@pytest.mark.parametrize("inverse", ["transpose", "inverse"])
def test_sparse_equals_matrix_product(op, inverse):
    so = SelectOutput(
        node_index=torch.tensor([0, 1, 1, 3]),
        cluster_index=torch.tensor([0, 0, 1, 1]),
        weight=torch.tensor([1.0, 2, 3, 4]),
        num_nodes=4,
        s_inv_op=inverse,
    )
    x = torch.rand(2, 3)
    s = so.s.to_dense()
    matrix = (
        torch.linalg.pinv(s).T if op == "inverse" or (op == "precomputed" and inverse == "inverse") else s
    )
    torch.testing.assert_close(BaseLift(op)(x, so), matrix @ x, atol=1e-4, rtol=1e-4)


def test_reduce_op_of_overlapping_entries():
    so = SelectOutput(node_index=torch.tensor([0, 0, 1]), cluster_index=torch.tensor([0, 1, 1]), num_nodes=3)
    x = torch.tensor([[1.0], [3.0]])
    got = {op: BaseLift("transpose", op)(x, so).flatten().tolist() for op in ("sum", "mean", "max", "min")}
    assert got == {"sum": [4, 3, 0], "mean": [2, 3, 0], "max": [3, 3, 0], "min": [1, 3, 0]}


def test_given_inverse_is_used():
    so = SelectOutput(cluster_index=torch.tensor([0, 1]), s_inv=(torch.eye(2) * 5).to_sparse())
    assert BaseLift()(torch.ones(2, 1), so).flatten().tolist() == [5, 5]


@pytest.mark.parametrize("form", ["flat", "batched", "shuffled", "shared"])
def test_flat_dense_assignment_of_several_graphs(form):
    s, x = torch.rand(5, 2), torch.rand(3, 2, 4)
    so = SelectOutput(s=s, batch=BATCH)
    expected = torch.stack([s[i] @ x[BATCH[i]] for i in range(5)])
    if form == "batched":
        got = BaseLift()(x, so)
    elif form == "flat":
        got = BaseLift()(x.flatten(0, 1), so)
    elif form == "shuffled":
        order = torch.tensor([4, 0, 2, 5, 1, 3])
        got = BaseLift()(x.flatten(0, 1)[order], so, batch_pooled=torch.tensor([0, 0, 1, 1, 2, 2])[order])
        rows = x.flatten(0, 1)[order][torch.tensor([0, 0, 1, 1, 2, 2])[order].argsort(stable=True)].view(
            3, 2, 4
        )
        expected = torch.stack([s[i] @ rows[BATCH[i]] for i in range(5)])
    else:
        got, expected = BaseLift()(x[0], so), s @ x[0]
    torch.testing.assert_close(got, expected)


def test_batched_dense_and_compacted_rows():
    s = torch.rand(2, 4, 3)
    s[1, :, 2] = 0
    x = torch.rand(2, 3, 5)
    x[1, 2] = 0
    so = SelectOutput(s=s)
    expected = s @ x
    torch.testing.assert_close(BaseLift()(x, so), expected)
    torch.testing.assert_close(BaseLift()(x.flatten(0, 1), so), expected)
    torch.testing.assert_close(BaseLift()(x.flatten(0, 1)[:5], so), expected)
    inverse = SelectOutput(s=s, s_inv_op="inverse")
    torch.testing.assert_close(BaseLift()(x, inverse), torch.linalg.pinv(s).mT @ x)
    with pytest.raises(ValueError, match=r"x_compact .* got 4"):
        BaseLift()(x.flatten(0, 1)[:4], so)


def test_single_graph_forms_and_errors():
    so = SelectOutput(s=torch.rand(4, 2))
    x = torch.rand(2, 3)
    torch.testing.assert_close(BaseLift()(x, so), BaseLift()(x.unsqueeze(0), so))
    with pytest.raises(RuntimeError, match="matrix_op"):
        BaseLift("pinv")(x, so)
    with pytest.raises(AttributeError):
        BaseLift()(x)
    many = SelectOutput(s=torch.rand(5, 2), batch=BATCH)
    with pytest.raises(ValueError, match="Unexpected pooled feature shape"):
        BaseLift()(torch.rand(5, 3), many)
    with pytest.raises(ValueError, match="unexpected length"):
        BaseLift()(torch.rand(6, 3), many, batch_pooled=torch.zeros(4, dtype=torch.long))
    with pytest.raises(ValueError, match="Inconsistent per-graph blocks"):
        BaseLift()(torch.rand(6, 3), many, batch_pooled=torch.tensor([0, 0, 0, 1, 2, 2]))
    assert repr(BaseLift()) == "BaseLift(matrix_op=precomputed, reduce_op=sum)"
    with pytest.raises(NotImplementedError):
        Lift()(x, so)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_keeps_its_type_and_sums_in_float32(dtype):
    entries = torch.stack([torch.zeros(3000, dtype=torch.long), torch.arange(3000)])
    s = torch.sparse_coo_tensor(entries, torch.ones(3000), (1, 3000), check_invariants=True)
    lifted = BaseLift()(torch.ones(3000, 1, dtype=dtype), SelectOutput(s=s))
    assert lifted.dtype == dtype and lifted.item() == torch.tensor(3000.0).to(dtype).item()
    hard = SelectOutput(cluster_index=torch.zeros(3000, dtype=torch.long), weight=torch.ones(3000))
    for op in ("transpose", "inverse"):
        lifted = BaseLift(op)(torch.ones(1, 1, dtype=dtype), hard)
        assert lifted.dtype == dtype
    torch.testing.assert_close(lifted, torch.full((3000, 1), 1 / 3000, dtype=dtype))
    assert BaseLift()(torch.ones(1, 1, dtype=torch.float64), hard).dtype == torch.float64


def test_padded_features_return_to_the_order_of_the_nodes():
    from tgp.utils.ops.batching import GraphLayout

    s, x_pool, batch = torch.rand(5, 2), torch.rand(4, 3), torch.tensor([0, 0, 1, 1, 1])
    expected = BaseLift()(x_pool, SelectOutput(s=s, batch=batch), batch_pooled=torch.tensor([0, 0, 1, 1]))
    layout = GraphLayout(batch, 5)
    padded = SelectOutput(s=layout.pad(s), in_mask=layout.pad(torch.ones(5, 1))[..., 0] > 0, batch=batch)
    lifted = BaseLift()(x_pool.view(2, 2, 3), padded)
    assert lifted.shape == (2, 3, 3)
    torch.testing.assert_close(padded.to_nodes(lifted), expected)


@pytest.mark.parametrize("op", ["precomputed", "transpose", "inverse"])
def test_lifting_compiles_without_graph_breaks(op):
    so = SelectOutput(cluster_index=torch.tensor([0, 0, 1]), num_supernodes=2, weight=torch.rand(3))
    lift, x_pool = BaseLift(op), torch.rand(2, 3)
    expected = lift(x_pool, so)
    found = torch.compile(lambda x: lift(x, so), backend="eager", fullgraph=True)(x_pool)
    torch.testing.assert_close(found, expected)
    padded = SelectOutput(s=torch.rand(2, 3, 2))
    if op != "inverse":
        found = torch.compile(lambda x: lift(x, padded), backend="eager", fullgraph=True)(torch.ones(2, 2, 3))
        torch.testing.assert_close(found, lift(torch.ones(2, 2, 3), padded))
