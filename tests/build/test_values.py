"""Values from text and from configuration files."""

from pathlib import Path
from typing import Literal

import pytest

from tgp.errors import ParameterError
from tgp.values import convert_value, format_value, parse_call, parse_value


def test_parse_call():
    assert parse_call(" er : seed = 3 :x=") == ("er", {"seed": "3", "x": ""})
    assert parse_call("er") == ("er", {})


@pytest.mark.parametrize("text", ["er:", "er:seed", "er:=3", "er:seed=1:seed=2"])
def test_parse_call_reports_bad_parameters(text):
    with pytest.raises(ParameterError, match="'er'"):
        parse_call(text)


def test_parse_value():
    texts = ["TRUE", "false", "None", "null", "3", "-1", "1e3", "nan?", ""]
    assert [parse_value(text) for text in texts] == [True, False, None, None, 3, -1, 1000.0, "nan?", ""]


@pytest.mark.parametrize(
    ("value", "hint"),
    [(True, bool), (None, int | None), (3, int | None), (0.5, float), ("degree", Literal["degree", "index"])],
)
def test_text_of_a_value_is_converted_to_the_value(value, hint):
    assert convert_value(format_value(value), hint, "x", from_text=True) == value
    assert convert_value(value, hint, "x") == value


def test_conversions_of_configuration_files():
    assert convert_value("data", Path | None, "root") == Path("data")
    assert convert_value("graclus", tuple[str, ...], "poolers") == ("graclus",)
    assert convert_value([1, 3], tuple[int, ...] | None, "only_levels") == (1, 3)
    assert convert_value(1, float, "ratio") == 1.0


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (True, int, "int"),
        ("3", int, "int"),
        (["a", 1], tuple[str, ...], "tuple"),
        ([1, 2], tuple[int, int], "tuple"),
        (0, bool, "bool"),
        ("x", Literal["a", "b"], "'a' or 'b'"),
        (0.5, int | None, "int or none"),
    ],
)
def test_values_of_other_types_are_reported(value, hint, expected):
    with pytest.raises(ParameterError, match=f"seed must be .*{expected}") as caught:
        convert_value(value, hint, "seed", field="seed")
    assert caught.value.field == "seed"
