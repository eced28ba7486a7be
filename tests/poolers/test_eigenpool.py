"""EigenPooling and its four stages."""

import numpy as np
import pytest
import torch
from torch_geometric.utils import erdos_renyi_graph, to_dense_adj

from tests.reference import eigen as reference
from tgp.connect import EigenPoolConnect
from tgp.engine import coarsen
from tgp.lift import EigenPoolLift
from tgp.poolers import EigenPooling, get_pooler
from tgp.reduce import EigenPoolReduce
from tgp.select import EigenPoolSelect, SelectOutput, eigenpool_select
from tgp.select.eigenpool_select import build_pooling_matrix, eigenvectors, laplacian
from tgp.utils.blocks import to_block


def path(n, start=0):
    index = torch.arange(n - 1) + start
    return torch.cat([torch.stack([index, index + 1]), torch.stack([index + 1, index])], dim=1)


def three_graphs(seed=0):
    """Graphs of 9, 0 and 6 nodes."""
    torch.manual_seed(seed)
    edges = torch.cat([erdos_renyi_graph(9, 0.4), path(6, 9)], dim=1)
    return edges, torch.tensor([0] * 9 + [2] * 6), torch.randn(15, 2)


def wide(so, num_graphs):
    """Return the operator as one dense ``[n, H * K]`` matrix per graph, as in 1.0.2."""
    k, h = so.num_supernodes, so.theta.size(1)
    column = so.s.argmax(1)
    full = torch.zeros(so.num_nodes, h, k)
    full[torch.arange(so.num_nodes), :, column] = so.theta
    batch = torch.zeros(so.num_nodes, dtype=torch.long) if so.batch is None else so.batch
    return [full.flatten(1)[batch == g] for g in range(num_graphs)]


# -- select ------------------------------------------------------------------------------------


def test_select_is_one_hot_with_modes():
    edges, batch, _ = three_graphs()
    so = EigenPoolSelect(3, num_modes=4)(edge_index=edges, batch=batch)
    assert so.s.shape == (15, 3) and so.is_dense
    assert torch.equal(so.s.sum(1), torch.ones(15)) and set(so.s.unique().tolist()) == {0.0, 1.0}
    assert so.theta.shape == (15, 4) and so.theta.dtype == torch.float32
    assert so.batch is batch
    again = eigenpool_select(edges, 3, batch=batch, num_modes=4)
    assert torch.equal(again.s, so.s) and torch.equal(again.theta, so.theta)


def test_width_of_a_single_graph():
    assert eigenpool_select(path(3), 5).s.shape == (3, 3)
    assert eigenpool_select(path(3), 5, fixed_k=True).s.shape == (3, 5)
    assert eigenpool_select(path(8), 3).s.shape == (8, 3)
    assert eigenpool_select(path(3), 5, num_nodes=7).s.shape == (7, 5)
    assert EigenPoolSelect(2)(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=0).s.shape[0] == 0


def test_golden_path_of_six():
    """Differences to tgp 1.0.2: the largest entry of the third mode is positive, and there is no fourth mode."""
    so = eigenpool_select(path(6), 2, num_modes=4)
    assert so.s.argmax(1).tolist() == [0, 0, 0, 1, 1, 1]
    root = 0.5**0.5
    expected = torch.tensor([[0.5, root, -0.5, 0], [root, 0, root, 0], [0.5, -root, -0.5, 0]])
    torch.testing.assert_close(so.theta, expected.repeat(2, 1))


def test_unsorted_batch():
    edges, batch, _ = three_graphs()
    so = eigenpool_select(edges, 3, batch=batch)
    order = torch.tensor([0, 9, 1, 10, 2, 11, 3, 12, 4, 13, 5, 14, 6, 7, 8])
    position = order.argsort()
    mixed = eigenpool_select(position[edges], 3, batch=batch[order])
    assert torch.equal(mixed.s[position], so.s) and torch.equal(mixed.theta[position], so.theta)


def test_laplacian_and_eigenvectors():
    adj = to_dense_adj(path(3))[0]
    assert torch.equal(
        laplacian(adj, normalized=False), torch.tensor([[1.0, -1, 0], [-1, 2, -1], [0, -1, 1]])
    )
    normal = laplacian(adj.numpy())
    assert isinstance(normal, np.ndarray)
    assert np.allclose(normal, reference.cluster_laplacian(adj.numpy(), True))
    assert np.allclose(laplacian(np.zeros((2, 2))), np.eye(2))
    _, vectors = eigenvectors(laplacian(adj))
    root = 0.5**0.5
    expected = torch.tensor([[0.5, root, -0.5], [root, 0, root], [0.5, -root, -0.5]])
    torch.testing.assert_close(vectors, expected, atol=1e-6, rtol=0)
    with pytest.raises(ValueError, match="square"):
        laplacian(np.zeros((2, 3)))


def test_build_pooling_matrix_is_the_wide_form():
    edges, _, _ = three_graphs()
    edges = edges[:, edges[0] < 9]
    so = eigenpool_select(edges, 3, num_modes=4, num_nodes=9)
    theta = build_pooling_matrix(to_dense_adj(edges, max_num_nodes=9)[0].numpy(), so.s.argmax(1), 4)
    assert theta.shape == (9, 12)
    torch.testing.assert_close(torch.from_numpy(theta), wide(so, 1)[0])
    assert build_pooling_matrix(np.zeros((2, 2)), [0, 1], 2, expected_num_clusters=4).shape == (2, 8)
    with pytest.raises(ValueError, match="labels"):
        build_pooling_matrix(np.zeros((2, 2)), [0, 1, 1], 2)


# -- reduce and lift ---------------------------------------------------------------------------


def test_reduce_equals_the_formula():
    so = eigenpool_select(path(6), 2, num_modes=2)
    x = torch.arange(12.0).view(6, 2)
    pooled, batch = EigenPoolReduce()(x, so)
    assert pooled.shape == (2, 4) and batch is None
    for c in range(2):
        nodes = slice(3 * c, 3 * c + 3)
        expected = torch.cat([so.theta[nodes, h] @ x[nodes] for h in range(2)])
        torch.testing.assert_close(pooled[c], expected)


@pytest.mark.parametrize("form", ["dense", "coo", "list", "list of coo"])
def test_wide_forms_give_the_same(form):
    edges, batch, x = three_graphs()
    so = eigenpool_select(edges, 3, batch=batch, num_modes=4)
    expected, graphs = EigenPoolReduce()(x, so)
    parts = wide(so, 3)
    theta = {
        "dense": torch.cat(parts),
        "coo": torch.cat(parts).to_sparse(),
        "list": parts,
        "list of coo": [part.to_sparse() for part in parts],
    }[form]
    old = SelectOutput(s=so.s, batch=batch, theta=theta)
    pooled, ids = EigenPoolReduce()(x, old)
    torch.testing.assert_close(pooled, expected)
    assert torch.equal(ids, graphs) and ids.tolist() == [0] * 3 + [1] * 3 + [2] * 3
    lifted = EigenPoolLift()(expected, so)
    torch.testing.assert_close(EigenPoolLift()(expected, old), lifted)
    by_hand = torch.cat(
        [parts[g] @ expected[3 * g : 3 * g + 3].view(3, 4, 2).transpose(0, 1).reshape(12, 2) for g in (0, 2)]
    )
    torch.testing.assert_close(lifted, by_hand)


def test_wide_list_with_an_unsorted_batch():
    edges, batch, x = three_graphs()
    so = eigenpool_select(edges, 3, batch=batch)
    order = torch.arange(14, -1, -1)  # reverses the nodes of every graph as well
    old = SelectOutput(s=so.s[order], batch=batch[order], theta=[part.flip(0) for part in wide(so, 3)])
    torch.testing.assert_close(EigenPoolReduce()(x[order], old)[0], EigenPoolReduce()(x, so)[0])


def test_shapes_of_reduce_and_lift():
    edges, batch, x = three_graphs()
    so = eigenpool_select(edges, 3, batch=batch, num_modes=4)
    flat, _ = EigenPoolReduce()(x, so)
    batched, ids = EigenPoolReduce()(x, so, return_batched=True)
    assert flat.shape == (9, 8) and batched.shape == (3, 3, 8)
    assert (batched[1] == 0).all()
    lift = EigenPoolLift()
    expected = lift(flat, so)
    assert expected.shape == (15, 2)
    for given in (
        lift(batched, so),
        lift(flat, so, batch_pooled=ids),
        lift(flat.flip(0), so, batch_pooled=ids.flip(0)),
    ):
        assert given.shape == (15, 2)
    torch.testing.assert_close(lift(batched, so), expected)
    torch.testing.assert_close(lift(flat, so, batch_pooled=ids), expected)
    torch.testing.assert_close(lift(batched[0], so)[:9], expected[:9])  # all graphs share the rows
    with pytest.raises(ValueError, match="Unexpected pooled feature shape"):
        lift(flat[:5], so)
    with pytest.raises(ValueError, match="Inconsistent"):
        lift(flat, so, batch_pooled=torch.zeros(9, dtype=torch.long))


def test_lift_undoes_reduce_when_all_modes_are_kept():
    edges, batch, x = three_graphs()
    so = eigenpool_select(edges, 2, batch=batch, num_modes=9)
    pooled, _ = EigenPoolReduce()(x, so)
    torch.testing.assert_close(EigenPoolLift()(pooled, so), x, atol=1e-5, rtol=1e-5)


def test_missing_theta_and_bad_widths():
    so = SelectOutput(s=torch.eye(3))
    with pytest.raises(AttributeError, match="theta"):
        EigenPoolReduce()(torch.ones(3, 1), so)
    with pytest.raises(AttributeError, match="SelectOutput"):
        EigenPoolLift()(torch.ones(3, 1))
    with pytest.raises(ValueError, match="multiple of 3"):
        EigenPoolReduce()(torch.ones(3, 1), SelectOutput(s=torch.eye(3), theta=torch.ones(3, 4)))
    with pytest.raises(ValueError, match="3 rows"):
        EigenPoolReduce()(torch.ones(3, 1), SelectOutput(s=torch.eye(3), theta=torch.ones(4, 3)))
    assert repr(EigenPoolReduce(3)) == "EigenPoolReduce(num_modes=3)"
    assert repr(EigenPoolLift(3)) == "EigenPoolLift(num_modes=3)"


def test_gradients_reach_the_features():
    edges, batch, x = three_graphs()
    so = eigenpool_select(edges, 3, batch=batch)
    x = x.double().requires_grad_()
    assert torch.autograd.gradcheck(lambda v: EigenPoolLift()(EigenPoolReduce()(v, so)[0], so), (x,))


# -- connect -----------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("degree_norm", [False, True])
def test_connect_counts_edges_between_clusters_only(weighted, degree_norm):
    edges, batch, _ = three_graphs()
    weight = torch.rand(edges.size(1)) if weighted else None
    so = eigenpool_select(edges, 3, weight, batch)
    connect = EigenPoolConnect(degree_norm=degree_norm)
    adj, none = connect(edges, so, edge_weight=weight)
    assert adj.shape == (3, 3, 3) and none is None
    assert (adj.diagonal(dim1=1, dim2=2) == 0).all() and (adj[1] == 0).all()
    index, values = EigenPoolConnect(degree_norm=degree_norm, sparse_output=True)(
        edges, so, edge_weight=weight
    )
    torch.testing.assert_close(
        to_dense_adj(index, edge_attr=values, max_num_nodes=9)[0], torch.block_diag(*adj)
    )
    if not degree_norm:
        column = so.s.argmax(1)
        values = torch.ones(edges.size(1)) if weight is None else weight
        between = column[edges[0]] != column[edges[1]]
        torch.testing.assert_close(adj.sum(), values[between].sum())


def test_connect_dense_adjacency():
    edges = path(6)
    so = eigenpool_select(edges, 2)
    adj = to_dense_adj(edges)
    expected, _ = EigenPoolConnect()(edges, so)
    for given in (adj, adj[0]):
        torch.testing.assert_close(EigenPoolConnect()(given, so)[0], expected)
    assert adj.sum() == 10, "the input must not change"


def test_connect_returns_edge_lists_for_any_container():
    edges = path(6)
    so = eigenpool_select(edges, 2)
    coo = torch.sparse_coo_tensor(edges, torch.ones(10), (6, 6), check_invariants=True).coalesce()
    index, weight = EigenPoolConnect(sparse_output=True, edge_weight_norm=True)(coo, so)
    assert index.tolist() == [[0, 1], [1, 0]] and weight.tolist() == [1.0, 1.0]


def test_connect_refuses_wrong_inputs():
    with pytest.raises(ValueError, match="required"):
        EigenPoolConnect()(path(3), None)
    with pytest.raises(ValueError, match=r"shape \[N, K\]"):
        EigenPoolConnect()(path(3), SelectOutput(s=torch.ones(2, 3, 2)))


# -- the pooler --------------------------------------------------------------------------------


def test_forward_dense_and_sparse():
    edges, batch, x = three_graphs()
    dense = EigenPooling(3, num_modes=4)(x=x, adj=edges, batch=batch)
    sparse = EigenPooling(3, num_modes=4, sparse_output=True)(x=x, adj=edges, batch=batch)
    assert dense.x.shape == (3, 3, 8) and dense.edge_index.shape == (3, 3, 3)
    assert sparse.x.shape == (9, 8) and sparse.batch.numel() == 9
    flat = to_dense_adj(sparse.edge_index, edge_attr=sparse.edge_weight, max_num_nodes=9)[0]
    torch.testing.assert_close(flat, torch.block_diag(*dense.edge_index))
    torch.testing.assert_close(dense.x.flatten(0, 1), sparse.x)
    lifted = EigenPooling(3, num_modes=4)(x=dense.x, so=dense.so, batch=batch, lifting=True)
    assert lifted.shape == (15, 2)


def test_forward_without_batch():
    out = EigenPooling(2, num_modes=3)(x=torch.randn(8, 2), adj=path(6))  # two trailing isolated nodes
    assert out.x.shape == (2, 6) and out.edge_index.shape == (1, 2, 2) and out.batch is None
    assert out.so.num_nodes == 8
    small = EigenPooling(5, num_modes=3)(x=torch.randn(3, 2), adj=path(3))
    assert small.x.shape == (3, 6) and small.edge_index.shape == (1, 3, 3)


def test_engine_and_torch_connect_the_same():
    edges, batch, x = three_graphs()
    weight = torch.rand(edges.size(1))
    for sparse_output in (False, True):
        pooler = EigenPooling(3, sparse_output=sparse_output)
        engine = pooler(x=x, adj=edges, edge_weight=weight, batch=batch)
        graded = pooler(x=x, adj=edges, edge_weight=weight.clone().requires_grad_(), batch=batch)
        torch.testing.assert_close(graded.edge_index, engine.edge_index)
        values = graded.edge_weight if sparse_output else graded.edge_index
        assert values.requires_grad
        if sparse_output:
            torch.testing.assert_close(graded.edge_weight.detach(), engine.edge_weight)


def test_layer_transform_and_engine_agree():
    edges, batch, x = three_graphs()
    pooler = EigenPooling(3, num_modes=2, sparse_output=True, seed=8)
    layer = pooler(x=x, adj=edges, batch=batch)
    level = pooler.precoarsening(edges, batch=batch)
    engine = coarsen(to_block(edges, None, batch).block, "eigen:k=3:num_modes=2", 8).levels[0]
    for out in (layer, level):
        assert np.array_equal(out.so.cluster, engine.assignment.cluster)
        assert np.array_equal(out.so.theta, engine.assignment.theta)
        assert np.array_equal(out.edge_index, engine.block.edge_index())
        assert np.array_equal(out.edge_weight, engine.block.weight.astype(np.float32))


def test_second_level_keeps_features():
    x = torch.randn(9, 2)
    edges, _, _ = three_graphs()
    first, second = EigenPooling(4).multi_level_precoarsening(2, edges[:, edges[0] < 9], num_nodes=9)
    assert first.so.s.shape == (9, 4) and second.so.s.shape == (4, 4)
    pooled, _ = EigenPoolReduce()(x, first.so)
    again, _ = EigenPoolReduce()(pooled, second.so)
    torch.testing.assert_close(again[:, : pooled.size(1)], pooled)
    assert (again[:, pooled.size(1) :] == 0).all()


def test_assignments_join():
    edges, batch, x = three_graphs()
    whole = eigenpool_select(edges, 3, batch=batch)
    one = eigenpool_select(edges[:, edges[0] < 9], 3, num_nodes=9, fixed_k=True)
    two = eigenpool_select(path(6), 3, fixed_k=True)
    for so, size in ((one, 9), (two, 6)):
        so.batch = torch.zeros(size, dtype=torch.long)
    joined = SelectOutput.cat([one, two])
    pooled, _ = EigenPoolReduce()(x, joined)
    expected, _ = EigenPoolReduce()(x, whole)
    torch.testing.assert_close(pooled, torch.cat([expected[:3], expected[6:]]))


def test_given_assignment_is_used():
    so = eigenpool_select(path(6), 2)
    assert EigenPooling(2)(x=torch.randn(6, 1), adj=path(6), so=so).so is so


def test_warnings():
    with pytest.warns(UserWarning, match="batched=True has no effect"):
        assert EigenPooling(2, batched=True).batched is False
    with pytest.warns(UserWarning, match="ignores the 'lift' argument"):
        EigenPooling(2, lift="inverse")


def test_parameters_reach_the_engine():
    pooler = get_pooler("eigen", k=3, num_modes=2, normalized=False, degree_norm=False, restarts=4, seed=6)
    assert str(pooler._spec) == "eigen:k=3:num_modes=2:normalized=false:degree_norm=false:restarts=4"
    assert (pooler.seed, pooler.selector.num_modes, pooler.selector.normalized) == (6, 2, False)
    assert "EigenPoolConnect" in repr(pooler)
