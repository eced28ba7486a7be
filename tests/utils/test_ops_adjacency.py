"""utils.ops: connectivity and adjacency."""

import pytest
import torch
from torch_geometric.utils import add_remaining_self_loops as pyg_loops

from tgp import imports
from tgp.utils import ops

EDGE = torch.tensor([[0, 1], [1, 0]])


def test_dense_or_not():
    assert ops.is_dense_adj(torch.rand(2, 2)) and ops.is_dense_adj(torch.zeros(1, 3, 3, dtype=torch.long))
    for no in (EDGE, torch.rand(2, 3), torch.eye(2).to_sparse(), torch.eye(2).to_sparse_csr(), [[1]]):
        assert not ops.is_dense_adj(no)


@pytest.mark.parametrize(
    ("adj", "text"),
    [
        (torch.rand(1, 2, 2), "Dense adjacency matrices are not supported"),
        (torch.rand(3, 3), "Dense adjacency matrices are not supported"),
        (torch.tensor([0, 1]), "got a Tensor with 1 dimensions"),
        (torch.rand(2, 5), "dtype=torch.float32"),
    ],
)
def test_validation(adj, text):
    for convert in (
        ops.connectivity_to_edge_index,
        ops.connectivity_to_torch_coo,
        ops.connectivity_to_sparsetensor,
    ):
        with pytest.raises(ValueError, match=text):
            convert(adj)


def test_conversions():
    coo = ops.connectivity_to_torch_coo(EDGE, num_nodes=3)
    assert coo.shape == (3, 3) and coo.values().tolist() == [1, 1]
    assert ops.connectivity_to_torch_coo(coo) is coo
    assert ops.connectivity_to_torch_coo(torch.empty(2, 0, dtype=torch.long)).shape == (0, 0)
    for matrix in (coo, coo.to_sparse_csr(), coo.to_sparse_csc()):
        index, weight = ops.connectivity_to_edge_index(matrix)
        assert index.tolist() == EDGE.tolist() and weight.tolist() == [1, 1]
    twice = torch.sparse_coo_tensor(EDGE.repeat(1, 2), torch.ones(4), (2, 2))
    assert ops.connectivity_to_edge_index(twice)[1].tolist() == [2, 2]
    assert ops.connectivity_to_edge_index(EDGE.int(), torch.ones(2, 1))[1].shape == (2,)
    with pytest.raises(NotImplementedError):
        ops.connectivity_to_edge_index("edges")
    with pytest.raises(ValueError, match="Edge index must be of type"):
        ops.connectivity_to_torch_coo("edges")
    with pytest.raises(RuntimeError):
        ops.check_and_filter_edge_weights(torch.ones(2, 2))


@pytest.mark.skipif(imports.HAS_TORCH_SPARSE, reason="torch_sparse is installed")
def test_sparsetensor_needs_its_package(monkeypatch):
    with pytest.raises(ImportError, match="torch_sparse is not installed"):
        ops.connectivity_to_sparsetensor(EDGE)
    assert imports.SparseTensor == "SparseTensor" and not imports.is_sparsetensor(EDGE)
    with pytest.raises(ImportError, match="The 'torch_sparse' package is required"):
        imports.check_torch_sparse_available()
    monkeypatch.setattr(imports, "HAS_TORCH_SPARSE", True)
    imports.check_torch_sparse_available()


def test_self_loops_keep_container_size_and_existing_weights():
    edges = torch.tensor([[0, 0, 1], [0, 1, 0]])
    weight = torch.tensor([5.0, 1, 1])
    index, values = ops.add_remaining_self_loops(edges, weight, num_nodes=3)
    expected = pyg_loops(edges, weight, fill_value=1.0, num_nodes=3)
    assert torch.equal(index, expected[0]) and torch.equal(values, expected[1])
    coo = torch.sparse_coo_tensor(edges, weight, (4, 4))
    out, none = ops.add_remaining_self_loops(coo, fill_value=2.0)
    assert none is None and out.to_dense().diagonal().tolist() == [5, 2, 2, 2]


def test_propagation_matrix():
    index, weight = ops.delta_gcn_matrix(EDGE, num_nodes=3)
    assert index.tolist() == [[0, 0, 1, 1, 2], [0, 1, 0, 1, 2]]
    assert weight.tolist() == [-1, 2, 2, -1, -1]
    loops = torch.cat([EDGE, torch.tensor([[0], [0]])], dim=1)
    assert ops.delta_gcn_matrix(loops, num_nodes=3)[1].tolist() == [-1, 2, 2, -1, -1]
    coo, none = ops.delta_gcn_matrix(torch.sparse_coo_tensor(EDGE, torch.ones(2), (3, 3)))
    assert none is None and coo.to_dense()[0].tolist() == [-1, 2, 0]


def test_small_helpers():
    x = torch.arange(8.0).view(2, 2, 2)
    assert ops.rank3_trace(x).tolist() == [3, 11] and ops.rank3_diag(x[:, 0])[1].tolist() == [[4, 0], [0, 5]]
    assert ops.weighted_degree(EDGE[0], num_nodes=3).dtype == torch.int32
    assert ops.weighted_degree(EDGE[0], torch.tensor([1.5, 2.0]), 3).tolist() == [1.5, 2, 0]


def test_block_diagonal_and_dense_postprocessing():
    adj = torch.zeros(2, 2, 2)
    adj[0, 0, 1], adj[1, 1, 0], adj[1, 1, 1] = 2.0, 1e-9, 4.0
    index, weight = ops.dense_to_block_diag(adj)
    assert index.tolist() == [[0, 3], [1, 3]] and weight.tolist() == [2, 4]
    assert ops.dense_to_block_diag(torch.zeros(2, 2))[0].shape == (2, 0)
    with pytest.raises(ValueError, match="adj_pool must have shape"):
        ops.dense_to_block_diag(torch.zeros(2))
    out = ops.postprocess_adj_pool_dense(adj, remove_self_loops=True, edge_weight_norm=True)
    assert adj[1, 1, 1] == 4 and out[0].tolist() == [[0, 1], [0, 0]]
    normed = ops.postprocess_adj_pool_dense(torch.tensor([[0.0, 2], [0, 0]]), degree_norm=True)
    assert normed.tolist() == [[0, 0], [0, 0]]
