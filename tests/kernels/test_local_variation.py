"""Kernels of local variation against dense formulas."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import lv as reference
from tests.reference.eigen import affinity, components
from tgp.kernels import csr
from tgp.kernels import local_variation as kernels
from tgp.ragged.offsets import offsets
from tgp.testing.graphs import path
from tgp.testing.strategies import blocks

graphs = blocks(min_graphs=1, max_graphs=1, max_nodes=12, negative=False)


def problem(block, columns, seed):
    """Return rows without self loops, the dense matrix, components, and a random basis."""
    matrix = affinity(block)
    matrix -= np.diag(matrix.diagonal())
    row, column = np.nonzero(matrix)
    rows = offsets(np.bincount(row, minlength=len(matrix))), column.astype(np.int32), matrix[row, column]
    component = csr.components(rows[0], rows[1], block.node_ptr)[0]
    members = np.argsort(component, kind="stable")
    ptr = offsets(np.bincount(component))
    basis = np.random.default_rng(seed).normal(size=(len(matrix), columns))
    return rows, matrix, members, ptr, basis


@given(graphs, st.integers(1, 6), st.integers(0, 99))
def test_orthonormal_bases_have_the_distances_of_the_reference(block, columns, seed):
    rows, matrix, members, ptr, basis = problem(block, columns, seed)
    if columns > 2:  # a column that depends on others
        basis[:, 2] = basis[:, 0] - 2 * basis[:, 1]
    expected = reference.orthonormal(matrix, basis, 0.0)
    kernels.orthonormalize(*rows, members, ptr, 0, len(ptr) - 1, 0.0, basis)
    for nodes in components(matrix):
        for i in nodes:
            for j in nodes:
                mine, theirs = (np.sum((b[i] - b[j]) ** 2) for b in (basis, expected))
                assert mine == pytest.approx(theirs, rel=1e-5, abs=1e-7)


def test_columns_without_variation_are_left_out():
    rows, _, members, ptr, basis = problem(path(6), 2, 0)
    basis[:, 1] = 1.0 + 1e-7 * basis[:, 0] ** 2
    kernels.orthonormalize(*rows, members, ptr, 0, 1, 1e-9, basis)
    assert basis[:, 0].any() and not basis[:, 1].any()


@given(graphs, st.integers(0, 99))
def test_costs_of_edges_are_those_of_pairs(block, seed):
    rows, matrix, _, _, basis = problem(block, 3, seed)
    out = np.empty(len(rows[1]))
    kernels.edge_costs(rows[0], rows[1], matrix.sum(1), basis, 0, len(matrix), out)
    for i in range(len(matrix)):
        for e in range(rows[0][i], rows[0][i + 1]):
            assert out[e] == pytest.approx(reference.pair_cost(matrix, basis, i, rows[1][e]), rel=3e-6)


@given(st.floats(0, 1e12) | st.floats(0, 1e-6))
def test_costs_are_rounded_to_twenty_bits(value):
    assert kernels._round_cost(value) == reference.rounded(value)


def score(rows, matrix, basis, free, needs_centre=False, members=None):
    """Return the number of nodes and the key of each neighbourhood."""
    nodes = np.arange(len(matrix))
    once = (
        np.repeat(nodes, np.diff(rows[0])) < rows[1]
    )  # in any order, because the kernels only need each edge once
    once_ptr = offsets(np.bincount(np.repeat(nodes, np.diff(rows[0]))[once], minlength=len(matrix)))
    count, key = np.zeros(len(matrix), np.int64), np.full(len(matrix), np.nan)
    members = np.empty(0) if members is None else members
    kernels.score_neighborhoods(
        rows[0], rows[1], once_ptr, rows[1][once], rows[2][once], matrix.sum(1), basis, members, free, needs_centre,
        0, len(matrix), count, key,
    )  # fmt: skip
    return count, key


@given(graphs, st.integers(0, 99), st.booleans())
def test_costs_of_neighborhoods_are_those_of_sets(block, seed, needs_centre):
    rows, matrix, _, _, basis = problem(block, 3, seed)
    free = np.random.default_rng(seed).random(len(matrix)) < 0.8
    count, key = score(rows, matrix, basis, free, needs_centre)
    for u in range(len(matrix)):
        nodes = [v for v in sorted({u, *np.flatnonzero(matrix[u]).tolist()}) if free[v]]
        if needs_centre and not free[u]:
            nodes = []
        assert count[u] == len(nodes)
        if len(nodes) > 1:
            assert key[u] == pytest.approx(reference.set_cost(matrix, basis, nodes), rel=3e-6)


def test_the_mean_number_of_members_comes_before_the_cost():
    rows, matrix, _, _, basis = problem(path(5), 2, 0)
    free = np.ones(5, np.bool_)
    cost = score(rows, matrix, basis, free)[1]
    key = score(rows, matrix, basis, free, members=np.array([3.0, 1.0, 1.0, 1.0, 1e9]))[1]
    assert key.astype(int).tolist() == [32, 27, 16, 2**20 - 1, 2**20 - 1]
    assert key[2] == 16 + cost[2] / (1 + cost[2])
