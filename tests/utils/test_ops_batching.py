"""utils.ops: batches, assignments, negative samples."""

import pytest
import torch

from tgp.utils import ops
from tgp.utils.ops.batching import GraphLayout

PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])


def test_batches():
    assert not ops.is_multi_graph_batch(None) and not ops.is_multi_graph_batch(torch.tensor([3, 3]))
    assert ops.is_multi_graph_batch(torch.tensor([0, 1])) and not ops.is_multi_graph_batch(torch.tensor([]))
    assert ops.build_pooled_batch(2, 3, "cpu").tolist() == [0, 0, 0, 1, 1, 1]
    assert (
        ops.num_graphs(torch.tensor([0, 4])) == 5
        and ops.num_graphs(None) == 1
        and ops.num_graphs(None, 3) == 3
    )


def test_masks_and_compact_rows():
    x = torch.arange(8.0).view(2, 2, 2)
    rows, graph = ops.apply_dense_node_mask(x, torch.tensor([[1, 0], [1, 1]]))
    assert rows.tolist() == [[0, 1], [4, 5], [6, 7]] and graph.tolist() == [0, 1, 1]
    with pytest.raises(ValueError, match="expects x to be 3D"):
        ops.apply_dense_node_mask(x[0], torch.ones(2))
    with pytest.raises(ValueError, match="expects mask shape"):
        ops.apply_dense_node_mask(x, torch.ones(2, 3))
    mask = torch.tensor([[True, False], [True, True]])
    assert ops.expand_compacted_rows(rows, mask, 4).tolist() == [[0, 1], [0, 0], [4, 5], [6, 7]]
    for bad, text in (
        ((torch.tensor(1.0), mask, 4), "at least 1D"),
        ((rows, None, 4), "exactly 4 entries"),
        ((rows[:1], mask, 4), "expected 3 .* got 1"),
    ):
        with pytest.raises(ValueError, match=text):
            ops.expand_compacted_rows(*bad)


def test_supernode_masks():
    s = torch.tensor([[1.0, 0], [0, 0], [-1, 2]])
    assert ops.get_mask_from_dense_s(s).tolist() == [[True, True]]
    assert ops.get_mask_from_dense_s(s, torch.tensor([2, 0, 0])).tolist() == [
        [True, True],
        [False, False],
        [True, False],
    ]
    assert ops.get_mask_from_dense_s(s[:0], torch.empty(0, dtype=torch.long)).shape == (0, 2)
    assert ops.get_mask_from_dense_s(s.unsqueeze(0)).shape == (1, 2)
    with pytest.raises(AssertionError):
        ops.get_mask_from_dense_s(s.to_sparse())
    with pytest.raises(ValueError, match="s must have shape"):
        ops.get_mask_from_dense_s(torch.ones(3))


@pytest.mark.parametrize("batch", [torch.tensor([2, 0, 2, 0, 4]), torch.tensor([0, 0, 1, 3, 3]), None])
def test_padding_round_trip(batch):
    layout = ops.GraphLayout(batch, 5, None if batch is None else 6)
    x = torch.rand(5, 2)
    padded = layout.pad(x)
    assert padded.shape[0] == layout.batch_size and torch.equal(layout.unpad(padded), x)
    torch.testing.assert_close(padded[layout.mask()].sum(0), x.sum(0))
    assert padded[~layout.mask()].abs().sum() == 0
    layout.max_count = 7
    if batch is None:
        assert layout.pad(x).shape == (1, 7, 2) and torch.equal(layout.unpad(layout.pad(x)), x)


def test_pseudo_inverse_keeps_float64_and_containers():
    dense = torch.rand(4, 2, dtype=torch.float64)
    torch.testing.assert_close(ops.pseudo_inverse(dense), torch.linalg.pinv(dense))
    overlapping = torch.tensor([[1.0, 1], [0, 1], [1, 0]])
    out = ops.pseudo_inverse(overlapping.to_sparse())
    assert out.is_sparse
    torch.testing.assert_close(out.to_dense(), torch.linalg.pinv(overlapping), atol=1e-5, rtol=1e-5)
    with pytest.raises(NotImplementedError):
        ops.pseudo_inverse([[1.0]])


def test_one_hot():
    assert ops.create_one_hot_tensor(3, torch.tensor([2, 0])).tolist() == [[0, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert ops.create_one_hot_tensor(2, torch.tensor(1), dtype=torch.long).tolist() == [[0, 0], [0, 1]]


def test_propagation_counts_votes_and_breaks_ties_by_label():
    labels = torch.tensor([1, 2, 0, 2])
    star = torch.tensor([[0, 1, 3], [2, 2, 2]])
    new, mapping, mask = ops.propagate_assignments_sparse(labels, star, torch.tensor([0, 1]), labels > 0, 2)
    assert new.tolist() == [1, 2, 2, 2] and mapping.tolist() == [[2], [1]] and mask.all() and labels[2] == 0
    tie = ops.propagate_assignments_sparse(labels, star[:, :2], torch.tensor([0, 1]), labels > 0, 2)
    assert tie[0].tolist() == [1, 2, 1, 2]
    same, none, _ = ops.propagate_assignments_sparse(new, star, torch.tensor([0, 1]), mask, 2)
    assert torch.equal(same, new) and none.shape == (2, 0)


def test_assignments():
    assert ops.get_assignments([0, 3], PATH).tolist() == [[0, 1, 2, 3], [0, 0, 1, 1]]
    assert ops.get_assignments(torch.tensor([2]), PATH, num_nodes=6)[1].tolist() == [0] * 6
    batch = torch.tensor([0, 0, 1, 1, 2])
    lonely = ops.get_assignments([0, 3], max_iter=0, batch=batch)[1]
    assert lonely[:4].tolist() == [0, 0, 1, 1] and lonely[4] in (0, 1)
    assert torch.equal(lonely, ops.get_assignments([0, 3], max_iter=0, batch=batch)[1])
    drawn = {
        int(
            ops.get_assignments([0, 1], max_iter=0, num_nodes=3, generator=torch.Generator().manual_seed(i))[
                1, 2
            ]
        )
        for i in range(9)
    }
    assert drawn == {0, 1}
    with pytest.raises(ValueError, match="Either num_nodes, batch, or edge_index must be provided"):
        ops.get_assignments([0])
    with pytest.raises(ValueError, match="edge_index must be given"):
        ops.get_assignments([0], num_nodes=2)


@pytest.mark.parametrize("method", ["auto", "sparse", "dense"])
@pytest.mark.parametrize("undirected", [False, True])
def test_negative_edges_are_not_edges(method, undirected):
    torch.manual_seed(0)  # fewer pairs than asked for may come back
    big = torch.cat([PATH, torch.tensor([[8], [9]])], dim=1)
    out = ops.negative_edge_sampling(big, 10, method=method, force_undirected=undirected)
    pairs = set(map(tuple, out.T.tolist()))
    assert 0 < len(pairs) == out.size(1) <= big.size(1)
    assert not pairs & set(map(tuple, big.T.tolist())) and all(a != b for a, b in pairs)
    if undirected:
        assert pairs == {(b, a) for a, b in pairs}


def test_negative_edges_corner_cases():
    assert ops.negative_edge_sampling(torch.empty(2, 0, dtype=torch.long), 0).shape == (2, 0)
    bipartite = ops.negative_edge_sampling(torch.tensor([[0], [0]]), (1, 3), 2, method="dense")
    assert bipartite[0].tolist() == [0, 0] and set(bipartite[1].tolist()) == {1, 2}
    with pytest.raises(AssertionError):
        ops.negative_edge_sampling(PATH, 4, method="fast")
    with pytest.warns(UserWarning, match="too low"):
        ops.negative_edge_sampling(torch.tensor([[0, 1, 1, 2, 0], [1, 0, 2, 1, 2]]), 3, 1, method="sparse")
    with pytest.raises(ValueError, match=r"\[0, 3\), got 3"):
        ops.negative_edge_sampling(PATH, 3)
    ids = ops.edge_index_to_vector_id(PATH, (4, 5))
    assert torch.equal(torch.stack(ops.vector_id_to_edge_index(ids, (4, 5))), PATH)


@pytest.mark.parametrize("undirected", [False, True])
def test_batched_negative_edges_stay_in_their_graph(undirected):
    torch.manual_seed(0)
    sizes = [6, 1, 8, 5]
    batch = torch.arange(4).repeat_interleave(torch.tensor(sizes))
    order = torch.randperm(20, generator=torch.Generator().manual_seed(0))
    rank = order.argsort()
    edges = rank[torch.tensor([[0, 1, 7, 8, 9], [1, 0, 8, 7, 10]])]
    batch = batch[order]
    out = ops.batched_negative_edge_sampling(edges, batch, num_neg_samples=4, force_undirected=undirected)
    assert torch.equal(batch[out[0]], batch[out[1]])
    pairs = set(map(tuple, out.T.tolist()))
    assert len(pairs) == out.size(1) and not pairs & set(map(tuple, edges.T.tolist()))
    counts = torch.bincount(batch[out[0]], minlength=4)
    # Draws are with replacement: a graph may get fewer pairs, never more.
    assert (counts <= torch.tensor([4, 0, 4, 4])).all() and counts.sum() >= 8


def test_graphs_of_equal_size_are_padded_without_a_copy():
    values = torch.randn(6, 2)
    grouped = GraphLayout(torch.tensor([0, 0, 1, 1, 2, 2]), 6)
    assert grouped.pad(values).data_ptr() == values.data_ptr()
    assert torch.equal(grouped.unpad(grouped.pad(values)), values)
    mixed = GraphLayout(torch.tensor([0, 1, 0, 1, 2, 2]), 6)
    assert torch.equal(mixed.pad(values)[0], values[[0, 2]])
    wider = GraphLayout(torch.tensor([0, 0, 1, 1, 2, 2]), 6, max_num_nodes=3)
    assert wider.pad(values).shape == (3, 3, 2) and torch.equal(wider.unpad(wider.pad(values)), values)
    uneven = GraphLayout(torch.tensor([0, 0, 0, 2, 2, 2]), 6)
    assert uneven.pad(values).shape == (3, 3, 2) and not uneven.pad(values)[1].any()
