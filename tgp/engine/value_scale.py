"""Scale of attributes: a power of two for each graph, so that products of large or small numbers stay finite."""

from __future__ import annotations

import numpy as np

from tgp.ragged.block import FloatArray, PtrArray
from tgp.ragged.node_attributes import RowArray

__all__ = ["unit_scales"]


def unit_scales(values: RowArray, node_ptr: PtrArray) -> FloatArray:
    """Return, for each node, the power of two that makes the largest number of its graph about 1.

    Multiplying by it is exact, except for numbers that are 10^300 times smaller than the largest one.

    Args:
        values: ``[N, D]`` attribute.
        node_ptr: ``[B + 1]`` offsets of the graphs.

    Examples:
        >>> unit_scales(np.array([[3.0], [-5.0], [0.25]]), np.array([0, 2, 3])).tolist()
        [0.125, 0.125, 2.0]
    """
    largest = np.zeros(len(node_ptr) - 1)
    filled = np.flatnonzero(np.diff(node_ptr))
    if len(filled):
        of_node = np.maximum(values.max(axis=1), -values.min(axis=1)).astype(np.float64)
        largest[filled] = np.maximum.reduceat(of_node, node_ptr[filled])
    exponent = np.where(largest > 0.0, np.frexp(largest)[1], 0)
    unit = np.ldexp(1.0, np.clip(-exponent, -1022, 1022))  # the inverse of a denormal number is not finite
    return np.repeat(unit, np.diff(node_ptr))
