"""Reference of ``tgp.kernels.local_ids``, with an array that contains the graph of each entry."""

import numpy as np


def local_edges(block):
    """Return the edges ``[2, nnz]`` with ids local to their graphs."""
    graph = np.repeat(np.arange(block.num_graphs), np.diff(block.edge_ptr))
    return block.edge_index() - block.node_ptr[graph]


def local_ids(ids, ptr, target_ptr):
    """Return ids relative to the first node of their graph in ``target_ptr``; negative ids become -1."""
    graph = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    return np.where(ids < 0, -1, ids - target_ptr[graph])
