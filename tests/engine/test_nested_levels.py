"""Levels of several sizes that one method computes together (``ratios=0.5/0.3``)."""

import dataclasses
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.engine import METHODS, LevelSpec, Schedule, coarsen, parse_schedule
from tgp.engine.coarsening import coarsen_with_failures
from tgp.engine.contraction import ConnectParams, contract
from tgp.engine.level_method import LevelMethod
from tgp.errors import GraphError, InputError, ParameterError, ScheduleError, UnknownNameError
from tgp.ragged import Assignment, BlockCSR
from tgp.registry import Entry
from tgp.testing.graphs import path


@dataclasses.dataclass(frozen=True, kw_only=True)
class SliceParams(ConnectParams):
    """Shares of the nodes that remain."""

    ratios: tuple[float, ...] = ()
    ratio: float | None = None


def _slices(sizes, counts):
    """Divide the nodes of each graph into slices of consecutive nodes."""
    parts = [
        np.arange(n) * k // max(n, 1) + o
        for n, k, o in zip(sizes, counts, np.cumsum([0, *counts]), strict=False)
    ]
    return Assignment("hard", np.cumsum([0, *counts]), np.concatenate([[], *parts]).astype(np.int32))


def assign(block, params, key):
    return _slices(
        np.diff(block.node_ptr), np.ceil(np.diff(block.node_ptr) * (params.ratio or 0.5)).astype(int)
    )


def assign_levels(block, params, key, num_levels):
    assert num_levels == len(params.ratios), "a schedule has all nested levels"
    first = sizes = np.diff(block.node_ptr)
    if (first == 13).any():
        raise GraphError("thirteen nodes", graph=int(np.argmax(first == 13)))
    levels = []
    for ratio in params.ratios:
        counts = np.ceil(ratio * first).astype(int)
        levels.append(_slices(sizes, counts))
        sizes = counts
    return levels


SLICES = LevelMethod(
    "slices",
    SliceParams,
    assign,
    lambda block, assignment, params: contract(block, assignment, params.contract_options()),
    assign_levels,
    builds_levels=lambda params: bool(params.ratios),
    contracts=True,
)
ALONE = dataclasses.replace(SLICES, name="alone", assign_levels=None, builds_levels=None)


@pytest.fixture(autouse=True, scope="module")
def _methods():
    for method in (SLICES, ALONE):
        METHODS.register(Entry(method.name, f"{__name__}:{method.name.upper()}", ""), loaded=method)
    yield
    for method in (SLICES, ALONE):
        METHODS._drop(method.name)


def _sizes(hierarchy):
    return [np.diff(level.block.node_ptr).tolist() for level in hierarchy.levels]


@pytest.mark.parametrize(
    "value",
    [
        "slices:ratios=0.5/0.3/0.1",
        " slices : ratios = 0.5 / 0.3 / 0.1 ",
        ("slices", {"ratios": [0.5, 0.3, 0.1]}),
        {"method": "slices", "ratios": (0.5, 0.3, 0.1)},
        ["slices:ratios=0.5/0.3/0.1"],
    ],
)
def test_forms_of_nested_levels(value):
    schedule = parse_schedule(value)
    assert len(schedule) == 3 and len(set(schedule)) == 1
    assert schedule.runs() == [(schedule[0], 3)]
    assert str(schedule) == "slices:ratios=0.5/0.3/0.1"
    assert (
        parse_schedule(str(schedule))
        == parse_schedule(list(schedule))
        == parse_schedule(schedule[0])
        == schedule
    )
    stored = schedule.to_json()
    assert json.loads(json.dumps(stored)) == stored
    assert Schedule.from_json(stored) == schedule
    assert pickle.loads(pickle.dumps(schedule)) == schedule


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("slices:ratios=0.5/0.3,slices:ratios=0.5/0.3", [2, 2]),
        ("slices:ratios=0.5,slices:ratios=0.5", [1, 1]),
        ("slices*2,slices:ratios=0.5/0.3,slices:ratio=0.3", [2, 2, 1]),
    ],
)
def test_runs_of_nested_levels(text, runs):
    schedule = parse_schedule(text)
    assert [length for _, length in schedule.runs()] == runs
    assert str(schedule) == text
    assert Schedule.from_json(schedule.to_json()) == schedule


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (
            "slices:ratios=0.5/0.3*2",
            ScheduleError,
            r"cannot be repeated: expected its 2 nested levels once, got \*2",
        ),
        ("slices:ratios=0.5*2", ScheduleError, "cannot be repeated"),
        ("slices:ratios=0.5/0.3*", ParameterError, "expected one size, got nested levels"),
        ("slices:ratios=0.5/half", ParameterError, "numbers separated by /, got '0.5/half'"),
        ("slices:ratios=0.5/", ParameterError, "separated by /"),
        (("slices", {"ratios": [0.5, "0.3"]}), ParameterError, r"must be tuple\[float, \.\.\.\]"),
        ("alone:ratios=0.5/0.3", ParameterError, "alone cannot make nested levels"),
    ],
)
def test_wrong_nested_levels_raise(value, error, words):
    with pytest.raises(error, match=words):
        parse_schedule(value)


def test_a_comma_between_ratios_is_explained():
    with pytest.raises(UnknownNameError) as error:
        parse_schedule("slices:ratios=0.5,0.3")
    assert "separated by /" in error.value.hint
    with pytest.raises(UnknownNameError) as error:
        parse_schedule("slice")
    assert not error.value.hint


def test_incomplete_runs_raise():
    stored = parse_schedule("slices:ratios=0.5/0.3/0.1").to_json()
    for wrong in (stored[:2], stored + stored[:1]):
        with pytest.raises(ScheduleError, match=f"expected 3 equal levels, got {len(wrong)}"):
            Schedule.from_json(wrong)


def test_empty_ratios_are_one_level():
    assert len(parse_schedule("slices:ratios=none")) == 1
    assert parse_schedule(("slices", {"ratios": []})) == parse_schedule("slices")


@given(
    st.lists(st.floats(0.01, 1), min_size=1, max_size=5), st.lists(st.integers(0, 12), min_size=1, max_size=4)
)
def test_sizes_refer_to_the_graph_that_enters_the_run(ratios, nodes):
    block = BlockCSR.concat([path(n) for n in nodes])
    ratios = sorted(ratios, reverse=True)
    hierarchy = coarsen(block, ["slices:ratio=0.5", ("slices", {"ratios": ratios})])
    before = np.ceil(np.array(nodes) * 0.5)
    assert _sizes(hierarchy)[1:] == [np.ceil(ratio * before).tolist() for ratio in ratios]


def test_keep_removes_sizes():
    block, full = path(40), parse_schedule("slices:ratios=0.5/0.3/0.1")
    first = full.keep([0, 1])
    assert str(first) == "slices:ratios=0.5/0.3" and first.steps == (1, 1)
    assert Schedule.from_json(first.to_json()).levels == first.levels
    assert _sizes(coarsen(block, first)) == [[20], [12]]
    composed = full.keep([0, 2])
    assert composed.levels == full.levels and composed.steps == (1, 2)
    assert Schedule.from_json(composed.to_json()) == composed
    assert _sizes(coarsen(block, composed)) == [[20], [4]]
    with pytest.raises(InputError, match="from 1 to 3"):
        full.keep([3])


def test_a_graph_that_fails_has_no_nested_levels():
    block = BlockCSR.concat([path(10), path(13), path(20)])
    hierarchy, failures = coarsen_with_failures(block, "slices:ratios=0.5/0.2")
    assert [(f.graph, f.level) for f in failures] == [(1, 0)]
    assert _sizes(hierarchy) == [[5, 0, 10], [2, 0, 4]]


def test_nested_levels_in_transforms():
    torch = pytest.importorskip("torch")
    from torch_geometric.data import Data

    from tgp.data import PreCoarsening

    data = Data(edge_index=torch.as_tensor(path(10).edge_index()), num_nodes=10)
    for poolers in (
        "slices:ratios=0.5/0.2",
        [("slices", {"ratios": [0.5, 0.2]})],
        [{"pooler": "slices", "ratios": (0.5, 0.2)}],
    ):
        assert [level.num_nodes for level in PreCoarsening(poolers)(data).pooled_data] == [5, 2]


def test_a_level_object_stands_for_all_of_its_nested_levels():
    spec = LevelSpec.of("slices", {"ratios": [0.5, 0.3]})
    assert spec.num_nested == 2 and LevelSpec.of("slices").num_nested == 0
    assert len(parse_schedule(["nopool", spec, "nopool"])) == 4
