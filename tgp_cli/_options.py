"""Option types that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tgp_cli._errors import set_debug

__all__ = ["DebugOpt", "JsonOpt", "QuietOpt", "StoreArg", "WorkersOpt", "size_in_bytes"]

JsonOpt = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
QuietOpt = Annotated[bool, typer.Option("--quiet", "-q", help="Print no messages; errors still appear.")]
DebugOpt = Annotated[
    bool,
    typer.Option("--debug", help="Show the traceback of an error.", callback=set_debug, is_eager=True),
]
StoreArg = Annotated[Path, typer.Argument(metavar="STORE", help="Directory of a store.", show_default=False)]
WorkersOpt = Annotated[
    int | None, typer.Option("--workers", "-j", min=1, help="Worker processes. Default 1.")
]

_UNITS = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def size_in_bytes(text: str) -> int:
    """``64MB``, ``1.5G``, ``64MiB`` or a plain number of bytes."""
    word = text.strip().lower()
    binary = word.endswith("ib")
    word = word.removesuffix("ib") if binary else word.removesuffix("b")
    unit = word[-1:] if word[-1:].isalpha() else ""
    try:
        number = float(word.removesuffix(unit))
        factor = _UNITS[unit]
    except (ValueError, KeyError):
        raise typer.BadParameter(f"expected a size such as 64MB or 1GiB, got {text!r}") from None
    if binary:
        factor = 1024 ** ("", "k", "m", "g", "t").index(unit)
    if number * factor < 1:
        raise typer.BadParameter(f"expected a positive size, got {text!r}")
    return int(number * factor)
