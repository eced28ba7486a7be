"""Results of commands for eyes: tables and sentences, made from the objects of the library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgp_cli._output import Output, counted, human_bytes, human_count, human_ratio, human_seconds
from tgp_cli._progress import COMPILING

if TYPE_CHECKING:
    from tgp.build.summary import RunPlan, Summary

__all__ = [
    "show_plan",
    "show_summary",
]


def show_plan(out: Output, plan: RunPlan) -> None:
    """``tgp coarsen --dry-run``."""
    if plan.up_to_date:
        out.line(f"{plan.path} is up to date.")
        return
    sizes = ", ".join(
        counted(count, noun)
        for count, noun in ((plan.num_graphs, "graph"), (plan.num_nodes, "node"), (plan.num_edges, "edge"))
    )
    out.line(f"Would coarsen {sizes} into {plan.path}")
    for entry in plan.hierarchies:
        out.line(f"  {entry['name']}: {counted(entry['levels'], 'level')}, seed {entry['seed']}")
    out.line(
        f"{counted(plan.pending, 'file')} in {counted(plan.num_units, 'shard')}, "
        f"about {human_bytes(plan.estimated_bytes)} ({plan.profile})"
    )
    where = "in this process" if plan.workers == 1 else f"shared by {plan.workers} processes"
    out.line(
        f"about {human_seconds(plan.estimated_seconds)} of work, {where}, "
        f"and {human_bytes(plan.peak_memory)} of memory"
    )


def show_summary(out: Output, summary: Summary) -> None:
    """The end of ``tgp coarsen``."""
    if summary.status == "up to date":
        out.line(
            f"{summary.path} is up to date ({counted(summary.num_graphs, 'graph')}, {human_bytes(summary.bytes)})."
        )
        _failures(out, summary)
        return
    if summary.status == "incomplete":
        verb = "is" if summary.units_missing == 1 else "are"
        out.line(
            f"{counted(summary.units_done, 'file')} written to {summary.path}, "
            f"{human_count(summary.units_missing)} {verb} still missing."
        )
        out.message(
            f"Hint: 'tgp status {summary.path}' shows which, 'tgp merge {summary.path}' publishes the store."
        )
        return
    rate = f", {human_count(summary.graphs_per_second)} graphs/s" if summary.graphs_per_second else ""
    compiled = (
        f" after {human_seconds(summary.compile_seconds)} of {COMPILING}"
        if summary.compile_seconds > 2
        else ""
    )
    workers = f" by {summary.workers} processes" if summary.workers > 1 else ""
    out.line(
        f"{summary.path}: {counted(summary.num_graphs, 'graph')} in {human_seconds(summary.seconds)}{rate}, "
        f"{human_bytes(summary.bytes)} in {counted(summary.num_units, 'shard')}{workers}{compiled}"
    )
    for hierarchy in summary.hierarchies:
        chain = " -> ".join(
            f"{human_count(level.nodes)} ({human_ratio(level.ratio, 2)})" for level in hierarchy.levels
        )
        out.line(f"  {hierarchy.name}: nodes {chain}, {human_bytes(hierarchy.bytes)}")
    _failures(out, summary)


def _failures(out: Output, summary: Summary) -> None:
    if summary.failures:
        count = len({(name, f.graph) for name, f in summary.failures})
        whose = "its" if count == 1 else "their"
        out.warn(f"{counted(count, 'graph')} could not be coarsened; {whose} levels are empty.")
        for name, failure in summary.failures[:5]:
            out.warn(f"  {name}, graph {failure.graph}, level {failure.level}: {failure.reason}")
