"""The public interface of tgp 1.0.2 works, except for the differences listed in ``docs/migration.md``."""

import copy
import importlib
import inspect
import pickle

import pytest

import tgp
from tests.compat import surface


def undocumented(found):
    rows = surface.documented()
    return {name: text for name, text in found if not surface.covered(name, rows)}


@pytest.mark.parametrize(
    "source",
    [
        surface.missing_exports,
        surface.changed_signatures,
        surface.missing_attributes,
        surface.changed_states,
    ],
    ids=lambda source: source.__name__,
)
def test_differences_are_documented(source):
    assert undocumented(source()) == {}


def test_documented_differences_exist():
    differences = surface.all_differences()
    stale = [
        row for row in surface.documented() if not any(surface.covered(name, [row]) for name in differences)
    ]
    assert stale == [], "these rows of docs/migration.md are no longer true"


def test_every_documented_difference_has_a_reason():
    for row in surface.rows():
        assert len(row) == 4 and all(row), row


def old(text):
    return list(inspect.signature(eval(f"lambda {text}: 0")).parameters.values())


@pytest.mark.parametrize(
    ("was", "now", "reason"),
    [
        ("a, b=1", "a, b=1, c=2", None),
        ("a", "a=None", None),
        ("", "*args, **kwargs", None),
        ("*args, **kwargs", "a, b", None),
        ("a, *, b=1", "a, b=1", None),
        ("a, b=1", "b=1, a=None", "'a' is not positional argument 1"),
        ("a, b=1", "a, *, b=1", "'b' is not positional argument 2"),
        ("a, b=1", "a, b=2", "default of 'b' is 2, was 1"),
        ("a, b=1", "a", "has no parameter 'b'"),
        ("a, **kwargs", "a", "takes no further keywords"),
        ("a", "a, b", "requires the new parameter(s) b"),
        ("a", "*args, **kwargs", "replaces its parameters by *args and **kwargs"),
    ],
)
def test_signatures_that_accept_old_calls(was, now, reason):
    assert surface.incompatibility(old(was), old(now)) == reason


def test_package_level():
    assert tgp.eps == 1e-8 and isinstance(tgp.__version__, str)
    assert tgp.transforms is importlib.import_module("tgp.data.transforms")
    with pytest.raises(AttributeError):
        _ = tgp.missing
    with pytest.raises(ImportError):
        from tgp import Missing  # noqa: F401


def test_lists_of_names():
    from tgp import connect, reduce, select
    from tgp.utils.typing import ConnectionType, LiftType, ReduceType, SinvType  # noqa: F401

    assert "TopkSelect" in select.select_classes
    assert select.select_functions == ["degree_scorer", "eigenpool_select"]
    assert reduce.reduce_functions == ["get_aggr"] and connect.connect_functions == ["sparse_connect"]
    assert callable(reduce.get_aggr)


ORDER = [
    "asap",
    "acc",
    "bnpool",
    "diff",
    "dmon",
    "ec",
    "eigen",
    "graclus",
    "hosc",
    "lap",
    "jb",
    "kmis",
    "maxcut",
    "mincut",
    "ndp",
    "nmf",
    "nopool",
    "pan",
    "sag",
    "sep",
    "topk",
]


def test_pooler_map_is_a_dictionary_in_the_old_order():
    from tgp.poolers import MinCutPooling, TopkPooling, get_pooler, pooler_classes, pooler_map

    assert isinstance(pooler_map, dict) and pooler_map
    assert list(pooler_map) == list(pooler_map.keys()) and list(pooler_map)[: len(ORDER)] == ORDER
    plain = dict(pooler_map)
    assert type(plain) is dict and list(plain) == list(pooler_map) and plain["topk"] is TopkPooling
    assert {**pooler_map} == plain == pooler_map.copy() == pooler_map and pooler_map == plain
    assert type(pooler_map.copy()) is dict and copy.deepcopy(pooler_map) == plain
    assert [cls.__name__ for cls in pooler_map.values()] == pooler_classes
    assert (pooler_map | {"x": int})["x"] is int and ({"x": int} | pooler_map)["topk"] is TopkPooling
    assert pooler_map.get("nothing") is None and "topk" in pooler_map
    assert pickle.loads(pickle.dumps(pooler_map)) == plain
    with pytest.raises(KeyError):
        _ = pooler_map["nothing"]
    assert isinstance(get_pooler("mincut", in_channels=2, k=2), MinCutPooling)


def test_assignment_to_pooler_map_registers(monkeypatch):
    from tgp.poolers import TopkPooling, get_pooler, pooler_map

    class Mine(TopkPooling):
        pass

    own = set(pooler_map)
    monkeypatch.setitem(pooler_map, "mine", Mine)
    assert type(get_pooler("mine", in_channels=2)) is Mine and list(pooler_map)[-1] == "mine"
    monkeypatch.setitem(pooler_map, "topk", Mine)
    assert type(get_pooler("topk", in_channels=2)) is Mine
    pooler_map.update({"other": Mine})
    pooler_map |= {"another": Mine}
    assert pooler_map.pop("other") is Mine and pooler_map.setdefault("another", int) is Mine
    del pooler_map["another"]
    monkeypatch.undo()
    assert pooler_map["topk"] is TopkPooling and set(pooler_map) == own
    assert pooler_map.entry("topk").traits["trainable"] is True
    with pytest.raises(TypeError, match="expected a class, got TopkPooling"):
        pooler_map["topk"] = get_pooler("topk", in_channels=2)
    with pytest.raises(KeyError):
        del pooler_map["nothing"]
