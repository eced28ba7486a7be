"""Poolers are built from their signature, and checks report their results."""

import pytest
import torch

from tgp.poolers import MinCutPooling, TopkPooling
from tgp.testing import Skip, check_method, check_pooler, pooler_checks
from tgp.testing.cases import Case, pooler_cases
from tgp.testing.strategies import NUMBERS


class OwnArgument(TopkPooling):
    """Pooler with a required argument that the checks do not know."""

    def __init__(self, in_channels, own):
        super().__init__(in_channels)
        self.own = own


def test_unknown_arguments_come_from_the_author():
    with pytest.raises(ValueError, match=r"expected values for own, got none.*own=\.\.\."):
        list(pooler_cases(OwnArgument))
    assert next(pooler_cases(OwnArgument, own=3)).build().own == 3


def test_equal_cases_have_equal_parameters():
    one, two = Case("mincut").build(), Case("mincut").build()
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


def test_a_report_of_all_checks():
    found = check_pooler("graclus", only=["shapes", "mask", "lift"])
    assert found == {"shapes": "passed", "mask": "skipped: the result has no mask", "lift": "passed"}
    found = check_pooler(MinCutPooling, only=["shapes"])
    assert len(found) == 4 and "MinCutPooling-batched=False-sparse_output=True/shapes" in found
    assert set(check_method("graclus").values()) == {"passed"}


def test_exceptions_of_the_author():
    (check,) = pooler_checks("topk", only=["shapes"], exceptions={"shapes": "not yet"})
    with pytest.raises(Skip, match="not yet"):
        check()


def test_failures_are_listed_together():
    class Broken(TopkPooling):
        def reduce(self, **kwargs):
            x, batch = super().reduce(**kwargs)
            return x[:-1].float(), batch

    with pytest.raises(AssertionError, match=r"2 of 2 checks fail:\n(.*\n)*Broken/double"):
        check_pooler(Broken, only=["shapes", "double"])


def test_numbers_are_valid_for_every_method():
    from tgp.engine import METHODS
    from tgp.engine.schedule import LevelSpec

    for alias in METHODS:
        names = METHODS[alias].params.__dataclass_fields__
        for name in set(names) & set(NUMBERS):
            for value in NUMBERS[name]:
                LevelSpec.of(alias, {name: value})
