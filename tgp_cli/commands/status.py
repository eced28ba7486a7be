"""``tgp status``: which units of a store are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tgp_cli._options import DebugOpt, JsonOpt, QuietOpt, StoreArg
from tgp_cli._output import Output, counted
from tgp_cli._status import ExitStatus

if TYPE_CHECKING:
    from tgp.build.merge import StoreStatus

EPILOG = (
    "Examples: tgp status pooled/MUTAG | sbatch --array=$(tgp status pooled/big --missing --jobs 100) job.sh"
)


def command(
    store: StoreArg,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="The N of --shard I/N. Default one job per unit.")
    ] = None,
    missing: Annotated[
        bool, typer.Option("--missing", help="Print only the jobs with work to do, as 3,7-9.")
    ] = False,
    json: JsonOpt = False,
    quiet: QuietOpt = False,
    debug: DebugOpt = False,
) -> ExitStatus:
    """Show which units of a store are missing.

    Exits with 3 if something is missing, with 0 if the store is complete.
    """
    from tgp.build.merge import store_status

    output = Output(json=json, quiet=quiet)
    status = store_status(store, jobs)
    if missing and not json:
        output.line(status.array)
    else:
        output.result(status.to_json(), lambda: _show(output, status))
    return ExitStatus.OK if status.complete else ExitStatus.PARTIAL


def _show(out: Output, status: StoreStatus) -> None:
    done = "complete" if status.complete else "unfinished"
    graphs, units = counted(status.num_graphs, "graph"), counted(status.num_units, "unit")
    out.line(f"{status.path}: {done}, {graphs} in {units}")
    from tgp.build.merge import array_expression

    rows = []
    for part, units in status.parts.items():
        rows.append(
            (
                part,
                status.num_units - len(units),
                len(units),
                array_expression(units),
                status.failures.get(part, 0),
            )
        )
    out.table(
        ("part", "done", "missing", "missing units", "failed graphs"),
        rows,
        right=(1, 2, 4),
        wrap=(3,),
    )
    if status.missing:
        out.line(f"Jobs with work to do: {status.array}")
    elif not status.complete:
        out.message(f"Hint: every unit is written; 'tgp merge {status.path}' publishes the store.")
