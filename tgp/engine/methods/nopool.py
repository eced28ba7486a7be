"""Identity: every node its own supernode, the coarse graph is the graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tgp.engine.protocol import LevelEstimate, LevelMethod, RandomKey
from tgp.ragged import Assignment, BlockCSR

__all__ = ["METHOD", "NoPoolParams"]


@dataclass(frozen=True)
class NoPoolParams:
    """There is nothing to choose."""


def assign(block: BlockCSR, params: NoPoolParams, draw: RandomKey) -> Assignment:
    """Node ``i`` goes to supernode ``i``."""
    ids = np.arange(block.num_nodes, dtype=np.int32)
    return Assignment("hard", block.node_ptr, ids, representative=ids)


def connect(block: BlockCSR, assignment: Assignment, params: NoPoolParams) -> BlockCSR:
    """The same graphs."""
    return block


METHOD = LevelMethod("nopool", NoPoolParams, assign, connect, expected=LevelEstimate(1.0, 1.0))
