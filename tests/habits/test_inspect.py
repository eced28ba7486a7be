"""Look at a store on the command line."""

import re

import pytest
from typer.testing import CliRunner

from tgp_cli.main import build_app


def tgp(*words):
    return CliRunner().invoke(build_app(words), [str(word) for word in words])


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    out = tmp_path_factory.mktemp("pooled") / "er"
    tgp("coarsen", "-d", "er:num_graphs=10:num_nodes=20:degree=3", "-p", "ndp,eigen", "-o", out)
    return out


def test_eight_columns_with_full_names_and_a_legend(store):
    shown = tgp("inspect", store).stdout
    heading = next(line for line in shown.splitlines() if re.match("hierarchy +level", line))
    assert len(heading.split()) == 8
    for name in ("ratio", "components", "modularity"):
        assert name in heading and re.search(rf"^{name} +\w+ \w+", shown, re.M)


def test_all_columns(store):
    assert "singletons" in tgp("inspect", store, "--all").stdout


def test_histograms_have_a_scale(store):
    assert re.search(
        r"^input .* 20$", tgp("inspect", store, "--all").stdout, re.M
    )  # every graph has 20 nodes
    assert re.search(r"1 \S+ \d", tgp("inspect", store, "--all").stdout)


@pytest.mark.parametrize("name", ["components", "parts", "dropped nodes", "dropped", "modularity", "modul."])
def test_fail_if_accepts_the_names_of_columns(store, name):
    assert tgp("inspect", store, "--fail-if", f"{name} > -2").exit_code == 1
    assert tgp("inspect", store, "--fail-if", f"{name} > 1e9").exit_code == 0


def test_a_misspelt_column_gets_a_suggestion(store):
    result = tgp("inspect", store, "--fail-if", "singeltons>3")
    assert result.exit_code == 2
    assert "Did you mean 'singletons'?" in result.stderr


def test_inspect_tells_what_will_disappoint(store):
    assert re.search(r"ndp-eigen: Level 2 \(eigen\) .*", tgp("inspect", store).stdout)
