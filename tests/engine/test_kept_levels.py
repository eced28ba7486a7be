"""Schedules and stores that keep some of the levels."""

from dataclasses import dataclass

import numpy as np
import pytest

from tgp.build import CoarsenConfig, coarsen_dataset
from tgp.engine import Schedule, coarsen, parse_schedule
from tgp.engine.level_method import LevelMethod
from tgp.engine.level_steps import compose
from tgp.engine.methods import METHODS
from tgp.errors import InputError, ScheduleError
from tgp.inspect import verify_by_recompute
from tgp.ragged import Assignment, BlockCSR
from tgp.registry import Entry
from tgp.sources import open_source
from tgp.store import StoreReader, verify_store
from tgp.testing.graphs import path


def test_json_form_of_composed_levels():
    schedule = parse_schedule("graclus*2,nopool,graclus:order=index*2")
    kept = schedule.keep((1, 2))
    assert kept.levels == schedule.levels[:3] and kept.steps == (2, 1)
    assert [level["method"] for level in kept.to_json()] == ["graclus+graclus", "nopool"]
    assert Schedule.from_json(kept.to_json()) == kept
    assert Schedule.from_json(schedule.to_json()) == schedule


def test_steps_must_fit_the_levels():
    levels = parse_schedule("graclus*3").levels
    for steps in ((1, 1), (4, -1), ()):
        with pytest.raises(ScheduleError, match="sum is 3"):
            Schedule(levels, steps)


def test_coarsen_returns_the_kept_levels():
    schedule = parse_schedule("graclus:order=index*4")
    whole, some = coarsen(path(32), schedule), coarsen(path(32), schedule.keep((1, 3))).validate()
    assert [level.method for level in some.levels] == ["graclus+graclus"] * 2
    for level, position in zip(some.levels, (1, 3), strict=True):
        assert np.array_equal(level.edge_index, whole.levels[position].edge_index)


@pytest.mark.parametrize("kept", [(), (1, 0), (0, 0), (-1,), (5,)])
def test_wrong_levels(kept):
    with pytest.raises(InputError, match="1 to 5"):
        parse_schedule("graclus*5").keep(kept)


def test_dense_assignments_are_not_composed():
    with pytest.raises(InputError, match="nmf"):
        parse_schedule("graclus,nmf:k=3").keep((1,))
    assert parse_schedule("graclus,nmf:k=3").keep((0, 1)).steps == (1, 1)


@dataclass(frozen=True)
class Halves:
    k: int = 2


def halves(block, params, key):
    """Every node belongs to both supernodes of its graph, half each."""
    soft = np.full((block.num_nodes, params.k), 0.5, np.float32)
    return Assignment("soft", np.arange(block.num_graphs + 1) * params.k, soft=soft)


def two_nodes(block, assignment, params):
    return BlockCSR(
        np.zeros(assignment.num_supernodes + 1, np.int64), np.zeros(0, np.int32), None, assignment.super_ptr
    )


@pytest.fixture
def register(monkeypatch):
    """Return a function that registers the method ``halves``, as another package would."""

    def add(dense):
        monkeypatch.setitem(METHODS.entries, "halves", Entry("halves", "other:METHOD", ""))
        method = LevelMethod("halves", Halves, halves, two_nodes, dense=dense)
        monkeypatch.setitem(METHODS._loaded, "halves", method)

    return add


def test_a_method_declares_that_it_is_dense(register):
    register(dense=True)
    with pytest.raises(InputError, match=r"levels 1 to 2 \(graclus, halves\) .*: halves has a dense"):
        parse_schedule("graclus,halves").keep((1,))


@pytest.mark.parametrize("schedule", ["graclus,halves", "halves,graclus"])
def test_a_dense_assignment_of_a_method_that_does_not_declare_it(register, tmp_path, schedule):
    register(dense=False)
    config = CoarsenConfig(
        "molecules:num_graphs=3", out=tmp_path, poolers=(schedule,), only_levels=(2,), workers=1
    )
    with pytest.raises(InputError, match="halves has a dense assignment"):
        coarsen_dataset(config)


def test_composition():
    """Dropped nodes stay dropped, weights are multiplied, and representatives are nodes of the first level."""
    first = Assignment(
        "hard",
        np.array([0, 3]),
        np.array([0, 0, 1, -1, 2], np.int32),
        np.array([1, 2, 3, 4, 5], np.float32),
        representative=np.array([1, 2, 4], np.int32),
    )
    second = Assignment(
        "hard", np.array([0, 1]), np.array([0, -1, 0], np.int32), representative=np.array([2], np.int32)
    )
    composed = compose(first, second).validate(np.array([0, 5]))
    assert composed.cluster.tolist() == [0, 0, -1, -1, 0]
    assert composed.weight.tolist() == [1, 2, 3, 4, 5]
    assert composed.representative.tolist() == [4]


def test_store_with_some_levels(tmp_path):
    config = CoarsenConfig(
        "molecules:num_graphs=12", out=tmp_path, poolers=("kmis,graclus*3",), only_levels=(2, 4), seed=2
    )
    summary = coarsen_dataset(config)
    assert [h.name for h in summary.hierarchies] == ["kmis-graclus-x3-only=1+3"]
    assert coarsen_dataset(config).status == "up to date"
    assert verify_store(tmp_path) == [] and verify_by_recompute(tmp_path, sample=None) == []
    whole = coarsen(open_source(config.dataset).table.to_block(), "kmis,graclus*3", 2)
    reader = StoreReader(tmp_path)
    stored = reader.gather_levels(np.arange(12), "kmis-graclus-x3-only=1+3")
    assert len(stored) == 2
    clusters = [level.assignment.cluster for level in whole.levels]
    assert np.array_equal(stored[0].assignment.cluster, clusters[1][clusters[0]])
    assert np.array_equal(stored[1].assignment.cluster, clusters[3][clusters[2]])
    assert np.array_equal(stored[1].edge_index, whole.levels[3].block.edge_index())
