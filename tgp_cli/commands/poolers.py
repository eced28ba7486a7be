"""``tgp poolers``: list poolers without importing any of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tgp_cli._options import DebugOpt, JsonOpt
from tgp_cli._output import Output

if TYPE_CHECKING:
    from tgp.inspect.catalog import PoolerInfo

EPILOG = "Examples: tgp poolers | tgp poolers graclus | tgp poolers --precoarsenable --json"

MARKS = {True: "yes", False: "", None: "?"}
"""Text of a trait; ``None`` if it is unknown."""


def command(
    name: Annotated[
        str | None, typer.Argument(help="Show this pooler with its parameters.", show_default=False)
    ] = None,
    precoarsenable: Annotated[
        bool, typer.Option("--precoarsenable", help="List only poolers that 'tgp coarsen' accepts.")
    ] = False,
    json: JsonOpt = False,
    debug: DebugOpt = False,
) -> None:
    """List poolers and their parameters."""
    from tgp.inspect.catalog import describe_pooler, ignored_entry_points, list_poolers

    out = Output(json=json)
    if name is None:
        poolers = list_poolers(precoarsenable_only=precoarsenable)
        out.result([pooler.to_json() for pooler in poolers], lambda: _show_table(out, poolers))
        for problem in ignored_entry_points():
            out.warn(problem)
    else:
        pooler = describe_pooler(name)
        out.result(pooler.to_json(), lambda: _show_pooler(out, pooler))


def _show_table(out: Output, poolers: list[PoolerInfo]) -> None:
    columns = ["pooler", "description", "coarsen", "trainable", "dense", "loss"]
    rows = [
        [p.alias, p.summary, *(MARKS[trait] for trait in (p.precoarsenable, p.trainable, p.dense, p.loss))]
        for p in poolers
    ]
    if any(p.package for p in poolers):
        columns.append("package")
        rows = [[*row, p.package or ""] for row, p in zip(rows, poolers, strict=True)]
    out.table(columns, rows, wrap=(1,))


def _show_pooler(out: Output, pooler: PoolerInfo) -> None:
    package = f" (package {pooler.package})" if pooler.package else ""
    out.line(f"{pooler.alias}: {pooler.summary}{package}")
    if not pooler.precoarsenable:
        how = "It is trained with the model" if pooler.trainable else "It is part of the model"
        out.line(f"{how}: use it as a layer. 'tgp coarsen' cannot precompute it.")
        return
    out.line(f"Use: tgp coarsen --pooler {pooler.alias}  (or {pooler.alias}*3 for three levels)")
    rows = [(p.name, p.default, p.type) for p in pooler.parameters or ()]
    if rows:
        out.table(("parameter", "default", "type"), rows, wrap=(2,))
