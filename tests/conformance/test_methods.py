"""Every check on every level method of the table, also as a layer."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tgp.engine import METHODS, coarsen
from tgp.poolers import pooler_map
from tgp.testing import method_checks, pooler_checks
from tgp.testing.strategies import blocks, schedules

WITHOUT_CLASS = [alias for alias in METHODS if alias not in pooler_map]
COMPILED = ("lv", "simmatch", "voxel")
"""Methods of which compiled poolers are tested without ``--full``: one without further input, one that needs features and one
that needs positions. torch compiles the same code for all methods and calls the method itself without looking into it."""


def marks(check):
    compiled = check.name == "compile_eager" and check.case.alias not in COMPILED
    return [pytest.mark.full] * compiled


@pytest.mark.parametrize("check", method_checks(), ids=str)
def test_method(check):
    check()


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, marks=marks(check))
        for alias in WITHOUT_CLASS
        for check in pooler_checks(
            alias, slow=False, exceptions={"permutation": "random choices depend on node ids"}
        )
    ],
    ids=str,
)
def test_a_method_without_a_class_is_a_pooler(check):
    check()


@settings(max_examples=60)
@given(
    blocks(min_graphs=1, max_graphs=3, max_nodes=8, negative=False),
    schedules(max_levels=3),
    st.integers(0, 2**63 - 1),
)
def test_any_schedule_of_the_table(block, schedule, seed):
    """Any schedule gives valid levels, and the result of a graph does not depend on the other graphs."""
    whole = coarsen(block, schedule, seed).validate()
    for graph in range(block.num_graphs):
        alone = coarsen(block.take([graph]), schedule, seed).validate()
        for mine, theirs in zip(whole.levels, alone.levels, strict=True):
            one = mine.block.take([graph])
            assert one.indices.tobytes() == theirs.block.indices.tobytes()
            assert (one.weight is None) == (theirs.block.weight is None)
            assert one.weight is None or one.weight.tobytes() == theirs.block.weight.tobytes()
