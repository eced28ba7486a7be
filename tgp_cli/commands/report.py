"""``tgp report``: write an HTML report of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tgp.inspect.numbers import bytes_text
from tgp_cli._options import DebugOpt, JsonOpt, LocationArg, QuietOpt
from tgp_cli._output import Output

EPILOG = "Examples: tgp report pooled/MUTAG | tgp report pooled/MUTAG --graphs 0,5,17 -o mutag.html"


def command(
    store: LocationArg,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="File to write, or - for stdout. Default: <store>-report.html.",
        ),
    ] = None,
    graphs: Annotated[
        str | None,
        typer.Option(
            metavar="IDS", help="Graphs to draw, for example 0,5,17. Default: five, from small to large."
        ),
    ] = None,
    json: JsonOpt = False,
    quiet: QuietOpt = False,
    debug: DebugOpt = False,
) -> None:
    """Write an HTML report of a store.

    The report is one file with tables, charts and drawings. It opens in any browser and needs no network.
    """
    from tgp.inspect.report import render_report, write_report
    from tgp.store.locations import parse_location

    output = Output(json=json, quiet=quiet)
    if str(out) == "-":
        if json:
            raise typer.BadParameter("'--out -' and '--json' both write to stdout")
        output.page(render_report(parse_location(store), graphs=graphs))
        return
    path = write_report(parse_location(store), out, graphs=graphs)
    size = path.stat().st_size
    output.result(
        {"path": str(path), "bytes": size},
        lambda: output.line(f"{path}: {bytes_text(size)}, open it in a browser"),
    )
