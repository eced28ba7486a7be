"""The page in a real browser. Skipped where Chromium is not installed."""

import os
import re
import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tgp.report import write_report

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None, reason="needs Chromium (chromium, chromium-browser or google-chrome) on the PATH"
    ),
]
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--enable-logging=stderr",
    "--virtual-time-budget=1500",
]


@pytest.fixture(scope="module")
def works(tmp_path_factory):
    """Skip where a browser is installed but shows not even an empty page: an unfinished installation, no fonts, no rights."""
    for _ in range(3):
        profile = tmp_path_factory.mktemp("probe")
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "--dump-dom", "data:text/html,<p>seen</p>"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        except (subprocess.TimeoutExpired, OSError) as error:
            pytest.skip(f"{CHROMIUM} does not run here: {error}")
        if done.returncode == 0 and "seen" in done.stdout:
            return
    pytest.skip(f"{CHROMIUM} shows no page here: {done.stderr.strip()[-200:]}")


@pytest.fixture
def browse(works, tmp_path):
    """Load an address: the page's elements afterwards, and what the browser wrote to its log."""

    def load(address, *flags):
        # A browser that crashes or shows nothing, as may happen on a busy machine, says nothing about the page.
        for _ in range(3):
            profile = tmp_path / f"profile-{os.urandom(4).hex()}"
            command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", *flags, "--dump-dom", address]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
            if done.returncode == 0 and "</html>" in done.stdout:
                break
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    return load


@pytest.fixture(scope="module")
def file(store, tmp_path_factory):
    return write_report(store, tmp_path_factory.mktemp("page") / "report.html", graphs=[0, 5, 17])


def shown(dom):
    """Levels of the graph on show, and the graph."""
    (article,) = re.findall(r'<article class="graph on" data-graph="(\d+)">(.*?)</article>', dom, re.S)
    return int(article[0]), [
        int(n) for n in re.findall(r'<figure class="level on[^"]*" data-level="(\d+)"', article[1])
    ]


def test_slider_and_chooser_change_the_drawing(browse, file):
    first, log = browse(file.as_uri())
    assert log == []
    assert shown(first) == (0, [0])
    second, log = browse(f"{file.as_uri()}#graph=17&level=2")
    assert log == []
    assert shown(second) == (17, [2])
    assert "level 1</output>" in second
    # Values that no control has are ignored.
    odd, log = browse(f"{file.as_uri()}#graph=%3Cb%3E&level=x&theme=%22")
    assert log == [] and shown(odd)[0] == 0


def test_hostile_page_runs_nothing(browse, hostile_store, tmp_path):
    page = write_report(hostile_store, tmp_path / "hostile.html", graphs=[0, 3])
    dom, log = browse(page.as_uri())
    assert log == []
    assert dom.count("<script") == 1 and "<img" not in dom


def test_asks_the_server_for_nothing_else(browse, file):
    asked = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            asked.append(self.path)

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=file.parent)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        _, log = browse(f"http://127.0.0.1:{server.server_port}/{file.name}")
        server.shutdown()
    # Browsers look for an icon of their own accord.
    assert set(asked) - {"/favicon.ico"} == {f"/{file.name}"}
    assert [line for line in log if "favicon" not in line] == []


def probe(file, tmp_path, script):
    """The page with a script of the test at its end; the policy is taken out for it."""
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", file.read_text(encoding="utf-8"))
    page = tmp_path / "probe.html"
    page.write_text(text.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
    return page.as_uri()


BACKGROUND = "document.title = getComputedStyle(document.body).backgroundColor;"


@pytest.mark.parametrize(("fragment", "light"), [("", True), ("#theme=dark", False), ("#theme=light", True)])
def test_dark_and_light(browse, file, tmp_path, fragment, light):
    dom, _ = browse(probe(file, tmp_path, BACKGROUND) + fragment)
    red = int(re.search(r"<title>rgb\((\d+)", dom)[1])
    assert red > 200 if light else red < 60


def test_system_setting_and_button(browse, file, tmp_path):
    dark = "--blink-settings=preferredColorScheme=0"
    dom, _ = browse(probe(file, tmp_path, BACKGROUND), dark)
    assert int(re.search(r"<title>rgb\((\d+)", dom)[1]) < 60
    dom, _ = browse(probe(file, tmp_path, "document.getElementById('theme').click();" + BACKGROUND), dark)
    assert int(re.search(r"<title>rgb\((\d+)", dom)[1]) > 200


def test_tables_sort(browse, file, tmp_path):
    script = """
    const table = document.querySelector('#hierarchy-0 table');
    const button = table.querySelectorAll('th button')[2];
    const nodes = () => [...table.tBodies[0].rows].map((row) => Number(row.cells[2].dataset.v));
    button.click(); const up = nodes(); button.click(); const down = nodes();
    document.title = JSON.stringify([up, down]).replaceAll(',', ' ');
    """
    dom, log = browse(probe(file, tmp_path, script))
    up, down = re.search(r"<title>\[\[([\d ]+)\] \[([\d ]+)\]\]", dom).groups()
    values = [int(v) for v in up.split()]
    assert log == [] and len(values) == 4
    assert values == sorted(values) and [int(v) for v in down.split()] == values[::-1]


def test_narrow_window_does_not_scroll_sideways(browse, file, tmp_path):
    script = """
    const frame = document.createElement('iframe');
    frame.width = 400; frame.height = 800; frame.srcdoc = document.documentElement.outerHTML.split('<script')[0];
    frame.onload = () => { document.title = 'width ' + frame.contentDocument.documentElement.scrollWidth; };
    document.body.replaceChildren(frame);
    """
    dom, _ = browse(probe(file, tmp_path, script))
    assert int(re.search(r"<title>width (\d+)", dom)[1]) <= 400


def test_readable_without_script(browse, file, tmp_path):
    page = tmp_path / "plain.html"
    page.write_text(
        re.sub(r"<script>.*</script>", "", file.read_text(encoding="utf-8"), flags=re.S), encoding="utf-8"
    )
    script = """
    const seen = (s) => [...document.querySelectorAll(s)].filter((e) => e.getClientRects().length).length;
    document.title = [seen('.level'), seen('.controls'), seen('table')].join(' ');
    """
    dom, _ = browse(probe(page, tmp_path, script))
    levels, controls, tables = map(int, re.search(r"<title>(\d+) (\d+) (\d+)", dom).groups())
    assert levels == 12 and controls == 0 and tables >= 3
