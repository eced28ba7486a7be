"""``DenseConnect``: dense and sparse connectivity give the same result, for graph ids in any order."""

import pytest
import torch
from torch_geometric.utils import to_dense_adj

from tgp.connect import DenseConnect
from tgp.connect.dense_conn import dense_connect
from tgp.select import SelectOutput

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
G1 = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.75, 0.25]])
RAW = {"remove_self_loops": False, "degree_norm": False}


def test_golden_product_and_degree_norm():
    adj, weight = DenseConnect(**RAW)(PATH, SelectOutput(s=G1))
    torch.testing.assert_close(adj, torch.tensor([[[0.66, 1.39], [1.39, 0.56]]]))
    assert weight is None
    normed, _ = DenseConnect(remove_self_loops=False)(PATH, SelectOutput(s=G1))
    torch.testing.assert_close(
        normed, torch.tensor([[[0.321951, 0.695217], [0.695217, 0.287179]]]), atol=1e-6, rtol=0
    )


def mixed():
    """Four graphs with unsorted ids; graph 1 has no edges, graph 3 no nodes."""
    batch = torch.tensor([2, 0, 2, 1, 0, 2])
    edges = torch.tensor([[0, 2, 1, 4, 2, 5], [2, 0, 4, 1, 5, 2]])
    return batch, edges, torch.rand(6, generator=torch.Generator().manual_seed(1)), torch.rand(6, 3)


@pytest.mark.parametrize("sparse_output", [False, True])
def test_unsorted_batch_and_empty_graphs_keep_all_blocks(sparse_output):
    batch, edges, weight, s = mixed()
    so = SelectOutput(s=s, batch=batch)
    expected = torch.zeros(4, 3, 3)
    for g in range(4):
        own = batch[edges[0]] == g
        full = to_dense_adj(edges[:, own], edge_attr=weight[own], max_num_nodes=6)[0]
        part = s * (batch == g).unsqueeze(1)
        expected[g] = part.T @ full @ part
    got, w = DenseConnect(sparse_output=sparse_output, **RAW)(edges, so, edge_weight=weight, batch_size=4)
    if sparse_output:
        assert int(got.max()) < 12
        got = to_dense_adj(got, edge_attr=w, max_num_nodes=12)[0]
        expected = torch.block_diag(*expected)
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize(
    "flags", [{}, {"edge_weight_norm": True}, {"remove_self_loops": False, "edge_weight_norm": True}]
)
def test_sparse_output_equals_dense_output(flags):
    batch, edges, weight, s = mixed()
    so = SelectOutput(s=s, batch=batch)
    dense, _ = DenseConnect(adj_transpose=False, **flags)(edges, so, edge_weight=weight)
    index, w = DenseConnect(adj_transpose=False, sparse_output=True, **flags)(edges, so, edge_weight=weight)
    torch.testing.assert_close(to_dense_adj(index, edge_attr=w, max_num_nodes=9)[0], torch.block_diag(*dense))


def test_dense_connectivity_2d_3d_and_raw():
    adj = to_dense_adj(PATH)
    so = SelectOutput(s=G1)
    expected = DenseConnect()(PATH, so)[0]
    torch.testing.assert_close(DenseConnect()(adj[0], so)[0], expected)
    torch.testing.assert_close(DenseConnect()(adj, SelectOutput(s=G1.unsqueeze(0)))[0], expected)
    torch.testing.assert_close(dense_connect(adj, G1.unsqueeze(0))[0], G1.T @ adj[0] @ G1)
    before = adj.clone()
    DenseConnect()(adj, so)
    assert torch.equal(adj, before)


def test_adj_transpose_takes_column_sums_of_dense_input():
    adj = torch.tensor([[[0.0, 1.0], [0.0, 3.0]]])
    so = SelectOutput(s=torch.eye(2).unsqueeze(0))
    by_column, _ = DenseConnect(remove_self_loops=False)(adj, so)
    assert by_column.tolist() == [[[0, 0], [0, 0.75]]]
    by_row, _ = DenseConnect(remove_self_loops=False, adj_transpose=False)(adj, so)
    torch.testing.assert_close(by_row, torch.tensor([[[0, 1 / 3**0.5], [0, 1]]]))


def test_containers_and_errors():
    coo = torch.sparse_coo_tensor(PATH, torch.ones(4), (3, 3))
    out, weight = DenseConnect(sparse_output=True)(coo, SelectOutput(s=G1))
    assert out.is_sparse and weight is None
    with pytest.raises(TypeError, match="sparse_output must be a bool"):
        DenseConnect(sparse_output=1)
    with pytest.raises(ValueError, match="SelectOutput is required"):
        DenseConnect()(PATH, None)
    with pytest.raises(ValueError, match="dense assignment matrix"):
        DenseConnect()(PATH, SelectOutput(cluster_index=torch.tensor([0, 0, 1])))
    with pytest.raises(ValueError, match=r"SelectOutput.s must have shape"):
        DenseConnect()(PATH, SelectOutput(s=torch.rand(2, 3, 2)))
    with pytest.raises(ValueError, match="batch sizes do not match"):
        DenseConnect()(torch.rand(3, 3, 3), SelectOutput(s=torch.rand(2, 3, 2)))
    with pytest.raises(NotImplementedError, match="must be a Tensor"):
        DenseConnect()([[0], [1]], SelectOutput(s=G1))


def test_gradients():
    w = torch.rand(4, dtype=torch.float64, requires_grad=True)
    s = torch.rand(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda a, b: DenseConnect()(PATH, SelectOutput(s=b), edge_weight=a)[0], (w, s)
    )
