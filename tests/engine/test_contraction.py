"""Contraction on blocks: options, and the reference over all of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import contract as reference
from tests.reference.csr import entries
from tgp.engine.contraction import ContractOptions, contract, postprocess
from tgp.errors import InputError, ParameterError
from tgp.ragged import Assignment, BlockCSR
from tgp.testing.graphs import cycle, path, weighted
from tgp.testing.strategies import blocks

flags = st.booleans()
options = st.builds(
    ContractOptions, st.sampled_from(["sum", "mean", "min", "max", "mul"]), flags, flags, flags, flags
)


def assert_equal(block, edges, is_weighted):
    """A block against ``{(row, col): weight}``."""
    found = {(r, c): w for r, c, w in entries(block.validate())}
    assert list(found) == sorted(edges)
    assert (block.weight is not None) == is_weighted
    if is_weighted:
        assert [found[key] for key in found] == pytest.approx(
            [edges[key] for key in found], rel=1e-12, abs=1e-12
        )


@st.composite
def assigned(draw):
    """A block and an assignment with dropped nodes and empty supernodes."""
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


def test_the_input_is_untouched():
    block = weighted()
    before = [block.indptr.copy(), block.indices.copy(), block.weight.copy()]
    everything = ContractOptions("max", True, True, True, True)
    contract(
        block, Assignment("hard", np.array([0, 2]), np.array([0, 0, 1, 1, 1], dtype=np.int32)), everything
    )
    postprocess(block, everything)
    for array, copy in zip([block.indptr, block.indices, block.weight], before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_bad_arguments():
    with pytest.raises(ParameterError, match="sum, mean, min, max, mul, got 'median'"):
        ContractOptions("median")
    with pytest.raises(InputError, match="soft"):
        contract(path(2), Assignment("soft", np.array([0, 1]), soft=np.ones((2, 1), np.float32)))
    with pytest.raises(InputError, match="must hold 3 nodes, got 2"):
        contract(path(3), pairs(2))
