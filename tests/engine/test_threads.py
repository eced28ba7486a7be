"""Ranges on several threads: every item once, errors come through."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.engine import threads


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 6), st.booleans())
def test_every_item_is_covered_once(costs, count, large):
    seen = np.zeros(len(costs), int)

    def kernel(first, last):
        seen[first:last] += 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "num_threads", lambda: count)
        patch.setattr(threads, "_WORTH_IT", 0 if large else 10**9)
        threads.over_ranges(kernel, np.concatenate([[0], np.cumsum(costs)]).astype(np.int64))
    assert (seen == 1).all()


def test_errors_of_a_range_reach_the_caller(monkeypatch):
    monkeypatch.setattr(threads, "num_threads", lambda: 2)
    monkeypatch.setattr(threads, "_WORTH_IT", 0)

    def kernel(first, last):
        raise ArithmeticError("bad graph")

    with pytest.raises(ArithmeticError, match="bad graph"):
        threads.over_ranges(kernel, np.arange(10))
