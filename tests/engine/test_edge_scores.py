"""Order of edges by the number of members."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.engine.edge_scores import MAX_MEMBERS, BalancedScore, sortable_bits
from tgp.engine.level_method import RandomKey
from tgp.engine.methods import METHODS
from tgp.ragged import BlockCSR
from tgp.testing.graphs import barabasi_albert

single = st.floats(width=32, allow_nan=False)


@given(single, single)
def test_bits_have_the_order_of_the_numbers(a, b):
    first, second = (int(value) for value in sortable_bits(np.array([a, b])))
    assert (first < second, first == second) == (a < b, a == b)


def path_block():
    """A path of four nodes."""
    return BlockCSR(np.array([0, 1, 3, 5, 6]), np.array([1, 0, 2, 1, 3, 2], np.int32), None, np.array([0, 4]))


def test_members_come_before_the_score():
    values = np.array([9.0, 9.0, 5.0, 5.0, 7.0, 7.0])
    score = BalancedScore(lambda graphs, cluster: values)
    first = score(path_block(), None)
    assert first[0] > first[4] > first[2]  # equal numbers of members: the order of the scores
    score.members = np.array([1, 3, 1, 1])
    second = score(path_block(), np.arange(4))
    assert second[4] > second[0] > second[2]  # 2 members, then 4 members by score
    assert np.array_equal(score.members, [1, 3, 1, 1])
    score(path_block(), np.array([0, 0, 1, 2]))
    assert score.members.tolist() == [4, 1, 1, 0]


def test_edges_without_weight_stay_last_and_large_numbers_stay_exact():
    score = BalancedScore(lambda graphs, cluster: np.array([-np.inf, -np.inf, 1.0, 1.0, 2.0, 2.0]))
    assert np.isneginf(score(path_block(), None)[:2]).all()
    score.members = np.array([MAX_MEMBERS, MAX_MEMBERS, MAX_MEMBERS, MAX_MEMBERS])
    found = score(path_block(), np.arange(4))
    assert found[4] > found[2] and np.isneginf(found[:2]).all()


@pytest.mark.parametrize("method", ["hem", "lv"])
def test_balanced_supernodes_are_smaller(method):
    block, params = barabasi_albert(2000, 2, seed=1), METHODS[method].params
    largest = [
        np.bincount(METHODS[method].assign(block, params(ratio=0.1, balanced=on), RandomKey()).cluster).max()
        for on in (False, True)
    ]
    assert largest[1] < largest[0]
