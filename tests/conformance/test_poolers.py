"""Every check on every pooler of the table in every mode."""

import pickle

import pytest

from tests.conformance import skips
from tgp.poolers import pooler_map
from tgp.testing import Skip, pooler_checks
from tgp.testing.batches import assert_same_output, mixed_batch
from tgp.testing.cases import EXCEPTIONS, pooler_cases
from tgp.testing.checks import CHECKS, ONCE, SLOW

ALL = pooler_checks()
SAMPLED = ("compile_eager", "half_large", "recompiles")
"""Names of checks that take minutes for all poolers. Without ``--full`` they run on every tenth case."""


SHARED = ("acc", "diff", "dmon", "graclus", "hosc", "jb", "nmf", "sep")
"""Poolers that are compiled with the backend "aot_eager" only with ``--full``.

Other poolers with the same forward are compiled: ``mincut`` for those with losses, ``ndp`` and ``eigen`` for the others. The
parts that differ are compiled with the same backend by other tests: losses by ``tests/utils/test_compile.py``, selectors by
``tests/select/test_compile.py``.
"""


def marks(check):
    if check.name == "compile_aot" and check.case.alias in SHARED:
        return [pytest.mark.full]
    if check.name == "compile_eager" and check.case.alias not in SHARED:
        return [pytest.mark.full]  # "aot_eager" traces the same program
    if check.name in SAMPLED:
        same = [other for other in ALL if other.name == check.name]
        return [] if same.index(check) % 10 == 0 else [pytest.mark.full]
    return [pytest.mark.slow] * check.slow


@pytest.mark.parametrize("check", [pytest.param(check, marks=marks(check)) for check in ALL], ids=str)
def test_pooler(check):
    try:
        check()
    except Skip:
        applies = check.exception is None and skips.applies(check.name, check.case)
        assert not applies, f"{check} was skipped but must run"
        raise
    assert skips.applies(check.name, check.case), f"{check} ran but is recorded as skipped"


@pytest.mark.parametrize(("alias", "check"), EXCEPTIONS)
def test_every_exception_is_needed(alias, check):
    """The check must fail without the exception."""
    for case in pooler_cases(alias):
        try:
            CHECKS[check](case)
        except Skip:
            continue
        except Exception:  # noqa: BLE001 - torch raises errors of many types
            return
    pytest.fail(f"{alias} passes {check}: remove the exception")


@pytest.mark.parametrize("case", list(pooler_cases()), ids=str)
def test_pickling_of_poolers_and_assignments(case):
    data, pooler = mixed_batch(), case.build()
    out = data(pooler)
    assert_same_output(data(pickle.loads(pickle.dumps(pooler))), out)
    assert pickle.loads(pickle.dumps(out.so)).num_supernodes == out.so.num_supernodes


def test_every_check_runs_on_some_poolers():
    assert set(skips.APPLIES) <= set(CHECKS)
    assert set(CHECKS) >= ONCE | SLOW
    for name in set(CHECKS) - {"sparse_tensor"}:
        cases = [check.case for check in ALL if check.name == name and check.exception is None]
        running = [str(case) for case in cases if skips.applies(name, case)]
        assert len(running) >= 4, f"{name} runs on {running} only"


def test_modes_come_from_the_constructor():
    modes = {
        alias: [dict(case.options) for case in pooler_cases(alias)] for alias in ("mincut", "eigen", "topk")
    }
    assert modes["topk"] == [{}]
    assert modes["eigen"] == [{"batched": False, "sparse_output": value} for value in (False, True)]
    assert len(modes["mincut"]) == 4 and modes["mincut"][0] == {"batched": True, "sparse_output": False}


def test_the_matrix_shows_every_check():
    """The page has a column for every check and a row for every pooler, and no cell shows a failure."""
    from tests.conformance import matrix

    assert sorted(" ".join(matrix.COLUMNS.values()).split()) == sorted(CHECKS)
    text = matrix.PAGE.read_text()
    for alias in pooler_map.entries:
        assert f"| `{alias}` |" in text
    assert " !" not in text.partition("## By design")[0].partition("| Pooler")[2], (
        "a cell of the matrix fails"
    )
