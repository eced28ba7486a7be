"""Table of poolers with their properties and papers."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import torch

__all__ = [
    "POOLER_TEST_PARAMS",
    "TEST_EDGE_INDEX",
    "TEST_EDGE_WEIGHT",
    "TEST_X",
    "extract_paper_links",
    "get_pooler_cheatsheet",
    "print_cheatsheet",
    "supports_aux_loss",
    "supports_sparse",
    "supports_trainable",
]

POOLER_TEST_PARAMS: dict[str, Any] = {"in_channels": 16, "ratio": 0.5, "k": 8, "scorer": "degree"}
"""Parameters with which every pooler can be built."""
TEST_X = torch.randn(10, 16, generator=torch.Generator().manual_seed(0))
"""Features of a small test graph."""
TEST_EDGE_INDEX = torch.stack([torch.arange(9), torch.arange(1, 10)])
"""Edges of the small test graph, a directed path."""
TEST_EDGE_WEIGHT = torch.ones(9)
"""Weights of the edges of the small test graph."""

_RST_LINK = re.compile(r"<(https?://[^>\s]+)>")
_URL = re.compile(r"https?://[^\s>`)\]]+")


def _poolers() -> Any:
    # Imported by name, because the import contracts do not allow tgp.utils to import tgp.poolers.
    return importlib.import_module("tgp.poolers")


def __getattr__(name: str) -> Any:
    if name in ("get_pooler", "pooler_map"):
        return getattr(_poolers(), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _trait(pooler_name: str, trait: str) -> bool | None:
    alias = pooler_name.lower().removesuffix("_u") if isinstance(pooler_name, str) else pooler_name
    entries = _poolers().pooler_map.entries
    return bool(entries[alias].traits[trait]) if alias in entries else None


def supports_sparse(pooler_name: str) -> bool:
    """Return True if the assignments of a pooler are sparse; False for an unknown name."""
    return _trait(pooler_name, "dense") is False


def supports_trainable(pooler_name: str) -> bool:
    """Return True if a pooler has learnable parameters; False for an unknown name."""
    return _trait(pooler_name, "trainable") is True


def supports_aux_loss(pooler_name: str) -> bool:
    """Return True if a pooler returns auxiliary losses; False for an unknown name."""
    return _trait(pooler_name, "loss") is True


def extract_paper_links(pooler_class: type) -> list[str]:
    """Return the distinct links in a class docstring: RST links first, then plain URLs."""
    text = inspect.getdoc(pooler_class) if pooler_class.__doc__ else None
    if not text:
        return []
    links = _RST_LINK.findall(text)
    bare = [url.rstrip(".,;") for url in _URL.findall(_RST_LINK.sub("", text))]
    return list(dict.fromkeys([*links, *bare]))


def get_pooler_cheatsheet() -> list[tuple[str, str, bool, bool, bool, list[str]]]:
    """Return ``(alias, class, sparse, trainable, aux_loss, links)`` of every pooler, sorted by class name."""
    rows = []
    for alias, cls in _poolers().pooler_map.items():
        facts = (supports_sparse(alias), supports_trainable(alias), supports_aux_loss(alias))
        rows.append((alias, cls.__name__, *facts, extract_paper_links(cls)))
    return sorted(rows, key=lambda row: row[1])


def print_cheatsheet() -> None:
    """Print the table of all poolers."""
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
