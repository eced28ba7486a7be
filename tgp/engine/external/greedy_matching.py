"""Levels of `graclus` of a graph whose edges are files.

The nodes are visited in the order of their index, or in one that shuffles windows of consecutive nodes. The rows can therefore be read front
to back. Each choice depends on the choices before it, so one thread reads all rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tgp.engine.external.method import Assigned, ExternalMethod, LevelWork, Restriction
from tgp.engine.external.row_files import MappedRows
from tgp.ragged.block import IndexArray

__all__ = ["METHOD"]


def assign(work: LevelWork) -> Assigned:
    """Merge each node with its heaviest free neighbour, as :func:`tgp.engine.methods.graclus.assign` does.

    Args:
        work: The level.
    """
    from tgp.kernels import matching

    with work.rows.open() as rows:
        mate = _match(work, rows)
        if work.params.two_hop:
            _match_two_hops(work, rows, mate)
    cluster, super_ptr = np.empty(len(mate), np.int32), np.empty(2, np.int64)
    matching.number_pairs(mate, np.array([0, len(mate)], np.int64), cluster, super_ptr)
    return Assigned(cluster, int(super_ptr[1]))


def _match(work: LevelWork, rows: MappedRows) -> IndexArray:
    """Return the partner of each node, or the node itself."""
    from tgp.kernels import matching

    order = matching.RANDOM if work.params.order == "random" else matching.BY_INDEX
    free, mate = np.ones(rows.num_nodes, np.bool_), np.arange(rows.num_nodes, dtype=np.int32)
    for first, last in _read_rows(work, rows, matching.WINDOW):
        longest = int(np.diff(rows.indptr[first : last + 1]).max())
        heaviest = np.empty(longest + 1, np.int32)
        fixed = *rows.arrays(), order, work.key.seed, work.key.level
        matching.match_rows(*fixed, first, last, free, heaviest, mate)
    return mate


def _match_two_hops(work: LevelWork, rows: MappedRows, mate: IndexArray) -> None:
    """Merge nodes that are alone through common neighbours."""
    from tgp.kernels import matching

    waiting = np.full(rows.num_nodes, -1, np.int32)
    for some in _read_rows(work, rows):
        matching.pair_waiting(*rows.arrays(), *some, waiting, mate)
    for some in _read_rows(work, rows):
        matching.join_pairs(*rows.arrays(), *some, mate)


def _read_rows(work: LevelWork, rows: MappedRows, step: int = 1) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows and report progress."""
    for first, last in rows.row_ranges(work.limits.piece, step=step):
        yield first, last
        work.journal.report("matching", int(rows.indptr[last]), rows.num_entries)


METHOD = ExternalMethod(
    assign,
    {
        "order": Restriction(
            ("random", "index"),
            "use order=random: other orders visit nodes whose rows are far apart in the file",
        ),
        "match_on": Restriction(
            ("weights",), "use count_edges=true, so that the weights of the levels are counts"
        ),
    },
)
