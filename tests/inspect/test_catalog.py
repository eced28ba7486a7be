"""The facts about poolers: complete, equal to the classes, and read without importing torch."""

import inspect
import subprocess
import sys
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

from tgp.errors import UnknownNameError
from tgp.inspect.catalog import describe_pooler, list_poolers
from tgp.inspect.class_docs import parse_docstring, plain_text, read_class
from tgp.poolers import get_pooler, pooler_map

ALL = [pooler.alias for pooler in list_poolers()]


@pytest.mark.parametrize("alias", ALL)
def test_every_pooler_is_described(alias):
    pooler = describe_pooler(alias)
    assert pooler.good_for and pooler.avoid_when and pooler.complexity
    assert pooler.text and "see above" not in pooler.text.lower()
    assert pooler.papers or alias in ("nopool", "random")
    assert all(paper.url.startswith("https://") for paper in pooler.papers)
    assert (pooler.parameters is not None) == pooler.precoarsenable
    for parameter in [*(pooler.parameters or []), *pooler.layer_parameters]:
        assert parameter.description.endswith("."), parameter
        assert parameter.type and ":class:" not in parameter.description
        if parameter.choices and not parameter.required:
            assert str(parameter.default).lower() in parameter.choices


@pytest.mark.parametrize("alias", [entry for entry in pooler_map if pooler_map.entry(entry).package is None])
def test_source_and_class_agree(alias):
    """The parameters that are read from the source are those of the imported class."""
    pooler = describe_pooler(alias)
    signature = inspect.signature(pooler_map[alias]).parameters
    expected = {
        name: (p.default is p.empty, None if p.default is p.empty else p.default)
        for name, p in signature.items()
        if p.kind is not p.VAR_KEYWORD
    }
    assert {p.name: (p.required, p.default) for p in pooler.layer_parameters} == expected
    hints = get_type_hints(pooler_map[alias].__init__)
    choices = {
        name: tuple(map(str, get_args(hint))) for name, hint in hints.items() if get_origin(hint) is Literal
    }
    assert {p.name: p.choices for p in pooler.layer_parameters if p.name in choices} == choices
    assert pooler.target.endswith(pooler_map[alias].__name__)


def test_a_method_without_a_class_has_the_parameters_of_get_pooler():
    given = {p.name: p.default for p in describe_pooler("random").layer_parameters}
    assert get_pooler("random", strict=True, **given) is not None
    assert {"ratio", "lift", "cached", "seed"} <= set(given)


def test_poolers_are_described_without_torch_and_numba():
    code = (
        "import sys\nfrom tgp.inspect.catalog import describe_pooler, list_poolers\n"
        "[describe_pooler(p.alias) for p in list_poolers()]\n"
        "assert not {'torch', 'torch_geometric', 'numba'} & set(sys.modules), sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_choices_and_shared_parameters():
    kmis = {p.name: p for p in describe_pooler("kmis").parameters}
    assert kmis["score_heuristic"].choices == ("greedy", "w-greedy", "none")
    assert kmis["order_k"].choices == () and kmis["order_k"].type == "int"
    assert "parallel coarse edges" in kmis["connect_red_op"].description  # documented in a base class
    mincut = {p.name: p for p in describe_pooler("mincut").layer_parameters}
    assert mincut["in_channels"].type == "int, list of int" and mincut["in_channels"].required
    assert mincut["lift"].choices == ("transpose", "inverse", "precomputed")
    assert mincut["k"].description == "Number of supernodes per graph."


def test_an_unknown_pooler_is_an_error():
    with pytest.raises(UnknownNameError, match="graclus"):
        describe_pooler("gracluss")


class Undocumented:
    def __init__(self, width, depth=3, *, mode: "Literal['a', 'b'] | None" = None, **kwargs):
        pass


class Derived(Undocumented):
    """Layer of a user.

    Good for:
        One ``thing``.

    Args:
        depth: number of
            layers
    """


def test_classes_of_users_need_no_sections():
    plain = read_class(f"{__name__}:Undocumented")
    assert [(p.name, p.type, p.default, p.description) for p in plain.arguments] == [
        ("width", "any", None, ""),
        ("depth", "any", 3, ""),
        ("mode", "a, b, none", None, ""),
    ]
    derived = read_class(f"{__name__}:Derived")
    assert derived.arguments[1].description == "Number of layers."
    assert plain_text(derived.docstring.sections["good for"]) == "One `thing`."


def test_a_class_without_source_is_not_an_error(monkeypatch):
    assert read_class("tgp.no_such_module:Thing") is None
    assert read_class("itertools:chain") is None
    local = type("Local", (), {})
    monkeypatch.setitem(
        pooler_map.entries, "local", pooler_map.entries["topk"].__class__("local", "__main__:Local", "")
    )
    monkeypatch.setitem(pooler_map._loaded, "local", local)
    pooler = describe_pooler("local")
    assert pooler.layer_parameters is None and "layer_parameters" not in pooler.to_json()


def test_docstrings_are_split_at_sections():
    found = parse_docstring(
        'Text with `"A\n    title" <https://a.b/c>`_.\n\n    Args:\n        a, b,\n            c: see.\n'
    )
    assert found.arguments == {"a": "see.", "b": "see.", "c": "see."}
    assert found.papers == [("A title", "https://a.b/c")]
    assert parse_docstring(None).text == ""


def test_datasets_of_a_missing_package_are_not_local(monkeypatch, tmp_path):
    from tgp.inspect import catalog

    names = {
        d.name
        for d in catalog.list_datasets(local_only=True, root=tmp_path)
        if d.collection == "PyGSPDataset"
    }
    assert names
    monkeypatch.setattr(catalog, "find_spec", lambda name: None)
    assert not [
        d for d in catalog.list_datasets(local_only=True, root=tmp_path) if d.collection == "PyGSPDataset"
    ]
