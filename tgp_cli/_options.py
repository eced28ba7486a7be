"""Types of arguments and options that several commands share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from tgp_cli._completion import complete_hierarchies, complete_stores
from tgp_cli._errors import set_debug

__all__ = [
    "DebugOpt",
    "JsonOpt",
    "LocationArg",
    "QuietOpt",
    "RootOpt",
    "StoreArg",
    "ThreadsOpt",
    "WorkersOpt",
    "hierarchy_option",
    "reject_url",
]

JsonOpt = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
QuietOpt = Annotated[bool, typer.Option("--quiet", "-q", help="Print only warnings and errors.")]
RootOpt = Annotated[
    Path | None,
    typer.Option(
        "--root",
        metavar="DIR",
        show_default=False,
        help="Folder of the datasets. Default: $TGP_DATA or ./data.",
    ),
]
DebugOpt = Annotated[
    bool,
    typer.Option("--debug", help="Show the traceback of an error.", callback=set_debug, is_eager=True),
]


def reject_url(path: Path | None) -> Path | None:
    """Reject a URL as a path to write to; it would create a folder named ``http:`` (callback of options)."""
    if path is not None and re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/(?!/?$)", str(path)) and not path.exists():
        raise typer.BadParameter(
            f"{path} is a URL; stores can be read from URLs but only written to directories"
        )
    return path


StoreArg = Annotated[
    Path,
    typer.Argument(
        metavar="STORE",
        help="Directory of a store.",
        show_default=False,
        callback=reject_url,
        autocompletion=complete_stores,
    ),
]
LocationArg = Annotated[
    str,
    typer.Argument(
        metavar="STORE",
        help="Directory or URL of a store.",
        show_default=False,
        autocompletion=complete_stores,
    ),
]


def hierarchy_option(text: str) -> Any:
    """Return the option ``--hierarchy`` with completion. Its help differs between commands."""
    return typer.Option("--hierarchy", metavar="NAME", help=text, autocompletion=complete_hierarchies)


ThreadsOpt = Annotated[
    int | None,
    typer.Option(
        "--threads",
        min=1,
        metavar="N",
        show_default=False,
        help="Largest number of threads for one large graph. By default all usable cores, and one in worker processes.",
    ),
]
WorkersOpt = Annotated[
    int | None,
    typer.Option(
        "--workers",
        "-j",
        min=1,
        metavar="N",
        show_default=False,
        help="Number of worker processes. By default it depends on the cores and on the amount of work.",
    ),
]
