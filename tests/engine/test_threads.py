"""Ranges on several threads cover each item once and pass errors on to the caller."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.engine import threads
from tgp.ragged.offsets import offsets


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 6), st.booleans())
def test_every_item_is_covered_once(costs, count, large):
    seen = np.zeros(len(costs), int)

    def kernel(first, last):
        seen[first:last] += 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "num_threads", lambda: count)
        patch.setattr(threads, "_MIN_WORK", 0 if large else 10**9)
        threads.run_over_ranges(kernel, offsets(costs))
    assert (seen == 1).all()


def test_an_error_in_one_range_is_raised_in_the_caller(monkeypatch):
    monkeypatch.setattr(threads, "num_threads", lambda: 2)
    monkeypatch.setattr(threads, "_MIN_WORK", 0)

    def kernel(first, last):
        raise ArithmeticError("bad graph")

    with pytest.raises(ArithmeticError, match="bad graph"):
        threads.run_over_ranges(kernel, np.arange(10))
