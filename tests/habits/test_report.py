"""``tgp report`` as a user meets it: what is wrong comes first, figures have names, large graphs can be looked at."""

import html
import re

import pytest

from tgp.inspect.report import draw_graph, render_drawing, write_report
from tgp.store import StoreReader
from tgp_cli.main import run


def coarsen(path, dataset, *poolers):
    options = [option for pooler in poolers for option in ("-p", pooler)]
    assert run(["coarsen", "-d", dataset, *options, "-o", str(path), "-q"]) == 0
    return path


@pytest.fixture(scope="module")
def molecules(tmp_path_factory):
    """Molecules with two hierarchies. The last level of the second one hardly shrinks."""
    path = tmp_path_factory.mktemp("habits") / "molecules"
    return coarsen(path, "molecules:num_graphs=40", "graclus*2", "ndp,eigen:k=30")


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """One grid of 10,000 nodes."""
    path = tmp_path_factory.mktemp("habits") / "grid"
    return coarsen(path, "grid:num_graphs=1:num_nodes=10000", "kmis:order_k=2*3")


def read(page):
    return " ".join(
        html.unescape(
            re.sub(r"<style>.*?</style>|<script>.*?</script>|<[^>]*>", " ", page, flags=re.S)
        ).split()
    )


def test_the_report_says_what_will_disappoint(molecules, capsys):
    assert run(["report", str(molecules)]) == 0
    assert "molecules-report.html" in capsys.readouterr().out
    text = read(molecules.with_name("molecules-report.html").read_text())
    problems = text[text.index("problems found") : text.index("Graphs through their levels")]
    assert "ndp-eigen" in problems and "empty supernodes" in problems and "Try" in problems


def test_the_report_marks_the_best_hierarchy(molecules, tmp_path):
    page = write_report(molecules, tmp_path / "r.html").read_text()
    row = re.search(r"<tr><th scope=\"row\">cut</th>.*?</tr>", page).group()
    values = [float(value) for value in re.findall(r"data-v=\"([^\"]+)\"", row)]
    best = float(re.search(r"class=\"n best\" data-v=\"([^\"]+)\"", row).group(1))
    assert best == min(values) < max(values)


def test_a_large_graph_is_drawn_whole_and_in_part(grid, tmp_path):
    text = read(write_report(grid, tmp_path / "r.html").read_text())
    (size,) = StoreReader(grid).sizes()[0].tolist()
    assert "The whole graph, drawn from level" in text
    assert f"of {size:,} nodes drawn" in text


def test_levels_are_numbered_from_the_input(molecules, tmp_path):
    text = read(write_report(molecules, tmp_path / "r.html").read_text())
    assert "Level 0 (input)" in text and "Level 1 graclus" in text and "Level 2 eigen" in text


def test_one_graph_as_html(molecules):
    drawing = draw_graph(StoreReader(molecules), 3)
    page = render_drawing(drawing)
    assert [scene.hierarchy for scene in drawing.scenes] == ["graclus-x2", "ndp-eigen+k=30"]
    assert page.startswith("<article") and page.count("<svg") == 6
