"""``tgp datasets``: list the names that ``--dataset`` accepts."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Annotated

import typer

from tgp.errors import nearest
from tgp_cli._options import DebugOpt, JsonOpt, RootOpt
from tgp_cli._output import Output

if TYPE_CHECKING:
    from tgp.inspect.catalog import DatasetInfo

EPILOG = "Examples: tgp datasets | tgp datasets reddit | tgp datasets --local --root data"

BUILT_IN = "Synthetic graphs, made from a seed; with parameters: molecules:num_graphs=1000:seed=3"


def command(
    search: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="List only names that contain this text.", show_default=False),
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="List only datasets that can be opened without a network.")
    ] = False,
    root: RootOpt = None,
    json: JsonOpt = False,
    debug: DebugOpt = False,
) -> None:
    """List known datasets."""
    from tgp.inspect.catalog import list_datasets

    out = Output(json=json)
    found = list_datasets(search=search, local_only=local, root=root)
    show = _show_collections if search is None and not local else _show_datasets
    out.result([dataset.to_json() for dataset in found], lambda: show(out, found))
    if search and not found and not local:
        names = {dataset.name.lower(): dataset.name for dataset in list_datasets(root=root)}
        guess = nearest(search, names)
        if guess is not None:
            out.message(f"Hint: did you mean {names[guess]!r}?")


def _show_datasets(out: Output, found: list[DatasetInfo]) -> None:
    if not found:
        out.line("No dataset matches.")
        return
    rows = [(d.name, d.collection, "yes" if d.local else "", d.summary) for d in found]
    out.table(("dataset", "collection", "local", "description"), rows, wrap=(3,))


def _show_collections(out: Output, found: list[DatasetInfo]) -> None:
    """Print one row per collection with the first names."""
    rows = []
    for collection, group in itertools.groupby(found, lambda dataset: dataset.collection):
        members = list(group)
        names = ", ".join(member.name for member in members[:6])
        more = f", ... ({len(members)})" if len(members) > 6 else ""
        rows.append((collection, names + more, BUILT_IN if collection == "built-in" else members[0].summary))
    out.table(("collection", "datasets", "description"), rows, wrap=(1, 2))
    out.message("Hint: 'tgp datasets WORD' searches. --dataset also takes a path or module:callable.")
