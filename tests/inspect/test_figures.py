"""The table of the figures of a level."""

import subprocess
import sys
from dataclasses import fields

import numpy as np
import pytest

from tgp.build.summary import LevelSummary
from tgp.errors import UnknownNameError
from tgp.inspect import inspect_store
from tgp.inspect.figures import FIGURES, SPECTRAL_FIGURES, Figure, figure_of, find_figure, level_value
from tgp.store import StoreReader

OLD_NAMES = {
    "mean": "cluster_mean",
    "max": "cluster_largest",
    "single": "singletons",
    "parts": "components",
    "modul.": "modularity",
    "expr.": "expressive",
    "eig.err": "eigenvalue_error",
    "restr.": "eigenvalue_error_restricted",
}


def test_every_figure_of_a_store_is_in_the_table(store):
    view = inspect_store(store)
    stored = {key for hierarchy in view.hierarchies for level in hierarchy.levels for key in level.metrics}
    assert stored <= FIGURES.keys()
    attributes = {field.name for field in fields(LevelSummary)}
    assert {key for key, f in FIGURES.items() if not f.metric} - {"failures"} <= attributes
    assert set(SPECTRAL_FIGURES) <= FIGURES.keys()


def test_aggregation_is_what_the_table_says(store):
    reader, view = StoreReader(store), inspect_store(store)
    for hierarchy in view.hierarchies:
        for level in hierarchy.levels:
            for key, values in reader.metrics(hierarchy.name, level.level - 1).items():
                if key in level.metrics and level.metrics[key] is not None:
                    expected = {"sum": np.nansum, "mean": np.nanmean}[FIGURES[key].aggregation](
                        values.astype(float)
                    )
                    assert level.metrics[key] == pytest.approx(expected)


def test_keys_labels_and_old_names_find_the_figure():
    for key, figure in FIGURES.items():
        for name in (key, figure.label, figure.label.upper(), key.replace("_", " "), *figure.aliases):
            assert find_figure(name) is figure, name
    for name, key in OLD_NAMES.items():
        assert find_figure(name).key == key


def test_no_two_figures_share_a_name():
    names = [name for f in FIGURES.values() for name in {f.key, f.label, *f.aliases}]
    assert len(names) == len(set(names))


def test_unknown_names_get_a_suggestion():
    with pytest.raises(UnknownNameError, match="Did you mean 'dropped nodes'"):
        find_figure("droped nodes")
    with pytest.raises(UnknownNameError, match="Did you mean 'new_figure'"):
        find_figure("new_figur", ["new_figure"])
    assert find_figure("new figure", ["new_figure"]).key == "new_figure"


def test_unknown_metrics_of_a_store_are_means():
    assert figure_of("flow_kept") == Figure("flow_kept", "flow kept", "", 3, "mean")


def test_values_and_their_text():
    level = LevelSummary(1, "graclus", 1234, 10, 2048, 0.5, metrics={"cut": None, "modularity": 0.12345})
    shown = {key: f.text(level_value(level, f, failures=3)) for key, f in FIGURES.items()}
    assert shown["nodes"] == "1,234"
    assert shown["ratio"] == "0.500"
    assert shown["modularity"] == "0.123"
    assert shown["cut"] == shown["singletons"] == "-"
    assert shown["bytes"] == "2.0 kB"
    assert shown["failures"] == "3"
    assert FIGURES["cut"].text(float("nan"), missing="–") == "–"


def test_the_table_needs_neither_torch_nor_numba():
    code = "import sys, tgp.inspect.figures; print(sorted({'torch', 'numba', 'numpy'} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_counts_are_summed_and_the_other_metrics_are_averaged():
    counts = {"dropped", "singletons", "empty", "isolated", "components_before", "components"}
    metrics = {key: figure for key, figure in FIGURES.items() if figure.metric}
    assert {key for key, figure in metrics.items() if figure.aggregation == "sum"} == counts
    assert {figure.aggregation for key, figure in metrics.items() if key not in counts} == {"mean"}
