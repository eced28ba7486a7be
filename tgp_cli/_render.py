"""Print the results of ``tgp coarsen`` as text."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from tgp.inspect.numbers import bytes_text, count_text, counted
from tgp_cli._inspect_text import attributes_text
from tgp_cli._output import Output, ratio_text, seconds_text

if TYPE_CHECKING:
    from tgp.build.summary import RunPlan, Summary

__all__ = ["show_advice", "show_plan", "show_summary"]

MOST_FINDINGS = 10
"""Number of warnings that are printed at most."""

MOST_FAILURES = 5
"""Number of failed graphs that are printed at most."""


def show_plan(out: Output, plan: RunPlan) -> None:
    """Print the result of ``tgp coarsen --dry-run``."""
    if plan.up_to_date:
        out.line(f"{plan.path} is up to date.")
        return
    sizes = ", ".join(
        counted(count, noun)
        for count, noun in ((plan.num_graphs, "graph"), (plan.num_nodes, "node"), (plan.num_edges, "edge"))
    )
    note = f" ({plan.sizes})" if plan.sizes else ""
    out.line(f"Would coarsen {sizes}{note} into {plan.path}")
    for entry in plan.hierarchies:
        out.line(f"  {entry['name']}: {counted(entry['levels'], 'level')}, seed {entry['seed']}")
    if plan.carry:
        carried = (f"{step['name']} ({step['reduction']})" for step in plan.carry)
        out.text(f"attributes of the levels: {', '.join(carried)}", indent=2)
    out.line(
        f"{counted(plan.pending, 'file')} in {counted(plan.num_units, 'shard')}, "
        f"about {bytes_text(plan.estimated_bytes)} ({plan.profile})"
    )
    where = "in this process" if plan.workers == 1 else f"shared by {plan.workers} processes"
    out.line(
        f"{'at most' if plan.at_most else 'about'} {seconds_text(plan.estimated_seconds)} of work, {where}, "
        f"and {bytes_text(plan.peak_memory)} of memory"
    )
    if plan.scratch_bytes:
        out.line(f"about {bytes_text(plan.scratch_bytes)} of temporary files next to the store")
    for finding in plan.findings:
        out.warn(finding.text)
        out.hint(finding.hint)


def show_summary(out: Output, summary: Summary) -> None:
    """Print the result of ``tgp coarsen`` and ``tgp merge``."""
    if summary.status == "incomplete":
        verb = "is" if summary.units_missing == 1 else "are"
        out.line(
            f"{counted(summary.units_done, 'file')} written to {summary.path}, "
            f"{count_text(summary.units_missing)} {verb} still missing."
        )
    elif summary.status == "up to date":
        size = f"{counted(summary.num_graphs, 'graph')}, {bytes_text(summary.bytes)}"
        out.line(f"{summary.path} is up to date ({size}).")
    else:
        _show_totals(out, summary)


def show_advice(out: Output, summary: Summary) -> None:
    """Print warnings about the result of a run, and what to do next."""
    for finding in summary.findings[:MOST_FINDINGS]:
        owner = f"{finding.hierarchy}: " if finding.hierarchy and len(summary.names) > 1 else ""
        out.warn(f"{owner}{finding.text}")
        if finding.kind == "failed":
            for name, failure in summary.failures[1:MOST_FAILURES]:
                where = f"graph {failure.graph:,}, level {failure.level + 1}"
                out.warn(f"  {name}, {where}: {failure.reason}")
        out.hint(finding.hint)
    more = len(summary.findings) - MOST_FINDINGS
    if more > 0:
        out.warn(f"{counted(more, 'more warning')}: see 'tgp inspect {summary.path}'.")
    _show_next_steps(out, summary)


def _show_totals(out: Output, summary: Summary) -> None:
    speed, noun = summary.speed
    rate = f", {count_text(speed)} {noun}/s" if speed else ""
    if rate and len(summary.names) > 1:
        rate += f" (counted in each of {len(summary.names)} hierarchies)"
    spent = summary.compile_seconds
    compiled = f", after {seconds_text(spent)} of compiling (only the first time)" if spent else ""
    workers = f" by {summary.workers} processes" if summary.workers > 1 else ""
    time = f" in {seconds_text(summary.seconds)}{rate}" if summary.seconds else ""
    out.line(
        f"{summary.path}: {counted(summary.num_graphs, 'graph')}{time}, "
        f"{bytes_text(summary.bytes)} in {counted(summary.num_units, 'shard')}{workers}{compiled}"
    )
    for hierarchy in summary.hierarchies:
        chain = " -> ".join(
            f"{count_text(level.nodes)} ({ratio_text(level.ratio, 2)})" for level in hierarchy.levels
        )
        out.line(f"  {hierarchy.name}: nodes {chain}, {bytes_text(hierarchy.bytes)}")
        if hierarchy.carry is not None:
            out.text(f"    attributes: {attributes_text(hierarchy.levels)}", indent=6)


def _show_next_steps(out: Output, summary: Summary) -> None:
    """Print the commands and the code that use a store."""
    store = shlex.quote(summary.path)
    if summary.status == "incomplete":
        out.next_steps([f"tgp status {store}", f"tgp merge {store}"])
        return
    names = summary.names or [h.name for h in summary.hierarchies]
    usable = [h for h in summary.hierarchies if h.name in names and h.failures < summary.num_graphs]
    code = []
    if usable:
        first = min(usable, key=lambda h: names.index(h.name))
        values = [json.dumps(text, ensure_ascii=False) for text in (summary.path, first.name)]
        values += ['failed="skip"'] if first.failures else []
        code = ["from tgp.data import PooledDataset", f"dataset = PooledDataset({', '.join(values)})"]
    out.next_steps([f"tgp inspect {store}"], code)
