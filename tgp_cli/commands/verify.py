"""``tgp verify``: check a store for damage."""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tgp.errors import StoreError
from tgp.inspect.numbers import counted
from tgp_cli._errors import ExitStatus
from tgp_cli._options import DebugOpt, JsonOpt, LocationArg, QuietOpt
from tgp_cli._output import Output
from tgp_cli._progress import Progress

if TYPE_CHECKING:
    from tgp.store import Finding

EPILOG = "Examples: tgp verify pooled/MUTAG | tgp verify pooled/MUTAG --deep --sample 500"


def command(
    store: LocationArg,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also recompute a sample of the graphs and compare.")
    ] = False,
    sample: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Number of graphs to recompute. Default: 100.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Recompute every graph.")] = False,
    json: JsonOpt = False,
    quiet: QuietOpt = False,
    debug: DebugOpt = False,
) -> ExitStatus:
    """Check a store for damage.

    Checks the checksum of every file, the structure of every array and the consistency of its values. Exits with
    status 1 if damage is found.
    """
    from tgp.store.locations import parse_location, shown_location, verify_location

    location = parse_location(store)
    output = Output(json=json, quiet=quiet)
    is_deep = bool(deep or sample or every)
    if is_deep:
        from tgp.inspect.recompute import DEFAULT_SAMPLE, check_recompute, verify_by_recompute

        count = None if every else sample or DEFAULT_SAMPLE
        with contextlib.suppress(StoreError):  # the check of the files names the damage
            check_recompute(location, count)
    with Progress(output) as progress:
        progress("checking files", 0, 0)
        findings = verify_location(location)
        if is_deep and not _unreadable(findings):
            findings += verify_by_recompute(location, sample=count, progress=progress)
    path = shown_location(location)
    report = {"path": path, "sound": not findings, "findings": [asdict(f) for f in findings]}
    output.result(report, lambda: _show(output, path, findings))
    return ExitStatus.FINDINGS if findings else ExitStatus.OK


def _unreadable(findings: list[Finding]) -> bool:
    """Return True if the damage prevents opening the store."""
    return any(f.shard == "manifest.json" or "torn" in f.message for f in findings)


def _show(out: Output, path: str, findings: list[Finding]) -> None:
    if not findings:
        out.line(f"{path} is sound.")
        return
    rows = [(f.shard, f.field, f.graph, f.message) for f in findings]
    out.table(
        ("file", "field", "graph", "problem"),
        rows,
        wrap=(3,),
        title=f"{path}: {counted(len(findings), 'finding')}",
    )
    out.message("Hint: run the 'tgp coarsen' command that made the store with --force to rewrite it.")
