"""Fixtures with tables and stores."""

import pytest

from tgp.testing.stores import build_store, random_table


@pytest.fixture(scope="session")
def table():
    return random_table(40, seed=1, weighted=True)


@pytest.fixture(params=["fast", "small"])
def profile(request):
    return request.param


@pytest.fixture
def store(tmp_path, table, profile):
    """Complete store of two units, once for each profile."""
    path = tmp_path / "store"
    build_store(path, table, profile=profile)
    return path


@pytest.fixture
def fast_store(tmp_path, table):
    """Complete store of two units in the fast profile."""
    path = tmp_path / "store"
    build_store(path, table)
    return path
