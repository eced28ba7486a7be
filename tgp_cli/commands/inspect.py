"""``tgp inspect``: what a store holds and how good it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tgp_cli._options import DebugOpt, JsonOpt
from tgp_cli._output import Output
from tgp_cli._status import ExitStatus

EPILOG = (
    "Examples: tgp inspect | tgp inspect pooled/MUTAG --json | tgp inspect pooled/MUTAG --fail-if 'ratio>0.95' | "
    "tgp inspect pooled/MUTAG --spectral --fail-if 'eigenvalue_error>0.3' | tgp inspect --diff pooled/a pooled/b"
)
Opt = typer.Option


def command(
    store: Annotated[
        str | None,
        typer.Argument(help="Directory or URL; without it, the stores below ./pooled.", show_default=False),
    ] = None,
    hierarchy: Annotated[str | None, Opt(help="Only this hierarchy.")] = None,
    level: Annotated[int | None, Opt(help="Only this level; the first is 0.")] = None,
    graph: Annotated[int | None, Opt(help="Every figure of one graph.")] = None,
    fail_if: Annotated[
        list[str] | None, Opt(help="Exit with 1 if this holds for a level: 'ratio>0.95'.")
    ] = None,
    spectral: Annotated[
        bool,
        Opt(
            "--spectral",
            help="Compare the lowest eigenvalues of the normalised Laplacian of coarse and input graphs: "
            "mean of |new - old| / old; the same after the best common factor; and of the clusters alone.",
        ),
    ] = False,
    sample: Annotated[int, Opt(min=1, help="Graphs that --spectral looks at.")] = 100,
    modes: Annotated[int, Opt(min=1, help="Eigenvalues other than 0 that --spectral compares.")] = 8,
    seed: Annotated[int, Opt(help="Chooses the sample of --spectral.")] = 0,
    diff: Annotated[
        tuple[str, str] | None,
        Opt(metavar="A B", help="Compare two stores, or hierarchies of STORE; exit with 1 if they differ."),
    ] = None,
    csv: Annotated[bool, Opt("--csv", help="One line per level, as CSV.")] = False,
    json: JsonOpt = False,
    debug: DebugOpt = False,
) -> ExitStatus:
    """Show what a store holds and how good it is."""
    if json and csv:
        raise typer.BadParameter("choose --json or --csv, not both")
    output = Output(json=json)
    table_only = {"fail_if": fail_if, "csv": csv}
    if diff is not None:
        _reject("--diff", graph=graph, level=level, hierarchy=hierarchy, spectral=spectral, **table_only)
        return _diff(output, store, diff)
    if store is None:
        _reject("no STORE", graph=graph, level=level, hierarchy=hierarchy, spectral=spectral, **table_only)
        return _list(output)
    if graph is not None:
        _reject("--graph", **table_only)
        return _graph(output, store, graph, hierarchy, level, modes if spectral else None)

    from tgp.inspect.overview import SpectralOptions, inspect_store
    from tgp.inspect.thresholds import check_thresholds
    from tgp.store.locations import parse_place
    from tgp_cli import _render_store as _render

    options = SpectralOptions(sample, modes, seed) if spectral else None
    view = inspect_store(parse_place(store), hierarchy=hierarchy, level=level, spectral=options)
    missed = list(check_thresholds(view, fail_if or []))
    if csv:
        output.csv(*_render.level_rows(view))
    else:
        output.result(view.to_json() | {"missed": missed}, lambda: _render.show_store(output, view))
    for sentence in missed:
        output.warn(sentence)
    return ExitStatus.FINDINGS if missed else ExitStatus.OK


def _reject(what: str, **given: Any) -> None:
    """Options that would be ignored are a mistake."""
    for name, value in given.items():
        if value is not None and value is not False and value != []:
            raise typer.BadParameter(f"--{name.replace('_', '-')} has no meaning with {what}")


def _list(output: Output) -> ExitStatus:
    from tgp.inspect.overview import find_stores
    from tgp_cli import _render_store as _render

    stores = find_stores(Path("pooled"))
    output.result(stores, lambda: _render.show_stores(output, stores))
    return ExitStatus.OK


def _graph(
    output: Output, store: str, graph: int, hierarchy: str | None, level: int | None, modes: int | None
) -> ExitStatus:
    from tgp.inspect.overview import inspect_graph
    from tgp.store.locations import parse_place
    from tgp_cli import _render_store as _render

    card = inspect_graph(parse_place(store), graph, hierarchy=hierarchy, level=level, modes=modes)
    output.result(card, lambda: _render.show_graph(output, card))
    return ExitStatus.OK


def _diff(output: Output, store: str | None, diff: tuple[str, str]) -> ExitStatus:
    from tgp.inspect.compare import compare_hierarchies, compare_stores
    from tgp.store.locations import parse_place
    from tgp_cli import _render_store as _render

    places = map(parse_place, diff)
    found = compare_stores(*places) if store is None else [compare_hierarchies(parse_place(store), *diff)]
    output.result([c.to_json() for c in found], lambda: _render.show_comparison(output, found))
    return ExitStatus.OK if all(c.equal for c in found) else ExitStatus.FINDINGS
