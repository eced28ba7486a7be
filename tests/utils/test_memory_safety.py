"""Ids out of range raise an error with field, range and value, and never reach compiled code."""

import pytest
import torch

from tgp.errors import InputError
from tgp.utils import losses, ops
from tgp.utils.layout import SegmentView
from tgp.utils.ops.products import EdgeMatrix, group_by

BAD = [6, 99, 10**9, 2**40, -1, -7]
S = torch.rand(6, 2, generator=torch.Generator().manual_seed(0)).softmax(-1)


def ring_with(bad, row):
    """Return a ring of six nodes with one wrong id."""
    edges = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4, 4, 0], [1, 0, 2, 1, 3, 2, 4, 3, 5, 4]])
    edges[row, 0] = bad
    return edges


EDGE_FUNCTIONS = {
    "mincut": lambda e: losses.sparse_mincut_loss(e, S),
    "weighted mincut": lambda e: losses.sparse_mincut_loss(e, S, torch.ones(10)),
    "motif": lambda e: losses.sparse_ho_mincut_loss(e, S),
    "spectral": lambda e: losses.sparse_spectral_loss(e, S),
    "totvar": lambda e: losses.sparse_totvar_loss(e, S),
    "link": lambda e: losses.sparse_link_pred_loss(S, e),
    "maxcut": lambda e: losses.maxcut_loss(S[:, 0], e),
    "coo": lambda e: ops.connectivity_to_torch_coo(e, num_nodes=6),
    "delta": lambda e: ops.delta_gcn_matrix(e, num_nodes=6),
    "assignments": lambda e: ops.get_assignments([0, 2], e, num_nodes=6),
    "negatives": lambda e: ops.negative_edge_sampling(e, 6),
    "batched negatives": lambda e: ops.batched_negative_edge_sampling(e, torch.zeros(6, dtype=torch.long)),
}


@pytest.mark.parametrize("name", EDGE_FUNCTIONS)
@pytest.mark.parametrize("row", [0, 1])
@pytest.mark.parametrize("bad", BAD)
def test_node_ids_of_public_functions(name, row, bad):
    with pytest.raises(InputError, match=rf"edge_index .*\[0, 6\), got {bad}"):
        EDGE_FUNCTIONS[name](ring_with(bad, row))


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("row", [0, 1])
def test_products_check_their_ids(row, bad):
    """Views and matrices check ids that are not marked as checked, also in the backward pass."""
    edges = ring_with(bad, row)
    with pytest.raises((InputError, RuntimeError, IndexError)):
        SegmentView(S, edges).quad()
    values = S.clone().requires_grad_()
    with pytest.raises((InputError, RuntimeError, IndexError)):
        (EdgeMatrix(*edges, None, 6) @ values).sum().backward()
    with pytest.raises((InputError, RuntimeError, IndexError)):
        (EdgeMatrix(*edges, None, 6).mT @ values).sum().backward()
    with pytest.raises(InputError, match="id out of range"):
        group_by(torch.tensor([0, bad, 1]), 6)
    with pytest.raises((InputError, IndexError, RuntimeError)):
        ops.weighted_degree(torch.tensor([0, bad]), num_nodes=6)
    with pytest.raises((InputError, IndexError, RuntimeError)):
        ops.weighted_degree(torch.tensor([0, bad]), torch.ones(2), num_nodes=6)


@pytest.mark.parametrize("bad", [-1, 2**40])
def test_graph_ids(bad):
    batch = torch.tensor([0, 0, bad, 0, 0, 0])
    for loss in (
        losses.unbatched_cluster_loss,
        losses.unbatched_orthogonality_loss,
        losses.unbatched_just_balance_loss,
    ):
        with pytest.raises(InputError, match="batch has an id out of range"):
            loss(S, batch)
    with pytest.raises(InputError, match="batch has an id out of range"):
        losses.sparse_mincut_loss(ring_with(0, 0), S, batch=batch)


def test_lengths():
    edges = ring_with(0, 0)
    with pytest.raises(InputError, match="edge_weight has the wrong length: expected 10, got 9"):
        losses.sparse_mincut_loss(edges, S, torch.ones(9))
    with pytest.raises(InputError, match="edge_weight has the wrong length"):
        ops.connectivity_to_torch_coo(edges, torch.ones(11))
    with pytest.raises(InputError, match="batch has the wrong length: expected 6, got 7"):
        losses.unbatched_cluster_loss(S, torch.zeros(7, dtype=torch.long))
    with pytest.raises(InputError, match="max_num_nodes is too small: expected at least 4"):
        ops.GraphLayout(torch.tensor([0, 0, 0, 0, 1]), 5, 2, max_num_nodes=3)


@pytest.mark.parametrize("bad", [6, -1])
def test_kept_nodes(bad):
    with pytest.raises(InputError, match="kept_node_indices has an id out of range"):
        ops.get_assignments([0, bad], max_iter=0, num_nodes=6)
    with pytest.raises(InputError, match="kept_node_tensor has an id out of range"):
        ops.create_one_hot_tensor(6, torch.tensor([0, bad]), None)
