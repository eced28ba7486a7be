"""The harness of the paper's experiments: finished cells stay finished, tables say what they should."""

import importlib
import json
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "paper"


@pytest.fixture(scope="module")
def modules():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield importlib.import_module("_harness"), importlib.import_module("_tables")


@pytest.fixture
def start(modules, tmp_path):
    """Start an experiment with some options."""
    harness, tables = modules

    def make(*argv):
        options = harness.parse(harness.parser("", seeds=2), ["--quick", "--out", str(tmp_path), *argv])
        paper = {"A": {"mincut": (50, 2), "dmon": (61, 0)}}
        return harness.Experiment("toy", {"title": "Toy"}, options, tables.comparison(paper))

    return make


def cells_of(modules, **settings):
    cell = modules[0].Cell
    return [cell(d, p, s, settings) for s in range(2) for d in "AB" for p in ("mincut", "dmon")]


def test_a_finished_cell_is_not_computed_again(modules, start, tmp_path):
    calls = []

    def compute(cell, _):
        calls.append(cell.name)
        return {"value": 60.0 + cell.seed}

    cells = cells_of(modules, lr=1)
    assert start("--only", "A/mincut/0").run(cells, compute) == 1
    first = json.loads((tmp_path / "toy.json").read_text())["cells"]
    assert calls == ["A/mincut/0"] and len(first) == 1
    assert start().run(cells, compute) == 7
    assert sorted(calls) == sorted(cell.name for cell in cells)
    found = json.loads((tmp_path / "toy.json").read_text())["cells"]
    assert set(found) == {cell.key for cell in cells}
    assert all(found[key] == value for key, value in first.items())
    assert start().run(cells, compute) == 0
    assert start("--fresh", "--only", "B").run(cells, compute) == 4
    assert set(start().results) == {cell.key for cell in cells}  # what was not chosen is kept


def test_an_interrupted_run_keeps_what_it_had(modules, start):
    cells = cells_of(modules)

    def stop(cell, _):
        if cell is cells[2]:
            raise KeyboardInterrupt
        return {"value": 1.0}

    with pytest.raises(KeyboardInterrupt):
        start().run(cells, stop)
    assert set(start().results) == {cells[0].key, cells[1].key}
    assert start().run(cells, lambda cell, _: {"value": 2.0}) == len(cells) - 2


def test_other_settings_are_other_cells(modules, start):
    assert start().run(cells_of(modules, lr=1), lambda cell, _: {"value": 1.0}) == 8
    assert start().run(cells_of(modules, lr=2), lambda cell, _: {"value": 1.0}) == 8


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        (None, True),
        ("Cora", True),
        ("mincut", True),
        ("Cora/mincut/0", True),
        ("*/mincut/*", True),
        ("DBLP,min*", True),
        ("0", False),
        ("DBLP", False),
        ("Cora/mincut", False),
    ],
)
def test_only(modules, pattern, fits):
    assert modules[0].Cell("Cora", "mincut", 0).matches(pattern) is fits


def test_table(modules, start, tmp_path):
    experiment = start("--only", "A")
    experiment.run(cells_of(modules), lambda cell, _: {"value": 53.0 + 2 * cell.seed})
    for found in experiment.results.values():
        found["seconds"] = 1.25
    experiment.save(cells_of(modules))
    assert (tmp_path / "toy.md").read_text() == (
        "### A\n\n"
        "| pooler | paper | ours | difference in paper's stds | runs | s per run |\n"
        "|---|---|---|---|---|---|\n"
        "| mincut | 50 ± 2 | 54.0 ± 1.0 | +2.0 | 2 | 1.2 |\n"
        "| dmon | 61 ± 0 | 54.0 ± 1.0 | -14.0 | 2 | 1.2 |\n"
        "\n1 of 2 within two of the paper's standard deviations.\n"
    )


def test_every_cell_starts_from_its_seed(modules, start):
    def compute(cell, _):
        return {"value": float(torch.rand(())) + np.random.random()}  # noqa: NPY002

    experiment, cells = start(), cells_of(modules)
    experiment.run(cells, compute)
    drawn = {seed: {experiment.results[c.key]["value"] for c in cells if c.seed == seed} for seed in (0, 1)}
    assert len(drawn[0]) == len(drawn[1]) == 1 and drawn[0] != drawn[1]


def test_a_dataset_is_prepared_once_if_needed_and_off_the_clock(modules, start, monkeypatch):
    harness, clock, prepared = modules[0], [0.0], []
    monkeypatch.setattr(harness.time, "process_time", lambda: clock[0])

    def prepare(dataset):
        prepared.append(dataset)
        clock[0] += 100
        return dataset.lower()

    def compute(cell, data):
        assert data == cell.dataset.lower()
        clock[0] += 1
        return {"value": 1.0}

    experiment, cells = start(), cells_of(modules)
    experiment.run(cells, compute, prepare)
    assert prepared == ["A", "B"]
    assert {found["seconds"] for found in experiment.results.values()} == {1.0}
    start().run(cells, compute, prepare)
    assert prepared == ["A", "B"]


def test_progress_goes_to_stderr(modules, start, capsys):
    start().run(cells_of(modules)[:1], lambda cell, _: {"value": 1.0})
    out, err = capsys.readouterr()
    assert out == "" and "[1/1] A/mincut/0" in err and "left" in err


def test_real_data_needs_a_folder(modules, capsys):
    harness, _ = modules
    with pytest.raises(SystemExit):
        harness.parse(harness.parser("", seeds=1), [])
    assert "--root" in capsys.readouterr().err
    options = harness.parse(harness.parser("", seeds=1, data=False), [])
    assert options.out == harness.RESULTS


def test_page(modules, start, tmp_path):
    report = runpy.run_path(str(FOLDER / "report.py"))
    start().run(cells_of(modules)[:2], lambda cell, _: {"value": 50.0})
    toy = tmp_path / "toy.json"
    about = {"title": "Toy", "budget": "two epochs", "data": "ten graphs"}
    toy.write_text(json.dumps(json.loads(toy.read_text()) | {"about": about}))
    (tmp_path / "toy.notes.md").write_text("Seen and understood.\n")
    (tmp_path / "half.json").write_text('{"about": {}, "cells": {}}')  # no table yet
    page = report["main"](["--results", str(tmp_path), "--page", str(tmp_path / "page.md")]).read_text()
    assert page.startswith("# ") and page.count("\n## ") == 1
    assert "- **Budget:** two epochs.\n- **Data:** ten graphs.\n" in page
    assert page.index("## Toy") < page.index("| mincut | 50 ± 2 | 50.0") < page.index("Seen and understood.")
