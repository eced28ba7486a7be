"""``SparseConnect``: known values, numbering, input types and gradients."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tgp.connect import Connect, SparseConnect, sparse_connect
from tgp.select import SelectOutput

PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
PAIRS = SelectOutput(cluster_index=torch.tensor([0, 0, 1, 1]))


def test_golden_sum_mean_and_counts():
    keep = {"remove_self_loops": False}
    index, weight = SparseConnect(**keep)(PATH, PAIRS, edge_weight=torch.ones(6))
    assert index.tolist() == [[0, 0, 1, 1], [0, 1, 0, 1]] and weight.tolist() == [2, 1, 1, 2]
    assert SparseConnect("mean", **keep)(PATH, PAIRS, edge_weight=torch.arange(6.0))[1].tolist() == [
        0.5,
        2,
        3,
        4.5,
    ]
    assert SparseConnect(**keep)(PATH, PAIRS)[1] is None
    assert SparseConnect(count_edges=True, **keep)(PATH, PAIRS)[1].tolist() == [2, 1, 1, 2]
    with pytest.raises(ValueError, match="reduce_op must be one of"):
        SparseConnect("median")(PATH, PAIRS)


def test_edges_and_features_share_their_numbering():
    so = SelectOutput(node_index=torch.tensor([1, 2, 3]), cluster_index=torch.tensor([2, 0, 1]), num_nodes=4)
    index, weight = SparseConnect()(PATH, so, edge_weight=torch.arange(6.0))
    edges = dict(zip(map(tuple, index.T.tolist()), weight.tolist(), strict=True))
    assert edges == {(2, 0): 2, (0, 2): 3, (0, 1): 4, (1, 0): 5}


def test_edges_of_dropped_nodes_are_removed():
    so = SelectOutput(node_index=torch.tensor([1, 2, 3]), cluster_index=torch.tensor([0, 0, 1]), num_nodes=4)
    index, weight = SparseConnect(remove_self_loops=False)(PATH, so, edge_weight=torch.ones(6))
    assert index.tolist() == [[0, 0, 1], [0, 1, 0]] and weight.tolist() == [2, 1, 1]
    by_position, _ = sparse_connect(PATH, node_index=torch.tensor([2, 3]), num_nodes=4)
    assert by_position.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"cluster_index": torch.tensor([0, 1]), "num_nodes": 4},
        {"node_index": torch.tensor([0, 0]), "cluster_index": torch.tensor([0, 1]), "num_nodes": 4},
    ],
)
def test_missing_and_overlapping_assignments_are_refused(kwargs):
    with pytest.raises(RuntimeError):
        sparse_connect(PATH, **kwargs)
    with pytest.raises(ValueError):
        sparse_connect(PATH, **kwargs)


def test_normalisation():
    weight = torch.tensor([1.0, 1, 2, 2, 4, 4])
    so = SelectOutput(cluster_index=torch.arange(4))
    batch = torch.tensor([0, 0, 0, 1])
    by_max = SparseConnect(edge_weight_norm=True)
    assert by_max(PATH, so, edge_weight=weight)[1].tolist() == [0.25, 0.25, 0.5, 0.5, 1, 1]
    per_graph = by_max(PATH, so, edge_weight=weight, batch_pooled=batch)[1]
    assert per_graph.tolist() == [0.25, 0.25, 0.5, 0.5, 1, 1]
    assert by_max(PATH, so)[1].tolist() == [1.0] * 6
    by_degree = SparseConnect(degree_norm=True)(PATH, so)[1]
    torch.testing.assert_close(by_degree, torch.tensor([0.5, 0.5, 0.25, 0.25, 0.5, 0.5]).sqrt())


def test_degrees_that_are_not_positive_get_factor_zero():
    directed = torch.tensor([[0], [1]])
    so = SelectOutput(cluster_index=torch.arange(2))
    assert SparseConnect(degree_norm=True)(directed, so)[1].tolist() == [0.0]
    assert SparseConnect(degree_norm=True)(PATH[:, :2], so, edge_weight=-torch.ones(2))[1].tolist() == [0, 0]


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "uncoalesced", "int32"])
def test_the_result_has_the_type_of_the_input(layout):
    adj = torch.sparse_coo_tensor(PATH, torch.arange(1.0, 7), (4, 4))
    forms = {"csr": adj.coalesce().to_sparse_csr, "csc": adj.coalesce().to_sparse_csc, "coo": adj.coalesce}
    if layout == "int32":
        index, weight = SparseConnect()(PATH.int(), PAIRS, edge_weight=torch.arange(1.0, 7))
        assert index.dtype == torch.int64 and weight.tolist() == [3, 4]
        return
    given = adj if layout == "uncoalesced" else forms[layout]()
    out, weight = SparseConnect()(given, PAIRS)
    assert weight is None and out.layout == given.layout
    assert out.to_dense().tolist() == [[0, 3], [4, 0]]


@given(
    st.integers(1, 8),
    st.integers(0, 30),
    st.integers(0, 10**6),
    st.sampled_from(["sum", "mean", "min", "max", "mul"]),
)
def test_equals_the_dense_definition(nodes, edges, seed, op):
    g = torch.Generator().manual_seed(seed)
    index = torch.randint(nodes, (2, edges), generator=g)
    weight = torch.randint(1, 5, (edges,), generator=g).double()
    cluster = torch.randint(-1, 3, (nodes,), generator=g)
    kept = (cluster >= 0).nonzero().squeeze(1)
    so = SelectOutput(node_index=kept, cluster_index=cluster[kept], num_nodes=nodes, num_supernodes=3)
    out, values = SparseConnect(op, remove_self_loops=False)(index, so, edge_weight=weight)
    groups = {}
    for (a, b), w in zip(index.T.tolist(), weight.tolist(), strict=True):
        ca, cb = int(cluster[a]), int(cluster[b])
        if ca >= 0 and cb >= 0:
            groups.setdefault((ca, cb), []).append(w)
    fold = {
        "sum": sum,
        "mean": lambda v: sum(v) / len(v),
        "min": min,
        "max": max,
        "mul": lambda v: torch.tensor(v).prod().item(),
    }
    got = {}
    for (a, b), w in zip(out.T.tolist(), values.tolist(), strict=True):
        got.setdefault((a, b), []).append(w)
    injective = len(set(so.cluster_index.tolist())) == len(kept) < nodes
    expected = {k: sorted(v) if injective else [fold[op](v)] for k, v in groups.items()}
    assert set(got) == set(expected)
    for key, values_ in got.items():
        assert sorted(values_) == pytest.approx(expected[key])


def test_gradient_reaches_edge_weights():
    weight = torch.rand(6, dtype=torch.float64, requires_grad=True)
    for op in ("sum", "mean", "max"):
        connect = SparseConnect(op, degree_norm=True)
        assert torch.autograd.gradcheck(lambda w, c=connect: c(PATH, PAIRS, edge_weight=w)[1], (weight,))


def test_empty_graph_and_repr():
    none = torch.empty(2, 0, dtype=torch.long)
    assert SparseConnect(degree_norm=True, edge_weight_norm=True)(none, PAIRS)[0].shape == (2, 0)
    assert repr(Connect()) == "Connect()"
    assert "reduce_op=sum" in repr(SparseConnect())
    with pytest.raises(NotImplementedError):
        Connect()(PATH, PAIRS)


def test_small_weights_keep_their_edges():
    index = torch.tensor([[0, 1, 2, 4, 5], [2, 3, 0, 6, 7]])
    weight = torch.tensor([1e-9, 2e-9, 1e-9, 1.0, 1e-9])
    cluster = torch.tensor([0, 0, 1, 1, 2, 2, 3, 4])
    batch = torch.tensor([0, 0, 1, 1, 1])
    edges, found = sparse_connect(index, weight, cluster_index=cluster, num_nodes=8, batch_pooled=batch)
    # The largest weight of the first graph is 2e-9, that of the second graph is 1.
    assert edges.tolist() == [[0, 1, 2], [1, 0, 3]]
    torch.testing.assert_close(found, torch.tensor([3e-9, 1e-9, 1.0]))
    edges, _ = sparse_connect(index, weight, cluster_index=cluster, num_nodes=8)
    assert edges.tolist() == [[2], [3]]
