"""Conversion between tensors and the arrays of the engine."""

import numpy as np
import pytest
import torch

from tgp.select import LevelSelect
from tgp.utils import blocks
from tgp.utils.blocks import to_adjacency, to_block, to_host

PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])


def test_conversion_to_a_block_and_back():
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
        ({"batch": torch.tensor([1, 0, 0])}, "edge_index has an id out of range"),
        ({"batch": torch.zeros(4, dtype=torch.long), "num_nodes": 5}, "batch .* expected 5, got 4"),
        ({"batch": torch.tensor([0, 0, -1, 0])}, "from 0 on"),
        ({"batch": torch.tensor([0, 0, 0, 2]), "batch_size": 2}, r"in \[0, 2\)"),
        ({"batch_size": 2}, "expected a batch vector"),
        ({"num_nodes": 3}, "edge_index"),
    ],
)
def test_bad_batches(kwargs, text):
    with pytest.raises(ValueError, match=text):
        to_block(PATH, **kwargs)


@pytest.fixture
def accelerator(monkeypatch):
    """Treat the CPU as an accelerator and count the copies between it and main memory."""
    copies = {"down": 0, "up": 0}
    to = torch.Tensor.to

    def download(packed):
        copies["down"] += 1
        return packed.clone()

    def upload(tensor, *args, **kwargs):
        copies["up"] += kwargs.get("non_blocking", False)
        return to(tensor, *args, **kwargs)

    monkeypatch.setattr(blocks, "_is_main_memory", lambda device: False)
    monkeypatch.setattr(blocks, "_download", download)
    monkeypatch.setattr(blocks, "_pinned", lambda size: torch.empty(size, dtype=torch.uint8))
    monkeypatch.setattr(torch.Tensor, "to", upload)
    return copies


@pytest.mark.parametrize("method", ["graclus", "ndp", "kmis", "sep", "nmf:k=2", "eigen:k=2"])
def test_one_copy_to_main_memory_and_one_back(method, accelerator, monkeypatch):
    name, _, k = method.partition(":k=")
    batch = torch.tensor([1, 0, 1, 0, 0, 1])
    edges = torch.tensor([[0, 2, 1, 3, 3, 4, 2, 5], [2, 0, 3, 1, 4, 3, 5, 2]])
    weight = torch.rand(8, dtype=torch.float64)
    selector = LevelSelect(name, {"k": int(k)} if k else {})
    so = selector(edge_index=edges, edge_weight=weight, batch=batch)
    assert accelerator == {"down": 1, "up": 1}
    monkeypatch.undo()
    same = selector(edge_index=edges, edge_weight=weight, batch=batch)
    assert so.s.to_dense().equal(same.s.to_dense())


def test_a_coarse_graph_needs_one_copy(accelerator):
    source = to_block(PATH, torch.arange(1.0, 7.0))
    index, weight = to_adjacency(source.block, source)
    assert accelerator == {"down": 1, "up": 1}
    assert index.tolist() == PATH.tolist() and weight.tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("dtype", [torch.bool, torch.bfloat16, torch.uint8])
def test_parts_of_any_type_and_size_are_packed(dtype, accelerator):
    given = torch.tensor([1, 0, 1]).to(dtype)
    empty = torch.empty(2, 0, dtype=torch.long)
    parts = to_host(given, None, empty, torch.rand(2, 3, dtype=torch.float64))
    assert parts[0].equal(given) and parts[1] is None and parts[2].equal(empty) and parts[3].shape == (2, 3)
    assert accelerator["down"] == 1


def test_missing_weights_follow_float64_features():
    x = torch.rand(6, 2, dtype=torch.float64)
    so = LevelSelect("kmis", {"scorer": "degree"})(x, PATH)
    assert so.weight.dtype == so.s.dtype == torch.float64
    assert LevelSelect("graclus")(x, PATH).s.dtype == torch.float64
    assert LevelSelect("eigen", {"k": 2})(x, PATH).theta.dtype == torch.float64
    assert LevelSelect("nmf", {"k": 2})(x, PATH).s.dtype == torch.float64
    source = to_block(PATH, dtype=torch.float64)
    assert source.weight_dtype is np.float64
    assert to_block(PATH, torch.ones(6), dtype=torch.float64).weight_dtype is np.float32


def test_bool_weights_are_ones_and_zeros():
    weight = torch.tensor([True, False, True, True, True, False])
    _, values = to_adjacency(to_block(PATH, weight).block, to_block(PATH, weight))
    assert set(values.tolist()) <= {0.0, 1.0}
