"""The examples in docstrings give the results that they show."""

import doctest
import importlib
import pkgutil

import pytest

import tgp
import tgp_cli


def modules_with_examples() -> list[str]:
    """Return the names of the modules whose source contains an example."""
    found = []
    for package in (tgp, tgp_cli):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            source = module.module_finder.find_spec(module.name).loader.get_source(module.name)
            if ">>> " in source:
                found.append(module.name)
    return found


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_of_a_module(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.attempted and not result.failed


def test_there_are_examples():
    assert len(modules_with_examples()) >= 10
