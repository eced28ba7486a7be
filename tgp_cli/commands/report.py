"""``tgp report``: a store as one HTML page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tgp_cli._options import DebugOpt, JsonOpt, PlaceArg, QuietOpt
from tgp_cli._output import Output, human_bytes

EPILOG = "Examples: tgp report pooled/MUTAG | tgp report pooled/MUTAG --graphs 0,5,17 -o mutag.html"


def command(
    store: PlaceArg,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write, - for stdout. Default <store>-report.html."),
    ] = None,
    graphs: Annotated[
        str | None, typer.Option(help="Graphs to draw: 0,5,17. Default five, from small to large.")
    ] = None,
    json: JsonOpt = False,
    quiet: QuietOpt = False,
    debug: DebugOpt = False,
) -> None:
    """Write a page that shows a store.

    One HTML file with figures, charts and drawings that opens in any browser, offline.
    """
    from tgp.inspect.report import render_report, write_report
    from tgp.store.locations import parse_place

    output = Output(json=json, quiet=quiet)
    if str(out) == "-":
        if json:
            raise typer.BadParameter("'--out -' and '--json' both want stdout")
        page = render_report(parse_place(store), graphs=graphs)
        sys.stdout.buffer.write(page.encode("utf-8"))  # the page says UTF-8, whatever the terminal does
        return
    path = write_report(parse_place(store), out, graphs=graphs)
    size = path.stat().st_size
    output.result(
        {"path": str(path), "bytes": size},
        lambda: output.line(f"{path}: {human_bytes(size)}, open it in a browser"),
    )
