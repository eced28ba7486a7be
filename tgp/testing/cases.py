"""How the conformance checks build each pooler, and where a check does not apply, with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tgp.poolers._table import POOLERS
from tgp.registry import Entry

__all__ = ["Case", "EXCEPTIONS", "IN_CHANNELS", "pooler_cases"]

IN_CHANNELS = 4
ARGUMENTS: dict[str, Any] = {"in_channels": IN_CHANNELS, "k": 3, "ratio": 0.5, "scorer": "degree"}
"""One set of arguments builds every pooler: each takes what it knows."""

MLP_POOLERS = ("acc", "bnpool", "diff", "dmon", "hosc", "jb", "lap", "mincut")
"""Dense poolers that run padded and flat."""

EXCEPTIONS: dict[tuple[str, str], str] = {
    ("ec", "permutation"): "equal scores go to the smaller node ids",
    ("graclus", "permutation"): "the visiting order is drawn from node indices",
    ("nmf", "permutation"): "the starting point is drawn from node indices",
    ("eigen", "permutation"): "k-means starts are drawn from node indices",
    ("ndp", "permutation"): "ties between equal sides of a cut go to the smaller index",
    ("sep", "permutation"): "equal merges go to the smaller index",
    ("kmis", "permutation"): "equal scores go to the smaller index",
    ("maxcut", "permutation"): "nodes that no edge reaches are assigned at random",
    ("maxcut", "single"): "nodes that no edge reaches are assigned at random",
    ("maxcut", "order"): "nodes that no edge reaches are assigned at random",
}
"""(alias, check) -> why the check does not apply."""


@dataclass(frozen=True)
class Case:
    """A pooler in one mode."""

    alias: str
    entry: Entry
    options: dict[str, Any] = field(default_factory=dict)

    def build(self, **overrides: Any) -> Any:
        """A fresh pooler in evaluation mode, always with the same parameters."""
        import torch

        from tgp.poolers import get_pooler

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(7)
            return get_pooler(self.alias, **{**ARGUMENTS, **self.options, **overrides}).eval()

    def exempt(self, check: str) -> str | None:
        """Why ``check`` does not apply, or ``None``."""
        return EXCEPTIONS.get((self.alias, check))

    @property
    def padded(self) -> bool:
        """Runs on padded graphs."""
        return self.alias in MLP_POOLERS and self.options.get("batched", True)

    def __str__(self) -> str:
        flags = [f"{name}={value}" for name, value in self.options.items()]
        return "-".join([self.alias, *flags])


def pooler_cases() -> Iterator[Case]:
    """Every pooler of the table in every mode it has."""
    for entry in POOLERS:
        if not entry.traits["dense"]:
            yield Case(entry.alias, entry)
            continue
        for sparse_output in (False, True):
            if entry.alias in MLP_POOLERS:
                for batched in (True, False):
                    yield Case(entry.alias, entry, {"batched": batched, "sparse_output": sparse_output})
            else:
                yield Case(entry.alias, entry, {"sparse_output": sparse_output})
