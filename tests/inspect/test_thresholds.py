"""Conditions on the figures of a store."""

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
