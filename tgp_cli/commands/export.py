"""``tgp export``: a store for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tgp_cli._options import DebugOpt, JsonOpt, PlaceArg, QuietOpt
from tgp_cli._output import Output, counted, human_bytes

EPILOG = "Examples: tgp export pooled/MUTAG --to npz | tgp export pooled/MUTAG --to graphml --graphs 0:10 --out drawn"


def command(
    store: PlaceArg,
    to: Annotated[
        str, typer.Option(help="pyg: InMemoryDataset files; npz: plain arrays; graphml: a file per graph.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder to write to. Default <store>-<format>.")
    ] = None,
    hierarchy: Annotated[str | None, typer.Option(help="Which hierarchy, if there are several.")] = None,
    graphs: Annotated[str | None, typer.Option(help="Some graphs: 0:100 or 3,5,8.")] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Write over existing files.")] = False,
    json: JsonOpt = False,
    quiet: QuietOpt = False,
    debug: DebugOpt = False,
) -> None:
    """Convert a store for other tools."""
    from tgp.inspect.export import export_store
    from tgp.store.locations import beside, parse_place

    output = Output(json=json, quiet=quiet)
    place = parse_place(store)
    folder = out or beside(place, f"-{to}")
    files = export_store(place, to, folder, hierarchy=hierarchy, graphs=graphs, force=force)
    size = sum(f.stat().st_size for f in files)
    report = {"path": str(folder), "files": [f.name for f in files], "bytes": size}
    output.result(
        report, lambda: output.line(f"{folder}: {counted(len(files), 'file')}, {human_bytes(size)}")
    )
