"""``tgp inspect``: what a store holds and how good it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tgp_cli._options import DebugOpt, JsonOpt
from tgp_cli._output import Output
from tgp_cli._status import ExitStatus

EPILOG = (
    "Examples: tgp inspect | tgp inspect pooled/MUTAG --json | tgp inspect pooled/MUTAG --fail-if 'ratio>0.95' | "
    "tgp inspect --diff pooled/a pooled/b"
)
Opt = typer.Option


def command(
    store: Annotated[
        Path | None,
        typer.Argument(
            help="Directory of a store; without it, the stores below ./pooled.", show_default=False
        ),
    ] = None,
    hierarchy: Annotated[str | None, Opt(help="Only this hierarchy.")] = None,
    level: Annotated[int | None, Opt(help="Only this level; the first is 0.")] = None,
    graph: Annotated[int | None, Opt(help="Every figure of one graph.")] = None,
    fail_if: Annotated[
        list[str] | None, Opt(help="Exit with 1 if this holds for a level: 'ratio>0.95'.")
    ] = None,
    diff: Annotated[
        tuple[str, str] | None,
        Opt(
            metavar="A B", help="Compare two stores, or two hierarchies of STORE; exit with 1 if they differ."
        ),
    ] = None,
    csv: Annotated[bool, Opt("--csv", help="One line per level, as CSV.")] = False,
    json: JsonOpt = False,
    debug: DebugOpt = False,
) -> ExitStatus:
    """Show what a store holds and how good it is."""
    from tgp_cli import _render

    output = Output(json=json)
    if json and csv:
        raise typer.BadParameter("choose --json or --csv, not both")
    if diff is not None:
        from tgp.pipeline.compare import compare_hierarchies, compare_stores

        found = [compare_hierarchies(store, *diff)] if store else compare_stores(*map(Path, diff))
        output.result([c.to_json() for c in found], lambda: _render.show_comparison(output, found))
        return ExitStatus.OK if all(c.equal for c in found) else ExitStatus.FINDINGS

    from tgp.pipeline.inspection import check_thresholds, find_stores, inspect_graph, inspect_store

    if store is None:
        stores = find_stores(Path("pooled"))
        output.result(stores, lambda: _render.show_stores(output, stores))
        return ExitStatus.OK
    if graph is not None:
        card = inspect_graph(store, graph, hierarchy=hierarchy)
        output.result(card, lambda: _render.show_graph(output, card))
        return ExitStatus.OK
    view = inspect_store(store, hierarchy=hierarchy, level=level)
    missed = list(check_thresholds(view, fail_if or []))
    if csv:
        output.csv(*_render.level_rows(view))
    else:
        output.result(view.to_json() | {"missed": missed}, lambda: _render.show_store(output, view))
    for sentence in missed:
        output.warn(sentence)
    return ExitStatus.FINDINGS if missed else ExitStatus.OK
