"""Contraction of blocks, compared with references for hard and soft assignments and all options."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import contract as reference
from tests.reference import nmf as nmf_reference
from tests.reference.csr import entries
from tgp.engine.contraction import ContractOptions, contract, postprocess
from tgp.errors import InputError, ParameterError
from tgp.ragged import Assignment, BlockCSR
from tgp.testing.graphs import cycle, isolated, path, weighted
from tgp.testing.strategies import blocks

flags = st.booleans()
options = st.builds(
    ContractOptions, st.sampled_from(["sum", "mean", "min", "max", "mul"]), flags, flags, flags, flags
)


def assert_equal(block, edges, is_weighted):
    """Compare a block with ``{(row, col): weight}``."""
    found = {(r, c): w for r, c, w in entries(block.validate())}
    assert list(found) == sorted(edges)
    assert (block.weight is not None) == is_weighted
    if is_weighted:
        assert [found[key] for key in found] == pytest.approx(
            [edges[key] for key in found], rel=1e-12, abs=1e-12
        )


@st.composite
def assigned(draw):
    """Draw a block and an assignment with dropped nodes and empty supernodes."""
    block = draw(blocks())
    super_ptr, cluster = [0], []
    for g in range(block.num_graphs):
        k = draw(st.integers(0, 4))
        size = int(block.node_ptr[g + 1] - block.node_ptr[g])
        local = draw(st.lists(st.integers(-1, k - 1), min_size=size, max_size=size))
        cluster += [c if c < 0 else c + super_ptr[-1] for c in local]
        super_ptr.append(super_ptr[-1] + k)
    assignment = Assignment("hard", np.array(super_ptr, dtype=np.int64), np.array(cluster, dtype=np.int32))
    return block, assignment.validate(block.node_ptr)


@given(assigned(), options)
def test_contract_equals_the_reference(drawn, chosen):
    block, assignment = drawn
    edges, is_weighted = reference.contracted(block, assignment.cluster, chosen)
    if chosen.edge_weight_norm:
        edges, is_weighted = edges if is_weighted else dict.fromkeys(edges, 1.0), True
        graph_of = np.repeat(np.arange(assignment.num_graphs), np.diff(assignment.super_ptr))
        edges = reference.max_normalised(edges, graph_of)
    coarse = contract(block, assignment, chosen)
    np.testing.assert_array_equal(coarse.node_ptr, assignment.super_ptr)
    assert_equal(coarse, edges, is_weighted)


@given(blocks(simple=True), options)
def test_postprocess_is_contraction_by_the_identity(block, chosen):
    ids = np.arange(block.num_nodes, dtype=np.int32)
    same = contract(block, Assignment("hard", block.node_ptr, ids), chosen)
    processed = postprocess(block, chosen)
    np.testing.assert_array_equal(processed.indptr, same.indptr)
    np.testing.assert_array_equal(processed.indices, same.indices)
    assert (processed.weight is None) == (same.weight is None)
    if same.weight is not None:
        np.testing.assert_array_equal(processed.weight, same.weight)


def pairs(n):
    return Assignment("hard", np.array([0, n // 2]), (np.arange(n) // 2).astype(np.int32))


def test_unweighted_edges_merge_and_can_be_counted():
    block = BlockCSR.from_edge_index([[0, 0, 1, 1, 2, 2, 3, 3], [2, 3, 2, 3, 0, 1, 0, 1]], num_nodes=4)
    assert contract(block, pairs(4)).weight is None
    assert contract(block, pairs(4)).indices.tolist() == [1, 0]
    assert contract(block, pairs(4), ContractOptions(count_edges=True)).weight.tolist() == [4.0, 4.0]


def test_degree_norm_makes_weights():
    coarse = contract(cycle(6), pairs(6), ContractOptions(degree_norm=True))
    assert coarse.weight.tolist() == pytest.approx([0.5] * 6)


def test_max_norm_makes_weights():
    assert contract(path(4), pairs(4), ContractOptions(edge_weight_norm=True)).weight.tolist() == [1.0, 1.0]


def test_the_input_is_not_changed():
    block = weighted()
    before = [block.indptr.copy(), block.indices.copy(), block.weight.copy()]
    everything = ContractOptions("max", True, True, True, True)
    contract(
        block, Assignment("hard", np.array([0, 2]), np.array([0, 0, 1, 1, 1], dtype=np.int32)), everything
    )
    postprocess(block, everything)
    for array, copy in zip([block.indptr, block.indices, block.weight], before, strict=True):
        np.testing.assert_array_equal(array, copy)


def soft_assignment(block, soft):
    k = soft.shape[1]
    ptr = np.arange(block.num_graphs + 1, dtype=np.int64) * k
    return Assignment("soft", ptr, soft=soft.astype(np.float32))


def to_dense(block):
    return nmf_reference.adjacency(
        BlockCSR(block.indptr, block.indices, block.weight, np.array([0, block.num_nodes]))
    )


@settings(max_examples=60, deadline=None)
@given(blocks(), st.integers(1, 4), st.booleans(), st.booleans(), st.booleans(), st.integers(0, 2**31))
def test_soft_contraction_equals_the_dense_product(
    block, k, remove_self_loops, degree_norm, edge_weight_norm, seed
):
    rng = np.random.default_rng(seed)
    soft = rng.random((block.num_nodes, k)) * (rng.random((block.num_nodes, k)) < 0.6)
    options = ContractOptions(
        remove_self_loops=remove_self_loops, degree_norm=degree_norm, edge_weight_norm=edge_weight_norm
    )
    assignment = soft_assignment(block, soft)
    coarse = contract(block, assignment, options).validate()
    assert np.array_equal(coarse.node_ptr, assignment.super_ptr)
    for g, (graph, pooled) in enumerate(zip(block.split(), coarse.split(), strict=True)):
        s = assignment.soft[block.node_ptr[g] : block.node_ptr[g + 1]].astype(np.float64)
        raw = s.T @ nmf_reference.adjacency(graph) @ s
        if degree_norm and np.abs(raw.sum(1)).min(initial=1) < 1e-6:
            continue  # a degree that cancels to about 0: its sign depends on rounding
        expected = nmf_reference.coarse(
            nmf_reference.adjacency(graph),
            s,
            remove_self_loops=remove_self_loops,
            degree_norm=degree_norm,
            edge_weight_norm=edge_weight_norm,
        )
        scale = max(np.abs(expected).max(initial=0), 1)
        assert np.allclose(to_dense(pooled), expected, atol=1e-7 * scale)


def test_soft_contraction_of_a_path():
    soft = np.array([[1, 0], [0.5, 0.5], [0, 1]])
    coarse = contract(path(3), soft_assignment(path(3), soft), ContractOptions(remove_self_loops=False))
    assert np.array_equal(to_dense(coarse), [[1.0, 1.0], [1.0, 1.0]])
    coarse = contract(path(3), soft_assignment(path(3), soft))
    assert coarse.edge_index().tolist() == [[0, 1], [1, 0]]
    assert coarse.weight.tolist() == [1.0, 1.0]


def test_soft_contraction_without_edges():
    block = BlockCSR.concat([isolated(3), isolated(0)])
    coarse = contract(block, soft_assignment(block, np.ones((3, 2))))
    assert coarse.num_nodes == 4
    assert coarse.num_edges == 0
    assert contract(BlockCSR.concat([]), soft_assignment(BlockCSR.concat([]), np.ones((0, 2)))).num_nodes == 0


def test_wrong_arguments_raise():
    with pytest.raises(ParameterError, match="sum, mean, min, max, mul, got 'median'"):
        ContractOptions("median")
    with pytest.raises(InputError, match="3 nodes, got 2"):
        contract(path(3), pairs(2))
    with pytest.raises(InputError, match="3 nodes in 1 graphs, got 4 nodes"):
        contract(path(3), soft_assignment(path(4), np.ones((4, 2))))


@pytest.mark.parametrize("factor", [1e-12, 1e-9, 1e-4])
@pytest.mark.parametrize("op", ["sum", "mean", "max"])
def test_small_weights_keep_their_edges(factor, op):
    pairs = Assignment("hard", np.array([0, 3]), np.array([0, 0, 1, 1, 2, 2], np.int32))
    block = cycle(6)
    small = BlockCSR(block.indptr, block.indices, factor * block.weights_or_ones(), block.node_ptr)
    ordinary = BlockCSR(block.indptr, block.indices, block.weights_or_ones(), block.node_ptr)
    options = ContractOptions(op)
    found, expected = contract(small, pairs, options), contract(ordinary, pairs, options)
    assert np.array_equal(found.indices, expected.indices)
    np.testing.assert_allclose(found.weight, factor * expected.weight, rtol=1e-12)
    soft = Assignment("soft", np.array([0, 2]), soft=np.full((6, 2), 0.5, np.float32))
    assert np.array_equal(contract(small, soft).indices, contract(ordinary, soft).indices)


def test_weights_that_cancel_are_removed_whatever_their_unit():
    pairs = Assignment("hard", np.array([0, 2]), np.array([0, 0, 1, 1], np.int32))
    for factor in (1.0, 1e-9):
        weight = factor * np.array([1.0, -1.0 + 1e-12, 0.5])
        block = BlockCSR.from_edge_index([[0, 1, 2], [2, 3, 3]], weight, num_nodes=4)
        assert contract(block, pairs).num_edges == 0


def test_threshold_of_a_graph_does_not_depend_on_other_graphs():
    pairs = Assignment("hard", np.array([0, 2, 4]), np.array([0, 0, 1, 1, 2, 2, 3, 3], np.int32))
    weight = np.array([1e-9, 1e-9, 1.0, 1e-9])
    block = BlockCSR.from_edge_index([[0, 1, 4, 6], [2, 3, 5, 5]], weight, node_ptr=[0, 4, 8])
    coarse = contract(block, pairs)
    assert coarse.edge_index().tolist() == [[0], [1]]
