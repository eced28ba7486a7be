"""Wrong arguments of the commands that read stores, and their output in pipes and terminals."""

import csv
import io
import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from tgp.build import CoarsenConfig, coarsen_dataset
from tgp_cli import _output
from tgp_cli.main import build_app

ONE = "graclus-x2"


def tgp(*arguments):
    return CliRunner().invoke(build_app(arguments), [str(a) for a in arguments])


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    out = tmp_path_factory.mktemp("stores") / "er"
    config = CoarsenConfig("er:num_graphs=12:num_nodes=10", out=out, poolers=("graclus*2", "nopool"))
    coarsen_dataset(config)
    return out


@pytest.fixture
def paths(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "manifest.json").write_bytes((store / "manifest.json").read_bytes()[:200])
    return {"STORE": str(store), "PARENT": str(store.parent)}


MISTAKES = [
    (["inspect", "STORE", "--fail-if", "ratio"], "condition"),
    (["inspect", "STORE", "--fail-if", "ratio>>3"], "condition"),
    (["inspect", "STORE", "--fail-if", "ratio=1"], "condition"),
    (["inspect", "STORE", "--fail-if", "ratio>nan"], "condition"),
    (["inspect", "STORE", "--fail-if", ""], "condition"),
    (["inspect", "STORE", "--fail-if", "method>1"], "Unknown figure 'method'"),
    (["inspect", "STORE", "--fail-if", "eigenvalue_error>1"], "--spectral"),
    (["inspect", "STORE", "--hierarchy", "graclus"], "Did you mean 'graclus-x2'"),
    (["inspect", "STORE", "--level", "-1"], "levels 1 to 2, got -1"),
    (["inspect", "STORE", "--level", "0"], "level 0 is the input graphs"),
    (["inspect", "STORE", "--level", "9"], "levels 1 to 2, got 9"),
    (["inspect", "STORE", "--graph", "-1"], "graphs 0 to 11, got -1"),
    (["inspect", "STORE", "--graph", "12"], "graphs 0 to 11, got 12"),
    (["inspect", "STORE", "--graph", "x"], "--graph"),
    (["inspect", "STORE", "--graph", "1", "--csv"], "--csv has no meaning with --graph"),
    (["inspect", "--level", "0"], "--level has no meaning with no STORE"),
    (["inspect", "STORE", "--json", "--csv"], "not both"),
    (["inspect", "missing"], "no such directory"),
    (["inspect", "empty"], "it has no manifest.json"),
    (["inspect", "file"], "a store is a directory"),
    (["inspect", "PARENT"], "choose one"),
    (["verify", "missing"], "no such directory"),
    (["verify", "file"], "a store is a directory"),
    (["verify", "STORE", "--sample", "0"], "--sample"),
    (["inspect", "STORE", "--diff", ONE, "nope"], "Unknown hierarchy 'nope'"),
    (["inspect", "--diff", "STORE", "missing"], "no such directory"),
    (["inspect", "--diff", "STORE"], "requires 2 arguments"),
    (["export", "STORE", "--to", "npz"], "choose a hierarchy"),
    (["export", "STORE", "--to", "npz"], "--hierarchy"),
    (["coarsen", "hem*2"], "--pooler 'hem*2'"),
    (["coarsen", "Cora"], "--dataset Cora"),
    (["coarsen", "--out", "file"], "cannot write file: expected a directory, got a file"),
    (["coarsen", "--shard-size", "much"], "shard_size cannot be read: expected a size"),
    (["coarsen", "--shard", "3/2"], "shard is out of range: expected i/N"),
    (["coarsen", "--pooler", "ndp,hem:ratio=2"], "hem:ratio is out of range"),
    (["export", "STORE", "--to", "zip", "--hierarchy", ONE], "Unknown format 'zip'"),
    (["export", "STORE", "--to", "npz", "--hierarchy", ONE, "--graphs", ""], "expected graphs"),
    (["export", "STORE", "--to", "npz", "--hierarchy", ONE, "--graphs", "1,,2"], "expected graphs"),
    (["export", "STORE", "--to", "npz", "--hierarchy", ONE, "--graphs", "5:2"], "names no graph"),
    (["export", "STORE", "--to", "npz", "--hierarchy", ONE, "--graphs", "9:99"], "graphs 0 to 11"),
    (["export", "STORE", "--to", "npz", "--hierarchy", ONE, "--out", "file"], "cannot write to file"),
    (["poolers", "grclus"], "Did you mean 'graclus'"),
    (["plot", "STORE", "--graph", "99"], "graphs 0 to 11"),
    (["plot", "STORE", "-o", "a.xyz"], ".xyz"),
    (["report", "STORE", "--graphs", ""], "expected graphs"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=[" ".join(a) for a, _ in MISTAKES])
def test_wrong_arguments_have_a_message_and_exit_with_2(paths, arguments, message):
    result = tgp(*(paths.get(word, word) for word in arguments))
    assert result.exit_code == 2 and message in result.stderr
    assert result.stdout == "" and "Traceback" not in result.stderr


def test_errors_in_json_name_a_public_class(paths):
    result = tgp("coarsen", "--pooler", "hme", "--json")
    error = json.loads(result.stdout)["error"]
    assert result.exit_code == 2 and error["nearest"] == "hem" and error["type"] == "UnknownNameError"


def test_damage_exits_with_1(paths):
    assert tgp("inspect", "cut").exit_code == 1
    found = tgp("verify", "cut")
    assert found.exit_code == 1 and "1 finding\n" in found.stdout and "manifest.json" in found.stdout


def test_json_and_csv_contain_the_same_levels(store):
    for more in ([], ["--spectral", "--sample", "3"], ["--level", "1"]):
        view = json.loads(tgp("inspect", store, "--json", *more).stdout)
        rows = list(csv.reader(io.StringIO(tgp("inspect", store, "--csv", *more).stdout)))
        levels = [level for h in view["hierarchies"] for level in h["levels"]]
        assert len({len(row) for row in rows}) == 1 and len(rows) == 1 + len(levels)
        ratio = rows[0].index("ratio")
        assert [float(row[ratio]) for row in rows[1:]] == [level["ratio"] for level in levels]
        assert ("eigenvalue_error" in rows[0]) == ("--spectral" in more) == (view["spectral"] is not None)
    card = json.loads(tgp("inspect", store, "--graph", "2", "--json", "--spectral").stdout)
    assert {"eigenvalue_error", "cut"} <= set(card["levels"][0]["metrics"])
    shown = tgp("inspect", store, "--spectral").stdout
    assert "scaled eigenvalue error" in shown and "first 8 eigenvalues" in shown
    conventions = shown.partition("Conventions of the literature")[2]
    for label in (
        "highest combinatorial REE",
        "normalised REE",
        "size-weighted REE",
        "restricted approximation",
        "cut",
    ):
        assert label in conventions.splitlines()[1]
        explained = [line for line in shown.splitlines() if line.startswith(label + "  ")]
        assert len(explained) == 1  # in the words below one of the two tables
    assert "Lanczos" in conventions and "Conventions" not in tgp("inspect", store).stdout


def test_spectral_thresholds_set_the_status(store):
    missed = tgp("inspect", store, "--spectral", "--fail-if", "eigenvalue_error>0.3")
    assert missed.exit_code == 1 and f"{ONE}, level 1: eigenvalue error = " in missed.stderr
    assert tgp("inspect", store, "--spectral", "--fail-if", "eigenvalue_error>1e9").exit_code == 0


def test_file_names_that_are_not_utf8(store, tmp_path):
    """A byte that is not UTF-8 is printed escaped if the encoding of stdout is strict."""
    place = os.path.join(os.fsencode(tmp_path), b"caf\xe9")
    os.symlink(store, place)
    env = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    for command in ("verify", "inspect"):
        done = subprocess.run(
            [sys.executable, "-m", "tgp_cli.main", command, place], capture_output=True, env=env
        )
        assert done.returncode == 0 and done.stderr == b"", done
        assert b"caf\\udce9" in done.stdout


def test_wide_tables_are_split_by_columns():
    columns, cells = ["a", "bb", "ccc", "dddd"], [["x", "1", "22", "333"], ["y", "", "-", "4"]]
    assert _output._split_columns(columns, cells, 1, (), 80) == [[0, 1, 2, 3]]
    assert _output._split_columns(columns, cells, 1, (), 14) == [[0, 1, 2], [0, 3]]
    assert _output._split_columns(columns, cells, 1, (), 5) == [[0, 1], [0, 2], [0, 3]]
    assert _output._split_columns(columns, [["x", "1", "2" * 80, "3"]], 1, (2,), 48) == [[0, 1, 2, 3]]
    assert len(_output._split_columns(columns, [["x", "1", "2" * 80, "3"]], 1, (2,), 30)) > 1


def test_very_wide_tables_are_printed_as_lists(capsys):
    _output._print_lists(["a", "bb", "ccc"], [["x", "1", "22"], ["y", "", "-"]], "title", 1)
    assert capsys.readouterr().out == "title\nx\n  bb   1\n  ccc  22\ny\n"
