"""Levels that are repeated until every graph is small (``graclus*``), and their size limit (``until``)."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.engine import Schedule, coarsen, parse_schedule
from tgp.engine.coarsening import count_levels
from tgp.engine.schedule import MAX_LEVELS, STALL
from tgp.errors import ParameterError, ScheduleError, UnknownNameError
from tgp.ragged import BlockCSR
from tgp.testing.graphs import path


def _block(sizes):
    return BlockCSR.concat([path(size) for size in sizes])


def _sizes(hierarchy):
    return [np.diff(level.block.node_ptr).tolist() for level in hierarchy.levels]


@pytest.mark.parametrize("text", ["graclus*", "graclus:until=4*", "ndp,graclus:order=index:until=2*"])
def test_text_and_pickle_of_open_schedules(text):
    schedule = parse_schedule(text)
    assert schedule.open_ended and str(schedule) == text
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    closed = schedule.close(3)
    assert not closed.open_ended and len(closed) == len(schedule) + 2
    assert parse_schedule(str(closed)) == closed
    assert Schedule.from_json(json.dumps(closed.to_json())) == closed


def test_a_limit_is_stored_only_if_it_is_set():
    assert "until" not in parse_schedule("graclus").to_json()[0]
    assert [level["until"] for level in parse_schedule("graclus*").close(2).to_json()] == [1, 1]
    assert len(parse_schedule("ndp,graclus*").close(1000)) == MAX_LEVELS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graclus*,ndp", "no number after"),
        ("sep*", "sep cannot be repeated"),
        ("eigen*", "eigen cannot be repeated"),
        ("graclus:until=0*", "out of range"),
        ("graclus**", "cannot be read"),
        ("graclus*3*", "cannot be read"),
        ("*", "empty"),
    ],
)
def test_wrong_open_schedules(text, message):
    with pytest.raises((ScheduleError, ParameterError), match=message):
        parse_schedule(text)


def test_until_is_set_once():
    assert str(parse_schedule("ndp,graclus*").with_until(5)) == "ndp,graclus:until=5*"
    for text in ("graclus*2", "graclus:until=5*"):
        with pytest.raises(ScheduleError, match="until"):
            parse_schedule(text).with_until(3)
    with pytest.raises(ScheduleError, match="no fixed number"):
        parse_schedule("graclus*").to_json()


def test_unknown_parameter_names_the_methods_that_have_it():
    with pytest.raises(UnknownNameError) as error:
        parse_schedule("graclus:k=3")
    assert (
        error.value.hint.endswith("eigen, nmf, partition")
        and "graclus has no parameter k" in error.value.hint
    )


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("leiden:ratio=0.5", None),  # not resolution
        ("kmis:nodes=5", None),  # not order_k
        ("partition:ratios=0.5/0.3", "ratio"),
        ("kmis:score=degree", "scorer"),
        ("hem:rato=0.5", "ratio"),
    ],
)
def test_parameters_of_other_methods_are_not_typing_errors(text, nearest):
    with pytest.raises(UnknownNameError) as error:
        parse_schedule(text)
    assert error.value.nearest == nearest
    assert ("Did you mean" in str(error.value)) == (nearest is not None)


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=6),
    st.integers(1, 8),
    st.sampled_from(["graclus", "kmis", "ndp,graclus"]),
)
def test_levels_do_not_depend_on_the_other_graphs(sizes, until, text):
    block, schedule = _block(sizes), parse_schedule(f"{text}:until={until}*")
    together = coarsen(block, schedule, seed=1)
    closed = schedule.close(count_levels(block, schedule, seed=1))
    assert count_levels(block, schedule, seed=1) == max(
        count_levels(path(n), schedule, seed=1) for n in sizes
    )
    before = block
    for position, level in enumerate(together.levels):
        before_sizes, limit = np.diff(before.node_ptr), closed[position].until
        for graph, size in enumerate(before_sizes):
            alone = coarsen(path(sizes[graph]), closed, seed=1).levels[position]
            nodes = slice(before.node_ptr[graph], before.node_ptr[graph + 1])
            start = level.assignment.super_ptr[graph]
            found = level.assignment.cluster[nodes]
            np.testing.assert_array_equal(np.where(found < 0, -1, found - start), alone.assignment.cluster)
            if alone.assignment.weight is not None:
                np.testing.assert_array_equal(level.assignment.weight[nodes], alone.assignment.weight)
            if alone.assignment.representative is not None:
                own = slice(start, level.assignment.super_ptr[graph + 1])
                np.testing.assert_array_equal(
                    level.assignment.representative[own] - before.node_ptr[graph],
                    alone.assignment.representative,
                )
            np.testing.assert_array_equal(level.block.take([graph]).indices, alone.block.indices)
            if limit is not None and size <= limit:
                np.testing.assert_array_equal(found - start, np.arange(size))
                np.testing.assert_array_equal(level.block.take([graph]).indices, before.take([graph]).indices)
        level.block.validate()
        before = level.block


def test_levels_end_at_the_limit_or_when_graphs_stall():
    assert _sizes(coarsen(_block([3, 40, 1]), "graclus:until=4:order=index*")) == [
        [3, 20, 1],
        [3, 10, 1],
        [3, 5, 1],
        [3, 3, 1],
    ]
    lonely = BlockCSR.from_local_edges(np.zeros((2, 0), np.int32), [0, 0], node_ptr=[0, 30])
    assert _sizes(coarsen(lonely, "graclus*")) == [[30]]  # no edge to contract
    # 40 isolated nodes and one edge: the level keeps 41 of 42 nodes, more than the limit of a stall.
    pair = BlockCSR.from_local_edges(np.array([[0, 1], [1, 0]], np.int32), [0, 2], node_ptr=[0, 42])
    assert STALL * 42 < 41
    assert count_levels(pair, parse_schedule("graclus*")) == 1
    # 48, 44 and 42 nodes: the second level removes less than one node in twenty, so it is not counted.
    ends = np.stack([np.arange(7), np.arange(1, 8)])
    some = BlockCSR.from_local_edges(
        np.concatenate([ends, ends[::-1]], 1).astype(np.int32), [0, 14], node_ptr=[0, 48]
    )
    assert count_levels(some, parse_schedule("graclus:order=index:until=1*")) == 1
    assert _sizes(coarsen(some, "graclus:order=index*2")) == [[44], [42]]
