"""Print the results of ``tgp inspect`` as text: tables and sentences."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

from tgp.inspect.figures import (
    CONVENTION_FIGURES,
    FIGURES,
    SPECTRAL_FIGURES,
    Figure,
    figure_of,
    level_value,
)
from tgp.inspect.numbers import bytes_text, count_text, counted
from tgp_cli._output import Output, count_or_dash, ratio_text, sparkline

if TYPE_CHECKING:
    from tgp.build.summary import LevelSummary
    from tgp.inspect.compare import Comparison, LevelComparison
    from tgp.inspect.overview import StoreView

__all__ = ["attributes_text", "level_rows", "show_comparison", "show_graph", "show_store", "show_stores"]


def show_stores(out: Output, stores: list[dict[str, Any]]) -> None:
    """Print the result of ``tgp inspect`` without a store."""
    if not stores:
        out.line("No stores below ./pooled.")
        out.message("Hint: 'tgp coarsen' makes one; 'tgp inspect DIR' shows one elsewhere.")
        return
    rows = [
        (
            s["path"],
            count_or_dash(s["num_graphs"]),
            ", ".join(s["hierarchies"]),
            None if s["bytes"] is None else bytes_text(s["bytes"]),
            s["status"],
        )
        for s in stores
    ]
    out.table(("store", "graphs", "hierarchies", "size", "status"), rows, right=(1, 3), wrap=(2, 4))


_COLUMNS = ("nodes", "edges", "ratio", "components", "modularity")
"""Figures that are shown by default, after hierarchy, level and method."""

_OBVIOUS = {"nodes", "edges", "bytes", "stalled_graphs", "failures"}
"""Figures that need no line in the legend."""

_SPARKLINES = {
    "graph sizes": "number of graphs by number of nodes, between the smallest and the largest graph",
    "cluster sizes": "number of supernodes by number of nodes, from 1 to the largest; 8+ is 8 or more",
}


def show_store(out: Output, view: StoreView, *, all_figures: bool = False) -> None:
    """Print the result of ``tgp inspect STORE``.

    Args:
        out: printer.
        view: figures of the store.
        all_figures: show all figures instead of the most important ones.
    """
    _show_header(out, view)
    figures = _shown_figures(view, all_figures)
    levels: list[tuple[str, LevelSummary, int | None]] = [("input", view.input, None)]
    levels += [(h.name, level, h.failures) for h in view.hierarchies for level in h.levels]
    rows = [
        [
            name,
            str(level.level),
            level.method if level.level else "",
            *(figure.text(level_value(level, figure, failures)) for figure in figures),
            *((_size_line(level), _cluster_line(level)) if all_figures else ()),
        ]
        for name, level, failures in levels
    ]
    columns = ["hierarchy", "level", "method", *(figure.label for figure in figures)]
    right = range(3, len(columns))
    out.line()
    out.table([*columns, *(_SPARKLINES if all_figures else ())], rows, right=right, keys=3)
    _show_legend(out, figures, all_figures)
    if view.spectral is not None:
        measured = min(view.spectral["sample"], view.num_graphs)
        out.text(
            f"Eigenvalue errors compare the first {counted(view.spectral['modes'], 'eigenvalue')} with those of the "
            f"input graphs, for {counted(measured, 'graph')}."
        )
        _show_conventions(out, view, {figure.label for figure in figures})
    _show_findings(out, view)


_CONVENTIONS = (
    "combinatorial_error",
    "combinatorial_error_highest",
    "eigenvalue_error",
    "eigenvalue_error_highest",
    "size_weighted_error",
    "size_weighted_error_highest",
    "hyperbolic_error",
    "reconstruction_error",
    "restricted_approximation",
    "cut",
    "modularity",
)
"""Figures of the table of conventions. Purities of labels follow, if the store has them."""


def _show_conventions(out: Output, view: StoreView, shown: Container[str]) -> None:
    """Print the figures that papers about graph reduction report, with their definitions in words.

    Args:
        out: Output.
        view: Contents of the store.
        shown: Labels that the table of levels has explained.
    """
    levels = [(hierarchy.name, level) for hierarchy in view.hierarchies for level in hierarchy.levels]
    stored = {key for _, level in levels for key in level.metrics}
    purities = sorted(key for key in stored if key.endswith("_purity"))
    figures = [figure_of(key) for key in (*_CONVENTIONS, *purities) if key in stored]
    if not figures:
        return
    labels = ["normalised REE" if f.key == "eigenvalue_error" else f.label for f in figures]
    rows = [
        [name, str(level.level), *(f.text(level_value(level, f)) for f in figures)] for name, level in levels
    ]
    out.line()
    out.line("Conventions of the literature on graph reduction:")
    out.table(["hierarchy", "level", *labels], rows, right=range(2, 2 + len(labels)), keys=2)
    longest = max(map(len, labels))
    for label, figure in zip(labels, figures, strict=True):
        if figure.key in CONVENTION_FIGURES or label not in shown:
            out.text(f"{label.ljust(longest)}  {figure.meaning}", indent=longest + 2)
    uses_features = view.spectral is not None and view.spectral["signals"] == "x"
    signals = (
        "the features x of the nodes"
        if uses_features
        else "the identity matrix, because no features are stored"
    )
    out.text(
        f"The hyperbolic error uses {signals}. In components with more than 600 nodes, the smallest eigenvalues are "
        "computed by multigrid and the largest ones by Lanczos with a tolerance of 0.1 %; a dash means that a figure is not "
        "defined, or that Lanczos did not converge."
    )


def _shown_figures(view: StoreView, all_figures: bool) -> list[Figure]:
    """Return the figures to show: those of the table in its order, then metrics that the table does not know."""
    levels = [view.input, *(level for hierarchy in view.hierarchies for level in hierarchy.levels)]
    stored = dict.fromkeys(key for level in levels for key in level.metrics)
    keys = [key for key, figure in FIGURES.items() if not figure.metric or key in stored]
    keys = [key for key in keys if key not in CONVENTION_FIGURES]  # these have a table of their own
    if not all_figures:
        shown = (*_COLUMNS, *SPECTRAL_FIGURES)
        labels = [key for key in sorted(stored) if key.endswith(("_purity", "_mixed"))]
        return [FIGURES[key] for key in keys if key in shown] + [figure_of(key) for key in labels]
    return [figure_of(key) for key in (*keys, *sorted(stored.keys() - FIGURES.keys()))]


def _size_line(level: LevelSummary) -> str:
    """Draw the histogram of graph sizes between the sizes of the smallest and the largest graph."""
    if level.node_range is None:
        return ""
    low, high = map(count_text, level.node_range)
    return f"{low} {sparkline(level.node_histogram)} {high}" if low != high else low


def _cluster_line(level: LevelSummary) -> str:
    """Draw the histogram of cluster sizes between 1 and the largest size. The last bin has no upper limit."""
    counts = level.cluster_histogram
    filled = max((size for size, count in enumerate(counts, 1) if count), default=0)
    if filled < 2:
        return str(filled or "")
    return f"1 {sparkline(counts[:filled])} {filled}{'+' if filled == len(counts) else ''}"


def _show_legend(out: Output, figures: list[Figure], all_figures: bool) -> None:
    """Explain the columns that need it, one line each."""
    lines = {
        figure.label: figure.meaning for figure in figures if figure.key not in _OBVIOUS and figure.meaning
    }
    if all_figures:
        lines |= _SPARKLINES
    longest = max(len(label) for label in lines)
    for label, meaning in lines.items():
        out.text(f"{label.ljust(longest)}  {meaning}", indent=longest + 2)
    if not all_figures:
        out.text("--all shows more figures, and histograms of the sizes of graphs and clusters.")


def _show_findings(out: Output, view: StoreView) -> None:
    for finding in view.findings:
        place = f"{finding.hierarchy}: " if finding.hierarchy else ""
        out.text(f"Warning: {place}{finding.text}", indent=2)
        out.text(f"  Hint: {finding.hint}", indent=4)


def _show_header(out: Output, view: StoreView) -> None:
    source = ", ".join(
        f"{k}={v}" for k, v in view.dataset.items() if k not in ("source", "name", "shard_size")
    )
    name = f"{view.dataset.get('source', '?')}/{view.dataset.get('name', '?')}"
    out.text(
        f"{view.path}: {counted(view.num_graphs, 'graph')} of {name}{f' ({source})' if source else ''}, "
        f"{bytes_text(view.bytes)} in {counted(view.num_shards, 'shard')} ({view.profile})",
        indent=2,
    )
    fields = ", ".join(f"{f['name']} {f['dtype']}{f['shape'] or ''}" for f in view.fields)
    out.text(f"fields: {fields}", indent=2)
    for hierarchy in view.hierarchies:
        failed = f", {counted(hierarchy.failures, 'graph')} failed" if hierarchy.failures else ""
        out.text(
            f"hierarchy {hierarchy.name}: {hierarchy.methods}{_packages_text(hierarchy.schedule)}, "
            f"seed {hierarchy.seed}, {bytes_text(hierarchy.bytes)}{failed}",
            indent=2,
        )
        if hierarchy.carry is not None:
            out.text(f"  attributes ({hierarchy.carry}): {attributes_text(hierarchy.levels)}", indent=4)


def attributes_text(levels: list[LevelSummary]) -> str:
    """List the attributes of levels with their types and shapes. Levels are named if only some have an attribute.

    Args:
        levels: levels of a hierarchy.
    """
    found: dict[str, list[int]] = {}
    for level in levels:
        for info in level.attributes:
            owner = " per edge" if info["per"] == "edge" else ""
            text = f"{info['name']} {info['dtype']}{info['shape'] or ''}{owner}"
            found.setdefault(text, []).append(level.level)
    parts = []
    for text, numbers in found.items():
        some = f" (only level {', '.join(map(str, numbers))})" if len(numbers) < len(levels) else ""
        parts.append(text + some)
    return ", ".join(parts) or "none"


def _packages_text(schedule: list[dict[str, Any]]) -> str:
    """Name the other packages whose methods made the levels."""
    steps = [step for level in schedule for step in level.get("levels", [level])]
    named = [step["package"] for step in steps if isinstance(step.get("package"), dict)]
    found = dict.fromkeys(f"{package.get('name')} {package.get('version')}" for package in named)
    return f" (package{'s' * (len(found) > 1)} {', '.join(found)})" if found else ""


_CSV_FIELDS = (
    "level",
    "method",
    "nodes",
    "edges",
    "ratio",
    "edge_ratio",
    "cluster_mean",
    "cluster_largest",
    "bytes",
    "stalled",
)


def level_rows(view: StoreView) -> tuple[list[str], list[list[Any]]]:
    """Return the columns and rows of ``tgp inspect --csv``."""
    names = sorted({key for h in view.hierarchies for level in h.levels for key in level.metrics})
    rows = [
        [
            hierarchy.name,
            *(getattr(level, field) for field in _CSV_FIELDS),
            *(level.metrics.get(name) for name in names),
        ]
        for hierarchy in view.hierarchies
        for level in hierarchy.levels
    ]
    return ["hierarchy", *_CSV_FIELDS, *names], rows


def show_graph(out: Output, card: dict[str, Any]) -> None:
    """Print the result of ``tgp inspect STORE --graph I``."""
    out.line(f"graph {card['graph']}: {counted(card['nodes'], 'node')}, {counted(card['edges'], 'edge')}")
    out.line("fields: " + ", ".join(f"{name} {f['dtype']}{f['shape']}" for name, f in card["fields"].items()))
    order = [*FIGURES]
    names = sorted(
        {key for row in card["levels"] for key in row["metrics"]},
        key=lambda key: (order.index(_graph_key(key)) if _graph_key(key) in FIGURES else len(order), key),
    )
    rows = [
        (
            r["hierarchy"],
            r["level"],
            r["method"],
            r["nodes"],
            r["edges"],
            ratio_text(r["ratio"]),
            *(_metric_text(r["metrics"].get(n)) for n in names),
        )
        for r in card["levels"]
    ]
    out.table(
        (
            "hierarchy",
            "level",
            "method",
            "nodes",
            "edges",
            "ratio",
            *(figure_of(_graph_key(name)).label for name in names),
        ),
        rows,
        right=range(3, 6 + len(names)),
        keys=3,
    )
    for row in card["levels"]:
        if row["failure"]:
            out.line(f"{row['hierarchy']} failed: {row['failure']}")
            break


def _graph_key(key: str) -> str:
    """Return the key of the figure of a level that a metric of one graph belongs to."""
    return "cluster_largest" if key == "largest" else key


def _metric_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ratio_text(value) if isinstance(value, float) else "-" if value is None else str(value)


def show_comparison(out: Output, found: list[Comparison]) -> None:
    """Print the result of ``tgp inspect --diff A B``."""
    for comparison in found:
        title = f"{comparison.first} and {comparison.second}: {counted(comparison.num_graphs, 'graph')}"
        out.line(title + ("" if comparison.same_graphs else " (the input graphs differ)"))
        one, two = comparison.depths
        if one != two:
            shared = "only the first is" if min(one, two) == 1 else f"the first {min(one, two)} are"
            out.line(f"They have {one} and {counted(two, 'level')}; {shared} compared.")
        columns = (
            "level",
            "different graphs",
            "adjusted Rand",
            "NMI",
            "edges",
            "edge changes",
            "for example",
        )
        out.table(columns, [_comparison_row(level) for level in comparison.levels], right=(1, 2, 3, 4))
        for level in comparison.levels:
            for name, graphs in level.attributes.items():
                out.line(f"level {level.level}: attribute {name} differs in {counted(graphs, 'graph')}")
        out.line("equal" if comparison.equal else "different")


def _comparison_row(level: LevelComparison) -> tuple[Any, ...]:
    changes = level.edge_changes
    counts = (
        ("only in A", changes.only_first),
        ("only in B", changes.only_second),
        ("reweighted", changes.reweighted),
    )
    parts = [f"{count_text(count)} {what}" for what, count in counts if count]
    among = f" (of {counted(changes.graphs, 'graph')} with equal clusters)"
    return (
        level.level,
        count_text(level.different),
        ratio_text(level.rand, 4),
        ratio_text(level.nmi, 4),
        " / ".join(count_text(count) for count in dict.fromkeys(level.edges)),
        (", ".join(parts) or "none") + among if changes.graphs else "-",
        ", ".join(map(str, level.examples)),
    )
