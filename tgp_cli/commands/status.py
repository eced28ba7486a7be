"""``tgp status``: show which files of a store are missing."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from tgp.inspect.numbers import bytes_text, count_text, counted
from tgp_cli._errors import ExitStatus
from tgp_cli._options import DebugOpt, JsonOpt, QuietOpt, StoreArg
from tgp_cli._output import Output

if TYPE_CHECKING:
    from tgp.build.merge import StoreStatus

EPILOG = (
    "Examples: tgp status pooled/MUTAG | sbatch --array=$(tgp status pooled/big --missing --jobs 100) job.sh"
)


def command(
    store: StoreArg,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="The N of --shard I/N. Default: one job per unit."),
    ] = None,
    missing: Annotated[
        bool, typer.Option("--missing", help="Print only the jobs that have work left, for example 3,7-9.")
    ] = False,
    json: JsonOpt = False,
    quiet: QuietOpt = False,
    debug: DebugOpt = False,
) -> ExitStatus:
    """Show which files of a store are missing.

    Exits with status 3 if files are missing and with 0 if the store is complete.
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
    from tgp.build.merge import array_expression

    state = "complete" if status.complete else "incomplete"
    size = f"{counted(status.num_graphs, 'graph')} in {counted(status.num_units, 'unit')}"
    out.line(f"{status.path}: {state}, {size}")
    rows = [
        (
            part,
            count_text(status.num_units - len(missing)),
            count_text(len(missing)),
            array_expression(missing),
            count_text(status.failures.get(part, 0)),
        )
        for part, missing in status.parts.items()
    ]
    out.table(
        ("part", "done", "missing", "missing units", "failed graphs"),
        rows,
        right=(1, 2, 4),
        wrap=(3,),
    )
    for part, units in status.foreign.items():
        out.warn(
            f"{part}: files of units {array_expression(units)} were written by another engine revision or with "
            "other settings. They count as missing."
        )
    if status.scratch is not None:
        size = bytes_text(status.scratch.bytes)
        out.warn(f"an unfinished run has temporary files: {status.scratch.path} ({size}).")
        out.hint("run the same 'tgp coarsen' command again to continue; or delete the folder.")
    if status.missing:
        out.line(f"Jobs with work to do: {status.array}")
    elif not status.complete:
        out.message("Every unit is written.")
        out.next_steps([f"tgp merge {shlex.quote(str(status.path))}"])
