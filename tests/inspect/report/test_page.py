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
from tgp.inspect.report.page import template_environment
from tgp.inspect.report.page_contents import schedule_rows
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


@pytest.mark.parametrize(
    ("name", "per", "text"),
    [
        ("x", "node", "node"),
        ("smiles", "own", "graph (of any length)"),
        ("nodes/film/x", "own", "node of its type"),
        ("edges/actor/plays/film/edge_attr", "own", "edge of its relation"),
    ],
)
def test_the_owner_of_a_field_is_named_in_words(name, per, text):
    code = "{% import 'tables.html.jinja' as tables %}{{ tables.fields({'fields': [field]}) }}"
    field = {"name": name, "dtype": "float32", "per": per, "shape": [4]}
    assert f"<td>{text}</td>" in template_environment().from_string(code).render(field=field)


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
    assert "a sample of 2,000 of 100,000 graphs" in "".join(parsed.text)


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
    from tgp.inspect.figures import figure_of
    from tgp.testing.stores import halving

    table = random_table(3, seed=1, weighted=True)
    names = {*level_metrics(table.to_block(), halving(table).levels[0])} - {"largest"}
    assert all(figure_of(name).meaning for name in names), "the largest supernode is shown in another table"


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
    assert text[text.index("odd") + 1 :][:2] == ["3.000", "–"], "a row has one precision"


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


def write_store(path, metrics, num_graphs=3):
    """Write a store with one hierarchy per entry of ``metrics``: its name and the metrics of its only level."""
    table = random_table(num_graphs, seed=1)
    specs = [halving_spec(name, 1) for name in metrics]
    writer = StoreWriter.open(path, store_spec(table, 1, hierarchies=specs))
    writer.write_graphs(0, table)
    one = halving(table)
    for name, values in metrics.items():
        found = {f"0/{key}": np.full(num_graphs, value) for key, value in values.items()}
        writer.write_hierarchy(0, name, replace(one, levels=one.levels[:1]), metrics=found)
    writer.publish()
    return path


def element(page, start):
    """Return the text of the element that begins with ``start`` and of everything in it."""
    inside = page[page.index(start) :]
    name = start[1:].split()[0]
    depth, end = 0, 0
    for match in re.finditer(rf"<(/?){name}\b", inside):
        depth += -1 if match.group(1) else 1
        end = match.end()
        if not depth:
            break
    return " ".join("".join(Page(inside[: end + 1]).text).split())


def test_the_best_value_of_a_row_is_marked(tmp_path):
    values = {
        "a": {"cut": 0.2504, "modularity": 0.1, "entropy": 2.0},
        "b": {"cut": 0.25, "modularity": 0.7, "entropy": 2.0},
        "c": {"cut": 0.5, "modularity": -0.2, "entropy": 2.0},
    }
    page = render_report(write_store(tmp_path / "s", values))
    table = page[page.index('aria-label="Quality of level 1 side by side"') :]
    rows = {
        re.search(r"<th scope=\"row\">(.*?)</th>", row).group(1): re.findall(
            r"<td class=\"n( best)?\"[^>]*>([^<]*)", row
        )
        for row in re.findall(r"<tr><th scope=\"row\">.*?</tr>", table[: table.index("</table>")], re.S)
    }
    assert rows["cut"] == [(" best", "0.250"), (" best", "0.250"), ("", "0.500")], "equal as far as is shown"
    assert rows["modularity"] == [("", "0.100"), (" best", "0.700"), ("", "−0.200")]
    assert not any(best for best, _ in rows["entropy"]), "no value is better than the others"
    assert not any(best for best, _ in rows["ratio"]), "a smaller ratio is not better"


def test_figures_are_explained(page):
    parsed = Page(page)
    titles = [a["title"] for name, a in parsed.elements if name == "abbr"]
    assert "nodes divided by the nodes of the level before" in titles
    assert "ratio: nodes divided by the nodes of the level before;" in " ".join("".join(parsed.text).split())


def test_problems_are_listed_first(tmp_path):
    path = write_store(tmp_path / "s", {"a": {"empty": 2, "dropped": 0}, "b": {"empty": 0, "dropped": 0}})
    page = render_report(path)
    text = element(page, '<div id="problems">')
    assert text.startswith("1 problem found") and "6 empty supernodes" in text and "a: " in text
    assert page.index('id="problems"') < page.index('class="tiles"') < page.index('id="drawings"')
    assert '<a href="#hierarchy-0">a</a>' in page
    assert "1 problem" in element(page, '<details id="hierarchy-0"')
    assert "problem" not in element(page, '<details id="hierarchy-1"')


def test_many_problems_are_folded(tmp_path):
    names = [f"h{i:02d}" for i in range(12)]
    text = element(
        render_report(write_store(tmp_path / "s", {name: {"empty": 2} for name in names})),
        '<div id="problems">',
    )
    assert "12 problems found" in text and "4 further problems" in text
    assert all(f"{name}: " in text for name in names)


def test_no_problems(tmp_path):
    found = element(render_report(write_store(tmp_path / "s", {"a": {"empty": 0}})), '<div id="problems">')
    assert found == "No problems found."
    # Without metrics the page does not promise too much.
    page = render_report(write_store(tmp_path / "t", {"a": {}}))
    text = element(page, '<div id="problems">')
    assert text.startswith("No problems found. The store has no metrics, so")


@pytest.mark.parametrize(("count", "unfolded"), [(1, [0]), (3, [0]), (4, [])])
def test_hierarchies_are_folded(tmp_path, count, unfolded):
    page = render_report(write_store(tmp_path / "s", {f"h{i}": {"cut": 0.5} for i in range(count)}))
    sections = [a for name, a in Page(page).elements if name == "details"]
    assert [s["id"] for s in sections] == [f"hierarchy-{i}" for i in range(count)]
    assert [i for i, section in enumerate(sections) if "open" in section] == unfolded


def test_captions_of_parts_give_both_numbers(tmp_path):
    """The number of supernodes of a drawn part is not shown as the number of supernodes of the graph."""
    build_store(tmp_path / "s", random_table(1, min_nodes=3000, max_nodes=3000), num_units=1)
    page = render_report(tmp_path / "s")
    captions = [
        " ".join("".join(Page(c).text).split())
        for c in re.findall(r"<figcaption><b>.*?</figcaption>", page, re.S)
    ]
    assert len(captions) == 5, "the whole graph at level 3, and a part at levels 0 to 3"
    assert captions[0].startswith("Level 3halve375 nodes")
    for level, caption in enumerate(captions[1:]):
        name = "Level 0 (input)" if level == 0 else f"Level {level}halve"
        (drawn, total, *supernodes) = re.findall(r"[\d,]+(?= of|(?: super)?nodes?)|(?<=of )[\d,]+", caption)
        assert caption.startswith(name) and total == f"{3000 // 2**level:,}"
        assert int(drawn) < 3000 // 2**level
        assert supernodes[1:] == ([f"{3000 // 2 ** (level + 1):,}"] if level < 3 else [])


def test_a_column_of_shares_has_one_precision():
    from tgp.inspect.report.figure_rows import share_texts

    assert share_texts([0.2, 0.157]) == ["20.0 %", "15.7 %"]
    assert share_texts([0.534309, 0.0009141, 0.000265]) == ["53.43 %", "0.09 %", "0.03 %"]
    assert share_texts([0.5, 1e-9, 0.0, None]) == ["50.000 %", "0.000 %", "0.000 %", "–"]


def test_one_graph_can_be_rendered_alone(store):
    from tgp.inspect.report import draw_graph, render_drawing
    from tgp.store import StoreReader

    drawing = draw_graph(StoreReader(store), 5, ["halve"])
    parsed = Page(render_drawing(drawing))
    assert parsed.elements[0][0] == "article" and drawing.levels == [0, 1, 2, 3]
    assert [name for name, _ in parsed.elements].count("svg") == 4
    assert drawing == draw_graph(StoreReader(store), 5), "the same graph gives the same drawing"


def test_hostile_names_are_escaped_in_a_drawing(hostile_store):
    from tgp.inspect.report import draw_graph, render_drawing
    from tgp.store import StoreReader

    html = render_drawing(draw_graph(StoreReader(hostile_store), 0))
    assert "<script" not in html and "<img" not in html and "\u202e" not in html
