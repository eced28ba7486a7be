"""The table of poolers for eyes: what each can do and where it comes from."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

__all__ = [
    "POOLER_TEST_PARAMS",
    "extract_paper_links",
    "get_pooler_cheatsheet",
    "print_cheatsheet",
    "supports_aux_loss",
    "supports_sparse",
    "supports_trainable",
]

POOLER_TEST_PARAMS: dict[str, Any] = {"in_channels": 16, "ratio": 0.5, "k": 8, "scorer": "degree"}
"""Parameters that build every pooler."""

_RST_LINK = re.compile(r"<(https?://[^>\s]+)>")
_URL = re.compile(r"https?://[^\s>`)\]]+")


def _poolers() -> Any:
    # By name: utilities stand below the poolers, and this table is the one that looks up.
    return importlib.import_module("tgp.poolers")


def _trait(name: str, trait: str) -> bool | None:
    alias = name.lower().removesuffix("_u") if isinstance(name, str) else name
    entries = _poolers().pooler_map.entries
    return bool(entries[alias].traits[trait]) if alias in entries else None


def supports_sparse(name: str) -> bool:
    """Its assignments are sparse; ``False`` for an unknown name."""
    return _trait(name, "dense") is False


def supports_trainable(name: str) -> bool:
    """It has parameters to learn; ``False`` for an unknown name."""
    return _trait(name, "trainable") is True


def supports_aux_loss(name: str) -> bool:
    """It yields auxiliary losses; ``False`` for an unknown name."""
    return _trait(name, "loss") is True


def extract_paper_links(cls: type) -> list[str]:
    """Links in the class docstring: those written as links first, then bare ones, each once."""
    text = inspect.getdoc(cls) if cls.__doc__ else None
    if not text:
        return []
    links = _RST_LINK.findall(text)
    bare = [url.rstrip(".,;") for url in _URL.findall(_RST_LINK.sub("", text))]
    return list(dict.fromkeys([*links, *bare]))


def get_pooler_cheatsheet() -> list[tuple[str, str, bool, bool, bool, list[str]]]:
    """``(alias, class, sparse, trainable, aux_loss, links)`` of every pooler, by class name."""
    rows = []
    for alias, cls in _poolers().pooler_map.items():
        facts = (supports_sparse(alias), supports_trainable(alias), supports_aux_loss(alias))
        rows.append((alias, cls.__name__, *facts, extract_paper_links(cls)))
    return sorted(rows, key=lambda row: row[1])


def print_cheatsheet() -> None:
    """Print the table."""
    titles = ("Name", "Class", "Sparse", "Trainable", "Aux Loss", "Paper")
    rows = [
        (alias, name, *("yes" if fact else "-" for fact in facts), links[0] if links else "-")
        for alias, name, *facts, links in get_pooler_cheatsheet()
    ]
    widths = [max(len(row[i]) for row in [titles, *rows]) for i in range(len(titles))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in [titles, *rows]
    ]
    print("TGP Pooler Cheatsheet\n" + "\n".join(line.rstrip() for line in lines))
