"""``tgp view``: the server starts, prints its address and ends on Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from tgp.build import CoarsenConfig, coarsen_dataset
from tgp_cli.commands import view

PATIENCE = 600
"""Seconds after which a process counts as hanging, even on a busy machine."""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    out = tmp_path_factory.mktemp("viewed") / "er"
    coarsen_dataset(CoarsenConfig("er:num_graphs=8:num_nodes=10", out=out, poolers=("graclus*2",)))
    return out


def command(*arguments):
    return [sys.executable, "-m", "tgp_cli.main", "view", *map(str, arguments)]


def start(*arguments):
    return subprocess.Popen(
        command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def stop(process, number=signal.SIGINT):
    """Send a signal and return status and the rest of both streams."""
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def test_it_prints_the_address_and_ends_on_ctrl_c(store):
    process = start(store)
    try:
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:") and url.endswith("/")
        with urllib.request.urlopen(f"{url}graphs.json?q=nodes%3E3", timeout=PATIENCE) as answer:
            assert json.load(answer)["total"] == 8
        status, out, err = stop(process)
        assert (status, out) == (0, ""), "Ctrl-C is the way to end it"
        assert "Ctrl-C ends the server" in err and "Traceback" not in err
        with pytest.raises(OSError):
            urllib.request.urlopen(url, timeout=PATIENCE)
    finally:
        process.kill()


def test_json(store):
    process = start(store, "--json")
    try:
        lines = ""
        while not lines.rstrip().endswith("}"):
            lines += process.stdout.readline()
        assert [*json.loads(lines)] == ["url"]
        with urllib.request.urlopen(json.loads(lines)["url"], timeout=PATIENCE) as answer:
            assert b"graclus-x2" in answer.read()
        assert stop(process) == (0, "", "")
    finally:
        process.kill()


@pytest.mark.linux
def test_other_signals_keep_their_status(store):
    process = start(store)
    try:
        process.stdout.readline()
        assert stop(process, signal.SIGTERM)[0] == 143
    finally:
        process.kill()


def test_mistakes(store, tmp_path):
    missing = subprocess.run(command(tmp_path / "none"), capture_output=True, text=True, timeout=PATIENCE)
    assert missing.returncode == 2 and "no such directory" in missing.stderr
    process = start(store, "--no-browser")
    try:
        port = process.stdout.readline().split(":")[2].partition("/")[0]
        busy = subprocess.run(
            command(store, "--port", port), capture_output=True, text=True, timeout=PATIENCE
        )
        assert (
            busy.returncode == 2 and f"cannot listen on port {port}" in busy.stderr and "Hint:" in busy.stderr
        )
    finally:
        process.kill()


@pytest.mark.parametrize(
    ("terminal", "display", "expected"), [(True, ":0", True), (True, None, False), (False, ":0", False)]
)
def test_a_browser_is_opened_only_where_one_can_be_seen(monkeypatch, terminal, display, expected):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    if display is not None:
        monkeypatch.setenv("DISPLAY", display)
    assert view._has_display() is expected


@pytest.mark.linux
@pytest.mark.parametrize("option", [(), ("--no-browser",)])
def test_the_browser_gets_an_address_without_the_token(store, tmp_path, option):
    """Everybody can read the arguments of a process."""
    import pty

    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}.new; mv {seen}.new {seen}\n')
    browser.chmod(0o755)
    main, side = pty.openpty()
    environment = os.environ | {"BROWSER": f"{browser} %s", "DISPLAY": ":0", "TERM": "dumb"}
    process = subprocess.Popen(command(store, *option), stdout=side, stderr=subprocess.PIPE, env=environment, start_new_session=True)  # fmt: skip
    try:
        os.close(side)
        url = b""
        while not url.endswith(b"\n"):
            url += os.read(main, 1)
        token = url.decode().split("/")[3]
        if not option:
            for _ in range(PATIENCE * 20):
                if seen.exists():
                    break
                process.poll()

                time.sleep(0.05)
            address = seen.read_text().strip()
            assert token not in address
            with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
                assert answer.url.endswith(f"/{token}/") and b"graclus-x2" in answer.read()
        else:
            with urllib.request.urlopen(url.decode().strip(), timeout=PATIENCE):
                pass
            assert not seen.exists()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE) == 0
    finally:
        process.kill()
        process.stderr.close()
        os.close(main)


def test_it_imports_neither_torch_nor_numba(store):
    code = (
        "import sys\nfrom tgp.inspect.view import StoreApplication\n"
        "app = StoreApplication(sys.argv[1])\n"
        "assert {app.respond(*page).status for page in (('', {}), ('graphs', {'q': 'cut>0'}), ('graph', {'id': '3'}))} == {200}\n"
        "print([m for m in ('torch', 'numba') if m in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, str(store)], capture_output=True, text=True, timeout=PATIENCE
    )
    assert found.stdout.strip() == "[]", found.stderr
