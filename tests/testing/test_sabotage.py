"""Each deliberate mistake is found by the check that is named for it."""

import pytest

from tests.testing import sabotage, tables
from tgp.engine.methods import METHODS, register_method
from tgp.testing import Skip, check_method, method_checks, pooler_checks


@pytest.fixture(autouse=True)
def method_table(monkeypatch):
    """Restore the table of methods after each test."""
    monkeypatch.setattr(METHODS, "entries", dict(METHODS.entries))
    monkeypatch.setattr(METHODS, "_loaded", dict(METHODS._loaded))


def failures(checks):
    """Return the names of the checks that fail."""
    failed = []
    for check in checks:
        try:
            check()
        except Skip:
            continue
        except Exception:  # noqa: BLE001 - an unexpected error is also a failure
            failed.append(check.name)
    return failed


@pytest.mark.parametrize(
    ("broken", "check"), sabotage.POOLERS.items(), ids=lambda value: getattr(value, "__name__", value)
)
def test_a_broken_pooler_is_found(broken, check):
    assert check in failures(pooler_checks(broken, only=[check]))
    base = broken.__mro__[1]
    assert not failures(pooler_checks(base, only=[check])), f"{base.__name__} must pass {check}"


def test_reserved_attributes_are_named():
    """All names are tried together first; the message contains those that cannot be used."""
    (check,) = pooler_checks(sabotage.ReservesAttributes, only=["attributes"])
    with pytest.raises(AssertionError) as caught:
        check()
    names = [line.partition(" = ")[0] for line in str(caught.value).splitlines() if line.startswith("self.")]
    assert names == ["self.layout", "self.layout", "self.plan"]


def add(monkeypatch, method):
    register_method(method.name, f"tests.testing.sabotage:{method.name}", replace=True)
    monkeypatch.setitem(METHODS._loaded, method.name, method)


@pytest.mark.parametrize(
    ("method", "check"), sabotage.METHODS.items(), ids=lambda value: getattr(value, "name", value)
)
def test_a_broken_method_is_found(monkeypatch, method, check):
    add(monkeypatch, method)
    assert check in failures(method_checks(method.name, only=[check]))


def test_a_correct_method_passes(monkeypatch):
    add(monkeypatch, sabotage.CORRECT)
    assert set(check_method("pairs").values()) == {"passed"}


def test_the_guide_shows_the_tables():
    text = tables.PAGE.read_text()
    assert text == tables.filled(text), "run: python -m tests.testing.tables"
