"""Frame of all poolers: outputs, base classes and executions. Names resolve on first access."""

from tgp._lazy import lazy_package

__all__ = lazy_package(
    __name__,
    {
        "PoolingOutput": "output",
        "SRCPooling": "base",
        "DenseSRCPooling": "dense",
        "Precoarsenable": "precoarsening",
        "BasePrecoarseningMixin": "precoarsening",
        "LevelPooling": "level",
        "DenseLevelPooling": "level",
        "LossTerm": "dense",
        "PoolInputs": "inputs",
        "Connect": "tgp.connect.base_conn:Connect",
        "Lift": "tgp.lift.base_lift:Lift",
        "Reduce": "tgp.reduce.base_reduce:Reduce",
        "Select": "tgp.select.base_select:Select",
        "SelectOutput": "tgp.select.base_select:SelectOutput",
        "Signature": "tgp.utils.signature:Signature",
        "foo_signature": "tgp.utils.signature:foo_signature",
        "build_pooled_batch": "tgp.utils.ops.batching:build_pooled_batch",
        "connectivity_to_edge_index": "tgp.utils.ops.connectivity:connectivity_to_edge_index",
        "dense_to_block_diag": "tgp.utils.ops.adjacency:dense_to_block_diag",
        "is_dense_adj": "tgp.utils.ops.connectivity:is_dense_adj",
    },
)
