"""Colours and shapes of supernodes."""

import numpy as np
import pytest

from tgp.inspect.report.palette import COLOURS, LOOKS, choose_looks

NONE = np.zeros((2, 0), int)


def first_level(edges, count):
    """Choose looks for supernodes whose members have no look yet."""
    return choose_looks(edges, count, np.arange(count), np.full(count, -1))


@pytest.mark.parametrize("count", [1, 8, 9, 30, 32])
def test_up_to_32_supernodes_all_look_different(count):
    assert len({*first_level(NONE, count).tolist()}) == count
    # Also if all of them would like to keep the same look.
    assert len({*choose_looks(NONE, count, np.arange(count), np.zeros(count, int)).tolist()}) == count


def test_neighbours_have_different_colours():
    # Without edges supernodes i and i + 8 would have the same colour.
    edges = np.stack([np.arange(22), np.arange(22) + 8])
    assert (first_level(NONE, 30) % COLOURS)[edges[0]].tolist() == (first_level(NONE, 30) % COLOURS)[
        edges[1]
    ].tolist()
    looks = first_level(edges, 30)
    assert len({*looks.tolist()}) == 30
    assert (looks[edges[0]] % COLOURS != looks[edges[1]] % COLOURS).all()


def test_many_supernodes_share_looks_but_neighbours_do_not():
    # Each of 400 supernodes is a neighbour of the twenty before it: more than there are colours.
    low, high = np.triu_indices(400, 1)
    edges = np.stack([low, high])[:, high - low <= 20]
    looks = first_level(edges, 400)
    assert (looks[edges[0]] != looks[edges[1]]).all()
    assert {*looks.tolist()} == {*range(LOOKS)}
    greedy = choose_looks(edges, 400, np.arange(400), np.zeros(400, int))
    assert (greedy[edges[0]] != greedy[edges[1]]).all(), "also if all would like to keep the same look"
    counts = np.bincount(first_level(NONE, 400), minlength=LOOKS)
    assert counts.max() - counts.min() <= 1, "looks are used evenly"


def test_a_supernode_keeps_the_look_of_a_member():
    looks = choose_looks(NONE, 10, np.arange(20) // 2, np.repeat(np.arange(10) + 20, 2))
    np.testing.assert_array_equal(looks, np.arange(10) + 20)


def test_few_supernodes_are_circles_and_keep_their_colour():
    looks = choose_looks(NONE, 3, np.array([0, 1, 2, -1]), np.array([8 + 5, 16 + 1, 2, 7]))
    np.testing.assert_array_equal(looks, [5, 1, 2])
