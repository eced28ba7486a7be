"""Commands that show a store whose graph is divided over several files, and limits for graphs that are too large to draw."""

import numpy as np
import pytest

from tests.store.divided_stores import halved, sorted_table, write_one
from tgp.build import findings
from tgp.errors import InputError
from tgp.inspect import overview, spectral_errors
from tgp.inspect.report import scene
from tgp.inspect.report.page import render_report
from tgp.store import StoreReader
from tgp.store.read import divided_part, single


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder, table = tmp_path_factory.mktemp("divided"), sorted_table(weighted=True)
    return [write_one(folder / str(n) / "store", table, *halved(table), n) for n in (None, 40)]


def test_inspect_shows_the_same_figures_without_reading_edges(stores, monkeypatch):
    expected = overview.inspect_store(stores[0])
    figures = overview.inspect_graph(stores[0], 0)
    read = []
    array = divided_part.DividedPart.array

    def note(part, path):
        read.append(path)
        return array(part, path)

    monkeypatch.setattr(divided_part.DividedPart, "array", note)
    monkeypatch.setattr(single, "_BLOCK", 7)
    found = overview.inspect_store(stores[1])
    assert overview.inspect_graph(stores[1], 0) == figures
    for left, right in zip(found.hierarchies[0].levels, expected.hierarchies[0].levels, strict=True):
        assert (left.cluster_histogram, left.nodes, left.edges) == (
            right.cluster_histogram,
            right.nodes,
            right.edges,
        )
    assert found.hierarchies[0].bytes > expected.hierarchies[0].bytes  # the headers of the pieces
    assert not [
        path
        for path in read
        if path.endswith(("edge_index", "edge_weight", "cluster", "/x")) and "/2/" not in path
    ]


def test_findings_about_weights_are_the_same(tmp_path):
    table = sorted_table(weighted=True)
    table.fields["edge_weight"].values[[3, 100]] = -1, np.nan
    paths = [write_one(tmp_path / str(n), table, *halved(sorted_table()), n) for n in (None, 40)]
    found = [list(findings._find_weights(StoreReader(path))) for path in paths]
    assert found[0] == found[1] and len(found[0]) == 2


def test_reports_are_the_same_and_large_graphs_are_not_read(stores, monkeypatch):
    whole, divided = (render_report(path) for path in stores)
    assert divided.count("<svg") == whole.count("<svg") > 0
    monkeypatch.setattr(scene, "MOST_EDGES", 50)
    monkeypatch.setattr(scene, "read_input", None)
    monkeypatch.setattr(spectral_errors, "MOST_EDGES", 50)
    page = render_report(stores[1])
    assert "Not drawn: a graph with more than" in page and "60 → 30 → 15 → 8 nodes" in page
    with pytest.raises(InputError, match="too large for spectral figures: expected at most 50 edges"):
        overview.inspect_graph(stores[1], 0, modes=3)


def test_a_figure_of_a_large_graph_is_refused(stores, monkeypatch):
    pytest.importorskip("matplotlib")
    from tgp.inspect.plot.level_figure import hierarchy

    monkeypatch.setattr(scene, "MOST_EDGES", 50)
    with pytest.raises(InputError, match="too large to draw"):
        hierarchy(stores[1], 0)
