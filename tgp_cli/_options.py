"""Option types that several commands share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from tgp_cli._errors import set_debug

__all__ = ["DebugOpt", "JsonOpt", "QuietOpt", "PlaceArg", "StoreArg", "WorkersOpt", "local_only"]

JsonOpt = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
QuietOpt = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but errors; the exit status tells.")
]
DebugOpt = Annotated[
    bool,
    typer.Option("--debug", help="Show the traceback of an error.", callback=set_debug, is_eager=True),
]


def local_only(path: Path | None) -> Path | None:
    """Callback of paths that are written to: a URL would become a folder named ``http:``."""
    if path is not None and re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/(?!/?$)", str(path)) and not path.exists():
        raise typer.BadParameter(f"{path} is a URL; stores are written to directories, URLs can only be read")
    return path


StoreArg = Annotated[
    Path,
    typer.Argument(metavar="STORE", help="Directory of a store.", show_default=False, callback=local_only),
]
PlaceArg = Annotated[
    str, typer.Argument(metavar="STORE", help="Directory or URL of a store.", show_default=False)
]
WorkersOpt = Annotated[
    int | None,
    typer.Option(
        "--workers",
        "-j",
        min=1,
        show_default=False,
        help="Worker processes. Default: usable cores, but no more than there are units and seconds of work.",
    ),
]
