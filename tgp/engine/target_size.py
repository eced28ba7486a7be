"""Sizes that can be asked for: a ratio or a number of nodes, and the number of supernodes of each component."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tgp.engine.contraction import ConnectParams
from tgp.engine.parameter_checks import check_share, check_whole
from tgp.errors import ParameterError
from tgp.kernels.array_types import LongArray
from tgp.ragged.block import PtrArray
from tgp.ragged.offsets import offsets, run_ids

__all__ = ["SizeParams", "component_targets", "count_kept", "has_ratios"]


@dataclass(frozen=True, kw_only=True)
class SizeParams(ConnectParams):
    """Base of the parameter classes of methods that reach a given number of supernodes.

    At most one of ``ratio``, ``nodes`` and ``ratios`` can be given. Every connected component of a graph is coarsened separately.
    The coarse graph has the parameters of :class:`~tgp.engine.contraction.ConnectParams`.

    Args:
        ratio: supernodes / nodes, in (0, 1]. A connected component with ``n`` nodes gets exactly ``ceil(ratio * n)`` supernodes.
        nodes: number of supernodes of each graph. Every component gets one supernode, and the others are divided in proportion to
            the remaining nodes, rounded by the largest remainder. A graph with more components than ``nodes`` gets one
            supernode for each component. A smaller graph stays as it is.
        ratios: descending ratios of nested levels of one run, all of them relative to the first graph. A schedule writes them
            as ``ratios=0.5/0.3/0.1``.
        keep_small: components with at most this number of nodes stay as they are. Their nodes count in ``nodes``.

    Raises:
        ParameterError: if a value is out of range, or two sizes are given.
    """

    ratio: float | None = None
    nodes: int | None = None
    ratios: tuple[float, ...] = ()
    keep_small: int = 0

    def __post_init__(self) -> None:
        given = [name for name in ("ratio", "nodes", "ratios") if getattr(self, name) not in (None, ())]
        if len(given) > 1:
            raise ParameterError(
                f"the size is given twice: expected one of ratio, nodes and ratios, got {' and '.join(given)}",
                field=given[1],
            )
        for name, values in (("ratio", (self.ratio,)), ("ratios", self.ratios)):
            for value in values:
                if value is not None:
                    check_share(name, value)
        if any(second >= first for first, second in pairwise(self.ratios)):
            raise ParameterError(
                f"ratios are not descending: expected numbers such as 0.5/0.3/0.1, got {'/'.join(map(str, self.ratios))}",
                field="ratios",
            )
        if self.nodes is not None:
            check_whole("nodes", self.nodes)
        check_whole("keep_small", self.keep_small, 0)
        super().__post_init__()

    @property
    def has_size(self) -> bool:
        """True if a size is given."""
        return self.ratio is not None or self.nodes is not None or bool(self.ratios)


def has_ratios(params: SizeParams) -> bool:
    """Return True if the parameters describe several nested levels (for ``LevelMethod.builds_levels``)."""
    return bool(params.ratios)


def count_kept(nodes: npt.ArrayLike, ratio: float) -> LongArray:
    """Return ``ceil(ratio * nodes)`` for a ratio that was written as a decimal number.

    Args:
        nodes: numbers of nodes.
        ratio: number in (0, 1].

    Examples:
        >>> count_kept([100, 30, 7, 1], 0.55).tolist()
        [55, 17, 4, 1]
    """
    # The product of two floats can exceed a whole number by rounding: 0.55 * 100 is 55.00000000000001.
    product = ratio * np.asarray(nodes, np.float64)
    kept = np.ceil(product - 2.0 * np.spacing(product)).astype(np.int64)
    return np.maximum(
        kept, np.asarray(nodes) > 0
    )  # two spacings can be more than the product of a denormal ratio


def component_targets(
    sizes: LongArray, component_ptr: PtrArray, params: SizeParams, step: int = 0
) -> LongArray:
    """Return the number of supernodes of each connected component.

    Args:
        sizes: ``[C]`` number of nodes of the components.
        component_ptr: ``[B + 1]`` offsets of the graphs in ``sizes``.
        params: the size to reach.
        step: position in ``params.ratios``.

    Returns:
        ``[C]`` numbers between 1 and ``sizes``.

    Examples:
        >>> component_targets(np.array([8, 3, 1]), np.array([0, 3]), SizeParams(nodes=6)).tolist()
        [3, 2, 1]
        >>> component_targets(np.array([8, 3, 1]), np.array([0, 3]), SizeParams(ratio=0.5, keep_small=3)).tolist()
        [4, 3, 1]
    """
    small = sizes <= params.keep_small
    ratio = params.ratios[step] if params.ratios else params.ratio
    if params.nodes is not None:
        targets = _divide_nodes(
            np.where(small, 1, sizes), component_ptr, params.nodes, np.where(small, sizes - 1, 0)
        )
    else:
        targets = sizes if ratio is None else count_kept(sizes, ratio)
    return np.where(small, sizes, targets)


def _divide_nodes(sizes: LongArray, component_ptr: PtrArray, nodes: int, reserved: LongArray) -> LongArray:
    """Divide ``nodes`` minus the ``reserved`` ones over the components of each graph, by largest remainder."""
    graph = run_ids(component_ptr)
    extra = sizes - 1  # every component gets one supernode

    def sum_by_graph(values: LongArray) -> LongArray:
        return np.diff(offsets(values)[component_ptr])

    room = sum_by_graph(extra)
    wanted = nodes - np.diff(component_ptr) - sum_by_graph(reserved)
    rest = np.minimum(np.maximum(wanted, 0), room)
    # The largest product is below 2^62, because a block has at most 2^31 nodes.
    share, remainder = np.divmod(rest[graph] * extra, np.maximum(room, 1)[graph])
    left = rest - sum_by_graph(share)
    order = np.lexsort((-extra, -remainder, graph))
    rank = np.empty(len(sizes), np.int64)
    rank[order] = np.arange(len(sizes)) - component_ptr[graph[order]]
    return 1 + share + (rank < left[graph])
