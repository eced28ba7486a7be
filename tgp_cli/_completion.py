"""Values that shell completion offers: poolers and schedules, datasets, stores, hierarchies, formats.

A shell may evaluate what it is offered, and names in a store or a folder are not trusted. Only names of plain characters
are offered; for other files the shell uses its own completion. No value is read over the network.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import shlex
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from tgp_cli._output import print_line

__all__ = [
    "complete_conditions",
    "complete_datasets",
    "complete_formats",
    "complete_hierarchies",
    "complete_poolers",
    "complete_profiles",
    "complete_reductions",
    "complete_schedules",
    "complete_stores",
    "complete_type_graphs",
    "completed_words",
    "strip_bash_words",
]

Item = tuple[str, str]
"""Value, and the text that some shells show next to it."""

VARIABLE = "_TGP_COMPLETE"
_PLAIN = re.compile(r"[\w./,:=*+@%-]+", re.ASCII)
_TIMES = range(2, 6)
_MOST_FILES = 200
_TEXT_WIDTH = 60
"""Largest number of characters of the text next to a value. Typer breaks longer texts into lines, which shells take for values."""

_BREAKS = (":", "=")
"""Characters at which bash divides a word before it calls a completion."""

F = TypeVar("F", bound=Callable[..., Any])


def _quietly(function: F) -> F:
    """Make a completion return nothing if it fails: a shell would show the traceback in the middle of a command."""

    @functools.wraps(function)
    def safe(*args: Any, **kwargs: Any) -> list[Item]:
        with contextlib.suppress(Exception):
            found = [item for item in function(*args, **kwargs) if _PLAIN.fullmatch(item[0])]
            return [(value, textwrap.shorten(text, _TEXT_WIDTH, placeholder="...")) for value, text in found]
        return []

    return safe  # type: ignore[return-value]


@_quietly
def complete_poolers(incomplete: str) -> Iterable[Item]:
    """Offer the names of all poolers."""
    from tgp.inspect.catalog import list_poolers

    return [(p.alias, p.summary) for p in list_poolers() if p.alias.startswith(incomplete.lower())]


@_quietly
def complete_schedules(incomplete: str) -> Iterable[Item]:
    """Offer poolers, their parameters after ``:``, choices after ``=`` and numbers after ``*``, for the last level."""
    done, comma, level = incomplete.rpartition(",")
    return [(done + comma + value, text) for value, text in _complete_level(level)]


def _complete_level(level: str) -> Iterator[Item]:
    from tgp.inspect.catalog import describe_pooler, list_poolers

    name, colon, rest = level.partition(":")
    start, star, _ = level.rpartition("*")
    if star:
        yield from ((f"{start}*{times}", f"{times} levels") for times in _TIMES)
        yield f"{start}*", "repeat up to the size of --until"
    elif colon:
        given, last_colon, _ = rest.rpartition(":")
        taken = {pair.partition("=")[0] for pair in given.split(":")}
        for parameter in describe_pooler(name).parameters or ():
            if parameter.name in taken:
                continue
            values = parameter.choices or (() if parameter.default is None else (str(parameter.default),))
            for value in values:
                yield f"{name}:{given}{last_colon}{parameter.name}={value}", parameter.description
    else:
        yield from ((p.alias, p.summary) for p in list_poolers(precoarsenable_only=True))


@_quietly
def complete_datasets(incomplete: str) -> Iterable[Item]:
    """Offer built-in datasets with their parameters after ``:``, known names, and files."""
    from tgp.sources.builtin import BUILTIN
    from tgp.sources.names import known_names

    name, colon, rest = incomplete.partition(":")
    if colon and name in BUILTIN:
        given, last_colon, _ = rest.rpartition(":")
        taken = {pair.partition("=")[0] for pair in given.split(":")}
        defaults = BUILTIN[name].defaults
        return [
            (f"{name}:{given}{last_colon}{key}={value}", f"default {value}")
            for key, value in defaults.items()
            if key not in taken
        ]
    names = [(b.name, b.summary) for b in BUILTIN.values()] + [(name, "") for name in known_names()]
    return [*names, *_paths(incomplete)]


def _paths(incomplete: str, folders_only: bool = False) -> Iterator[Item]:
    """Yield the files and folders that begin with a text, folders with a slash."""
    folder, _, start = incomplete.rpartition("/")
    base = Path(folder or ("/" if incomplete.startswith("/") else "."))
    names = sorted(entry.name for entry in os.scandir(base) if entry.name.startswith(start))
    prefix = incomplete[: len(incomplete) - len(start)]
    for name in names[:_MOST_FILES]:
        is_folder = (base / name).is_dir()
        if (start or not name.startswith(".")) and (is_folder or not folders_only):
            yield prefix + name + ("/" if is_folder else ""), ""


@_quietly
def complete_stores(incomplete: str) -> Iterable[Item]:
    """Offer the stores below ``./pooled``, and folders."""
    stores = [str(file.parent) for file in sorted(Path("pooled").glob("*/manifest.json"))]
    found = [(path, "store") for path in stores if path.startswith(incomplete)]
    return found or list(_paths(incomplete, folders_only=True))


@_quietly
def complete_hierarchies(incomplete: str) -> Iterable[Item]:
    """Offer the hierarchies of the first store that the command line names, if it is a directory."""
    from tgp.store.format.manifest import read_spec

    # Typer does not parse the arguments of a line that ends with an option.
    words = completed_words() or []
    store = next(word for word in words if Path(word, "manifest.json").is_file())
    spec = read_spec(store)
    return [] if spec is None else [(entry.name, "") for entry in spec.hierarchies]


@_quietly
def complete_formats(incomplete: str) -> Iterable[Item]:
    """Offer the formats of ``tgp export``."""
    from tgp.inspect.export import EXPORTS

    return [(name, "") for name in EXPORTS]


@_quietly
def complete_profiles(incomplete: str) -> Iterable[Item]:
    """Offer the profiles of a store."""
    from tgp.store.format.constants import PROFILES

    return [(name, "") for name in PROFILES]


@_quietly
def complete_type_graphs(incomplete: str) -> Iterable[Item]:
    """Offer the edges of heterogeneous graphs that poolers see."""
    from tgp.store.format.constants import TYPE_GRAPHS

    return [(name, "") for name in TYPE_GRAPHS]


@_quietly
def complete_reductions(incomplete: str) -> Iterable[Item]:
    """Offer ``auto``, and after the name of an attribute and ``=`` its reductions."""
    from tgp.build.settings import REDUCTIONS

    done, comma, rule = incomplete.rpartition(",")
    name, equals, _ = rule.partition("=")
    if equals:
        fitting = ("map",) if name == "edge_index" else REDUCTIONS
        return [(f"{done}{comma}{name}={reduction}", "") for reduction in fitting]
    return [(f"{done}{comma}auto", "choose by name and type")]


@_quietly
def complete_conditions(incomplete: str) -> Iterable[Item]:
    """Offer the figures that a condition of ``tgp inspect --fail-if`` can name."""
    from tgp.inspect.figures import FIGURES

    return [(key, figure.meaning) for key, figure in FIGURES.items()]


def completed_words() -> list[str] | None:
    """Return the words of the command line that a shell completes, or ``None`` if no completion is requested."""
    if VARIABLE not in os.environ:
        return None
    text = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    try:
        return shlex.split(text)[1:]
    except ValueError:  # a quotation mark is not closed yet
        return text.split()[1:]


@contextlib.contextmanager
def strip_bash_words() -> Iterator[None]:
    """Complete words that contain ``:`` or ``=`` in bash.

    Bash divides ``graclus:order=in`` into five words and replaces only the last one. Inside this block, the words are
    joined again in the environment, and the part that bash keeps is removed from every line that is printed.
    """
    words = os.environ.get("COMP_WORDS", "").split("\n")
    position = os.environ.get("COMP_CWORD", "")
    if os.environ.get(VARIABLE) != "complete_bash" or not position.isdigit() or int(position) >= len(words):
        yield
        return
    joined, kept = _join_words(words[: int(position) + 1])
    os.environ.update(COMP_WORDS="\n".join(joined), COMP_CWORD=str(len(joined) - 1))
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            yield
    finally:
        for line in printed.getvalue().splitlines():
            print_line(line.removeprefix(kept))


def _join_words(words: list[str]) -> tuple[list[str], str]:
    """Join words that bash divided at ``:`` and ``=``.

    Args:
        words: the words up to the one that is completed.

    Returns:
        The words of the user, and the part of the last one that bash does not replace.

    Examples:
        >>> _join_words(["tgp", "coarsen", "-p", "graclus", ":", "order", "=", "in"])
        (['tgp', 'coarsen', '-p', 'graclus:order=in'], 'graclus:order=')
    """
    joined: list[str] = []
    follows = False
    for word in words:
        is_break = bool(word) and all(letter in _BREAKS for letter in word)
        if joined and (follows or is_break):
            joined[-1] += word
        else:
            joined.append(word)
        follows = is_break
    last = joined[-1]
    end = max((last.rfind(letter) for letter in _BREAKS), default=-1) if len(joined) < len(words) else -1
    kept = last[: end + 1]
    return joined, kept.partition("=")[2] if kept.startswith("--") else kept
