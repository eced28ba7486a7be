"""Conditions on the figures of a store."""

from dataclasses import replace

import pytest

from tgp.errors import InputError, UnknownNameError
from tgp.inspect import inspect_store
from tgp.inspect.thresholds import check_thresholds


def test_conditions_that_hold_are_reported(store):
    view = inspect_store(store)
    assert list(check_thresholds(view, ["ratio>0.95"])) == ["nopool, level 1: ratio = 1 (ratio>0.95)"]
    assert list(check_thresholds(view, ["ratio > 1", "dropped!=0", "failures>=1"])) == []
    assert len(list(check_thresholds(view, ["symmetric>=1"]))) == 3
    for text in ("ratio", "ratio>x", ">3"):
        with pytest.raises(InputError, match="condition"):
            list(check_thresholds(view, [text]))
    with pytest.raises(UnknownNameError, match="'ratio'"):
        list(check_thresholds(view, ["ratoi>1"]))


def test_conditions_use_the_names_of_the_columns(store):
    view = inspect_store(store)
    sentences = list(check_thresholds(view, ["parts > 0"]))
    assert sentences
    assert all("components = " in sentence for sentence in sentences)
    for name in ("components", "Components", "parts"):
        assert len(list(check_thresholds(view, [f"{name}>0"]))) == len(sentences)
    for name in ("dropped nodes", "dropped", "dropped_nodes"):
        assert list(check_thresholds(view, [f"{name} < 0"])) == []
    assert list(check_thresholds(view, ["modul. < -1"])) == []
    with pytest.raises(InputError, match="computed on request"):
        check_thresholds(view, ["eigenvalue error > 1"])


def test_a_figure_that_no_level_has_is_an_error(store):
    view = inspect_store(store)
    bare = [replace(level, metrics={}) for level in view.hierarchies[0].levels]
    view = replace(view, hierarchies=[replace(view.hierarchies[0], levels=bare)])
    with pytest.raises(InputError, match="no level of the store has the figure 'cut'"):
        check_thresholds(view, ["cut>1"])
