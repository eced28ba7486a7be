"""The stored drawings are the results of the methods."""

import pytest

from tgp.engine.methods import METHODS
from tgp.inspect.toy_level import LEVELS, compute_level, draw_level


def test_only_methods_have_drawings():
    assert set(LEVELS) <= set(METHODS.entries)


@pytest.mark.parametrize("alias", LEVELS)
def test_stored_levels_are_up_to_date(alias):
    """Run ``python -m tgp.inspect.toy_level`` and copy its output if this test fails after a change of a method."""
    assert LEVELS[alias] == compute_level(alias)


def test_drawings():
    lines = draw_level("graclus")
    assert all(line.isascii() and len(line) <= 100 for alias in LEVELS for line in draw_level(alias))
    assert lines[1].startswith("o---o       o---o    ") and "A---A" in lines[1]
    assert "." in draw_level("ndp")[1] and draw_level("mincut") is None
    letters = set("".join(line[21:] for line in lines[1:4])) - set(" -|")
    assert letters == set(LEVELS["graclus"].labels)
