"""Types of arguments and options: those that several commands share, and those about the content of stored levels."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from tgp_cli import _completion as values
from tgp_cli._completion import complete_hierarchies, complete_stores
from tgp_cli._errors import set_debug

__all__ = [
    "CarryOpt",
    "DebugOpt",
    "JsonOpt",
    "LocationArg",
    "ProfileOpt",
    "QuietOpt",
    "RelationsOpt",
    "RootOpt",
    "ShardEdgesOpt",
    "StoreArg",
    "ThreadsOpt",
    "TypeGraphOpt",
    "WorkersOpt",
    "hierarchy_option",
    "option",
    "reject_url",
    "suggest_option",
]

JsonOpt = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
QuietOpt = Annotated[bool, typer.Option("--quiet", "-q", help="Print only warnings and errors.")]
RootOpt = Annotated[
    Path | None,
    typer.Option(
        "--root",
        metavar="DIR",
        show_default=False,
        help="Directory of the datasets. Default: $TGP_DATA or ./data.",
    ),
]
DebugOpt = Annotated[
    bool,
    typer.Option("--debug", help="Show the traceback of an error.", callback=set_debug, is_eager=True),
]


def option(*names: str, **options: Any) -> Any:
    """Return an option of which the help text names the default."""
    return typer.Option(*names, show_default=False, **options)


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

_PROFILE = "fast (default, memory-mapped) or small (compressed)."
_CARRY = "Attributes of the levels: auto, or rules such as pos=mean,y=majority or auto,x=none. Default: none."
_SHARD_EDGES = "Divide a single large graph: edges after which it continues in another file. Default: none."
_RELATIONS = "HeteroData: relations on which supernodes depend, separated by commas. Default: all."
_TYPE_GRAPH = "HeteroData: edges that poolers see: auto (default), same or project."

CarryOpt = Annotated[
    str | None, option(metavar="RULES", help=_CARRY, autocompletion=values.complete_reductions)
]
RelationsOpt = Annotated[str | None, option(metavar="NAMES", help=_RELATIONS)]
TypeGraphOpt = Annotated[
    str | None, option(metavar="MODE", help=_TYPE_GRAPH, autocompletion=values.complete_type_graphs)
]
ProfileOpt = Annotated[
    str | None, option(metavar="PROFILE", help=_PROFILE, autocompletion=values.complete_profiles)
]
ShardEdgesOpt = Annotated[int | None, option(min=1, metavar="N", help=_SHARD_EDGES)]


def suggest_option(word: str) -> str:
    """Return the hint about an argument without an option: a schedule starts with the name of a pooler."""
    from tgp.inspect.catalog import list_poolers

    if re.split("[:,*]", word)[0].lower() in {pooler.alias for pooler in list_poolers()}:
        return f"poolers are named by --pooler {shlex.quote(word)}"
    return f"a dataset is named by --dataset {shlex.quote(word)}"
