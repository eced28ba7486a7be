"""``tgp view``: show a store in the browser."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from tgp_cli._options import DebugOpt, JsonOpt, LocationArg
from tgp_cli._output import Output

EPILOG = "Examples: tgp view pooled/MUTAG | tgp view pooled/MUTAG --port 8000 --no-browser"


def command(
    store: LocationArg,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, metavar="N", help="Port to listen on. Default: a free one."),
    ] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address only, do not open a browser.")
    ] = False,
    json: JsonOpt = False,
    debug: DebugOpt = False,
) -> None:
    """Show all graphs of a store in the browser.

    The command runs a web server until Ctrl-C. Only browsers of this machine that use the printed address get an answer.
    The store is not changed.
    """
    from tgp.inspect.view import ViewServer
    from tgp.store.locations import parse_location

    output = Output(json=json)
    with ViewServer(parse_location(store), port) as server:
        output.result({"url": server.url}, lambda: output.line(server.url))
        sys.stdout.flush()  # a program that reads the address would wait for it
        output.message("Open this address in a browser of this machine. Ctrl-C ends the server.")
        if not (no_browser or json) and _has_display():
            import webbrowser

            webbrowser.open(server.one_time_url())
        try:
            server.serve()
        except KeyboardInterrupt:
            # Ctrl-C is the way to end the server, so this is success.
            output.message("Ended.")


def _has_display() -> bool:
    """Return True if stdout is a terminal and the system can show a browser."""
    if not sys.stdout.isatty():
        return False
    return sys.platform in ("win32", "darwin") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
