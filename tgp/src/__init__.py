"""Base classes of all poolers, their inputs, outputs and executions.

Names are imported on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgp._lazy import lazy_package

if TYPE_CHECKING:
    from tgp.connect.base_conn import Connect
    from tgp.lift.base_lift import Lift
    from tgp.reduce.base_reduce import Reduce
    from tgp.select.base_select import Select, SelectOutput
    from tgp.src.base import SRCPooling
    from tgp.src.dense import DenseSRCPooling, LossTerm
    from tgp.src.inputs import PoolInputs
    from tgp.src.level import DenseLevelPooling, LevelPooling
    from tgp.src.output import PoolingOutput
    from tgp.src.precoarsening import BasePrecoarseningMixin, Precoarsenable
    from tgp.utils.ops.adjacency import dense_to_block_diag
    from tgp.utils.ops.batching import build_pooled_batch
    from tgp.utils.ops.connectivity import connectivity_to_edge_index, is_dense_adj
    from tgp.utils.signature import Signature, foo_signature

__all__ = [
    "PoolingOutput",
    "SRCPooling",
    "DenseSRCPooling",
    "Precoarsenable",
    "BasePrecoarseningMixin",
    "LevelPooling",
    "DenseLevelPooling",
    "LossTerm",
    "PoolInputs",
    "Connect",
    "Lift",
    "Reduce",
    "Select",
    "SelectOutput",
    "Signature",
    "foo_signature",
    "build_pooled_batch",
    "connectivity_to_edge_index",
    "dense_to_block_diag",
    "is_dense_adj",
]

lazy_package(__name__)
