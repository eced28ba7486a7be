"""``tgp poolers``: list poolers, describe one, and help to choose."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tgp_cli._completion import complete_datasets, complete_poolers
from tgp_cli._errors import ExitStatus
from tgp_cli._options import DebugOpt, JsonOpt
from tgp_cli._output import Output
from tgp_cli._poolers_text import show_choices, show_pooler, show_poolers

if TYPE_CHECKING:
    from tgp.inspect.choice import Needs

EPILOG = (
    "Examples: tgp poolers | tgp poolers graclus | tgp poolers --choose | "
    "tgp poolers --choose --exact-k 8 --nodes 500 | tgp poolers --precoarsenable --json"
)
_CHOOSING = "Choose a pooler"


def _need(*names: str, **values: Any) -> Any:
    return typer.Option(*names, show_default=False, rich_help_panel=_CHOOSING, **values)


Train = Annotated[
    bool | None,
    _need(
        "--train/--precompute",
        help="A layer that is trained with the model, or levels that are computed before (default).",
    ),
]
Nodes = Annotated[int | None, _need(min=1, metavar="N", help="Nodes of the largest graph. Default: 1000.")]
ExactK = Annotated[int | None, _need(min=1, metavar="K", help="Give every graph exactly K supernodes.")]
Connected = Annotated[bool, _need("--connected", help="A connected graph must stay connected.")]
Hubs = Annotated[bool, _need("--hubs", help="The graphs have hubs, as social networks do.")]
Fast = Annotated[bool, _need("--fast", help="Speed matters most.")]
Dataset = Annotated[
    str | None,
    _need(metavar="NAME", help="Dataset for the command of the answer.", autocompletion=complete_datasets),
]


def command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Show this pooler with its parameters.",
            show_default=False,
            autocompletion=complete_poolers,
        ),
    ] = None,
    precoarsenable: Annotated[
        bool, typer.Option("--precoarsenable", help="List only poolers that 'tgp coarsen' accepts.")
    ] = False,
    choose: Annotated[
        bool, typer.Option("--choose", help="Recommend a pooler. Asks on a terminal if no need is given.")
    ] = False,
    train: Train = None,
    nodes: Nodes = None,
    exact_k: ExactK = None,
    connected: Connected = False,
    hubs: Hubs = False,
    fast: Fast = False,
    dataset: Dataset = None,
    json: JsonOpt = False,
    debug: DebugOpt = False,
) -> ExitStatus:
    """List, describe and recommend poolers."""
    out = Output(json=json)
    given = {
        "train": train,
        "nodes": nodes,
        "exact_k": exact_k,
        "connected": connected,
        "hubs": hubs,
        "fast": fast,
    }
    given = {
        key: value for key, value in given.items() if value not in (None, False) or value is train is not None
    }
    if choose or given or dataset:
        return _choose(out, name, given, dataset)
    if name is None:
        _list(out, precoarsenable)
    else:
        _describe(out, name)
    return ExitStatus.OK


def _list(out: Output, precoarsenable: bool) -> None:
    from tgp.inspect.catalog import ignored_entry_points, list_poolers

    poolers = list_poolers(precoarsenable_only=precoarsenable)
    out.result([pooler.to_json() for pooler in poolers], lambda: show_poolers(out, poolers))
    out.message("Hint: 'tgp poolers NAME' describes a pooler, 'tgp poolers --choose' recommends one.")
    for problem in ignored_entry_points():
        out.warn(problem)


def _describe(out: Output, name: str) -> None:
    from tgp.inspect.catalog import describe_pooler
    from tgp.inspect.choice import supernodes_text
    from tgp.inspect.toy_level import draw_level

    pooler = describe_pooler(name)
    own = pooler.package is None
    size, drawing = (supernodes_text(pooler.alias), draw_level(pooler.alias)) if own else (None, None)
    data = {**pooler.to_json(), "supernodes": size, "drawing": drawing}
    out.result(data, lambda: show_pooler(out, pooler, size, drawing))


def _choose(out: Output, name: str | None, given: dict[str, Any], dataset: str | None) -> ExitStatus:
    from tgp.errors import InputError
    from tgp.inspect.choice import Needs, choose_poolers, left_out

    if name is not None:
        raise InputError(
            f"unexpected argument {name!r} with --choose",
            hint=f"'tgp poolers {name}' describes a pooler, 'tgp poolers --choose' recommends one",
        )
    if not given and not out.json and sys.stdin.isatty() and sys.stderr.isatty():
        needs = _ask(dataset)
    else:
        needs = Needs(**given, dataset=dataset)
    choices = choose_poolers(needs)
    others = left_out(needs)
    out.result([vars(choice) for choice in choices], lambda: show_choices(out, needs, choices, others))
    return ExitStatus.OK if choices else ExitStatus.FINDINGS


def _ask(dataset: str | None) -> Needs:
    """Ask for the needs on the terminal. Questions go to stderr."""
    from tgp.inspect.choice import Needs

    train = typer.confirm("Is the pooler trained with the model?", default=False, err=True)
    nodes = typer.prompt("Nodes of the largest graph", default=1000, type=int, err=True)
    exact_k = typer.prompt(
        "Exact number of supernodes per graph (0: it may differ)", default=0, type=int, err=True
    )
    connected = typer.confirm("Must a connected graph stay connected?", default=False, err=True)
    hubs = typer.confirm("Do the graphs have hubs, as social networks do?", default=False, err=True)
    fast = typer.confirm("Does speed matter most?", default=False, err=True)
    return Needs(train, nodes, exact_k or None, connected, hubs, fast, dataset)
