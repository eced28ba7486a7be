"""Print the results of ``tgp coarsen`` as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgp.inspect.numbers import bytes_text, count_text, counted
from tgp_cli._output import Output, ratio_text, seconds_text

if TYPE_CHECKING:
    from tgp.build.summary import RunPlan, Summary

__all__ = ["show_plan", "show_summary"]


def show_plan(out: Output, plan: RunPlan) -> None:
    """Print the result of ``tgp coarsen --dry-run``."""
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
        f"about {bytes_text(plan.estimated_bytes)} ({plan.profile})"
    )
    where = "in this process" if plan.workers == 1 else f"shared by {plan.workers} processes"
    out.line(
        f"about {seconds_text(plan.estimated_seconds)} of work, {where}, "
        f"and {bytes_text(plan.peak_memory)} of memory"
    )


def show_summary(out: Output, summary: Summary) -> None:
    """Print the result of ``tgp coarsen``."""
    if summary.status == "up to date":
        size = f"{counted(summary.num_graphs, 'graph')}, {bytes_text(summary.bytes)}"
        out.line(f"{summary.path} is up to date ({size}).")
        _show_failures(out, summary)
        return
    if summary.status == "incomplete":
        verb = "is" if summary.units_missing == 1 else "are"
        out.line(
            f"{counted(summary.units_done, 'file')} written to {summary.path}, "
            f"{count_text(summary.units_missing)} {verb} still missing."
        )
        out.message(
            f"Hint: 'tgp status {summary.path}' shows which, 'tgp merge {summary.path}' publishes the store."
        )
        return
    speed, noun = summary.speed
    rate = f", {count_text(speed)} {noun}/s" if speed else ""
    spent = summary.compile_seconds
    compiled = f", after {seconds_text(spent)} of compiling (only once)" if spent else ""
    workers = f" by {summary.workers} processes" if summary.workers > 1 else ""
    out.line(
        f"{summary.path}: {counted(summary.num_graphs, 'graph')} in {seconds_text(summary.seconds)}{rate}, "
        f"{bytes_text(summary.bytes)} in {counted(summary.num_units, 'shard')}{workers}{compiled}"
    )
    for hierarchy in summary.hierarchies:
        chain = " -> ".join(
            f"{count_text(level.nodes)} ({ratio_text(level.ratio, 2)})" for level in hierarchy.levels
        )
        out.line(f"  {hierarchy.name}: nodes {chain}, {bytes_text(hierarchy.bytes)}")
    _show_failures(out, summary)


def _show_failures(out: Output, summary: Summary) -> None:
    if summary.failures:
        count = len({(name, f.graph) for name, f in summary.failures})
        whose = "its" if count == 1 else "their"
        out.warn(f"{counted(count, 'graph')} could not be coarsened; {whose} levels are empty.")
        for name, failure in summary.failures[:5]:
            out.warn(f"  {name}, graph {failure.graph}, level {failure.level + 1}: {failure.reason}")
