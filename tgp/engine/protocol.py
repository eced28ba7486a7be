"""What a level method is: one frozen parameter class and two functions on arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.ragged import Assignment, BlockCSR

__all__ = ["RandomKey", "LevelEstimate", "LevelMethod", "linear_cost"]

Params = Any
"""An instance of the method's own frozen dataclass."""

CostModel = Callable[[npt.NDArray[np.int64], npt.NDArray[np.int64], Params], npt.NDArray[np.float64]]


@dataclass(frozen=True)
class RandomKey:
    """Where random numbers come from.

    Every random choice is a hash of (``seed``, ``level``, node index inside its graph, ...), see
    ``kernels._prims``: never of a thread, a position in a batch, or a call count. So a graph's
    hierarchy is a function of the graph and the seed alone.
    """

    seed: int = 0
    level: int = 0


def linear_cost(
    nodes: npt.NDArray[np.int64], edges: npt.NDArray[np.int64], params: Params
) -> npt.NDArray[np.float64]:
    """Work proportional to nodes + edges, in units of one node or edge touched."""
    return (nodes + edges).astype(np.float64)


@dataclass(frozen=True)
class LevelEstimate:
    """What a level is expected to leave and to need. A guess for planning: no result depends on it.

    Args:
        nodes: share of the nodes that is left; exactly ``params.k`` nodes per graph if ``fixed_k``.
        edges: share of the edges that is left.
        fixed_k: whether ``S`` is dense, with ``params.k`` columns.
        weighted: whether coarse edges have weights even if those of the graph have none.
        scratch: bytes of memory per node while it runs.
    """

    nodes: float = 0.5625
    edges: float = 0.625
    fixed_k: bool = False
    weighted: bool = False
    scratch: float = 60.0


@dataclass(frozen=True)
class LevelMethod:
    """A deterministic pooler as the engine sees it.

    Args:
        name: its alias.
        params: frozen dataclass of its parameters; field types and defaults are what the
            command line and ``get_pooler`` accept. ``__post_init__`` raises ``ParameterError``.
        assign: ``(block, params, draw) -> Assignment``.
        connect: ``(block, assignment, params) -> BlockCSR``, the coarse graphs.
        assign_levels: ``(block, params, draw, num_levels) -> list[Assignment]`` for a method that
            builds one tree for a run of equal levels (SEP); ``None`` otherwise.
        cost: estimated work per graph from node and edge counts, for planning; 5e7 take about a second.
        expected: what a level leaves and needs, for planning.
        representative: name under which a ``SelectOutput`` exposes the node that stands for each supernode
            (``"mis"`` for k-MIS); ``None`` if it does not expose it.
    """

    name: str
    params: type
    assign: Callable[[BlockCSR, Params, RandomKey], Assignment]
    connect: Callable[[BlockCSR, Assignment, Params], BlockCSR]
    assign_levels: Callable[[BlockCSR, Params, RandomKey, int], list[Assignment]] | None = None
    cost: CostModel = linear_cost
    expected: LevelEstimate = LevelEstimate()
    representative: str | None = None
