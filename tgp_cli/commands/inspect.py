"""``tgp inspect``: show the contents and the quality of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tgp_cli._completion import complete_conditions, complete_stores
from tgp_cli._errors import ExitStatus
from tgp_cli._options import DebugOpt, JsonOpt, hierarchy_option
from tgp_cli._output import Output

EPILOG = (
    "Examples: tgp inspect | tgp inspect pooled/MUTAG --json | tgp inspect pooled/MUTAG --fail-if 'ratio>0.95' | "
    "tgp inspect pooled/MUTAG --spectral --fail-if 'eigenvalue_error>0.3' | tgp inspect --diff pooled/a pooled/b"
)
Opt = typer.Option
_SPECTRAL = (
    "Also compare the smallest eigenvalues of the normalised Laplacian of coarse and input graphs: the mean of "
    "|coarse - input| / input; the same after the best common factor; and the error of the clusters alone. A second table "
    "has the figures of papers about graph reduction: errors of the lowest and highest eigenvalues of several Laplacians, "
    "hyperbolic and reconstruction error, restricted spectral approximation."
)

Store = Annotated[
    str | None,
    typer.Argument(
        metavar="STORE",
        help="Directory or URL of a store. Without it, the stores below ./pooled are listed.",
        show_default=False,
        autocompletion=complete_stores,
    ),
]
Level = Annotated[
    int | None, Opt(metavar="N", help="Show only this level. Level 1 is the first pooled graph.")
]
FailIf = Annotated[
    list[str] | None,
    Opt(
        metavar="CONDITION",
        autocompletion=complete_conditions,
        help="Exit with status 1 if the condition holds for a level, for example 'ratio>0.95'.",
    ),
]
Sample = Annotated[int, Opt(min=1, metavar="N", help="Number of graphs that --spectral measures.")]
Modes = Annotated[
    int, Opt(min=1, metavar="N", help="Number of nonzero eigenvalues that --spectral compares, at each end.")
]
Diff = Annotated[
    tuple[str, str] | None,
    Opt(
        metavar="A B",
        help="Compare two stores, or two hierarchies of STORE. Exit with status 1 if they differ.",
    ),
]


def command(
    store: Store = None,
    hierarchy: Annotated[str | None, hierarchy_option("Show only this hierarchy.")] = None,
    level: Level = None,
    graph: Annotated[int | None, Opt(metavar="ID", help="Show all figures of one graph.")] = None,
    fail_if: FailIf = None,
    spectral: Annotated[bool, Opt("--spectral", help=_SPECTRAL)] = False,
    sample: Sample = 100,
    modes: Modes = 8,
    seed: Annotated[int, Opt(metavar="N", help="Seed that selects the sample of --spectral.")] = 0,
    diff: Diff = None,
    all_figures: Annotated[
        bool, Opt("--all", help="Show all figures, and histograms of graph and cluster sizes.")
    ] = False,
    csv: Annotated[bool, Opt("--csv", help="Print one line per level as CSV.")] = False,
    json: JsonOpt = False,
    debug: DebugOpt = False,
) -> ExitStatus:
    """Show the contents and the quality of a store."""
    if json and csv:
        raise typer.BadParameter("choose --json or --csv, not both")
    output = Output(json=json)
    table_only = {"fail_if": fail_if, "csv": csv, "all": all_figures}
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
    from tgp.store.locations import parse_location
    from tgp_cli import _inspect_text

    options = SpectralOptions(sample, modes, seed) if spectral else None
    view = inspect_store(parse_location(store), hierarchy=hierarchy, level=level, spectral=options)
    missed = list(check_thresholds(view, fail_if or []))
    if csv:
        output.csv(*_inspect_text.level_rows(view))
    else:
        output.result(
            view.to_json() | {"missed": missed},
            lambda: _inspect_text.show_store(output, view, all_figures=all_figures),
        )
    for sentence in missed:
        output.warn(sentence)
    return ExitStatus.FINDINGS if missed else ExitStatus.OK


def _reject(mode: str, **given: Any) -> None:
    """Reject options that would be ignored in this mode."""
    for name, value in given.items():
        if value is not None and value is not False and value != []:
            raise typer.BadParameter(f"--{name.replace('_', '-')} has no meaning with {mode}")


def _list(output: Output) -> ExitStatus:
    from tgp.inspect.overview import find_stores
    from tgp_cli import _inspect_text

    output.result(stores := find_stores(Path("pooled")), lambda: _inspect_text.show_stores(output, stores))
    return ExitStatus.OK


def _graph(
    output: Output, store: str, graph: int, hierarchy: str | None, level: int | None, modes: int | None
) -> ExitStatus:
    from tgp.inspect.overview import inspect_graph
    from tgp.store.locations import parse_location
    from tgp_cli import _inspect_text

    card = inspect_graph(parse_location(store), graph, hierarchy=hierarchy, level=level, modes=modes)
    output.result(card, lambda: _inspect_text.show_graph(output, card))
    return ExitStatus.OK


def _diff(output: Output, store: str | None, diff: tuple[str, str]) -> ExitStatus:
    from tgp.inspect.compare import compare_hierarchies, compare_stores
    from tgp.store.locations import parse_location
    from tgp_cli import _inspect_text

    if store is None:
        found = compare_stores(*map(parse_location, diff))
    else:
        found = [compare_hierarchies(parse_location(store), *diff)]
    output.result([c.to_json() for c in found], lambda: _inspect_text.show_comparison(output, found))
    return ExitStatus.OK if all(c.equal for c in found) else ExitStatus.FINDINGS
