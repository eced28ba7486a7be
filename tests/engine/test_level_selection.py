"""Stores that keep some levels only."""

from dataclasses import dataclass

import numpy as np
import pytest

from tgp.build import CoarsenConfig, coarsen_dataset
from tgp.engine import coarsen, parse_schedule
from tgp.engine.level_selection import keep_levels, select_levels, unfold
from tgp.engine.methods import METHODS
from tgp.engine.level_method import LevelEstimate, LevelMethod
from tgp.errors import InputError
from tgp.inspect import verify_by_recompute
from tgp.ragged import Assignment, BlockCSR, Hierarchy, Level
from tgp.registry import Entry
from tgp.sources import open_source
from tgp.sources.source import table_block
from tgp.store import StoreReader, verify_store


def test_fold_and_unfold_are_inverse():
    schedule = parse_schedule("graclus*2,nopool,graclus:order=index*2")
    stored = select_levels(schedule, (1, 2))
    assert [level["method"] for level in stored] == ["graclus+graclus", "nopool"]
    again, lengths = unfold(stored)
    assert again.levels == schedule.levels[:3] and lengths == [2, 1]
    assert select_levels(schedule, None) == schedule.to_json()
    assert unfold(schedule.to_json()) == (schedule, [1] * 5)


@pytest.mark.parametrize("kept", [(), (1, 0), (0, 0), (-1,), (5,)])
def test_bad_levels(kept):
    with pytest.raises(InputError, match="0 to 4"):
        select_levels(parse_schedule("graclus*5"), kept)


def test_dense_assignments_are_not_composed():
    with pytest.raises(InputError, match="nmf"):
        select_levels(parse_schedule("graclus,nmf:k=3"), (1,))
    assert len(select_levels(parse_schedule("graclus,nmf:k=3"), (0, 1))) == 2


@dataclass(frozen=True)
class Halves:
    k: int = 2


def halves(block, params, draw):
    """Every node belongs to both supernodes of its graph, half each."""
    soft = np.full((block.num_nodes, params.k), 0.5, np.float32)
    return Assignment("soft", np.arange(block.num_graphs + 1) * params.k, soft=soft)


def two_nodes(block, assignment, params):
    return BlockCSR(
        np.zeros(assignment.num_supernodes + 1, np.int64), np.zeros(0, np.int32), None, assignment.super_ptr
    )


@pytest.fixture
def register(monkeypatch):
    """Makes ``halves`` a level method that says ``expected`` of itself, as another package would."""

    def add(expected):
        monkeypatch.setitem(METHODS.entries, "halves", Entry("halves", "other:METHOD", ""))
        method = LevelMethod("halves", Halves, halves, two_nodes, expected=expected)
        monkeypatch.setitem(METHODS._loaded, "halves", method)

    return add


def test_a_method_says_itself_that_it_is_dense(register):
    register(LevelEstimate(fixed_k=True))
    with pytest.raises(InputError, match=r"levels 1 to 2 \(graclus, halves\) .*: halves has a dense"):
        select_levels(parse_schedule("graclus,halves"), (1,))


@pytest.mark.parametrize("schedule", ["graclus,halves", "halves,graclus"])
def test_a_dense_assignment_of_a_method_that_says_nothing(register, tmp_path, schedule):
    register(LevelEstimate())
    config = CoarsenConfig(
        "molecules:num_graphs=3", out=tmp_path, poolers=(schedule,), only_levels=(2,), workers=1
    )
    with pytest.raises(InputError, match="halves has a dense assignment"):
        coarsen_dataset(config)


def test_composition_by_hand():
    """Drops stay dropped, weights multiply, representatives are followed down."""
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

    def level(assignment):
        size = assignment.num_supernodes
        return Level(
            "m",
            np.array([0, assignment.num_nodes]),
            assignment,
            BlockCSR(np.zeros(size + 1, np.int64), np.zeros(0, np.int32), None, assignment.super_ptr),
        )

    joined = keep_levels(Hierarchy(np.array([0, 5]), (level(first), level(second))), [2]).validate()
    (only,) = joined.levels
    assert only.method == "m+m"
    assert only.assignment.cluster.tolist() == [0, 0, -1, -1, 0]
    assert only.assignment.weight.tolist() == [1, 2, 3, 4, 5]
    assert only.assignment.representative.tolist() == [4]


def test_store_with_some_levels(tmp_path):
    config = CoarsenConfig(
        "molecules:num_graphs=12", out=tmp_path, poolers=("kmis,graclus*3",), only_levels=(2, 4), seed=2
    )
    summary = coarsen_dataset(config)
    assert [h.name for h in summary.hierarchies] == ["kmis-graclus-x3-only=1+3"]
    assert coarsen_dataset(config).status == "up to date"
    assert verify_store(tmp_path) == [] and verify_by_recompute(tmp_path, sample=None) == []
    whole = coarsen(table_block(open_source(config.dataset).table), "kmis,graclus*3", 2)
    reader = StoreReader(tmp_path)
    stored = reader.gather_levels(np.arange(12), "kmis-graclus-x3-only=1+3")
    assert len(stored) == 2
    clusters = [level.assignment.cluster for level in whole.levels]
    assert np.array_equal(stored[0].cluster, clusters[1][clusters[0]])
    assert np.array_equal(stored[1].cluster, clusters[3][clusters[2]])
    assert np.array_equal(stored[1].edge_index, whole.levels[3].block.edge_index())
