"""Choose the look of supernodes: a colour and a shape."""

from __future__ import annotations

import numpy as np

from tgp.inspect.report.palette import COLOURS, LOOKS
from tgp.kernels.array_types import LongArray

__all__ = ["choose_looks"]


def choose_looks(edges: LongArray, count: int, position: LongArray, own: LongArray) -> LongArray:
    """Choose a look for every supernode. Look ``i`` has colour ``i % COLOURS`` and shape ``i // COLOURS``.

    Up to ``LOOKS`` supernodes all look different. In any case neighbours have different colours as far as possible, and a
    supernode keeps the look of one of its members if it can.

    Args:
        edges: ``[2, e]`` edges between supernodes.
        count: number of supernodes.
        position: ``[n]`` supernode of each node, -1 if it has none.
        own: ``[n]`` look of each node, -1 if it has none.

    Returns:
        ``[count]`` looks.
    """
    wanted: list[list[int]] = [[] for _ in range(count)]
    for head, look in zip(position.tolist(), own.tolist(), strict=True):
        if head >= 0 and look >= 0:
            wanted[head].append(look)
    neighbours: list[list[int]] = [[] for _ in range(count)]
    for low, high in edges.T.tolist():
        neighbours[low].append(high)
        neighbours[high].append(low)
    available = LOOKS if count > COLOURS else COLOURS  # few supernodes are all circles
    looks, used = [-1] * count, [0] * available
    for head in range(count):
        near = {looks[other] for other in neighbours[head]}
        hues = {look % COLOURS for look in near if look >= 0}
        liked = {look % available for look in wanted[head]}

        def cost(
            look: int, near: set[int] = near, hues: set[int] = hues, liked: set[int] = liked
        ) -> tuple[int, ...]:
            repeated = used[look] if count <= available else int(look in near)
            return (repeated, look % COLOURS in hues, look not in liked, used[look], look)

        looks[head] = min(range(available), key=cost)
        used[looks[head]] += 1
    return np.array(looks, np.int64)
