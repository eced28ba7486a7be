"""Every check on every pooler in every mode."""

import pickle

import pytest
import torch

from tgp.testing.cases import EXCEPTIONS, pooler_cases
from tgp.testing.checks import CHECKS, mixed_batch

CASES = list(pooler_cases())


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_pooler(case, check):
    reason = case.exempt(check)
    if reason is not None:
        pytest.skip(reason)
    CHECKS[check](case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_pickles(case):
    pooler = case.build()
    data = mixed_batch()
    out = data(pooler)
    torch.testing.assert_close(data(pickle.loads(pickle.dumps(pooler))).x, out.x)
    again = pickle.loads(pickle.dumps(out.so))
    assert again.num_supernodes == out.so.num_supernodes


def test_exceptions_name_real_things():
    aliases = {case.alias for case in CASES}
    assert all(alias in aliases and check in CHECKS for alias, check in EXCEPTIONS)
