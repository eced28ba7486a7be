"""Print poolers as text: the list, one pooler with its parameters, and the answer of ``tgp poolers --choose``."""

from __future__ import annotations

import re
import sys
import unicodedata
from typing import TYPE_CHECKING

from tgp_cli._output import Output, shows_unicode

if TYPE_CHECKING:
    from tgp.inspect.catalog import ParameterInfo, PoolerInfo
    from tgp.inspect.choice import Choice, Needs

__all__ = ["show_choices", "show_pooler", "show_poolers"]

MARKS = {True: "yes", False: "", None: "?"}
"""Text of a trait; ``None`` if it is unknown."""

SHOWN = 3
"""Number of choices that are printed with a reason and a command."""

_ASCII = {"²": "^2", "ᵀ": "^T"}

_LABEL = 12
"""Width of the labels before paragraphs."""


def show_poolers(out: Output, poolers: list[PoolerInfo]) -> None:
    """Print all poolers as a table, those that can be precomputed first."""
    poolers = sorted(poolers, key=lambda pooler: not pooler.precoarsenable)
    columns = ["pooler", "description", "coarsen", "trainable", "dense", "loss"]
    rows = [
        [p.alias, p.summary, *(MARKS[trait] for trait in (p.precoarsenable, p.trainable, p.dense, p.loss))]
        for p in poolers
    ]
    if any(p.package for p in poolers):
        columns.append("package")
        rows = [[*row, p.package or ""] for row, p in zip(rows, poolers, strict=True)]
    out.table(columns, rows, wrap=(1,))


def show_pooler(out: Output, pooler: PoolerInfo, supernodes: str | None, drawing: list[str] | None) -> None:
    """Print everything about one pooler.

    Args:
        out: the printer.
        pooler: the pooler.
        supernodes: rule for the number of supernodes; ``None`` if it is not known.
        drawing: lines of a drawing; ``None`` if there is none.
    """
    package = f" (package {pooler.package})" if pooler.package else ""
    _paragraph(out, f"{pooler.alias}: {pooler.summary}{package}")
    out.line()
    _show_use(out, pooler)
    size = f"{supernodes[0].upper()}{supernodes[1:]}." if supernodes else None
    texts = {
        "Size": size,
        "Good for": pooler.good_for,
        "Avoid when": pooler.avoid_when,
        "Complexity": pooler.complexity,
    }
    for label, text in texts.items():
        if text:
            _paragraph(out, text, label)
    for paper in pooler.papers or ():
        _paragraph(out, f"{paper.title}, {paper.url}", "Paper")
    out.line()
    if drawing:
        for line in drawing[:-1]:
            out.line(f"  {line}")
        _paragraph(out, f"  {drawing[-1]}", indent=4)
    elif not pooler.precoarsenable:
        _paragraph(out, "No drawing: the result depends on features or trained weights.")
    _show_parameters(out, pooler)


def _show_use(out: Output, pooler: PoolerInfo) -> None:
    required = ", ".join(f"{p.name}=..." for p in pooler.layer_parameters or () if p.required)
    layer = f'get_pooler("{pooler.alias}"{", " * bool(required)}{required})'
    if pooler.precoarsenable:
        fixed = any(p.name == "k" for p in pooler.parameters or ())
        levels = "{0}:k=8,{0}:k=4" if fixed else "{0}*2"
        more = f"(or '{levels.format(pooler.alias)}' for two levels)"
        _paragraph(out, f"tgp coarsen --pooler {pooler.alias}  {more}", "Use")
        _paragraph(out, f"{layer} as a layer", "")
        if pooler.larger_than_memory:
            limits = f" ({pooler.restrictions})" if pooler.restrictions else ""
            _paragraph(out, f"tgp coarsen --memory SIZE for a graph larger than memory{limits}", "")
    else:
        how = "It is trained with the model" if pooler.trainable else "It is part of the model"
        _paragraph(out, f"{layer} as a layer", "Use")
        _paragraph(out, f"{how}: 'tgp coarsen' cannot precompute it.", "")


def _show_parameters(out: Output, pooler: PoolerInfo) -> None:
    schedule = {p.name: p for p in pooler.parameters or ()}
    layer = pooler.layer_parameters or []
    if schedule:
        example = next(iter(schedule.values()))
        value = next((c for c in example.choices if c != _value(example.default)), _value(example.default))
        _list(
            out,
            f"Parameters, for example --pooler {pooler.alias}:{example.name}={value}",
            [*schedule.values()],
        )
    others = [p for p in layer if p.name not in schedule or schedule[p.name].default != p.default]
    if others:
        _list(out, "Only as a layer" if schedule else "Parameters", others)


def _list(out: Output, title: str, parameters: list[ParameterInfo]) -> None:
    out.line()
    _paragraph(out, title)
    for p in parameters:
        given = "required" if p.required else f"default {_value(p.default)}"
        _paragraph(out, f"  {p.name}  {p.type}; {given}", indent=6)
        if p.description:
            _paragraph(out, f"      {p.description}", indent=6)


def _value(value: object) -> str:
    """Return a default as users write it in a schedule."""
    if isinstance(value, tuple):
        return "/".join(map(str, value)) or "none"
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def show_choices(out: Output, needs: Needs, choices: list[Choice], left_out: dict[str, list[str]]) -> None:
    """Print the best choices with a reason and a command each, and the names of the others.

    Args:
        out: the printer.
        needs: what was asked for.
        choices: poolers that fit, best first.
        left_out: poolers that do not fit, by the reason.
    """
    _paragraph(out, f"For {needs.text}:" if choices else f"No pooler fits: {needs.text}.")
    for place, choice in enumerate(choices[:SHOWN], 1):
        out.line()
        _paragraph(out, f"{place}. {choice.alias}: {choice.reason}", indent=3)
        out.line(f"   {choice.command}")
    more = ", ".join(choice.alias for choice in choices[SHOWN:])
    if more:
        out.line()
        _paragraph(out, f"Also possible: {more}")
    for reason, aliases in left_out.items():
        _paragraph(out, f"Left out, {reason}: {', '.join(aliases)}")
    out.message("Hint: 'tgp poolers NAME' describes a pooler with its parameters.")


def _letter_name(letter: str) -> str:
    """Return the name of a Greek letter, such as ``alpha``."""
    return unicodedata.name(letter, "?").rpartition(" ")[2].lower()


def _paragraph(out: Output, text: str, label: str | None = None, indent: int = 0) -> None:
    """Print a paragraph, wrapped at the margin on a terminal and on one line otherwise.

    Args:
        out: the printer.
        text: the paragraph.
        label: word in front of it; ``""`` to leave its column empty.
        indent: spaces before the second and later lines.
    """
    text = re.sub(r"`([^`]*)`", r"\1", text)
    if not shows_unicode(sys.stdout):
        text = re.sub(r"[^\x00-\x7f]", lambda m: _ASCII.get(m[0]) or _letter_name(m[0]), text)
    if label is not None:
        indent = _LABEL
        text = f"{label:<{_LABEL}}{text}"
    out.text(text, indent=indent)
