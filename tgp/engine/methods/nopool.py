"""Identity: every node is its own supernode and the coarse graph equals the graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tgp.engine.level_method import (
    GraphSizes,
    LevelBound,
    LevelEstimate,
    LevelMethod,
    RandomKey,
    linear_bound,
)
from tgp.ragged import Assignment, BlockCSR

__all__ = ["METHOD", "NoPoolParams"]


@dataclass(frozen=True)
class NoPoolParams:
    """Parameters of the identity: none."""


def assign(block: BlockCSR, params: NoPoolParams, key: RandomKey) -> Assignment:
    """Assign node ``i`` to supernode ``i``."""
    ids = np.arange(block.num_nodes, dtype=np.int32)
    return Assignment("hard", block.node_ptr, ids, representative=ids)


def connect(block: BlockCSR, assignment: Assignment, params: NoPoolParams) -> BlockCSR:
    """Return the same graphs."""
    return block


def bound(sizes: GraphSizes, params: NoPoolParams) -> LevelBound:
    """Bound time and memory: the identity is written, and the graphs are not copied."""
    return linear_bound(sizes, 10.0, 8.0)


METHOD = LevelMethod(
    "nopool", NoPoolParams, assign, connect, estimate=LevelEstimate(1.0, 1.0), bound=bound, contracts=True
)
