"""Reading and writing of schedules, and the errors of wrong ones."""

import copy
import dataclasses
import json
import pickle
import subprocess
import sys

import pytest
from hypothesis import given

from tgp.engine import METHODS, LevelSpec, Schedule, parse_schedule
from tgp.engine.level_method import ADDED
from tgp.engine.methods.graclus import GraclusParams
from tgp.engine.methods.random import RandomParams
from tgp.errors import ParameterError, ScheduleError, TgpError, UnknownNameError
from tgp.registry import Entry
from tgp.testing.strategies import schedules

GRACLUS = LevelSpec("graclus", GraclusParams())


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        ("graclus", "graclus"),
        (" Graclus , NOPOOL ", "graclus,nopool"),
        ("graclus*3", "graclus*3"),
        ("graclus,graclus*2", "graclus*3"),
        ("graclus * 2", "graclus*2"),
        ("graclus:order=index*2", "graclus:order=index*2"),
        ("graclus : order = index : degree_norm = TRUE", "graclus:order=index:degree_norm=true"),
        ("graclus:order=random", "graclus"),
        ("random:ratio=0.25", "random:ratio=0.25"),
        ("random:ratio=1", "random:ratio=1.0"),
        (["graclus", "nopool*2"], "graclus,nopool*2"),
        (("graclus", "nopool"), "graclus,nopool"),
        (("graclus", {"order": "degree"}), "graclus:order=degree"),
        (("graclus", None), "graclus"),
        ([("graclus", None), GRACLUS, {"name": "nopool"}], "graclus*2,nopool"),
        ({"pooler": "random", "ratio": 0.3}, "random:ratio=0.3"),
        ({"method": "random", "params": {"ratio": 1}}, "random:ratio=1.0"),
        (GRACLUS, "graclus"),
        (Schedule((GRACLUS, GRACLUS)), "graclus*2"),
    ],
)
def test_forms_of_a_schedule(value, canonical):
    schedule = parse_schedule(value)
    assert str(schedule) == canonical
    assert parse_schedule(canonical) == schedule
    assert Schedule.from_json(json.dumps(schedule.to_json())) == schedule


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        ("", ScheduleError, "at least one level"),
        ("  ", ScheduleError, "at least one level"),
        ([], ScheduleError, "at least one level"),
        ("graclus,", ScheduleError, "level 2 of 'graclus,' is empty"),
        (",graclus", ScheduleError, "level 1"),
        ("graclus,,nopool", ScheduleError, "comma too many"),
        ("graclus*0", ScheduleError, "1 to 64, got '0'"),
        ("graclus*,ndp", ScheduleError, "no number after"),
        ("graclus*-1", ScheduleError, "'-1'"),
        ("graclus*1.5", ScheduleError, "'1.5'"),
        ("graclus*65", ScheduleError, "64"),
        ("graclus*40,nopool*40", ScheduleError, "80"),
        ("graclus*2*2", ScheduleError, "cannot be read"),
        ("graclus*2:order=index", ScheduleError, "name:parameter=value\\*times"),
        ("graclus:", ScheduleError, "name=value, got ''"),
        ("graclus:order", ScheduleError, "name=value, got 'order'"),
        ("graclus:order=", ScheduleError, "name=value"),
        ("graclus:=index", ScheduleError, "name=value"),
        ("graclus:order=index:order=degree", ScheduleError, "given twice"),
        ("graclu", UnknownNameError, "Did you mean 'graclus'"),
        ("mincut", UnknownNameError, "Unknown pooler 'mincut'"),
        ("graclus:ordr=index", UnknownNameError, "parameter of graclus 'ordr'. Did you mean 'order'"),
        ("nopool:k=3", UnknownNameError, "parameter of nopool 'k'"),
        ("graclus:order=sideways", ParameterError, "'random' or 'degree' or 'index', got 'sideways'"),
        ("graclus:degree_norm=7", ParameterError, "graclus:degree_norm must be true or false, got '7'"),
        ("random:ratio=half", ParameterError, "random:ratio must be a number, got 'half'"),
        ("hem:ratios=0.5/half", ParameterError, "hem:ratios must be numbers separated by /, got '0.5/half'"),
        ("random:ratio=0", ParameterError, r"^random:ratio .*\(0, 1\], got 0.0"),
        (
            "ndp,hem:ratio=0",
            ParameterError,
            r"^hem:ratio is out of range: expected a number in \(0, 1\], got 0.0",
        ),
        ("hem:ratio=0.5:nodes=9", ParameterError, "^hem: the size is given twice"),
        (f"hem:nodes={2**63}", ParameterError, r"^hem:nodes is out of range: .* in \[1, 2\*\*63\), got"),
        ("random:ratio=nan", ParameterError, r"\(0, 1\], got nan"),
        (("random", {"ratio": "0.5"}), ParameterError, r"must be float, got '0.5' \(str\)"),
        (("random", {"ratio": True}), ParameterError, r"must be float, got True \(bool\)"),
        (("graclus", {"degree_norm": 1}), ParameterError, r"must be bool, got 1 \(int\)"),
        ({"ratio": 0.5}, ScheduleError, "'method', 'pooler' or 'name'"),
        ({"name": "graclus", "pooler": "graclus"}, ScheduleError, r"got keys \['name', 'pooler'\]"),
        ({"name": 3}, ScheduleError, "must be text, got int"),
        ({"name": "graclus", "params": [1]}, ScheduleError, "must be a mapping, got list"),
        (["graclus", 3], ScheduleError, "got int: 3"),
        (7, ScheduleError, "got int"),
        (None, ScheduleError, "got NoneType"),
    ],
)
def test_wrong_schedules_raise(value, error, words):
    with pytest.raises(error, match=words) as caught:
        parse_schedule(value)
    assert isinstance(caught.value, TgpError)
    assert isinstance(caught.value, ValueError)


def test_missing_parameters_are_named(monkeypatch):
    from dataclasses import dataclass

    from tgp.engine.level_method import LevelMethod

    @dataclass(frozen=True)
    class NeedsK:
        k: int
        scale: "int | None" = None
        mode: "str | None" = None

    method = LevelMethod("eigen", NeedsK, lambda *a: None, lambda *a: None)
    monkeypatch.setitem(METHODS._loaded, "eigen", method)
    # Annotations written as text resolve in the module of the class.
    with pytest.raises(ParameterError, match="eigen needs parameter 'k': write eigen:k="):
        parse_schedule("eigen")
    assert parse_schedule("eigen:k=8:scale=none")[0].params == NeedsK(8)
    assert parse_schedule("eigen:k=8:scale=3:mode=none")[0].params == NeedsK(8, 3)
    assert parse_schedule("eigen:k=8:mode=fast")[0].params == NeedsK(8, None, "fast")
    assert str(parse_schedule("eigen:k=8:scale=3")) == "eigen:k=8:scale=3"
    with pytest.raises(ParameterError, match=r"eigen:scale must be a whole number or none, got '2\.5'"):
        parse_schedule("eigen:k=8:scale=2.5")


@pytest.mark.parametrize("text", ["{", "{}", '"graclus"', "3", "[3]", "[]", '[{"params": {}}]'])
def test_wrong_json_raises(text):
    with pytest.raises(ScheduleError):
        Schedule.from_json(text)


def test_json_holds_every_parameter():
    assert parse_schedule("random").to_json() == [
        {
            "method": "random",
            "params": {
                "ratio": 0.5,
                "connect_red_op": "sum",
                "remove_self_loops": True,
                "degree_norm": False,
                "edge_weight_norm": False,
                "count_edges": False,
            },
        }
    ]


@dataclasses.dataclass(frozen=True)
class GrownParams:
    old: int = 1
    new: bool = dataclasses.field(default=False, metadata=ADDED)


GROWN = dataclasses.replace(METHODS["nopool"], name="grown", params=GrownParams, revision=5)


def test_json_omits_added_parameters_with_their_default_value():
    METHODS.register(Entry("grown", f"{__name__}:GROWN", ""), loaded=GROWN)
    try:
        assert parse_schedule("grown").to_json() == [{"method": "grown", "params": {"old": 1}}]
        assert parse_schedule("grown:new=true").to_json()[0]["params"] == {"old": 1, "new": True}
        assert str(Schedule.from_json(parse_schedule("grown:new=true").to_json())) == "grown:new=true"
        assert parse_schedule("nopool,grown,nopool").revision == 5
        assert parse_schedule("graclus*2").revision == 1
    finally:
        METHODS._drop("grown")


def test_methods_without_a_number_of_nodes_name_what_they_have():
    with pytest.raises(UnknownNameError) as caught:
        parse_schedule("partition:nodes=10")
    assert caught.value.hint == "partition:k=... is the number of supernodes of each graph"
    with pytest.raises(UnknownNameError) as caught:
        parse_schedule("voxel:nodes=10")
    assert "voxel has no parameter nodes; methods that have it:" in caught.value.hint
    assert " hem," in caught.value.hint


@given(schedules(max_levels=8))
def test_round_trips(schedule):
    assert parse_schedule(str(schedule)) == schedule
    assert Schedule.from_json(schedule.to_json()) == schedule
    assert sum(n for _, n in schedule.runs()) == len(schedule)
    assert [spec for spec, n in schedule.runs() for _ in range(n)] == list(schedule)


def test_runs_of_equal_levels():
    other = LevelSpec("random", RandomParams(ratio=0.25))
    schedule = Schedule((GRACLUS, GRACLUS, other, GRACLUS))
    assert schedule.runs() == [(GRACLUS, 2), (other, 1), (GRACLUS, 1)]
    assert schedule[2] == other


def test_reading_a_schedule_imports_no_compiled_code():
    code = (
        "import sys; from tgp.engine import parse_schedule, METHODS, coarsen;"
        "parse_schedule('graclus:order=index*2,nopool,random');"
        "assert not {'numba', 'torch', 'scipy'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_pickled_schedules_are_equal():
    schedule = parse_schedule("kmis:order_k=2,graclus*3").keep((1, 3))
    before = dict(METHODS.entries)
    for again in (pickle.loads(pickle.dumps(schedule)), copy.deepcopy(schedule)):
        assert again == schedule and again.steps == (2, 2)
    assert before == METHODS.entries


def test_a_pickled_level_registers_its_method(monkeypatch):
    """A worker process does not have the methods that were registered at run time in the parent process."""
    monkeypatch.setattr(METHODS, "entries", dict(METHODS.entries))
    monkeypatch.setattr(METHODS, "_loaded", dict(METHODS._loaded))
    entry = METHODS.register(Entry("same", "tgp.engine.methods.nopool:METHOD", "Identity"))
    data = pickle.dumps(parse_schedule("same"))
    METHODS._drop("same")
    assert "same" not in METHODS
    assert str(pickle.loads(data)) == "same" and METHODS.entry("same") == entry


def test_a_level_with_a_parameter_class_made_at_run_time_can_be_pickled(monkeypatch):
    local = dataclasses.make_dataclass("Local", [("k", int, 2)], frozen=True)
    method = dataclasses.replace(METHODS["nopool"], params=local)
    monkeypatch.setitem(METHODS._loaded, "nopool", method)
    schedule = parse_schedule("nopool:k=5")
    assert pickle.loads(pickle.dumps(schedule)) == schedule
