"""``NodeAttributes``: numbers of the nodes of a block that level methods read, such as features and positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError
from tgp.kernels.array_types import FloatArray, LongArray, PtrArray
from tgp.ragged.offsets import find_run

__all__ = ["NodeAttributes", "check_node_values", "unit_scales"]

RowArray = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class NodeAttributes:
    """Attributes of the nodes of a block that level methods read. They travel with the block.

    Args:
        values: name -> ``[N, D]`` finite float32 or float64 numbers. On a coarse block these are the means of the input nodes
            that belong to each supernode, and zeros for an empty supernode.
        members: ``[N]`` float64, number of input nodes that each node stands for (a sum of shares after a soft assignment);
            ``None`` for input graphs, where each node stands for itself.
    """

    values: Mapping[str, RowArray]
    members: FloatArray | None = None

    def take(self, positions: LongArray) -> NodeAttributes:
        """Return the attributes of some nodes.

        Args:
            positions: indices of the nodes, in any order.
        """
        values = {name: rows[positions] for name, rows in self.values.items()}
        return NodeAttributes(values, None if self.members is None else self.members[positions])

    def member_counts(self, num_nodes: int) -> FloatArray:
        """Return the number of input nodes that each node stands for.

        Args:
            num_nodes: number of nodes of the block.
        """
        return np.ones(num_nodes) if self.members is None else self.members

    @staticmethod
    def concat(parts: Sequence[NodeAttributes | None], sizes: Sequence[int]) -> NodeAttributes | None:
        """Join the attributes of blocks. Attributes that are missing in a block with nodes are left out.

        Args:
            parts: attributes of the blocks.
            sizes: number of nodes of the blocks.

        Returns:
            The attributes of all blocks, or ``None`` if there are none.
        """
        filled = [(part, size) for part, size in zip(parts, sizes, strict=True) if size]
        found = [(part, size) for part, size in filled if part is not None]
        if not found or len(found) < len(filled):
            return None
        first = found[0][0]
        names = [name for name in first.values if all(name in part.values for part, _ in found)]
        values = {name: np.concatenate([part.values[name] for part, _ in found]) for name in names}
        members = None
        if any(part.members is not None for part, _ in found):
            members = np.concatenate([part.member_counts(size) for part, size in found])
        return NodeAttributes(values, members) if names else None


def check_node_values(name: str, values: npt.ArrayLike, node_ptr: PtrArray, method: str = "") -> RowArray:
    """Return an attribute of nodes as ``[N, D]`` float32 or float64 numbers, and check it.

    Args:
        name: name of the attribute.
        values: ``[N]`` or ``[N, D]`` numbers. Vectors become one column; other types than float32 become float64.
        node_ptr: ``[B + 1]`` offsets of the graphs.
        method: method that needs the attribute, for messages.

    Raises:
        InputError: if the attribute has a wrong type or shape, or a number is not finite.
    """
    rows, nodes = np.asarray(values), int(node_ptr[-1])
    user = f" (needed by {method})" if method else ""
    if rows.dtype.kind not in "fiub":
        raise InputError(
            f"{name!r}{user} has the wrong type: expected real numbers, got {rows.dtype}", field=name
        )
    if rows.ndim == 1:
        rows = rows[:, None]
    if rows.ndim != 2 or rows.shape[0] != nodes or (rows.shape[1] == 0 and nodes):
        raise InputError(
            f"{name!r}{user} has the wrong shape: expected [{nodes}, D] with one row for each node and at least one column, got "
            f"{list(np.shape(values))}",
            field=name,
        )
    found: RowArray = np.ascontiguousarray(rows, rows.dtype if rows.dtype == np.float32 else np.float64)
    # The sum of finite numbers can overflow, so a sum that is not finite is only a reason to look closer.
    with np.errstate(over="ignore", invalid="ignore"):
        is_clean = bool(np.isfinite(found.sum(dtype=np.float64)))
    if not is_clean and not (finite := np.isfinite(found).all(axis=1)).all():
        node = int(np.argmin(finite))
        graph = find_run(node_ptr, node)
        raise InputError(
            f"{name!r}{user} is not finite: expected finite numbers, got {found[node][~np.isfinite(found[node])][0]} at node "
            f"{node - int(node_ptr[graph])} of graph {graph}",
            field=name,
            hint="replace the missing values before the graphs are coarsened",
        )
    return found


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
