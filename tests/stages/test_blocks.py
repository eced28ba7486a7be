"""The torch border of the engine."""

import numpy as np
import pytest
import torch

from tgp.select import LevelSelect
from tgp.utils.blocks import to_adjacency, to_block

PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])


def test_block_shares_no_more_than_it_should_and_comes_back():
    weight = torch.arange(1.0, 7.0)
    source = to_block(PATH, weight.unsqueeze(1), num_nodes=6)
    assert source.block.num_nodes == 6 and source.block.num_graphs == 1 and source.weight_dtype is np.float32
    index, values = to_adjacency(source.block, source)
    assert index.tolist() == PATH.tolist() and values.tolist() == weight.tolist()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64])
def test_weight_types(dtype):
    source = to_block(PATH, torch.arange(1, 7).to(dtype))
    _, values = to_adjacency(source.block, source)
    assert values.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert values.tolist() == [1, 2, 3, 4, 5, 6]


def test_containers_give_the_size():
    coo = torch.sparse_coo_tensor(PATH, torch.ones(6), (7, 7), check_invariants=False)
    for adj in (coo, coo.coalesce().to_sparse_csr()):
        source = to_block(adj)
        assert source.block.num_nodes == 7
        assert to_adjacency(source.block, source)[0].layout == adj.layout


def test_unsorted_ids_with_gaps_are_grouped_and_inverted():
    batch = torch.tensor([3, 0, 3, 0, 1])
    edges = torch.tensor([[0, 2, 1, 3], [2, 0, 3, 1]])
    source = to_block(edges, None, batch, batch_size=5)
    assert np.diff(source.block.node_ptr).tolist() == [2, 1, 0, 2, 0]
    assert source.order.tolist() == [1, 3, 4, 0, 2]
    so = LevelSelect("graclus")(edge_index=edges, batch=batch)
    assert so.cluster_index.tolist() == [2, 0, 2, 0, 1]


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"batch": torch.tensor([0, 0])}, "ids in|must hold"),
        ({"batch": torch.tensor([1, 0, 0])}, "edge_index must hold ids"),
        ({"batch": torch.zeros(4, dtype=torch.long), "num_nodes": 5}, "batch must hold 5 graph ids, got 4"),
        ({"batch": torch.tensor([0, 0, -1, 0])}, "from 0 on"),
        ({"batch": torch.tensor([0, 0, 0, 2]), "batch_size": 2}, r"in \[0, 2\)"),
        ({"batch_size": 2}, "need a batch vector"),
        ({"num_nodes": 3}, "edge_index"),
    ],
)
def test_bad_batches(kwargs, text):
    with pytest.raises(ValueError, match=text):
        to_block(PATH, **kwargs)
