"""Draw what a method does to a small graph, as text.

The levels are computed ahead of time (``python -m tgp.inspect.toy_level``), so that drawing them needs no compiled
kernels. A test computes them again.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["LEVELS", "ToyLevel", "compute_level", "draw_level"]

# Two squares, joined by a node in the middle. A node is drawn as "o".
_PICTURE = (
    "o---o       o---o",
    "|   |       |   |",
    "o---o---o---o---o",
)
_NODES = tuple((row, col) for row in (0, 2) for col, mark in enumerate(_PICTURE[row]) if mark == "o")
_EDGES = ((0, 1), (0, 4), (1, 5), (4, 5), (2, 3), (2, 7), (3, 8), (7, 8), (5, 6), (6, 7))


class ToyLevel(NamedTuple):
    """One level of the small graph.

    Args:
        schedule: schedule that computed it.
        labels: supernode of each node as a letter; ``.`` for a node that is dropped.
        edges: pairs of connected supernodes.
    """

    schedule: str
    labels: str
    edges: tuple[str, ...]


LEVELS: dict[str, ToyLevel] = {
    "ndp": ToyLevel("ndp", "A..B.C.D.", ("A-C", "B-D", "C-D")),
    "graclus": ToyLevel("graclus", "AABBCCDDE", ("A-C", "B-D", "B-E", "C-D", "D-E")),
    "kmis": ToyLevel("kmis", "ACDBCCCDD", ("A-C", "B-D", "C-D")),
    "hem": ToyLevel("hem", "ABCDABECD", ("A-B", "B-E", "C-D", "C-E")),
    "lv": ToyLevel("lv", "ABCDABECD", ("A-B", "B-E", "C-D", "C-E")),
    "sep": ToyLevel("sep", "AABBAABBB", ("A-B",)),
    "nmf": ToyLevel("nmf:k=3", "BCCACBCAC", ("A-B", "A-C", "B-C")),
    "eigen": ToyLevel("eigen:k=3", "AABBACCCB", ("A-C", "B-C")),
    "affinity": ToyLevel("affinity", "ABCCABDEE", ("A-B", "B-D", "C-E", "D-E")),
    "bistride": ToyLevel("bistride", "A..B.C.D.", ("A-C", "B-D", "C-D")),
    "leiden": ToyLevel("leiden", "AABBAABBB", ("A-B",)),
    "louvain": ToyLevel("louvain", "AABBAABBB", ("A-B",)),
    "collapse": ToyLevel("collapse", "ABCDABECD", ("A-B", "B-E", "C-D", "C-E")),
    "amg": ToyLevel("amg", "AABBACCDB", ("A-C", "B-D", "C-D")),
    "simmatch": ToyLevel("simmatch", "AABBCCDEE", ("A-C", "B-E", "C-D", "D-E")),
    "ugc": ToyLevel("ugc", "AABBCDEDC", ("A-C", "A-D", "B-C", "B-D", "C-D", "D-E")),
    "voxel": ToyLevel("voxel:size=0.3", "AABCDDEFG", ("A-D", "B-C", "B-F", "C-G", "D-E", "E-F", "F-G")),
    "fps": ToyLevel("fps", "AABBACCCC", ("A-C", "B-C")),
    "partition": ToyLevel("partition:k=3", "AABBACCCB", ("A-C", "B-C")),
    "nopool": ToyLevel(
        "nopool", "ABCDEFGHI", ("A-B", "A-E", "B-F", "C-D", "C-H", "D-I", "E-F", "F-G", "G-H", "H-I")
    ),
    "random": ToyLevel("random:ratio=0.4", "ABCCADCAD", ("A-B", "A-C", "A-D", "B-D", "C-D")),
}
"""Level of each method, computed by :func:`compute_level`."""

_SCHEDULES = {
    "eigen": "eigen:k=3",
    "nmf": "nmf:k=3",
    "partition": "partition:k=3",
    "random": "random:ratio=0.4",
    "voxel": "voxel:size=0.3",
}


def compute_level(alias: str) -> ToyLevel:
    """Run a method on the small graph. The supernode of a soft assignment is the one with the largest weight.

    Args:
        alias: name of the method.
    """
    import numpy as np

    from tgp.engine.coarsening import coarsen
    from tgp.ragged import BlockCSR

    source, target = np.array([*_EDGES, *(pair[::-1] for pair in _EDGES)]).T
    order = np.lexsort((target, source))
    indptr = np.concatenate([[0], np.bincount(source, minlength=len(_NODES)).cumsum()])
    block = BlockCSR(indptr, target[order].astype(np.int32), None, np.array([0, len(_NODES)]))
    schedule = _SCHEDULES.get(alias, alias)
    # Positions are those of the picture, and features say how close a node is to each of the four corners.
    pos = np.array([(col / 16, 1 - row / 2) for row, col in _NODES])
    x = np.stack([pos[:, 0], 1 - pos[:, 0], pos[:, 1], 1 - pos[:, 1]], axis=1)
    level = coarsen(block.with_values(x=x, pos=pos), schedule).levels[0]
    assignment = level.assignment
    cluster = assignment.cluster if assignment.soft is None else assignment.soft.argmax(axis=1)
    assert cluster is not None  # an assignment has clusters or weights
    letters = [chr(ord("A") + int(c)) if c >= 0 else "." for c in cluster]
    pairs = sorted(
        {tuple(sorted(map(int, pair))) for pair in level.block.edge_index().T if pair[0] != pair[1]}
    )
    edges = tuple("-".join(chr(ord("A") + node) for node in pair) for pair in pairs)
    return ToyLevel(schedule, "".join(letters), edges)


def draw_level(alias: str) -> list[str] | None:
    """Draw the small graph before and after a method.

    Edges between different supernodes are left out of the second picture; the line below lists them.

    Args:
        alias: name of the method.

    Returns:
        The lines, or ``None`` if there is no level of this method.

    Examples:
        >>> print("\\n".join(draw_level("nopool")[:2]))
        before               after
        o---o       o---o    A   B       C   D
    """
    if alias not in LEVELS:
        return None
    level = LEVELS[alias]
    label = dict(zip(_NODES, level.labels, strict=True))
    after = [_after(row, label) for row in range(len(_PICTURE))]
    width = len(_PICTURE[0]) + 4
    lines = [f"{'before':<{width}}after"]
    lines += [f"{old:<{width}}{new}".rstrip() for old, new in zip(_PICTURE, after, strict=True)]
    count = len(set(level.labels) - {"."})
    dropped = ", . is dropped" if "." in level.labels else ""
    edges = " ".join(level.edges) or "none"
    return [*lines, f"{level.schedule}: {len(_NODES)} nodes -> {count} supernodes{dropped}; edges {edges}"]


def _after(row: int, label: dict[tuple[int, int], str]) -> str:
    """Return a row of the picture with the letters of the nodes, without edges between different supernodes."""
    text = ""
    for col, mark in enumerate(_PICTURE[row]):
        left = (row, col - col % 4)
        ends = {"-": (left, (row, left[1] + 4)), "|": ((row - 1, col), (row + 1, col))}.get(mark)
        if mark == "o":
            text += label[row, col]
        else:
            text += mark if ends and label[ends[0]] == label[ends[1]] != "." else " "
    return text.rstrip()


if __name__ == "__main__":
    from tgp.engine.methods import METHODS

    for name, entry in METHODS.entries.items():
        if entry.package is None:
            print(f"    {name!r}: {compute_level(name)!r},")
