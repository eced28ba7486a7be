"""``tgp datasets``: the names that ``--dataset`` knows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tgp_cli._options import DebugOpt, JsonOpt
from tgp_cli._output import Output

EPILOG = "Examples: tgp datasets | tgp datasets reddit | tgp datasets --local --root data"

BUILT_IN = "Synthetic graphs, made from a seed; parameters as molecules:num_graphs=1000:seed=3"


def command(
    search: Annotated[
        str | None, typer.Argument(help="Only names that contain this.", show_default=False)
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="Only what can be opened without a network.")
    ] = False,
    root: Annotated[
        Path | None, typer.Option(help="Where datasets are kept. Default $TGP_DATA or ./data.")
    ] = None,
    json: JsonOpt = False,
    debug: DebugOpt = False,
) -> None:
    """List known datasets."""
    from tgp.inspect.catalog import list_datasets

    out = Output(json=json)
    rows = list_datasets(search=search, local_only=local, root=root)
    out.result(rows, lambda: _show(out, rows, compact=search is None and not local))


def _show(out: Output, rows: list[dict], *, compact: bool) -> None:
    if not rows:
        out.line("No dataset fits.")
        return
    if not compact:
        cells = [(r["name"], r["collection"], "yes" if r["local"] else "", r["summary"]) for r in rows]
        out.table(("dataset", "collection", "here", "what it is"), cells, wrap=(3,))
        return
    groups: dict[str, list[dict]] = {}
    for row in rows:
        groups.setdefault(row["collection"], []).append(row)
    cells = []
    for collection, members in groups.items():
        names = [m["name"] for m in members]
        shown = ", ".join(names[:6]) + (f", ... ({len(names)})" if len(names) > 6 else "")
        cells.append((collection, shown, BUILT_IN if collection == "built-in" else members[0]["summary"]))
    out.table(("collection", "datasets", "what it is"), cells, wrap=(1, 2))
    out.message("Hint: 'tgp datasets WORD' searches; a path or module:callable works as --dataset, too.")
