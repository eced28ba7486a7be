"""Control a browser through a pipe, without further packages, ports or network."""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time

BINARY = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
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
]
# The browser reads from descriptor 3 and writes to 4. The pipe may already use these numbers, so it is moved first.
_LAUNCH = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3]]
for fd, wanted in zip(ends, (3, 4)):
    os.dup2(fd, wanted)
    os.close(fd)
os.execv(sys.argv[3], sys.argv[3:])
"""
KEYS = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35}


class Chromium:
    """A browser with one page.

    Args:
        profile: empty directory for the files of the browser.
        timeout: seconds to wait for an answer.
    """

    def __init__(self, profile, timeout=120.0):
        self.timeout = timeout
        self.log, self.requests, self.events = [], [], []
        self._count, self._rest, self._session = 0, b"", None
        read, self._to = os.pipe()
        self._from, write = os.pipe()
        command = [sys.executable, "-c", _LAUNCH, str(read), str(write), BINARY, *FLAGS]
        self._process = subprocess.Popen(
            [*command, "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(read, write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(read)
        os.close(write)
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def call(self, method, **params):
        """Send a command and wait for its result."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._count:
            pass
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def _next(self):
        """Return the next message. Events are also recorded by their kind."""
        end = time.monotonic() + self.timeout
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(end - time.monotonic(), 0))
            piece = os.read(self._from, 1 << 20) if ready else b""
            if not piece:
                raise TimeoutError(f"no answer from {BINARY}")
            self._rest += piece
        text, _, self._rest = self._rest.partition(b"\0")
        message = json.loads(text)
        name, params = message.get("method"), message.get("params", {})
        if name in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            self.log.append(json.dumps(params)[:1000])
        elif name == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif name:
            self.events.append(name)
        return message

    def open(self, address, *, width=1280, dark=False, media="screen", script=True):
        """Load a page and wait until it is complete."""
        self.call("Page.navigate", url="about:blank")
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.log.clear()
        self.requests.clear()
        self.events.clear()
        self.call("Page.navigate", url=address)
        while "Page.loadEventFired" not in self.events:
            self._next()
        return self

    def run(self, expression):
        """Return the value of an expression in the page. The policy of the page does not apply to it."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key):
        """Press and release a key."""
        keys = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **keys, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **keys)

    def point(self, selector):
        """Move the mouse to the middle of an element."""
        place = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{behavior: 'instant', "
            "block: 'center'}); const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        # Scrolling hides the tooltip. The mouse can show it again from the next frame on.
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=place[0], y=place[1])

    def print_to_pdf(self):
        """Return the printed page as PDF."""
        return base64.b64decode(self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)["data"])
