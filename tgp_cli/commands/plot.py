"""``tgp plot``: draw one graph at all of its levels, for papers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tgp.inspect.numbers import bytes_text
from tgp_cli._options import DebugOpt, JsonOpt, LocationArg, QuietOpt, hierarchy_option
from tgp_cli._output import Output

EPILOG = "Examples: tgp plot pooled/MUTAG --graph 5 -o mutag-5.svg | tgp plot pooled/MUTAG --graph 5 --hierarchy ndp-x2"


def command(
    store: LocationArg,
    graph: Annotated[int, typer.Option("--graph", "-g", min=0, metavar="ID", help="Graph to draw.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="PNG, SVG or PDF file to write. Default: <store>-<graph>.png."
        ),
    ] = None,
    hierarchy: Annotated[str | None, hierarchy_option("Draw only this hierarchy.")] = None,
    dpi: Annotated[int, typer.Option(min=20, max=2000, metavar="N", help="Dots per inch of a PNG.")] = 200,
    json: JsonOpt = False,
    quiet: QuietOpt = False,
    debug: DebugOpt = False,
) -> None:
    """Draw one graph at all of its levels."""
    from tgp.inspect import plot
    from tgp.store.locations import parse_location, result_path

    output = Output(json=json, quiet=quiet)
    location = parse_location(store)
    target = out or result_path(location, f"-{graph}.png")
    path = plot.save(plot.hierarchy(location, graph, hierarchy), target, dpi=dpi)
    size = path.stat().st_size
    output.result({"path": str(path), "bytes": size}, lambda: output.line(f"{path}: {bytes_text(size)}"))
