"""Rules of attributes on levels: texts, choices of ``auto``, and errors."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.engine.carry import REDUCTIONS, CarryRules, CarryStep, resolve
from tgp.engine.methods import METHODS, contracts_edges
from tgp.errors import InputError, ParameterError, UnknownNameError
from tgp.ragged import Field, GraphTable

NODE_PTR, EDGE_PTR = np.array([0, 2, 5]), np.array([0, 2, 6])

names = st.text("abcxy_. ", min_size=1).filter(lambda name: name == name.strip())


def make_table(**arrays):
    """Return two graphs with 2 and 3 nodes, 2 and 4 edges, and attributes of 5, 6 or 2 rows."""
    ptrs = {5: NODE_PTR, 6: EDGE_PTR, 2: np.arange(3)}
    edges = np.array([[0, 1, 0, 1, 1, 2], [1, 0, 1, 0, 2, 1]])
    fields = {"edge_index": Field("edge_index", edges, EDGE_PTR, -1, "rows", True)}
    for name, array in arrays.items():
        fields[name] = array if isinstance(array, Field) else Field(name, array, ptrs[len(array)])
    return GraphTable(NODE_PTR, fields)


def texts(name, values):
    raw = [json.dumps(value).encode() for value in values]
    ptr = np.cumsum([0, *map(len, raw)])
    return Field(name, np.frombuffer(b"".join(raw), np.uint8), ptr, 0, "json")


def chosen(rules, table):
    return {step.name: step.reduction for step in resolve(CarryRules.parse(rules), table)}


@given(st.booleans(), st.dictionaries(names, st.sampled_from(REDUCTIONS)))
def test_rules_have_one_text(auto, reductions):
    rules = CarryRules.parse({**({"*": "auto"} if auto else {}), **reductions})
    assert CarryRules.parse(str(rules)) == rules
    assert CarryRules.parse(rules) is rules
    assert bool(rules) == (auto or bool(reductions))


def test_rules_are_read_in_any_order():
    assert str(CarryRules.parse(" y=majority , auto,pos = mean")) == "auto,pos=mean,y=majority"
    assert CarryRules.parse(None) == CarryRules.parse("none") == CarryRules.parse("") == CarryRules()


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ("pos=maen", UnknownNameError, "Did you mean 'mean'"),
        ({"pos": 3}, UnknownNameError, "Unknown reduction '3'"),
        ("pos", ParameterError, "attribute=reduction, got 'pos'"),
        ("pos=mean,,x=mean", ParameterError, "got ''"),
        ("pos=mean,pos=max", ParameterError, "several rules for 'pos'"),
        ("auto,auto", ParameterError, "several rules"),
        ({"a,b": "mean"}, ParameterError, "without commas"),
        ({3: "mean"}, ParameterError, "got 3"),
        ({"*": "mean"}, UnknownNameError, "Valid: auto"),
        (7, ParameterError, "expected text or a mapping, got int"),
    ],
)
def test_wrong_rules_are_reported(value, error, message):
    with pytest.raises(error, match=message):
        CarryRules.parse(value)


def test_auto_chooses_by_name_and_kind():
    table = make_table(
        x=np.ones((5, 3), np.float32),
        pos=np.ones((5, 2)),
        y=np.ones(5, np.int64),
        node_label=np.ones(5),
        train_mask=np.ones(5, bool),
        charge=np.ones(5, np.int8),
        energy=np.ones(5),
        edge_attr=np.ones((6, 2)),
        edge_type=np.ones(6, np.int64),
        edge_weight=np.ones(6),
        target=np.ones((2, 1)),
        names=texts("names", [["a", "b"], ["c", "d", "e"]]),
        batch=np.zeros(5, np.int64),
    )
    assert chosen("auto", table) == {
        "num_members": "count",
        "x": "mean",
        "pos": "mean",
        "y": "majority",
        "y_purity": "purity",
        "y_train": "majority",
        "y_mixed": "mixed",
        "node_label": "mean",
        "train_mask": "any",
        "charge": "majority",
        "energy": "mean",
        "edge_attr": "mean",
        "edge_type": "majority",
    }
    assert "pos" not in chosen("auto,pos=none", table)
    assert chosen("pos=max", table) == {"num_members": "count", "pos": "max"}
    assert chosen(None, table) == {}


def test_steps_are_plain_data():
    table = make_table(y=np.ones(5, np.int64), train_mask=np.ones(5, bool), edge_attr=np.ones(6))
    steps = resolve(CarryRules.parse("auto"), table)
    stored = json.loads(json.dumps([step.to_json() for step in steps]))
    assert tuple(CarryStep(**step) for step in stored) == steps
    assert {step.name: step.owner for step in steps}["edge_attr"] == "edge"


def test_the_name_decides_between_nodes_and_edges():
    ptr = np.array([0, 3, 6])
    edges = Field("edge_index", np.zeros((2, 6), np.int64), ptr, -1, "rows", True)
    fields = {name: Field(name, np.ones(6), ptr) for name in ("length", "edge_length")}
    steps = resolve(CarryRules.parse("auto"), GraphTable(ptr, {"edge_index": edges, **fields}))
    assert {step.name: step.owner for step in steps[1:]} == {"length": "node", "edge_length": "edge"}


def test_a_label_of_single_nodes_belongs_to_the_graph_unless_a_rule_names_it():
    ptr = np.array([0, 1, 2])
    table = GraphTable(ptr, {name: Field(name, np.ones(2, np.int64), ptr) for name in ("y", "z")})
    assert chosen("auto", table).keys() == {"num_members", "z"}
    assert "y" in chosen("y=majority", table)


@pytest.mark.parametrize(
    ("rules", "error", "message"),
    [
        ("posit=mean", UnknownNameError, "Unknown attribute 'posit'. Did you mean 'pos'"),
        (
            "names=mean",
            ParameterError,
            "cannot be reduced by mean: expected one of majority, first, none for text",
        ),
        ("pos=any", ParameterError, "cannot be reduced by any"),
        ("z=majority", InputError, "got NaN in row 3"),
        ("target=mean", InputError, "one row per node or edge, got one value per graph"),
        ("short=mean", InputError, "got 2 rows for 3 nodes and 4 edges in graph 1"),
        ("train_mask=any", InputError, "got 2 rows for 3 nodes"),
        ("auto", InputError, "'train_mask' cannot be carried"),
        ("edge_index=sum", InputError, "levels have their own"),
        ("my_index=sum", InputError, "ids"),
        ("my_batch=sum", InputError, "ids"),
        ("word=first", InputError, "not a list of texts"),
        ("y_purity=mean,y=majority", InputError, "computed attribute 'y_purity'"),
    ],
)
def test_rules_that_do_not_fit_are_reported(rules, error, message):
    four = np.array([0, 2, 4])
    table = make_table(
        pos=np.ones((5, 2)),
        y=np.ones(5, np.int64),
        y_purity=np.ones(5),
        z=np.array([0.0, 1.0, 2.0, np.nan, 1.0]),
        target=np.ones((2, 1)),
        short=Field("short", np.ones(4), four),
        train_mask=Field("train_mask", np.ones(4, bool), four),
        names=texts("names", [["a", "b"], ["c", "d", "e"]]),
        word=texts("word", ["a", ["c", "d", "e"]]),
        my_index=Field("my_index", np.zeros(5, np.int64), NODE_PTR, -1, "rows", True),
        my_batch=np.zeros(5, np.int64),
    )
    with pytest.raises(error, match=message):
        resolve(CarryRules.parse(rules), table)


def test_computed_attributes_replace_those_of_the_same_name():
    table = make_table(y=np.ones(5, np.int64), y_purity=np.ones(5), num_members=np.ones(5))
    steps = resolve(CarryRules.parse("auto"), table)
    assert [(step.name, step.reduction) for step in steps] == [
        ("num_members", "count"),
        ("y", "majority"),
        ("y_purity", "purity"),
    ]


def test_methods_state_that_they_contract_edges():
    found = {name for name in METHODS if METHODS[name].contracts}
    assert {"graclus", "kmis", "sep", "eigen", "nopool", "random"} <= found
    assert not {"ndp", "nmf"} & found
    assert contracts_edges("graclus+kmis") and not contracts_edges("graclus+ndp")
    assert not contracts_edges("") and not contracts_edges("a_method_that_is_absent")
