"""Levels of `hem` of a graph whose edges are files."""

from __future__ import annotations

from tgp.engine.external.entries import make_undirected
from tgp.engine.external.method import Assigned, ExternalMethod, LevelWork, Restriction
from tgp.engine.external.row_matching import match_rows

__all__ = ["METHOD"]


def assign(work: LevelWork) -> Assigned:
    """Merge pairs of nodes along heavy edges, as :func:`tgp.engine.methods.hem.assign` does.

    Args:
        work: The level.
    """
    files = make_undirected(work)
    with files.open() as rows:
        found = match_rows(
            rows,
            work.key,
            by_share=work.params.score == "share",
            two_hop=work.params.two_hop,
            limits=work.limits,
            ranges=work.ranges,
        )
    return Assigned(*found)


_REPEAT = "repeat the level: hem*5"

METHOD = ExternalMethod(
    assign,
    {
        "ratio": Restriction((None,), _REPEAT),
        "nodes": Restriction((None,), _REPEAT),
        "ratios": Restriction(((),), _REPEAT),
    },
)
