"""The viewer in a browser. Skipped if Chromium is not installed or does not run."""

import pytest

from tests.inspect.report.chromium import BINARY
from tests.inspect.report.test_browser import browser  # noqa: F401 - fixture
from tests.inspect.view.conftest import serving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        BINARY is None, reason="needs Chromium (chromium, chromium-browser or google-chrome) on the PATH"
    ),
]

IDS = "[...document.querySelectorAll('#list tbody a')].map((a) => Number(a.textContent))"
LEVELS = "[...document.querySelectorAll('.level')].filter((e) => e.getClientRects().length).map((e) => Number(e.dataset.level))"
BACKGROUND = "Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])"


def wait(browser, condition):  # noqa: F811
    """Wait until a page is loaded, with its scripts, and an expression is true. The page may change meanwhile."""
    condition = f"document.readyState === 'complete' && ({condition})"
    for _ in range(2000):
        try:
            if browser.run(f"new Promise((done) => setTimeout(() => done(Boolean({condition})), 20))"):
                return
        except AssertionError:
            continue  # the page changed meanwhile
    raise AssertionError(f"never true: {condition}")


def fill(browser, text, name="q"):  # noqa: F811
    """Type into the search of the list."""
    browser.run(
        f"(() => {{ const field = document.querySelector('#filter [name={name}]'); field.value = {text!r};"
        "field.dispatchEvent(new Event('input', { bubbles: true })); })()"
    )


def test_search(browser, server):  # noqa: F811
    browser.open(f"{server.url}graphs")
    assert browser.run(IDS) == [*range(30)]
    fill(browser, "3:7")
    wait(browser, f"({IDS}).length === 4")
    assert browser.run(IDS) == [3, 4, 5, 6]
    assert (
        browser.run("document.getElementById('status').textContent")
        == "1–4 of 4 graphs found, 30 graphs in the store"
    )
    fill(browser, "-edges", "sort")
    wait(browser, "document.querySelector('#list th:nth-child(3)').ariaSort === 'descending'")
    assert {*browser.run(IDS)} == {3, 4, 5, 6}
    assert browser.run("location.search") == "?q=3%3A7&sort=-edges", "the address can be linked"
    fill(browser, "foo>1")
    wait(browser, "document.querySelector('#status.bad')")
    assert "Unknown figure 'foo'" in browser.run("document.getElementById('status').textContent")
    fill(browser, "nodes>=0")
    wait(browser, f"({IDS}).length === 30 && !document.querySelector('#status.bad')")
    assert [line for line in browser.log if "400" not in line] == []


def test_a_row_opens_the_graph_and_the_arrow_keys_turn(browser, server):  # noqa: F811
    browser.open(f"{server.url}graphs?q=3:9&sort=-id")
    browser.run("document.querySelector('#list tbody a').click()")
    wait(browser, "document.title.startsWith('Graph 8 ')")
    assert "1 of 6 graphs found by 3:9" in browser.run("document.querySelector('.turn').textContent")
    browser.press("ArrowRight")
    wait(browser, "document.title.startsWith('Graph 7 ')")
    browser.press("ArrowLeft")
    wait(browser, "document.title.startsWith('Graph 8 ')")
    browser.press("ArrowLeft")  # there is no graph before the first one
    browser.run("document.getElementById('next').click()")
    wait(browser, "document.title.startsWith('Graph 7 ')")
    assert browser.log == []


def test_the_next_graph_keeps_level_and_theme(browser, server):  # noqa: F811
    browser.open(f"{server.url}graph?id=3#level=1&theme=dark")
    assert browser.run(LEVELS) == [1, 1], "both hierarchies are side by side at the same level"
    boxes = browser.run("[...document.querySelectorAll('.scene')].map((e) => e.getBoundingClientRect().top)")
    assert boxes[0] == boxes[1]
    browser.press("ArrowRight")
    wait(browser, "document.title.startsWith('Graph 4 ')")
    assert browser.run(LEVELS) == [1, 1] and browser.run(BACKGROUND) < 60
    browser.run("document.querySelector('nav a').click()")
    wait(browser, "document.querySelector('#provenance')")
    assert browser.run(BACKGROUND) < 60


def test_arrow_keys_move_the_slider_if_it_has_the_focus(browser, server):  # noqa: F811
    browser.open(f"{server.url}graph?id=3").run("document.getElementById('level').focus()")
    browser.press("ArrowRight")
    assert browser.run(LEVELS) == [1, 1] and browser.run("location.search") == "?id=3"


def test_an_id_in_the_header_leads_to_the_graph(browser, server):  # noqa: F811
    browser.open(server.url).run(
        "(() => { document.querySelector('.find [name=q]').value = '17'; document.querySelector('.find button').click(); })()"
    )
    wait(browser, "document.title.startsWith('Graph 17 ')")
    assert browser.run("location.search") == "?id=17"


def test_a_wrong_token_is_refused(browser, server):  # noqa: F811
    wrong = server.url.replace(server.token, "x" * len(server.token))
    browser.open(f"{wrong}graphs")
    assert "wrong" in browser.run("document.body.textContent")
    assert browser.run("document.querySelectorAll('table, script, link').length") == 0


def test_no_request_goes_to_another_host(browser, hostile_store):  # noqa: F811
    with serving(hostile_store) as server:
        for page in ("", "graphs", "graph?id=3", "graphs?q=%3Cimg%20src=x%3E"):
            browser.open(server.url + page)
            browser.run("new Promise((done) => setTimeout(done, 100))")
            assert [address for address in browser.requests if not address.startswith(server.url)] == []
            assert browser.run("document.querySelectorAll('img').length") == 0
            assert [line for line in browser.log if "400" not in line] == [], "no script of the store ran"
        fill(browser.open(f"{server.url}graphs"), "ratio>0")
        wait(browser, "document.getElementById('status').textContent.includes('found')")
        assert browser.run("document.querySelectorAll('img').length") == 0
        # Another page cannot load anything, even if it knows the address.
        assert browser.run("fetch('http://localhost:1/').then(() => 'sent', () => 'refused')") == "refused"


def test_the_address_is_not_sent_as_referrer(browser, server):  # noqa: F811
    browser.open(server.url).run("document.querySelector('a[href=\"graph?id=0\"]').click()")
    wait(browser, "document.title.startsWith('Graph 0 ')")
    assert browser.run("document.referrer") == ""


@pytest.mark.parametrize("page", ["", "graphs?q=ratio>0.1", "graph?id=3", "graph?id=99", "graphs?q=foo>1"])
def test_a_narrow_window_does_not_scroll_horizontally(browser, server, hostile_store, page):  # noqa: F811
    browser.open(server.url + page, width=400)
    assert browser.run("document.documentElement.scrollWidth") <= 400
    with serving(hostile_store) as hostile:
        browser.open(hostile.url + page.replace("99", "3"), width=400)
        assert browser.run("document.documentElement.scrollWidth") <= 400


def test_pages_work_without_script(browser, server):  # noqa: F811
    browser.open(f"{server.url}graph?id=3", script=False)
    assert browser.run(LEVELS) == [0, 1, 2, 0, 1]
    browser.open(f"{server.url}graphs?q=3:7", script=False)
    assert browser.run(IDS) == [3, 4, 5, 6]


def test_a_server_that_ended_is_reported(browser, store):  # noqa: F811
    with serving(store) as server:
        browser.open(f"{server.url}graphs")
    fill(browser, "nodes>3")
    wait(browser, "document.querySelector('#status.bad')")
    assert "does not answer" in browser.run("document.getElementById('status').textContent")
