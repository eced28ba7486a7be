"""Render the report of a store as one HTML file that loads nothing from the network.

The templates escape every value, markup as well as control characters. Only the style sheet and the script of this
package are inserted without escaping.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import os
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tgp._version import __version__
from tgp.build.summary import LevelSummary
from tgp.inspect.figures import figure_of, level_value
from tgp.inspect.numbers import bytes_text, count_text, counted
from tgp.inspect.output_file import write_file
from tgp.inspect.report.charts import coordinate, level_name
from tgp.inspect.report.drawings import GraphDrawing
from tgp.inspect.report.figure_rows import FigureRow, kept_shares, legend
from tgp.inspect.report.page_contents import ReportContents, collect_contents
from tgp.inspect.report.palette import colour_rules
from tgp.ragged.types import is_typed_name
from tgp.store.locations import Location, result_path
from tgp.text import inert_text

if TYPE_CHECKING:
    import jinja2

__all__ = [
    "MARK",
    "PAGE",
    "page_values",
    "render_drawing",
    "render_page",
    "render_report",
    "static_text",
    "template_environment",
    "write_report",
]

PAGE = "page.html.jinja"
"""Template of the report. Other pages can extend it and replace its blocks."""


MAX_FINDINGS = 8
"""Number of problems that are shown at once; the others are folded."""

_FEW = 3
"""Largest number of hierarchies of which the first is shown unfolded."""

MARK = "\ufffd"
"""Character in place of control characters and of those that change the direction of text."""


def write_report(
    store: Location,
    out: str | os.PathLike[str] | None = None,
    *,
    graphs: Sequence[int] | str | None = None,
) -> Path:
    """Write the report of a store. The file appears complete or not at all.

    Args:
        store: directory or URL of the store, or an open reader.
        out: file to write; ``<store>-report.html`` in the folder of the store if ``None``.
        graphs: ids of the graphs to draw, also as text (``"0,5,17"``); five from the smallest to the largest if
            ``None``.

    Returns:
        The file.

    Raises:
        InputError: if a graph does not exist, or the file cannot be written there.
        StoreError: if the store is missing or damaged.
    """
    target = Path(out) if out is not None else result_path(store, "-report.html")
    return write_file(target, render_report(store, graphs=graphs).encode("utf-8"))


def render_report(store: Location, *, graphs: Sequence[int] | str | None = None) -> str:
    """Render the report of a store as HTML.

    Args:
        store: directory or URL of the store, or an open reader.
        graphs: ids of the graphs to draw, see :func:`write_report`.

    Returns:
        The page. The same store gives the same page.

    Raises:
        InputError: if a graph does not exist.
        StoreError: if the store is missing or damaged.
    """
    from markupsafe import Markup

    style, script = static_text("report.css"), static_text("report.js")
    policy = (
        f"default-src 'none'; style-src '{_source_hash(style)}'; script-src '{_source_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    values = page_values(collect_contents(store, graphs))
    own = {"policy": policy, "style": Markup(style), "script": Markup(script)}
    return render_page(template_environment(), PAGE, values | own)


def render_drawing(drawing: GraphDrawing) -> str:
    """Render the drawings of one graph as HTML, for pages that use the style sheet and the script of the report.

    Args:
        drawing: drawings of a graph, see :func:`tgp.inspect.report.drawings.draw_graph`.

    Returns:
        An ``<article class="graph">`` with one ``<div class="scene">`` per hierarchy.
    """
    macros = template_environment().get_template("drawings.html.jinja").module
    return inert_text(macros.graph(drawing), lines=True, mark=MARK)  # type: ignore[attr-defined]


def page_values(contents: ReportContents) -> dict[str, Any]:
    """Return the values that the template of the report needs, except for policy, style sheet and script.

    Args:
        contents: everything that the report shows.
    """
    return {
        "contents": contents,
        "lead": _lead(contents),
        "deepest": max((len(h.levels) for h in contents.view.hierarchies), default=0),
        "kept": kept_shares(contents.view.input, contents.view.hierarchies),
        "legend": legend(),
        "places": {h.name: place for place, h in enumerate(contents.view.hierarchies)},
        "most_findings": MAX_FINDINGS,
        "most_open": _FEW,
        "version": __version__,
    }


def render_page(environment: jinja2.Environment, template: str, values: Mapping[str, Any]) -> str:
    """Render a template. Control characters are replaced everywhere.

    Args:
        environment: environment that has the template, see :func:`template_environment`.
        template: name of the template.
        values: values of its variables.
    """
    # A filter may have joined text and markup before it was inserted.
    return inert_text(environment.get_template(template).render(values), lines=True, mark=MARK)


@functools.cache
def template_environment(*packages: str) -> jinja2.Environment:
    """Return an environment with the templates of the report. It escapes every value that a template inserts.

    Args:
        *packages: packages with further templates.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([*map(jinja2.PackageLoader, ("tgp.inspect.report", *packages))]),
        autoescape=True,
        finalize=_replace_hidden,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "bytes": bytes_text,
        "count": count_text,
        "counted": counted,
        "figure": _figure_text,
        "level_name": level_name,
        "owner": _owner_text,
        "shorten": _shorten,
        "value": _figure_value,
        "xy": coordinate,
    }
    return environment


def _replace_hidden(value: Any) -> Any:
    """Replace control characters in everything that a template inserts, except for the output of other templates."""
    if isinstance(value, bool | int | float) or hasattr(value, "__html__"):
        return value
    return inert_text(value, lines=True, mark=MARK)


@functools.cache
def static_text(name: str, package: str = "tgp.inspect.report") -> str:
    """Return the text of a style sheet or script. The style sheet of the report contains the rules of the colours.

    Args:
        name: name of the file.
        package: package that has the file in its folder ``static``.
    """
    text = (resources.files(package) / "static" / name).read_text(encoding="utf-8")
    return colour_rules() + text if name == "report.css" else text


def _source_hash(text: str) -> str:
    """Return the hash by which the content security policy allows an inline script or style sheet."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _figure_value(level: LevelSummary, key: str) -> float | None:
    return level_value(level, figure_of(key))


def _figure_text(value: float | None, key: str) -> str:
    return FigureRow(figure_of(key), ()).text(value)


def _owner_text(field: dict[str, Any]) -> str:
    """Return to what a value of a field belongs, in words.

    Examples:
        >>> _owner_text({"name": "nodes/film/x", "per": "own"}), _owner_text({"name": "x", "per": "node"})
        ('node of its type', 'node')
    """
    if field["per"] != "own":
        return str(field["per"])
    if not is_typed_name(field["name"]):
        return "graph (of any length)"
    return "node of its type" if field["name"].startswith("nodes/") else "edge of its relation"


def _shorten(value: object, most: int = 500) -> str:
    text = str(value)
    return text if len(text) <= most else f"{text[:most]}…"


def _lead(contents: ReportContents) -> str:
    """Return one sentence that names the dataset and the methods."""
    view = contents.view
    name, source = view.dataset.get("name"), view.dataset.get("source")
    text = f"{counted(view.num_graphs, 'graph')} of {_shorten(name or source or contents.name, 200)}"
    text += f" ({source})" if name and source and source != "local" else ""
    methods = [h.methods for h in view.hierarchies]
    if not methods:
        return f"{text}, no hierarchy yet"
    most = 4
    more = f" and {len(methods) - most} more" if len(methods) > most else ""
    return f"{text}, coarsened by {', '.join(methods[:most])}{more}"
