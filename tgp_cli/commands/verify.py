"""``tgp verify``: check a store for damage."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tgp_cli._options import DebugOpt, JsonOpt, PlaceArg, QuietOpt
from tgp_cli._output import Output, counted
from tgp_cli._progress import Progress
from tgp_cli._status import ExitStatus

if TYPE_CHECKING:
    from tgp.store import Finding

EPILOG = "Examples: tgp verify pooled/MUTAG | tgp verify pooled/MUTAG --deep --sample 500"


def command(
    store: PlaceArg,
    deep: Annotated[bool, typer.Option("--deep", help="Also recompute sampled graphs and compare.")] = False,
    sample: Annotated[int | None, typer.Option(min=1, help="Graphs to recompute. Default 100.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Recompute every graph.")] = False,
    json: JsonOpt = False,
    quiet: QuietOpt = False,
    debug: DebugOpt = False,
) -> ExitStatus:
    """Check a store for damage.

    Compares the digest of every file, the structure of every array and the meaning of its numbers.
    """
    from tgp.store.locations import parse_place, verify_place

    place = parse_place(store)
    output = Output(json=json, quiet=quiet)
    with Progress(output) as progress:
        progress("checking files", 0, 0)
        findings = verify_place(place)
        if (deep or sample or every) and not _unreadable(findings):
            from tgp.inspect.recompute import DEFAULT_SAMPLE, verify_by_recompute

            count = None if every else sample or DEFAULT_SAMPLE
            findings += verify_by_recompute(place, sample=count, progress=progress)
    report = {"path": store, "sound": not findings, "findings": [asdict(f) for f in findings]}
    output.result(report, lambda: _show(output, store, findings))
    return ExitStatus.FINDINGS if findings else ExitStatus.OK


def _unreadable(findings: list[Finding]) -> bool:
    """Whether there is damage that keeps the store from being opened, let alone recomputed."""
    return any(f.shard == "manifest.json" or "torn" in f.message for f in findings)


def _show(out: Output, path: str, findings: list[Finding]) -> None:
    if not findings:
        out.line(f"{path} is sound.")
        return
    rows = [(f.shard, f.field, f.graph, f.message) for f in findings]
    out.table(
        ("file", "field", "graph", "what is wrong"),
        rows,
        wrap=(3,),
        title=f"{path}: {counted(len(findings), 'finding')}",
    )
    out.message("Hint: run the 'tgp coarsen' command that made the store with --force to write it anew.")
