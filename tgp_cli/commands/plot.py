"""``tgp plot``: one graph through its levels, for papers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tgp_cli._options import DebugOpt, JsonOpt, PlaceArg, QuietOpt
from tgp_cli._output import Output, human_bytes

EPILOG = "Examples: tgp plot pooled/MUTAG --graph 5 -o mutag-5.svg | tgp plot pooled/MUTAG --graph 5 --hierarchy ndp-x2"


def command(
    store: PlaceArg,
    graph: Annotated[int, typer.Option("--graph", "-g", min=0, help="Which graph.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="PNG, SVG or PDF to write. Default <store>-<graph>.png."),
    ] = None,
    hierarchy: Annotated[str | None, typer.Option(help="Only this hierarchy.")] = None,
    dpi: Annotated[int, typer.Option(min=20, max=2000, help="Dots per inch of a PNG.")] = 200,
    json: JsonOpt = False,
    quiet: QuietOpt = False,
    debug: DebugOpt = False,
) -> None:
    """Draw one graph through its levels."""
    from tgp.inspect import plot
    from tgp.store.locations import beside, parse_place

    output = Output(json=json, quiet=quiet)
    place = parse_place(store)
    target = out or beside(place, f"-{graph}.png")
    path = plot.save(plot.hierarchy(place, graph, hierarchy), target, dpi=dpi)
    size = path.stat().st_size
    output.result({"path": str(path), "bytes": size}, lambda: output.line(f"{path}: {human_bytes(size)}"))
