"""The report in a browser. Skipped if Chromium is not installed or does not run."""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.inspect.report.chromium import BINARY, Chromium
from tgp.inspect.report import write_report
from tgp.testing.stores import build_store, random_table

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        BINARY is None, reason="needs Chromium (chromium, chromium-browser or google-chrome) on the PATH"
    ),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Start a browser; skip the test if it is installed but does not run."""
    for _ in range(3):  # it may crash if the machine is busy
        try:
            found = Chromium(tmp_path_factory.mktemp("profile"))
        except (OSError, AssertionError) as error:
            reason = str(error)
            continue
        yield found
        found.close()
        return
    pytest.skip(f"{BINARY} does not run here: {reason}")


@pytest.fixture(scope="module")
def file(store, tmp_path_factory):
    return write_report(store, tmp_path_factory.mktemp("page") / "report.html", graphs=[0, 5, 17])


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """The report of a graph that is drawn from level 2 on."""
    path = tmp_path_factory.mktemp("large")
    build_store(path / "s", random_table(1, min_nodes=1000, max_nodes=1000), num_units=1)
    return write_report(path / "s", path / "report.html")


SHOWN = """(() => {
  const graph = document.querySelector('.graph.on');
  const seen = [...graph.querySelectorAll('.level')].filter((e) => e.getClientRects().length);
  return [Number(graph.dataset.graph), seen.map((e) => Number(e.dataset.level))];
})()"""
BACKGROUND = "Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])"
COUNT = "(s) => [...document.querySelectorAll(s)].filter((e) => e.getClientRects().length).length"


def test_the_address_selects_graph_and_level(browser, file):
    browser.open(file.as_uri())
    assert browser.run(SHOWN) == [0, [0]]
    browser.open(f"{file.as_uri()}#graph=17&level=2")
    assert browser.run(SHOWN) == [17, [2]]
    assert browser.run("document.getElementById('level-name').textContent") == "level 2"
    assert browser.log == []
    # Invalid values are ignored.
    browser.open(f"{file.as_uri()}#graph=%3Cb%3E&level=x&theme=%22")
    assert browser.run(SHOWN)[0] == 0 and browser.log == []
    # A change of the address while the page is open is applied.
    browser.run(
        "new Promise((done) => { addEventListener('hashchange', done); location.hash = 'graph=5&level=1'; }).then(() => 0)"
    )
    assert browser.run(SHOWN) == [5, [1]]


def test_the_slider_works_with_the_keyboard(browser, file):
    browser.open(file.as_uri()).run("document.getElementById('graph').focus()")
    browser.press("Tab")
    assert browser.run("document.activeElement.id") == "level"
    browser.press("ArrowRight")
    assert browser.run(SHOWN) == [0, [1]]
    assert browser.run("document.activeElement.getAttribute('aria-valuetext')") == "level 1"
    browser.press("End")
    assert browser.run(SHOWN) == [0, [3]]
    assert "level=3" in browser.run("location.hash")


def test_the_slider_covers_the_levels_of_a_large_graph(browser, large):
    """The neighbourhood follows the slider. The whole graph is shown at the nearest level that is drawn, and says so."""
    browser.open(large.as_uri())
    bounds = browser.run("['min', 'max', 'value'].map((k) => document.getElementById('level')[k])")
    assert bounds == ["0", "3", "0"]
    assert browser.run("document.getElementById('level-name').textContent") == "level 0 (input)"
    early = f"({COUNT})('.level em.early')"
    assert browser.run(SHOWN) == [0, [2, 0]] and browser.run(early) == 1
    for level, whole, flags in ((1, 2, 1), (2, 2, 0), (3, 3, 0)):
        browser.open(f"{large.as_uri()}#level={level}")
        assert browser.run(SHOWN) == [0, [whole, level]] and browser.run(early) == flags
        assert browser.run("document.getElementById('level-name').textContent") == f"level {level}"


def test_all_levels_can_be_shown_at_once(browser, file):
    browser.open(file.as_uri()).run("document.getElementById('all').click()")
    assert browser.run(SHOWN) == [0, [0, 1, 2, 3]]
    assert browser.run(
        "document.getElementById('level').disabled && document.getElementById('play').disabled"
    )


def test_play_advances_and_stops(browser, file):
    browser.open(file.as_uri())
    moved = browser.run(
        "new Promise((done) => { const play = document.getElementById('play'); play.click();"
        "const seen = [play.textContent];"
        "setTimeout(() => { seen.push(document.getElementById('level').value); play.click(); seen.push(play.textContent); done(seen); }, 1500); })"
    )
    assert moved[0] == "Stop" and int(moved[1]) >= 1 and moved[2] == "Play"


def test_pointing_at_a_mark_shows_a_tooltip(browser, file):
    browser.open(file.as_uri())
    assert browser.run("document.getElementById('tip').hidden")
    browser.point(".graph.on .level.on .nodes circle")
    tip = browser.run(
        "document.getElementById('tip').hidden ? '' : document.getElementById('tip').textContent"
    )
    assert tip.startswith("node 0") and "supernode 0" in tip
    same = "[...document.querySelector('.graph.on .level.on .nodes.focus').children].map((c, i) => c.classList.contains('same') ? i : -1).filter((i) => i >= 0)"
    assert browser.run(same) == [0, 1], "both members of the supernode"
    browser.point("#overview .bars rect")
    assert "graph" in browser.run("document.getElementById('tip').textContent")
    assert browser.log == []


def test_hostile_texts_run_no_script(browser, hostile_store, tmp_path):
    page = write_report(hostile_store, tmp_path / "hostile.html", graphs=[0, 3])
    browser.open(page.as_uri())
    assert browser.log == []
    assert browser.run("document.querySelectorAll('script').length") == 1
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.requests == [page.as_uri()]


def test_the_page_requests_nothing_else(browser, file):
    asked = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            asked.append(self.path)

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=file.parent)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.open(f"http://127.0.0.1:{server.server_port}/{file.name}")
        browser.point(".graph.on .level.on .nodes circle")
        server.shutdown()
    # Browsers request an icon for every page.
    assert set(asked) - {"/favicon.ico"} == {f"/{file.name}"}
    assert [line for line in browser.log if "favicon" not in line] == []


@pytest.mark.parametrize(
    ("fragment", "dark", "light"),
    [("", False, True), ("", True, False), ("#theme=dark", False, False), ("#theme=light", True, True)],
)
def test_dark_and_light_theme(browser, file, fragment, dark, light):
    red = browser.open(file.as_uri() + fragment, dark=dark).run(BACKGROUND)
    assert red > 200 if light else red < 60
    browser.run("document.getElementById('theme').click()")
    turned = browser.run(BACKGROUND)
    assert turned < 60 if light else turned > 200


def test_a_click_sorts_a_table(browser, file):
    browser.open(file.as_uri())
    script = """(() => {
      const table = document.querySelector('#hierarchy-0 table');
      const button = table.querySelectorAll('th button')[2];
      const nodes = () => [...table.tBodies[0].rows].map((row) => Number(row.cells[2].dataset.v));
      button.click(); const up = nodes(); button.click(); return [up, nodes()];
    })()"""
    up, down = browser.run(script)
    assert len(up) == 4 and up == sorted(up) and down == up[::-1]
    assert browser.log == []


@pytest.mark.parametrize("script", [True, False])
def test_a_narrow_window_does_not_scroll_horizontally(browser, file, hostile_store, tmp_path, script):
    hostile = write_report(hostile_store, tmp_path / "hostile.html")
    for page in (file, hostile):
        browser.open(page.as_uri(), width=400, script=script)
        assert browser.run("document.documentElement.scrollWidth") <= 400


def test_wide_tables_are_marked_and_reached_by_the_keyboard(browser, file):
    script = "[...document.querySelectorAll('.scroll')].map((e) => [e.scrollWidth > e.clientWidth, e.classList.contains('wide'), e.tabIndex === 0])"
    for width in (1280, 400):
        found = browser.open(file.as_uri(), width=width).run(script)
        assert all(len({*one}) == 1 for one in found)
        assert any(one[0] for one in found) == (width == 400)


def test_readable_without_script(browser, file):
    browser.open(file.as_uri(), script=False)
    levels, controls, tables = browser.run(f"['.level', '.controls', 'table'].map({COUNT})")
    assert levels == 12 and controls == 0 and tables >= 3


def test_a_printed_page_shows_everything(browser, file, large):
    """A printed page has all graphs and levels, no controls, no wide tables, and light colours."""
    browser.open(f"{file.as_uri()}#theme=dark&level=3", width=690, media="print")
    levels, controls, marks = browser.run(f"['.level', '.controls', '.level em'].map({COUNT})")
    assert (levels, controls, marks) == (12, 0, 0)
    assert browser.run(
        "[...document.querySelectorAll('.scroll')].every((e) => e.scrollWidth <= e.clientWidth + 1)"
    )
    assert browser.run(BACKGROUND) == 0, "the background of a printed page is transparent"
    assert browser.print_to_pdf().startswith(b"%PDF")
    browser.open(large.as_uri(), width=690, media="print")
    assert browser.run(f"({COUNT})('.level em')") == 0, "notes about the slider are hidden"
    widths = browser.run("[...document.querySelectorAll('#hierarchy-0 .chart')].map((e) => e.clientWidth)")
    assert widths and min(widths) > 120, "charts of a single graph are as wide as others"


def test_texts_have_enough_contrast(browser, file):
    """The contrast of every text is at least 4.5 : 1 (WCAG AA) in both themes."""
    script = """(() => {
      const parse = (text) => text.match(/[\\d.]+/g).map(Number);
      const light = ([r, g, b]) => [r, g, b].map((v) => { v /= 255; return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; })
        .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
      const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > .5) return c; } };
      const bad = new Set();
      for (const e of document.querySelectorAll('body *')) {
        const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
        if (!own || !e.getClientRects().length || ['SCRIPT', 'STYLE', 'title'].includes(e.tagName)) continue;
        const style = getComputedStyle(e);
        const ink = light(parse(e.tagName === 'text' ? style.fill : style.color)), paper = light(ground(e));
        const contrast = (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05);
        if (contrast < 4.5) bad.add(e.tagName + '.' + e.className + ' ' + contrast.toFixed(2));
      }
      return [...bad];
    })()"""
    for dark in (False, True):
        assert browser.open(file.as_uri(), dark=dark).run(script) == []


@pytest.fixture(scope="module")
def folded(tmp_path_factory):
    """The report of four hierarchies, which are all folded."""
    from tests.inspect.report.test_page import write_store

    path = tmp_path_factory.mktemp("folded")
    values = {f"h{i}": {"cut": 0.1 * i, "empty": int(i == 2)} for i in range(4)}
    return write_report(write_store(path / "s", values), path / "report.html")


OPEN = "[...document.querySelectorAll('details.hierarchy')].map((e) => e.open)"
TABLES = "[...document.querySelectorAll('details.hierarchy table')].filter((e) => e.checkVisibility()).length"


def test_a_link_unfolds_a_hierarchy(browser, folded):
    browser.open(folded.as_uri())
    assert browser.run(OPEN) == [False] * 4 and browser.run(TABLES) == 0
    browser.run("document.querySelector('#problems a').click()")
    assert browser.run(OPEN) == [False, False, True, False]
    browser.open(f"{folded.as_uri()}#hierarchy-1")
    assert browser.run(OPEN) == [False, True, False, False]
    browser.run("document.getElementById('unfold').click()")
    assert browser.run(OPEN) == [True] * 4 and browser.run(TABLES) == 8
    browser.run("document.getElementById('unfold').click()")
    assert browser.run(OPEN) == [False] * 4 and browser.log == []


def test_the_keyboard_unfolds_a_hierarchy(browser, folded):
    browser.open(folded.as_uri()).run("document.querySelector('#hierarchy-0 summary').focus()")
    browser.press("Enter")
    assert browser.run(OPEN) == [True, False, False, False]


@pytest.mark.parametrize("script", [True, False])
def test_a_printed_page_unfolds_everything(browser, folded, script):
    browser.open(folded.as_uri(), width=690, media="print", script=script)
    assert browser.run(TABLES) == 8
    browser.call("Emulation.setEmulatedMedia", media="screen")
    if script:  # the page folds its sections soon after it was printed
        folded_again = "![...document.querySelectorAll('details.hierarchy')].some((e) => e.open)"
        browser.run(
            f"new Promise((done) => {{ setInterval(() => {{ if ({folded_again}) done(0); }}, 20); }})"
        )
    assert browser.run(TABLES) == 0, "folded again on the screen"


def test_shapes_and_rings_are_drawn(browser, large):
    """Nodes are filled with their colour; rings and dropped nodes are not."""
    browser.open(large.as_uri())
    fill = "(s) => [...new Set([...document.querySelectorAll(s)].map((e) => getComputedStyle(e).fill))]"
    assert browser.run(f"({fill})('.drawing .ring')") == ["none"]
    colours = browser.run(f"({fill})('.drawing .nodes > path')")
    assert len(colours) > 3 and "none" not in colours
    browser.point(".graph.on .level.on .nodes path")
    assert "supernode" in browser.run("document.getElementById('tip').textContent")


@pytest.fixture(scope="module")
def uneven(tmp_path_factory):
    """The report of a large graph in two hierarchies, one of which has no level that can be drawn whole."""
    from tgp.build import CoarsenConfig, coarsen_dataset

    path = tmp_path_factory.mktemp("uneven")
    coarsen_dataset(
        CoarsenConfig(
            dataset="grid:num_graphs=1:num_nodes=4000",
            poolers=["graclus", "kmis:order_k=2*2"],
            out=path / "s",
        )
    )
    return write_report(path / "s", path / "report.html")


def test_the_same_drawings_of_hierarchies_are_in_one_row(browser, uneven):
    tops = (
        "[...document.querySelectorAll('.strip.near')].map((e) => Math.round(e.getBoundingClientRect().top))"
    )
    browser.open(uneven.as_uri())
    first, second = browser.run(tops)
    assert first == second, "also if one hierarchy has no drawing of the whole graph"
    assert browser.run("document.querySelectorAll('.strip.whole').length") == 1
    first, second = browser.open(uneven.as_uri(), width=400).run(tops)
    assert first < second, "one below the other on a narrow page"
