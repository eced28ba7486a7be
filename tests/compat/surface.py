"""Compare the public interface with that of tgp 1.0.2, which ``api_1_0_2.json`` lists.

Every difference has a name: the dotted path of the class, method, function or export; ``module: name`` for a name that
a submodule had only imported from elsewhere; ``get_pooler('alias').attribute`` and ``Class().attribute`` for attributes
of constructed objects. The first column of the table "Differences of the interface" in ``docs/migration.md`` holds
these names.
"""

from __future__ import annotations

import fnmatch
import importlib
import inspect
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "migration.md"
TITLE = "## Differences of the interface"
PARAMETERS = {"in_channels": 16, "ratio": 0.5, "k": 8, "scorer": "degree"}

Difference = tuple[str, str]
"""Name and description."""


@cache
def facts() -> dict[str, Any]:
    """Return the public names and signatures of tgp 1.0.2."""
    return json.loads((HERE / "api_1_0_2.json").read_text())


_STAGES = tuple(
    f"tgp.{name}." for name in ("select", "reduce", "connect", "lift", "poolers", "data", "datasets")
)


@cache
def homes() -> dict[str, str]:
    """Return the module from which users import each name.

    This is the package or module with the shortest path. Submodules of the stages count last: they also hold names
    that they imported for their own use. So does ``tgp.src``.
    """
    found: dict[str, str] = {}
    for module, names in facts()["exports"].items():
        for name in names:
            if name not in found or _rank(module) < _rank(found[name]):
                found[name] = module
    return found


def _rank(module: str) -> tuple[bool, bool, int]:
    return module.startswith(_STAGES), module == "tgp.src", len(module)


def find(path: str) -> Any:
    """Return the object of a dotted path, e.g. ``tgp.select.NDPSelect``."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


# -- exports ----------------------------------------------------------------------------------------------------


def missing_exports() -> Iterator[Difference]:
    """Yield modules and names of modules that cannot be imported."""
    for module, names in facts()["exports"].items():
        try:
            loaded = importlib.import_module(module)
        except ImportError:
            yield module, "the module does not exist"
            continue
        for name in names:
            if not hasattr(loaded, name):
                borrowed = module.startswith(_STAGES) and homes()[name] != module
                yield f"{module}{': ' if borrowed else '.'}{name}", f"{module} does not export {name}"


# -- signatures -------------------------------------------------------------------------------------------------


def changed_signatures() -> Iterator[Difference]:
    """Yield constructors, methods and functions that do not accept the calls of 1.0.2."""
    home = homes()
    for name, text in facts()["functions"].items():
        yield from _compare(f"{home[name]}.{name}", text)
    for name, described in facts()["classes"].items():
        path = f"{home[name]}.{name}"
        yield from _compare(path, described["init"])
        cls = _get(path)
        for method, text in described["methods"].items():
            if cls is not None:
                yield from _compare(f"{path}.{method}", text, getattr(cls, method, None), bound=cls)


def _get(path: str) -> Any:
    try:
        return find(path)
    except (ImportError, AttributeError):
        return None


_UNSET = object()


def _compare(path: str, text: str, found: Any = _UNSET, bound: type | None = None) -> Iterator[Difference]:
    found = _get(path) if found is _UNSET else found
    if found is None:
        yield path, "missing"
        return
    new = list(inspect.signature(found).parameters.values())
    old = _parse(text)
    if (
        bound is not None
    ):  # ``inspect`` shows the first argument of methods; the facts also show that of class methods
        new = new[1:] if new and new[0].name == "self" else new
        old = old[1:] if old and old[0].name == "cls" else old
    reason = incompatibility(old, new)
    if reason:
        yield path, reason


def _parse(text: str) -> list[inspect.Parameter]:
    body = text.strip()[1:-1]
    return list(inspect.signature(eval(f"lambda {body}: 0", {"torch": torch})).parameters.values())


def incompatibility(old: list[inspect.Parameter], new: list[inspect.Parameter]) -> str | None:
    """Return the reason why the new signature refuses calls of the old one, or ``None`` if it accepts them."""
    by_name = {p.name: p for p in new}
    kinds = {p.kind for p in new}
    positional = [p.name for p in new if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    any_call = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    if {p.kind for p in old} == any_call or (not old and kinds == any_call):
        return None
    if kinds == any_call:
        return "replaces its parameters by *args and **kwargs"
    for position, was in enumerate(old):
        if was.kind is was.VAR_KEYWORD and inspect.Parameter.VAR_KEYWORD not in kinds:
            return "takes no further keywords"
        if was.kind in (was.VAR_KEYWORD, was.VAR_POSITIONAL):
            continue
        now = by_name.get(was.name)
        if now is None:
            return f"has no parameter {was.name!r}"
        ordered = was.kind is was.POSITIONAL_OR_KEYWORD
        if ordered and (position >= len(positional) or positional[position] != was.name):
            return f"{was.name!r} is not positional argument {position + 1}"
        if was.default is not was.empty and not _same(now.default, was.default):
            return f"default of {was.name!r} is {now.default!r}, was {was.default!r}"
    known = {p.name for p in old}
    optional = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    added = [p.name for p in new if p.name not in known and p.default is p.empty and p.kind not in optional]
    return f"requires the new parameter(s) {', '.join(added)}" if added else None


def _same(new: Any, old: Any) -> bool:
    return repr(list(new) if isinstance(old, list) and isinstance(new, tuple) else new) == repr(old)


# -- constructed objects ----------------------------------------------------------------------------------------


def missing_attributes() -> Iterator[Difference]:
    """Yield public attributes of 1.0.2 that poolers, stages and outputs do not have."""
    for label, owner in _instances():
        for name in facts()["instances"][label.key]:
            if not hasattr(owner, name):
                yield f"{label}.{name}", "no such attribute"


def changed_states() -> Iterator[Difference]:
    """Yield poolers whose ``state_dict`` has other keys."""
    for alias in _aliases():
        key = f"{alias}.state"
        if key in facts()["instances"]:
            keys = sorted(_pooler(alias).state_dict())
            if keys != sorted(facts()["instances"][key]):
                yield f"get_pooler('{alias}').state_dict", f"its keys are {keys}"


class _Label(str):
    key: str

    def __new__(cls, text: str, key: str) -> _Label:
        label = super().__new__(cls, text)
        label.key = key
        return label


def _aliases() -> list[str]:
    return [key for key in facts()["instances"] if re.fullmatch(r"[a-z]+", key)]


@cache
def _pooler(alias: str) -> Any:
    from tgp.poolers import get_pooler

    return get_pooler(alias, **PARAMETERS)


@cache
def _output(alias: str) -> Any:
    source = torch.arange(9)
    edges = torch.stack([torch.cat([source, source + 1]), torch.cat([source + 1, source])])
    torch.manual_seed(0)
    return _pooler(alias)(x=torch.randn(10, 16), adj=edges, batch=torch.zeros(10, dtype=torch.long))


def _instances() -> Iterator[tuple[_Label, Any]]:
    for key in facts()["instances"]:
        alias, _, rest = key.partition(".")
        if rest in ("state", "repr"):
            continue
        if re.fullmatch(r"[a-z]+", alias) and "(" not in key and alias not in ("select", "reduce", "connect"):
            root = f"get_pooler('{alias}')"
            owner = _output(alias) if rest.startswith("out") else _pooler(alias)
            path = rest.removeprefix("out").strip(".")
            for part in path.split(".") if path else []:
                owner = getattr(owner, part)
            shown = rest.replace("out", "(...)", 1) if rest.startswith("out") else f".{rest}" if rest else ""
            yield _Label(root + shown, key), owner
        elif "(" in key:
            yield _Label(_stage_name(key), key), _stage(key)
        elif alias == "SelectOutput":
            yield _Label(f"SelectOutput.{rest}", key), _select_output(rest)


def _stage_name(key: str) -> str:
    return f"tgp.{key.partition('(')[0]}()"


def _stage(key: str) -> Any:
    path, _, needed = key.partition("(")
    values: dict[str, Any] = {"in_channels": 16, "k": 8}
    names = [name for name in needed.rstrip(")").split(",") if name]
    if "aggr" in names:
        from tgp.reduce import get_aggr

        values["aggr"] = get_aggr("sum")
    return find(f"tgp.{path}")(**{name: values[name] for name in names})


def _select_output(kind: str) -> Any:
    from tgp.select import SelectOutput

    if kind == "dense":
        return SelectOutput(s=torch.softmax(torch.randn(6, 3), dim=-1))
    if kind == "node":
        return SelectOutput(
            node_index=torch.tensor([0, 2]), cluster_index=torch.tensor([0, 1]), num_nodes=4, num_supernodes=2
        )
    return SelectOutput(cluster_index=torch.tensor([0, 0, 1]), num_nodes=3, num_supernodes=2)


# -- the page ---------------------------------------------------------------------------------------------------


def all_differences() -> dict[str, str]:
    """Return the description of every difference by its name."""
    found: dict[str, str] = {}
    for source in (missing_exports, changed_signatures, missing_attributes, changed_states):
        for name, text in source():
            found.setdefault(name, text)
    return found


def rows() -> list[list[str]]:
    """Return the cells of the table in ``docs/migration.md``."""
    section = PAGE.read_text().partition(TITLE)[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]


def documented() -> list[str]:
    """Return the names in the first column of the table; ``*`` stands for any text."""
    return [name.strip("` ") for row in rows() for name in row[0].split("`, `")]


def covered(name: str, patterns: list[str]) -> bool:
    """Return True if a row of the page names this difference."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
