"""The report as a file: well-formed, safe, complete, and of limited size."""

import errno
import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources

import numpy as np
import pytest

from tgp.build.summary import HierarchySummary
from tgp.errors import InputError, StoreMissingError
from tgp.inspect.report import render_report, write_report
from tgp.inspect.report.contents import METRICS, schedule_rows
from tgp.ragged import Field, GraphTable
from tgp.store import StoreWriter
from tgp.testing.stores import build_store, halving, halving_spec, random_table, store_spec

VOID = {"meta", "input", "br", "hr"}


class Page(HTMLParser):
    """Parser that collects elements and checks their nesting."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.text = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, name, attributes):
        names = [key for key, _ in attributes]
        assert len(set(names)) == len(names), f"attribute twice in <{name}>: {names}"
        self.elements.append((name, dict(attributes)))
        if name not in VOID:
            self.open.append(name)

    def handle_startendtag(self, name, attributes):
        self.elements.append((name, dict(attributes)))

    def handle_endtag(self, name):
        assert self.open and self.open[-1] == name, f"</{name}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text.append(data)


@pytest.fixture(scope="session")
def page(store):
    return render_report(store, graphs=[0, 5, 17])


def test_the_page_is_well_formed(page):
    parsed = Page(page)
    names = [name for name, _ in parsed.elements]
    assert names.count("script") == names.count("style") == names.count("h1") == 1
    assert names.count("article") == 3
    ids = [a["id"] for _, a in parsed.elements if "id" in a]
    assert len(set(ids)) == len(ids)
    links = [a["href"] for name, a in parsed.elements if name == "a"]
    assert links and all(link.startswith("#") and link[1:] in ids for link in links)


def test_the_page_loads_nothing(page):
    assert not re.search(r"(src|href|xlink:href|action|data|poster)\s*=\s*[\"']?\s*(https?:)?//", page)
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|sendBeacon|new Image", page)
    elements = Page(page).elements
    (policy,) = [a["content"] for _, a in elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy
    assert not {name for name, _ in elements} & {
        "link",
        "img",
        "iframe",
        "object",
        "embed",
        "base",
    }


def test_the_page_has_no_inline_handlers_and_styles(page):
    for name, attributes in Page(page).elements:
        assert not [a for a in attributes if a.startswith("on") or a == "style"], name


def test_the_page_shows_the_figures_of_inspect(page, store):
    from tgp.inspect import inspect_store

    view = inspect_store(store)
    text = "\n".join(Page(page).text)
    for level in view.hierarchies[0].levels:
        assert f"{level.nodes:,}" in text and f"{level.edges:,}" in text
    assert view.fingerprint in text and "connect_red_op" in text
    assert "Every graph was coarsened" in text


def test_the_page_contains_all_levels(page):
    figures = [a for n, a in Page(page).elements if n == "figure" and a.get("class") == "level"]
    assert [f["data-level"] for f in figures] == ["0", "1", "2", "3"] * 3


def test_hostile_texts_are_escaped(hostile_store):
    page = render_report(hostile_store, graphs=[0, 3])
    parsed = Page(page)
    assert [n for n, _ in parsed.elements].count("script") == 1
    assert not {"img"} & {n for n, _ in parsed.elements}
    for _, attributes in parsed.elements:
        assert not [a for a in attributes if a.startswith("on")]
    assert "\u202e" not in page
    text = "".join(parsed.text)
    assert text.count("<script>alert('x')</script>") >= 5, "the text is shown literally"


def test_failures_are_listed(hostile_store):
    text = "".join(Page(render_report(hostile_store)).text)
    assert "Every graph was coarsened" not in text


def test_all_kinds_of_levels_can_be_drawn(mixed_store):
    Page(render_report(mixed_store, graphs=range(13)))


def test_the_same_store_gives_the_same_page(store, page):
    assert render_report(store, graphs="0,5,17") == page


def test_a_large_store_is_sampled(tmp_path):
    build_store(tmp_path / "s", random_table(100_000, min_nodes=3, max_nodes=9, features=1), num_units=2)
    page = render_report(tmp_path / "s")
    assert len(page) < 400_000
    parsed = Page(page)
    assert [n for n, _ in parsed.elements].count("article") == 5
    assert "sample" in "".join(parsed.text)


def test_a_large_graph_is_drawn_from_a_coarse_level(tmp_path):
    build_store(tmp_path / "s", random_table(1, min_nodes=3000, max_nodes=3000), num_units=1)
    page = render_report(tmp_path / "s")
    assert len(page) < 400_000
    text = "".join(Page(page).text)
    assert "The whole graph, drawn from level 3 on" in text and "375 nodes" in text
    assert "160 of 3,000 nodes drawn" in text and "Neighbourhood of supernode 0 of level 3" in text


def test_a_failed_write_leaves_the_old_file(store, tmp_path, monkeypatch):
    out = tmp_path / "r.html"
    out.write_text("old")

    def fail(*_):
        raise OSError("no")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", fail)
        with pytest.raises(OSError, match="no"):
            write_report(store, out)
    assert out.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["r.html"]
    assert write_report(store, out) == out
    assert out.read_text(encoding="utf-8").endswith("</html>\n")


@pytest.mark.parametrize("graphs", [[40], [-1], "0,99", "x", [0] * 51])
def test_wrong_graphs_are_rejected(store, graphs):
    with pytest.raises(InputError):
        render_report(store, graphs=graphs)


def test_a_missing_store_writes_no_file(tmp_path):
    with pytest.raises(StoreMissingError):
        write_report(tmp_path / "nothing", tmp_path / "r.html")
    assert not list(tmp_path.iterdir())


def test_the_report_imports_neither_torch_nor_numba(store, tmp_path):
    code = (
        "import sys\nfrom tgp.inspect.report import write_report\nwrite_report(sys.argv[1], sys.argv[2])\n"
        "print([m for m in ('torch', 'numba', 'torch_geometric', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, store, tmp_path / "r.html"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_command(store, tmp_path):
    out = tmp_path / "r.html"
    command = [sys.executable, "-m", "tgp_cli.main", "report", store, "-o", out, "--graphs", "0,5", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"path": str(out), "bytes": out.stat().st_size}
    bad = subprocess.run([*command[:-2], "77"], capture_output=True, text=True)
    assert bad.returncode == 2 and "graphs 0 to 39" in bad.stderr


def test_templates_escape_and_replace_hidden_characters():
    from tgp.inspect.report.page import template_environment

    source = '<td data-x="{{ value }}">{{ value }}</td>'
    page = template_environment().from_string(source).render(value="<&\"'\x00\u202e")
    escaped = "&lt;&amp;&#34;&#39;\ufffd\ufffd"
    assert page == f'<td data-x="{escaped}">{escaped}</td>'


def test_templates_never_disable_escaping():
    """Values are inserted only as text or into quoted attributes."""
    folder = resources.files("tgp.inspect.report") / "templates"
    for template in folder.iterdir():
        text = template.read_text(encoding="utf-8")
        assert not re.search(r"\|\s*safe\b|autoescape|Markup", text), template.name
        assert not re.search(r"=\s*\{\{", text), f"{template.name}: an attribute without quotes"


def test_jinja_is_imported_only_for_a_report(store):
    code = (
        "import sys\nimport tgp.inspect.report.page\nfrom tgp_cli.main import run\n"
        "run(['inspect', sys.argv[1]])\nprint('jinja2' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, store], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def schedules(*levels):
    return schedule_rows([HierarchySummary("h", [*levels], 7, 0, 0, [])])


def test_parameters_outside_params_are_shown():
    first, second = schedules({"method": "a+b", "steps": ["a", "b"]}, {"method": "c", "params": {"k": 2}})
    assert first.parameters == ('steps = ["a", "b"]',) and second.parameters == ("k = 2",)
    assert (first.hierarchy, first.method, first.seed) == ("h", "a+b", 7)


def test_equal_levels_share_a_row():
    level = {"method": "c", "params": {"k": 2}}
    rows = schedules(level, dict(level), {"method": "c", "params": {"k": 3}}, level)
    assert [(row.first, row.last) for row in rows] == [(1, 2), (3, 3), (4, 4)]


def test_a_graph_of_one_node(tmp_path):
    """A report can be made if there is nothing to count, compare or draw."""
    none = Field("edge_index", np.zeros((2, 0), np.int64), np.array([0, 0]), axis=-1, shifted=True)
    build_store(tmp_path / "s", GraphTable(np.array([0, 1]), {"edge_index": none}), num_units=1)
    text = Page(render_report(tmp_path / "s")).text
    assert "1 graph of random, coarsened by halve*3" in text
    assert "1 node · 0 edges · 1 supernode" in text


def test_every_metric_is_explained():
    from tgp.engine.metrics import level_metrics
    from tgp.testing.stores import halving

    table = random_table(3, seed=1, weighted=True)
    names = level_metrics(table.to_block(), halving(table).levels[0]).keys()
    assert {*names} - {"largest"} <= METRICS.keys(), "the largest supernode is shown in another table"


def test_quality_has_a_row_per_metric(tmp_path):
    """Metrics that tgp does not know come last and have no meaning."""
    table = random_table(3, seed=1)
    writer = StoreWriter.open(tmp_path / "s", store_spec(table, 1, hierarchies=[halving_spec(num_levels=2)]))
    writer.write_graphs(0, table)
    hierarchy = halving(table)
    metrics = {"0/modularity": np.full(3, 0.5), "0/odd": np.full(3, 3.0), "0/cut": np.full(3, 0.25)}
    metrics["1/cut"] = np.full(3, 0.125)
    two = replace(hierarchy, levels=hierarchy.levels[:2])
    writer.write_hierarchy(0, "halve", two, metrics=metrics)
    writer.publish()
    text = [word for word in Page(render_report(tmp_path / "s")).text if word.strip()]
    text = text[text.index("quality") :]
    assert [t for t in text if t in ("cut", "modularity", "odd")] == ["cut", "modularity", "odd"]
    assert text[text.index("cut") + 1 :][:2] == ["0.250", "0.125"]
    assert text[text.index("odd") + 1 :][:2] == ["3", "–"]


def test_failed_graphs_are_not_counted_as_empty(failed_store):
    page = render_report(failed_store, graphs=[3, 0])
    parsed = Page(page)
    text = "".join(parsed.text)
    assert "no luck" in text and "Could not be coarsened" in text
    assert "0 supernodes" not in text and "dropped" not in "".join(
        re.findall(r"<figcaption>.*?</figcaption>", page)
    )
    assert not re.search(r"<title>0: \d+ graphs", page) and not re.search(r"<title>0–5 %: ", page)
    (link,) = [a for n, a in parsed.elements if n == "a" and a.get("class") == "bad"]
    assert link["href"] == "#failures"


def test_paths_that_cannot_be_written(store, tmp_path):
    with pytest.raises(InputError, match=r"there is no folder .*nowhere"):
        write_report(store, tmp_path / "nowhere" / "r.html")
    with pytest.raises(InputError, match="it is a folder"):
        write_report(store, tmp_path)
    before = (store / "manifest.json").read_bytes()
    with pytest.raises(InputError, match="is a store"):
        write_report(store, store / "manifest.json")
    assert (store / "manifest.json").read_bytes() == before and not list(tmp_path.iterdir())


def test_write_errors_name_the_requested_file(store, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device", "something else")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space") as caught:
        write_report(store, tmp_path / "r.html")
    assert caught.value.filename == str(tmp_path / "r.html") and caught.value.errno == errno.ENOSPC
    assert not list(tmp_path.iterdir())


def test_the_page_can_be_written_to_stdout(store, page, tmp_path):
    command = [sys.executable, "-m", "tgp_cli.main", "report", store, "--graphs", "0,5,17", "-o", "-"]
    done = subprocess.run(command, capture_output=True, check=True, cwd=tmp_path)
    assert done.stdout.decode() == page and done.stderr == b"" and not list(tmp_path.iterdir())
    both = subprocess.run([*command, "--json"], capture_output=True, text=True)
    assert both.returncode == 2 and both.stdout == "" and "--json" in both.stderr
