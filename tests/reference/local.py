"""Ids of blocks and ids of graphs, by arrays that tell each entry its graph: what ``tgp.kernels.local_ids`` must equal."""

import numpy as np


def local_edges(block):
    """``[2, nnz]`` edges in ids of their graphs."""
    graph = np.repeat(np.arange(block.num_graphs), np.diff(block.edge_ptr))
    return block.edge_index() - block.node_ptr[graph]


def local_ids(ids, ptr, target_ptr):
    """Ids in the graphs of ``ptr``, local to what ``target_ptr`` cuts; negative ones are -1."""
    graph = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    return np.where(ids < 0, -1, ids - target_ptr[graph])
