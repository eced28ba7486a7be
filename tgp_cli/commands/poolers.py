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
    from tgp.inspect.catalog import describe_pooler, hidden_offers, list_poolers

    out = Output(json=json)
    if name is None:
        poolers = list_poolers(precoarsenable_only=precoarsenable)
        out.result(poolers, lambda: _table(out, poolers))
        for problem in hidden_offers():
            out.warn(problem)
    else:
        pooler = describe_pooler(name)
        out.result(pooler, lambda: _card(out, pooler))


MARKS = {True: "yes", False: "", None: "?"}


def _table(out: Output, poolers: list[dict]) -> None:
    columns = ["pooler", "what it does", "coarsen", "trainable", "dense", "loss"]
    traits = ("precoarsenable", "trainable", "dense", "loss")
    rows = [[p["alias"], p["summary"], *(MARKS[p[t]] for t in traits)] for p in poolers]
    if any(p["package"] for p in poolers):
        columns.append("package")
        rows = [[*row, p["package"] or ""] for row, p in zip(rows, poolers, strict=True)]
    out.table(columns, rows, wrap=(1,))


def _card(out: Output, pooler: dict) -> None:
    package = f" (package {pooler['package']})" if pooler["package"] else ""
    out.line(f"{pooler['alias']}: {pooler['summary']}{package}")
    if not pooler["precoarsenable"]:
        how = "Trained with the model" if pooler["trainable"] else "Part of the model"
        out.line(f"{how}: use it as a layer, tgp coarsen cannot precompute it.")
        return
    out.line(f"Use: tgp coarsen --pooler {pooler['alias']}  (or {pooler['alias']}*3 for three levels)")
    rows = [(p["name"], p["default"], p["type"]) for p in pooler["parameters"]]
    if rows:
        out.table(("parameter", "default", "type"), rows, wrap=(2,))
