"""The pages: contents, escaping, wrong addresses and damaged stores."""

import json
import re
import shutil
from urllib.parse import parse_qsl, urljoin

import pytest

from tests.inspect.conftest import build
from tests.inspect.report.conftest import HOSTILE
from tests.inspect.view.conftest import search_page
from tgp.build.findings import Finding
from tgp.inspect.view import StoreApplication
from tgp.inspect.view import application as application_module
from tgp.inspect.view.listing import problem_searches
from tgp.store import StoreReader
from tgp.testing.stores import build_store, random_table

PAGES = [("", {}), ("graphs", {}), ("graphs", {"q": "ratio>0"}), ("graph", {"id": "3"})]
JSON = [("graphs.json", {}), ("graph.json", {"id": "3"})]


def page(application, name="", **values):
    """Return status and text of a page."""
    answer = application.respond(name, {key: str(value) for key, value in values.items()})
    assert answer.content_type == "text/html; charset=utf-8"
    return answer.status, answer.body.decode()


def test_the_overview_shows_the_report_without_drawings(application):
    status, text = page(application)
    assert status == 200 and "<svg" in text
    for name in ("graclus-x2", "nopool", "Level 2", "modularity", "Provenance"):
        assert name in text
    assert 'href="graphs"' in text and 'href="graph?id=0"' in text
    assert "<style" not in text and "<script>" not in text, "the policy of the server forbids inline code"


def test_the_overview_links_problems_to_their_graphs(failed_store):
    application = StoreApplication(failed_store)
    text = page(application)[1]
    assert "could not be coarsened" in text
    assert '<a href="graphs?q=failures%3E0&amp;hierarchy=halve">failed: halve</a>' in text
    assert [
        row["graph"] for row in search_page(application, q="failures>0", hierarchy="halve")[1]["rows"]
    ] == [3]


def test_every_kind_of_problem_has_a_valid_search(application):
    kinds = ("failed", "stalled", "collapsed", "empty", "torn", "dropped", "singletons")
    found = problem_searches([Finding(kind, "graclus-x2", 1, "", "") for kind in kinds])
    assert [label for label, _ in found] == [f"{kind}: graclus-x2, level 1" for kind in kinds]
    for _, link in found:
        values = dict(parse_qsl(link.partition("?")[2]))
        assert application.respond("graphs.json", values).status == 200
    assert problem_searches([Finding("weights", None, None, "", "")]) == []


def test_a_graph_in_all_hierarchies_side_by_side(application):
    status, text = page(application, "graph", id=3)
    assert status == 200
    assert text.count('class="scene"') == 2 and text.count('class="drawing"') == 5
    assert 'href="graph?id=2"' in text and 'href="graph?id=4"' in text and "4 of " in text
    assert 'id="level"' in text and "Figures of this graph" in text


def test_the_first_and_the_last_graph(application):
    first, last = page(application, "graph", id=0)[1], page(application, "graph", id=29)[1]
    assert re.search(r'id="previous" rel="prev">', first) and 'rel="next" href=' in first
    assert re.search(r'id="next" rel="next">', last) and 'rel="prev" href=' in last


def test_next_and_previous_follow_the_search(application):
    ids = [row["graph"] for row in search_page(application, sort="-edges")[1]["rows"]]
    text = page(application, "graph", id=ids[3], sort="-edges")[1]
    assert (
        f'href="graph?id={ids[2]}&amp;sort=-edges"' in text
        and f'href="graph?id={ids[4]}&amp;sort=-edges"' in text
    )
    other = next(graph for graph in range(30) if graph not in (4, 5))
    assert "not in" in page(application, "graph", id=other, q="4:6")[1]


def test_the_list_and_its_json_are_the_same(application):
    status, found = search_page(application, q="nodes>0", sort="-edges")
    text = page(application, "graphs", q="nodes>0", sort="-edges")[1]
    assert status == 200 and len(found["rows"]) == 30 == found["total"]
    shown = re.findall(r'<tr><td><a href="([^"]*)">(\d+)</a></td>', text)
    assert [(row["link"].replace("&", "&amp;"), str(row["graph"])) for row in found["rows"]] == shown
    assert found["status"] in text


def test_the_json_of_a_graph(application):
    found = json.loads(application.respond("graph.json", {"id": "3"}).body)
    assert (found["graph"], found["position"], found["previous"], found["next"]) == (3, 3, 2, 4)
    assert [(level["hierarchy"], level["level"]) for level in found["levels"]] == [
        ("graclus-x2", 1), ("graclus-x2", 2), ("nopool", 1),
    ]  # fmt: skip
    assert found["levels"][-1]["figures"]["ratio"] == 1.0


def test_an_id_leads_to_the_graph(application):
    answer = application.respond("graphs", {"q": " 17 ", "go": "1"})
    assert (answer.status, answer.location) == (303, "graph?id=17")
    assert application.respond("graphs", {"q": "17"}).status == 200
    assert page(application, "graphs", q="30", go=1)[0] == 404


@pytest.mark.parametrize(
    "wrong", ["", "30", "-1", "x", "1.5", "٣", "0x3", "9" * 18, "9" * 5000, "3 4", "<b>"]
)
@pytest.mark.parametrize("name", ["graph", "graph.json"])
def test_wrong_ids(application, name, wrong):
    answer = application.respond(name, {"id": wrong})
    assert answer.status in (400, 404) and len(answer.body) < 5000
    assert b"<b>" not in answer.body or name.endswith(".json")


@pytest.mark.parametrize(
    "values",
    [{"q": "foo>1"}, {"q": "nodes>"}, {"sort": "foo"}, {"hierarchy": "none"}, {"level": "9"}, {"level": "x"}, {"offset": "-1"}, {"q": "9999999"}],
)  # fmt: skip
def test_wrong_searches(application, values):
    status, text = page(application, "graphs", **values)
    assert (status == 400 and 'class="note bad"' in text) or "cannot be shown" in text
    answer = application.respond("graphs.json", values)
    assert answer.status == 400 and json.loads(answer.body)["error"]
    assert application.respond("graphs.json", {}).status == 200, "a wrong search does not close the store"


@pytest.mark.parametrize(
    "name", ["nothing", "manifest.json", "graph/", "../report.css", "view", "overview.html.jinja"]
)
def test_unknown_pages(application, name):
    assert application.respond(name, {}).status == 404


@pytest.mark.parametrize("name", ["nothing", "graph/5", "graph/5/levels"])
def test_links_of_error_pages_lead_to_the_pages_of_the_viewer(application, name):
    text = application.respond(name, {}).body.decode()
    links = {urljoin(f"/token/{name}", link) for link in re.findall(r'(?:href|src|action)="([^"]*)"', text)}
    assert links == {f"/token/{page}" for page in ("", "graphs", *application_module._STATIC)}
    assert all(application.respond(link.removeprefix("/token/"), {}).status == 200 for link in links)


@pytest.mark.parametrize(("name", "values"), PAGES)
def test_texts_of_a_store_are_escaped(hostile_store, name, values):
    application = StoreApplication(hostile_store)
    for more in ({}, {"q": HOSTILE}, {"sort": HOSTILE}, {"hierarchy": HOSTILE}):
        text = page(application, name, **(values | more))[1]
        assert "<img" not in text and "alert('x')</script>" not in text and "\u202e" not in text
        assert [*re.findall(r"<script[^>]*>", text)] == ['<script src="report.js">', '<script src="view.js">']


@pytest.mark.parametrize(("name", "values"), [("graphs.json", {"q": HOSTILE}), JSON[1]])
def test_texts_in_json_have_no_control_characters(hostile_store, name, values):
    text = StoreApplication(hostile_store).respond(name, values).body.decode()
    assert "\\u202e" not in text and "\u202e" not in text and HOSTILE[:8] in text


def test_the_size_of_a_page_does_not_depend_on_the_number_of_graphs(tmp_path):
    sizes = []
    for count in (200, 5000):
        build_store(tmp_path / str(count), random_table(count, seed=1, max_nodes=12), num_units=2)
        application = StoreApplication(tmp_path / str(count))
        sizes.append([len(page(application, name, **values)[1]) for name, values in (*PAGES[:2], PAGES[3])])
    for few, many in zip(*sizes, strict=True):
        assert many < 1.2 * few


@pytest.fixture
def copied(store, tmp_path):
    return shutil.copytree(store, tmp_path / "copied")


def damage(path):
    """Overwrite the middle of all shards."""
    for shard in path.glob("shard-*.h5"):
        content = bytearray(shard.read_bytes())
        content[64 : len(content) // 2] = b"\xff" * (len(content) // 2 - 64)
        shard.write_bytes(content)


@pytest.mark.parametrize(("name", "values"), PAGES + JSON)
def test_a_damaged_store_gives_a_readable_error(copied, name, values):
    application = StoreApplication(copied)
    damage(copied)
    answer = application.respond(name, values)
    assert answer.status == 500
    text = answer.body.decode()
    assert "Traceback" not in text and str(copied) not in text, "paths are not shown"
    if name.endswith(".json"):
        assert json.loads(text)["error"] and "tgp verify" in json.loads(text)["hint"]
    else:
        assert "cannot be shown" in text and "tgp verify" in text


def test_a_repaired_store_is_shown_again(store, copied):
    application = StoreApplication(copied)
    expected = page(application, "graph", id=3)
    damage(copied)
    assert page(application, "graph", id=4)[0] == 500
    shutil.copytree(store, copied, dirs_exist_ok=True)
    assert page(application, "graph", id=3) == expected


@pytest.mark.parametrize(("name", "values"), PAGES + JSON)
def test_a_store_that_was_computed_again_is_shown(copied, name, values):
    application = StoreApplication(copied)
    old = application.respond(name, values)
    shutil.rmtree(copied)
    build(copied, "kmis")
    new = application.respond(name, values)
    assert new.status == 200 and b"kmis" in new.body and b"nopool" not in new.body and new != old


def test_the_store_is_opened_again_after_an_error(application, monkeypatch):
    def fail(*_):
        raise OSError("device lost")

    with monkeypatch.context() as patch:
        patch.setattr(application_module, "draw_graph", fail)
        status, text = page(application, "graph", id=3)
        assert status == 500 and "device lost" in text
    opened = []
    opener = application_module.open_store
    monkeypatch.setattr(application_module, "open_store", lambda path: opened.append(path) or opener(path))
    assert page(application, "graph", id=3)[0] == 200 and len(opened) == 1
    assert page(application, "graph", id=4)[0] == 200 and len(opened) == 1


def test_a_removed_store_gives_a_readable_error(copied):
    application = StoreApplication(copied)
    shutil.rmtree(copied)
    assert page(application, "graphs", q="nodes>3")[0] == 500
    status, text = page(application)
    assert status == 500 and "no store" in text and str(copied) not in text


def test_an_unexpected_error_gives_an_answer(application, monkeypatch, caplog):
    def fail(*_):
        raise RuntimeError("<b>odd</b>")

    monkeypatch.setattr(application_module, "draw_graph", fail)
    status, text = page(application, "graph", id=3)
    assert status == 500 and "RuntimeError" in text and "<b>odd" not in text and "Traceback" not in text
    assert "RuntimeError" in caplog.text


def test_a_store_without_hierarchies_or_graphs(tmp_path):
    from tgp.store import StoreWriter
    from tgp.testing.stores import store_spec

    for count in (3, 0):
        table = random_table(count, seed=1)
        writer = StoreWriter.open(tmp_path / str(count), store_spec(table, 1, hierarchies=[]))
        writer.write_graphs(0, table)
        writer.publish()
        application = StoreApplication(tmp_path / str(count))
        assert page(application)[0] == page(application, "graphs")[0] == 200
        assert page(application, "graph", id=0)[0] == (200 if count else 404)


def test_drawings_are_kept_for_some_graphs(application, monkeypatch):
    drawn = []
    draw = application_module.draw_graph

    def recorded(reader, graph):
        assert isinstance(reader, StoreReader)
        drawn.append(graph)
        return draw(reader, graph)

    monkeypatch.setattr(application_module, "draw_graph", recorded)
    monkeypatch.setattr(application_module, "DRAWN", 2)
    for graph in (0, 1, 0, 2, 0, 1):
        assert page(application, "graph", id=graph)[0] == 200
    assert drawn == [0, 1, 2, 1]
