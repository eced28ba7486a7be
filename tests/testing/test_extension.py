"""A new pooler and a new level method, each one file and one line, are found everywhere."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import find
from torch_geometric.data import Data

from tests.conformance import skips
from tgp.data import PreCoarsening
from tgp.engine.methods import METHODS, register_method
from tgp.poolers import get_pooler, pooler_map, register_pooler
from tgp.testing import method_checks, pooler_checks
from tgp.testing.cases import Case, pooler_aliases
from tgp.testing.strategies import levels, schedules
from tgp.utils.cheatsheet import get_pooler_cheatsheet

ROOT = Path(__file__).resolve().parents[2]
NEW_METHODS = ("chunks", "soft")


@pytest.fixture
def registered(package, monkeypatch):
    """Register the pooler and the methods of the package in this process, and remove them afterwards."""
    monkeypatch.syspath_prepend(package)
    for table in (pooler_map, METHODS):
        monkeypatch.setattr(table, "entries", dict(table.entries))
        monkeypatch.setattr(table, "_loaded", dict(table._loaded))
        monkeypatch.setattr(table, "_package_entries", None)
    register_pooler("norm", "their_package.poolers:NormPooling", "Norms of projections")
    register_method("chunks", "their_package.methods:CHUNKS", "Chunks of nodes")
    register_method("soft", "their_package.methods:SOFT", "Soft clusters")


def load_module(path, monkeypatch):
    """Import a script by its path."""
    monkeypatch.syspath_prepend(path.parent)
    monkeypatch.syspath_prepend(ROOT)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def path_graph():
    edges = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    return Data(x=torch.rand(6, 4), edge_index=torch.cat([edges, edges.flip(0)], dim=1))


@pytest.mark.usefixtures("registered")
def test_layers():
    data = path_graph()
    out = get_pooler("norm", in_channels=4, temperature=2.0)(x=data.x, adj=data.edge_index)
    assert out.so.num_supernodes == 3
    chunks, soft = get_pooler("chunks", size=3), get_pooler("soft", k=2)
    assert not chunks.is_dense and soft.is_dense, "the density of a pooler must be that of its method"
    for pooler in (chunks, soft):
        out = pooler(x=data.x, adj=data.edge_index)
        assert out.so.num_supernodes == 2 and out.so.is_dense == pooler.is_dense


@pytest.mark.usefixtures("registered")
def test_transform():
    pooled = PreCoarsening(["chunks", ("soft", {"k": 2})])(path_graph()).pooled_data
    assert [level.num_nodes for level in pooled] == [3, 2]


@pytest.mark.usefixtures("registered")
def test_documentation_tables(monkeypatch, tmp_path):
    reference = load_module(ROOT / "docs/_tools/reference.py", monkeypatch)
    lines = reference.index_page("").splitlines()
    rows = {line.split("`")[1]: line for line in lines if line.startswith("| [`")}
    assert set(rows) == set(pooler_map.entries) | set(METHODS.entries)
    assert [cell.strip() for cell in rows["soft"].split("|")[3:7]] == ["✓", "", "✓", ""]
    assert [cell.strip() for cell in rows["chunks"].split("|")[3:7]] == ["✓", "", "", ""]
    assert "Norms of projections" in rows["norm"]
    (tmp_path / "poolers").mkdir()
    for name in ("norm", *NEW_METHODS):  # docs/_tools/pictures.py draws them
        (tmp_path / "poolers" / f"{name}.svg").write_text(f"<title>{name} 6 nodes become 3</title>")
    monkeypatch.setattr(sys.modules["pooler_pages"], "FOLDER", tmp_path)
    new = [entry for entry in reference.pooler_entries() if entry.alias in ("norm", *NEW_METHODS)]
    pages = {entry.alias: reference.pooler_page(entry, "") for entry in new}
    assert "https://example.org/norm" in pages["norm"] and "temperature=" in pages["norm"]
    assert "tgp coarsen --pooler 'chunks*2'" in pages["chunks"]
    table = reference.groups_table()
    assert all(f"`{alias}`" in table for alias in rows)
    assert set(pooler_map.entries) <= {row[0] for row in get_pooler_cheatsheet()}


@pytest.mark.usefixtures("registered")
def test_conformance():
    # The required argument of the pooler is missing: a pooler without a value fails, it is not left out.
    with pytest.raises(ValueError, match="temperature"):
        pooler_checks(only=["shapes"])
    found = pooler_checks(only=["shapes"], temperature=1.0)
    assert {check.case.alias for check in found} == set(pooler_map.entries)
    (check,) = (check for check in found if check.case.alias == "norm")
    check()
    found = method_checks(only=["sizes"])
    assert {check.case.alias for check in found} == set(METHODS.entries)
    for check in found:
        if check.case.alias in NEW_METHODS:
            check()
    case = Case("norm", pooler_map.entry("norm"))
    assert skips.applies("gradcheck", case) and not skips.applies("mask", case)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("alias", NEW_METHODS)
def test_strategies(alias):
    assert find(levels(alias), lambda level: True).method == alias
    assert find(schedules(), lambda schedule: any(level.method == alias for level in schedule))


@pytest.mark.usefixtures("registered")
def test_benchmarks(monkeypatch):
    poolers = load_module(ROOT / "tests/benchmarks/bench_poolers.py", monkeypatch)
    assert "norm" in poolers.pooler_names() and "norm" in pooler_aliases(trainable=True)
    methods = load_module(ROOT / "tests/benchmarks/bench_methods.py", monkeypatch)
    assert methods.schedule_of("chunks") == "chunks*2"
    assert methods.levels_of("soft") == [("soft", {"k": 8}), ("soft", {"k": 4})]


def run_tgp(package, *arguments):
    """Run a command in a process that finds the package by its entry points."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), str(ROOT)]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tgp_cli.main", *map(str, arguments)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_command_line(package, tmp_path):
    listed = run_tgp(package, "poolers", "--json")
    assert {"norm", *NEW_METHODS} <= {entry["alias"] for entry in json.loads(listed)}
    data = ("-d", "molecules:num_graphs=12")
    run_tgp(package, "coarsen", *data, "-p", "chunks:size=3,soft:k=2", "-o", tmp_path / "store")
    assert "soft" in run_tgp(package, "inspect", tmp_path / "store")
