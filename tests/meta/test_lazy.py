"""Packages that import their public names on first access."""

import importlib
import subprocess
import sys

import pytest

import tgp
import tgp.reduce

PACKAGES = ["tgp", *(f"tgp.{name}" for name in tgp.__all__ if hasattr(getattr(tgp, name), "__path__"))]


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_name_can_be_imported(name):
    package = importlib.import_module(name)
    for public in package.__all__:
        assert getattr(package, public) is not None
    assert set(package.__all__) <= set(dir(package))


def test_dir_lists_no_names_of_the_mechanism():
    assert not {"lazy_package", "TYPE_CHECKING", "annotations"} & set(dir(tgp))


def test_unknown_names_raise_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tgp.nothing


def test_an_exported_function_hides_the_submodule_of_the_same_name():
    code = "import tgp.reduce.get_aggr, tgp.reduce; assert callable(tgp.reduce.get_aggr)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_dependency_of_a_submodule_is_not_hidden(tmp_path, monkeypatch):
    package = tmp_path / "lazy_example"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "from tgp._lazy import lazy_package\n"
        "if TYPE_CHECKING:\n    from lazy_example.broken import thing\n"
        "lazy_package(__name__)\n"
    )
    (package / "broken.py").write_text("import package_that_does_not_exist\n")
    monkeypatch.syspath_prepend(tmp_path)
    example = importlib.import_module("lazy_example")
    with pytest.raises(ModuleNotFoundError, match="package_that_does_not_exist"):
        _ = example.thing
