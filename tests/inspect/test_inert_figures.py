"""Figures of stores with unusual metrics and fields: allowed by the format, but not written by tgp itself."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tgp.errors import InputError
from tgp.inspect import export_store, inspect_store
from tgp.inspect.overview import SpectralOptions, inspect_graph
from tgp.inspect.report import render_report
from tgp.ragged import Field, GraphTable
from tgp.store import StoreWriter
from tgp.testing.stores import halving, halving_spec, random_table, store_spec
from tgp_cli import main

HUGE = np.array([1e308, 1e308, np.nan, np.inf, 0, 0])
METRICS = {
    "0/pair": np.arange(12.0).reshape(6, 2),
    "0/dropped": HUGE,
    "0/largest": HUGE,
    "0/components": HUGE,
    "0/cut": HUGE,
    "1/modularity": np.full(6, np.nan),
    "1/symmetric": np.ones(6, bool),
}


def write(path, table, metrics=None):
    spec = store_spec(table, 1, hierarchies=[halving_spec()] if metrics is not None else [])
    writer = StoreWriter.open(path, spec)
    writer.write_graphs(0, table)
    if metrics is not None:
        plain = {k: f for k, f in table.fields.items() if k != "edge_weight"}
        levels = halving(GraphTable(table.node_ptr, plain))
        writer.write_hierarchy(0, "halve", levels, metrics=metrics)
    writer.publish()
    return path


@pytest.fixture(scope="module")
def unusual(tmp_path_factory):
    return write(tmp_path_factory.mktemp("figures") / "store", random_table(6, seed=1), METRICS)


def test_totals_and_means_of_unusual_metrics(unusual):
    level = inspect_store(unusual).hierarchies[0].levels[0]
    assert level.metrics["pair"] == 5.5
    assert level.metrics["dropped"] is None and level.metrics["cut"] is None
    assert level.cluster_largest == int(1e308)


def test_figures_of_one_graph(unusual):
    row = inspect_graph(unusual, 5)["levels"][0]
    assert row["metrics"]["pair"] == [10.0, 11.0]


@pytest.mark.parametrize(
    "words",
    [[], ["--json"], ["--csv"], ["--graph", "2"], ["--graph", "2", "--json"], ["--fail-if", "cut>1"]],
    ids=" ".join,
)
def test_inspect_prints_them(unusual, words, capsys):
    assert main.run(["inspect", str(unusual), *words]) == 0
    out = capsys.readouterr().out
    assert "json" not in " ".join(words) or json.loads(out)


def test_the_report_shows_them(unusual):
    assert "pair" in render_report(unusual)


def test_spectral_figures_need_edges(tmp_path):
    table = random_table(6, seed=1)
    fields = {k: f for k, f in table.fields.items() if k != "edge_index"}
    view = inspect_store(
        write(tmp_path / "s", GraphTable(table.node_ptr, fields)), spectral=SpectralOptions()
    )
    assert view.hierarchies == []


@pytest.mark.parametrize("change", ["wide", "complex"])
def test_weights_that_are_no_real_numbers_are_refused(tmp_path, change):
    table = random_table(6, seed=1)
    edges = table.fields["edge_index"]
    shape = (edges.values.shape[1], 3 if change == "wide" else 1)
    values = np.ones(shape, np.complex64 if change == "complex" else np.float32)
    weight = Field("edge_weight", values, edges.ptr)
    path = tmp_path / "s"
    write(path, GraphTable(table.node_ptr, {**table.fields, "edge_weight": weight}), {})
    with pytest.raises(InputError, match="one real number per edge"):
        inspect_store(path, spectral=SpectralOptions())
    with pytest.raises(InputError, match="one real number per edge"):
        export_store(path, "graphml", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_one_weight_per_edge_is_accepted(tmp_path):
    table = random_table(6, seed=1, weighted=True)
    column = replace(table.fields["edge_weight"], values=table.fields["edge_weight"].values.reshape(-1, 1))
    path = write(tmp_path / "s", GraphTable(table.node_ptr, {**table.fields, "edge_weight": column}), {})
    assert inspect_store(path, spectral=SpectralOptions()).spectral is not None
    assert export_store(path, "graphml", tmp_path / "out", graphs="0")
