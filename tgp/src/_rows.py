"""Padded calls that run on flat rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgp.connect.dense_conn import DenseConnect
from tgp.reduce.base_reduce import BaseReduce
from tgp.select.mlp_select import MLPSelect
from tgp.src.base import PoolCall
from tgp.utils.ops.batching import GraphLayout, is_multi_graph_batch
from tgp.utils.ops.connectivity import connectivity_to_edge_index, is_dense_adj

if TYPE_CHECKING:
    from tgp.src.dense import DenseSRCPooling

__all__ = ["prepare_rows"]

EDGE_COST = 3
"""A product over one edge costs about as much as one over this many entries of a dense matrix (measured)."""


def prepare_rows(pooler: DenseSRCPooling, call: PoolCall) -> bool:
    """Turn a padded call with few edges on a CPU into one on flat rows, if the stages are the usual ones.

    The results are the same. Only the assignment is padded: the network sees real nodes alone, and no
    adjacency is ever dense, unless ``cache_preprocessing`` promises one.
    """
    x, adj = call.x, call.adj
    if not _usual_stages(pooler) or x is None or x.dim() != 2 or x.device.type != "cpu":
        return False
    if adj is None or is_dense_adj(adj):
        return False
    index, weight = connectivity_to_edge_index(adj, call.edge_weight)
    layout = GraphLayout(call.batch, x.size(0), call.batch_size)
    if index.size(1) * EDGE_COST > layout.batch_size * layout.max_count**2:
        return False
    if pooler.cache_preprocessing and not is_multi_graph_batch(call.batch):
        pooler.preprocessing(x, adj, call.edge_weight, call.batch, batch_size=call.batch_size, use_cache=True)
    call.layout, call.adj, call.edge_weight = layout, index, weight
    return True


def _usual_stages(pooler: DenseSRCPooling) -> bool:
    selector = pooler.selector
    if not isinstance(selector, MLPSelect) or type(selector).forward is not MLPSelect.forward:
        return False
    if selector._forward_hooks or selector._forward_pre_hooks or pooler.cached:
        return False  # a hook waits for the padded input or output of the selector
    return type(pooler.reducer) is BaseReduce and type(pooler.connector) is DenseConnect
