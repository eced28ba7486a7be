"""The page: sections, style and script in one file that asks the network for nothing."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from tgp._version import __version__
from tgp.inspect.report.charts import curves, draw_histogram
from tgp.inspect.report.collect import Contents, LevelCharts, collect
from tgp.inspect.report.markup import Child, Markup, raw, tag
from tgp.inspect.report.numbers import bytes_text, count_text, counted
from tgp.inspect.report.output_file import write_whole
from tgp.inspect.report.palette import colour_rules
from tgp.inspect.report.pictures import draw_scene, legend
from tgp.inspect.report.tables import (
    anchor,
    comparison,
    facts,
    failure_table,
    field_table,
    level_table,
    quality_comparison,
    quality_table,
    schedule_table,
)
from tgp.store.locations import beside

__all__ = ["render_report", "write_report"]


def write_report(
    store: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    graphs: Sequence[int] | str | None = None,
) -> Path:
    """Write the report of a store; the file appears complete or not at all.

    Args:
        store: directory or URL of the store.
        out: file to write; ``<store>-report.html`` beside the store if ``None``.
        graphs: ids of the graphs to draw, also as text (``"0,5,17"``); five from the smallest to the largest if ``None``.

    Returns:
        The file.
    """
    target = Path(out) if out is not None else beside(store, "-report.html")
    return write_whole(target, render_report(store, graphs=graphs).encode("utf-8"))


def render_report(store: str | os.PathLike[str], *, graphs: Sequence[int] | str | None = None) -> str:
    """The report of a store as text. The same store gives the same text."""
    contents = collect(store, graphs)
    sections = [_overview(contents), _drawings(contents), _side_by_side(contents), *_hierarchies(contents)]
    sections += [_failures(contents), _provenance(contents)]
    style, script = colour_rules() + _static("report.css"), _static("report.js")
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{contents.name} – hierarchies"),
        tag("style", raw(style)),
    )
    body = tag("body", _header(contents), tag("main", sections), _footer(), tag("script", raw(script)))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _static(name: str) -> str:
    return resources.files("tgp.inspect.report").joinpath("static", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _section(title: str, *children: Child, id_: str, lead: str | None = None) -> Markup:
    return tag("section", tag("h2", title), tag("p", lead, class_="lead") if lead else None, children, id=id_)


def _header(contents: Contents) -> Markup:
    links = [("Overview", "overview")]
    if contents.view.hierarchies:
        links += [("Drawings", "drawings")] if contents.scenes else []
        links += [("Compare", "compare"), ("Levels", "hierarchy-0")]
    links += [("Failures", "failures"), ("Provenance", "provenance")]
    toggle = tag(
        "button", "Theme", type="button", id="theme", class_="js", title="Switch between light and dark"
    )
    nav = tag("nav", [tag("a", text, href=f"#{at}") for text, at in links], toggle, aria_label="Sections")
    return tag("header", tag("h1", contents.name), nav)


def _footer() -> Markup:
    return tag(
        "footer", f"Made by tgp {__version__}. This file is complete: it loads nothing from elsewhere."
    )


def _overview(contents: Contents) -> Markup:
    view, failures = contents.view, contents.num_failures
    disk = f"in {counted(view.num_shards, 'shard')}, profile {view.profile}"
    tiles: list[tuple[Child, str]] = [
        (count_text(view.num_graphs), "graph" if view.num_graphs == 1 else "graphs"),
        (count_text(view.input.nodes), "node" if view.input.nodes == 1 else "nodes"),
        (count_text(view.input.edges), "edges, each direction counts"),
        (count_text(len(view.hierarchies)), "hierarchy" if len(view.hierarchies) == 1 else "hierarchies"),
        (bytes_text(view.bytes), disk),
        (
            tag("a", count_text(failures), href="#failures", class_="bad") if failures else "0",
            "failure" if failures == 1 else "failures",
        ),
    ]
    blocks = [tag("div", tag("b", value), tag("span", name)) for value, name in tiles]
    return _section(
        "What the store holds",
        tag("div", blocks, class_="tiles"),
        tag("div", tag("div", field_table(view)), _row(contents.given), class_="split"),
        id_="overview",
        lead=_summary(contents),
    )


def _summary(contents: Contents) -> str:
    """One sentence: which graphs, coarsened how."""
    view = contents.view
    name, source = view.dataset.get("name"), view.dataset.get("source")
    text = f"{counted(view.num_graphs, 'graph')} of {_short(str(name or source or contents.name), 200)}"
    text += f" ({source})" if name and source and source != "local" else ""
    summaries = [h.summary for h in view.hierarchies]
    if not summaries:
        return f"{text}, no hierarchy yet"
    most = 4
    shown = ", ".join(summaries[:most]) + (
        f" and {len(summaries) - most} more" if len(summaries) > most else ""
    )
    return f"{text}, coarsened by {shown}"


def _row(charts: LevelCharts) -> Markup | None:
    drawn = [
        draw_histogram(charts.nodes, "Nodes per graph", "graphs"),
        draw_histogram(charts.edges, "Edges per graph", "graphs"),
        draw_histogram(charts.ratio, "Share of nodes kept", "graphs"),
        draw_histogram(charts.clusters, "Nodes per supernode", "supernodes"),
    ]
    return tag("div", drawn, class_="charts") if any(drawn) else None


def _side_by_side(contents: Contents) -> Markup | None:
    view = contents.view
    if not view.hierarchies:
        return None

    def shares(what: str) -> list[tuple[str, list[float | None]]]:
        whole = getattr(view.input, what)
        return [
            (h.name, [getattr(level, what) / whole if whole else None for level in (view.input, *h.levels)])
            for h in view.hierarchies
        ]

    drawn = [
        curves("Nodes left, by level", shares("nodes")),
        curves("Edges left, by level", shares("edges")),
    ]
    return _section(
        "Hierarchies side by side",
        comparison(view),
        quality_comparison(view),
        tag("div", drawn, class_="pair") if any(drawn) else None,
        id_="compare",
    )


def _hierarchies(contents: Contents) -> list[Markup]:
    found = []
    for view in contents.view.hierarchies:
        rows = []
        for level, charts in zip(view.levels, contents.charts[view.name], strict=True):
            drawn = _row(charts)
            if drawn is not None:
                title = tag("h3", f"Level {level.level} ", tag("small", level.method))
                rows.append(tag("div", title, drawn, class_="levelrow"))
        # One chart per level: side by side, not one below the other.
        single = all(c.nodes is None for c in contents.charts[view.name])
        note = "Cluster sizes are those of a sample of the graphs." if contents.sampled else None
        found.append(
            tag(
                "section",
                tag("h2", view.name),
                tag("p", tag("code", view.summary), f" with seed {view.seed}", class_="lead"),
                level_table(view, contents.view.input),
                quality_table(view),
                tag("div", rows, class_="levelgrid" if single else None),
                tag("p", note, class_="note") if note else None,
                id=anchor(contents.view, view),
                class_="hierarchy",
            )
        )
    return found


def _drawings(contents: Contents) -> Markup | None:
    if not contents.scenes or not contents.view.hierarchies:
        return None
    deepest = max(len(h.levels) for h in contents.view.hierarchies)
    options, articles = [], []
    for scenes, (nodes, edges) in zip(contents.scenes, contents.sizes, strict=True):
        graph = scenes[0].graph
        size = f"{counted(nodes, 'node')}, {counted(edges, 'edge')}"
        options.append(tag("option", f"{graph} ({size})", value=graph))
        title = tag("h3", f"Graph {graph} ", tag("small", size))
        drawn = tag("div", [draw_scene(scene) for scene in scenes], class_="scenes")
        steps = [picture.step for scene in scenes for picture in scene.pictures] or [0]
        articles.append(
            tag("article", title, drawn, class_="graph",
                data_graph=graph, data_first=min(steps), data_last=max(steps))
        )  # fmt: skip
    return _section(
        "Graphs through their levels",
        legend([scene for scenes in contents.scenes for scene in scenes]),
        _controls(options, deepest),
        articles,
        id_="drawings",
        lead="Each supernode appears at the mean place of its members.",
    )


def _controls(options: list[Markup], deepest: int) -> Markup:
    """Choice of the graph and the level; of no use, and hidden, without the script."""
    marks = tag("datalist", [tag("option", value=step) for step in range(deepest + 1)], id="levels")
    slider = tag("input", type="range", id="level", min=0, max=deepest, value=0, step=1, list="levels")
    return tag(
        "div",
        tag("label", "Graph ", tag("select", options, id="graph")),
        tag("label", "Level ", slider, marks, tag("output", "input", id="level-name", for_="level")),
        tag("button", "Play", type="button", id="play", aria_label="Play through the levels"),
        tag("label", tag("input", type="checkbox", id="all"), " all levels at once"),
        class_="controls js",
    )


def _short(text: str, most: int = 500) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _failures(contents: Contents) -> Markup:
    table = failure_table(contents.failures, contents.num_failures)
    return _section("Graphs that could not be coarsened", table, id_="failures")


def _provenance(contents: Contents) -> Markup:
    view = contents.view
    pairs: list[tuple[str, Child]] = [
        (f"dataset: {k}", tag("code", _short(str(v)))) for k, v in sorted(view.dataset.items())
    ]
    pairs += [
        ("fingerprint", tag("code", view.fingerprint)),
        ("digest of the data", tag("code", contents.digest)),
        ("format version", str(contents.version)),
        ("profile", view.profile),
        ("report made by", f"tgp {__version__}"),
    ]
    schedules = [tag("h3", "Schedules"), schedule_table(view)] if view.hierarchies else None
    return _section("Provenance", facts(pairs), schedules, id_="provenance")
