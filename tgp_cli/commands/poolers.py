"""``tgp poolers``: the table of poolers, without importing any of them."""

from __future__ import annotations

from typing import Annotated

import typer

from tgp_cli._options import DebugOpt, JsonOpt
from tgp_cli._output import Output

EPILOG = "Examples: tgp poolers | tgp poolers graclus | tgp poolers --precoarsenable --json"


def command(
    name: Annotated[
        str | None, typer.Argument(help="Show one pooler with its parameters.", show_default=False)
    ] = None,
    precoarsenable: Annotated[
        bool, typer.Option("--precoarsenable", help="Only what 'tgp coarsen --pooler' accepts.")
    ] = False,
    json: JsonOpt = False,
    debug: DebugOpt = False,
) -> None:
    """List poolers and their parameters."""
    from tgp.pipeline.catalog import describe_pooler, list_poolers

    out = Output(json=json)
    if name is None:
        poolers = list_poolers(precoarsenable_only=precoarsenable)
        out.result(poolers, lambda: _table(out, poolers))
    else:
        pooler = describe_pooler(name)
        out.result(pooler, lambda: _card(out, pooler))


def _table(out: Output, poolers: list[dict]) -> None:
    def mark(pooler: dict, trait: str) -> str:
        return "yes" if pooler[trait] else ""

    columns = ("pooler", "what it does", "coarsen", "trainable", "dense", "loss")
    traits = ("precoarsenable", "trainable", "dense", "loss")
    out.table(columns, [(p["alias"], p["summary"], *(mark(p, t) for t in traits)) for p in poolers])


def _card(out: Output, pooler: dict) -> None:
    out.line(f"{pooler['alias']}: {pooler['summary']}")
    if not pooler["precoarsenable"]:
        out.line("Trained with the model: use it as a layer, tgp coarsen cannot precompute it.")
        return
    out.line(f"Use: tgp coarsen --pooler {pooler['alias']}  (or {pooler['alias']}*3 for three levels)")
    rows = [(p["name"], p["default"], p["type"]) for p in pooler["parameters"]]
    if rows:
        out.table(("parameter", "default", "type"), rows)
