"""``S^T A S`` of dense assignments."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import nmf as reference
from tgp.engine.contraction import ContractOptions
from tgp.engine.soft import soft_connect
from tgp.errors import InputError
from tgp.ragged import Assignment, BlockCSR
from tgp.testing.graphs import isolated, path
from tgp.testing.strategies import blocks


def assignment_of(block, soft):
    k = soft.shape[1]
    ptr = np.arange(block.num_graphs + 1, dtype=np.int64) * k
    return Assignment("soft", ptr, soft=soft.astype(np.float32))


def dense(block):
    return reference.adjacency(
        BlockCSR(block.indptr, block.indices, block.weight, np.array([0, block.num_nodes]))
    )


@settings(max_examples=60, deadline=None)
@given(blocks(), st.integers(1, 4), st.booleans(), st.booleans(), st.booleans(), st.integers(0, 2**31))
def test_equals_the_dense_product(block, k, remove_self_loops, degree_norm, edge_weight_norm, seed):
    rng = np.random.default_rng(seed)
    soft = rng.random((block.num_nodes, k)) * (rng.random((block.num_nodes, k)) < 0.6)
    options = ContractOptions(
        remove_self_loops=remove_self_loops, degree_norm=degree_norm, edge_weight_norm=edge_weight_norm
    )
    assignment = assignment_of(block, soft)
    coarse = soft_connect(block, assignment, options).validate()
    assert np.array_equal(coarse.node_ptr, assignment.super_ptr)
    for g, (graph, pooled) in enumerate(zip(block.split(), coarse.split(), strict=True)):
        s = assignment.soft[block.node_ptr[g] : block.node_ptr[g + 1]].astype(np.float64)
        raw = s.T @ reference.adjacency(graph) @ s
        if degree_norm and np.abs(raw.sum(1)).min(initial=1) < 1e-6:
            continue  # a degree that cancels to nothing: which side of zero is a matter of rounding
        expected = reference.coarse(
            reference.adjacency(graph),
            s,
            remove_self_loops=remove_self_loops,
            degree_norm=degree_norm,
            edge_weight_norm=edge_weight_norm,
        )
        scale = max(np.abs(expected).max(initial=0), 1)
        assert np.allclose(dense(pooled), expected, atol=1e-7 * scale)


def test_path_of_three_by_hand():
    soft = np.array([[1, 0], [0.5, 0.5], [0, 1]])
    coarse = soft_connect(path(3), assignment_of(path(3), soft), ContractOptions(remove_self_loops=False))
    assert np.array_equal(dense(coarse), [[1.0, 1.0], [1.0, 1.0]])
    coarse = soft_connect(path(3), assignment_of(path(3), soft))
    assert coarse.edge_index().tolist() == [[0, 1], [1, 0]]
    assert coarse.weight.tolist() == [1.0, 1.0]


def test_edgeless_and_empty_blocks():
    block = BlockCSR.concat([isolated(3), isolated(0)])
    coarse = soft_connect(block, assignment_of(block, np.ones((3, 2))))
    assert coarse.num_nodes == 4
    assert coarse.num_edges == 0
    assert (
        soft_connect(BlockCSR.concat([]), assignment_of(BlockCSR.concat([]), np.ones((0, 2)))).num_nodes == 0
    )


def test_refuses_other_assignments():
    hard = Assignment("hard", np.array([0, 3]), cluster=np.arange(3, dtype=np.int32))
    with pytest.raises(InputError, match="soft"):
        soft_connect(path(3), hard)
    with pytest.raises(InputError, match="3 nodes"):
        soft_connect(path(3), assignment_of(path(4), np.ones((4, 2))))
