"""``tgp export``: convert a store for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tgp.inspect.numbers import bytes_text, counted
from tgp_cli._completion import complete_formats
from tgp_cli._options import DebugOpt, JsonOpt, LocationArg, QuietOpt, hierarchy_option
from tgp_cli._output import Output

EPILOG = "Examples: tgp export pooled/MUTAG --to npz | tgp export pooled/MUTAG --to graphml --graphs 0:10 --out drawn"


def command(
    store: LocationArg,
    to: Annotated[
        str,
        typer.Option(
            metavar="FORMAT",
            autocompletion=complete_formats,
            help="pyg (files for InMemoryDataset), npz (numpy arrays) or graphml (a file per graph and level).",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Directory to write to. Default: <store>-<format>."),
    ] = None,
    hierarchy: Annotated[
        str | None, hierarchy_option("Hierarchy to export. Needed if the store has several.")
    ] = None,
    graphs: Annotated[
        str | None, typer.Option(metavar="IDS", help="Export only these graphs, for example 0:100 or 3,5,8.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Overwrite existing files.")] = False,
    json: JsonOpt = False,
    quiet: QuietOpt = False,
    debug: DebugOpt = False,
) -> None:
    """Convert a store for other tools."""
    from tgp.inspect.export import export_store, exported_names
    from tgp.store.locations import open_store, parse_location, result_path

    output = Output(json=json, quiet=quiet)
    location = parse_location(store)
    folder = out or result_path(location, f"-{to}")
    reader = open_store(location)
    files = export_store(reader, to, folder, hierarchy=hierarchy, graphs=graphs, force=force)
    size = sum(f.stat().st_size for f in files)
    fields = [] if to == "graphml" else reader.fields
    renamed = {name: new for name, new in exported_names(fields, to).items() if name != new}
    report = {"path": str(folder), "files": [f.name for f in files], "bytes": size, "renamed": renamed}
    output.result(report, lambda: output.line(f"{folder}: {counted(len(files), 'file')}, {bytes_text(size)}"))
    for name, new in renamed.items():
        output.warn(f"field {name!r} is named {new!r} in the files")
