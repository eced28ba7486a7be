"""``SelectOutput``: entries, matrices, masks, copies and conversions."""

import copy
import pickle

import pytest
import torch
from torch.distributions import Beta
from torch_geometric.data import Data

from tgp.select import Select, SelectOutput
from tgp.select.base_select import cluster_to_s


def partial():
    return SelectOutput(
        node_index=torch.tensor([3, 1]),
        cluster_index=torch.tensor([0, 1]),
        weight=torch.tensor([2.0, 4.0]),
        num_nodes=5,
    )


def test_entries_are_sorted_by_node_and_the_matrix_is_built_on_demand():
    so = partial()
    assert so._s is None
    assert so.node_index.tolist() == [1, 3]
    assert so.cluster_index.tolist() == [1, 0]
    assert so.weight.tolist() == [4.0, 2.0]
    assert so.s.is_coalesced() and so.s.shape == (5, 2)
    assert so.s.to_dense()[3].tolist() == [2.0, 0.0]
    assert so.cluster.tolist() == [-1, 1, -1, 0, -1]
    assert repr(so) == "SelectOutput(num_nodes=5, num_supernodes=2)"


def test_duplicates_are_summed_and_columns_sorted():
    so = SelectOutput(
        node_index=torch.tensor([1, 0, 1, 1]), cluster_index=torch.tensor([2, 0, 0, 2]), num_nodes=2
    )
    assert so.node_index.tolist() == [0, 1, 1]
    assert so.cluster_index.tolist() == [0, 0, 2]
    assert so.weight.tolist() == [1.0, 1.0, 2.0]
    assert so.cluster is None


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({}, "'cluster_index' cannot be None if 's' is None"),
        (
            {"cluster_index": torch.tensor([0, 5]), "num_supernodes": 2},
            r"cluster_index must hold ids in \[0, 2\)",
        ),
        ({"cluster_index": torch.tensor([0]), "node_index": torch.tensor([-1])}, "node_index must hold"),
        (
            {"cluster_index": torch.tensor([0, 0]), "weight": torch.ones(3)},
            "weight must hold 2 values, got 3",
        ),
        ({"s": torch.ones(2, 2), "weight": torch.ones(2)}, "'weight' cannot be set if 's' is a dense Tensor"),
        (
            {"s": torch.eye(2).to_sparse(), "cluster_index": torch.ones(2)},
            "'cluster_index' cannot be set if 's' is not None",
        ),
        ({"s": "S"}, "Either a sparse or dense assignment matrix is provided through 's'"),
        ({"s": torch.ones(2, 2), "s_inv_op": "pinv"}, "s_inv_op must be"),
        ({"s": torch.ones(2, 2), "in_mask": torch.ones(2)}, r"in_mask must be 2D with shape \[B, N\]"),
        (
            {"s": torch.ones(2, 2), "in_mask": torch.ones(1, 2)},
            "is only supported for batched dense assignments with shape",
        ),
        (
            {"s": torch.ones(1, 2, 2), "in_mask": torch.ones(1, 3)},
            r"in_mask must have shape \(1, 2\), got \(1, 3\)",
        ),
    ],
)
def test_wrong_arguments_are_refused(kwargs, text):
    with pytest.raises(ValueError, match=text):
        SelectOutput(**kwargs)


def test_matrix_input_is_resized_and_reweighted():
    s = torch.eye(2).to_sparse()
    so = SelectOutput(s=s, weight=torch.tensor([3, 5]), num_nodes=4, num_supernodes=3)
    assert so.s.shape == (4, 3)
    assert so.weight.tolist() == [3.0, 5.0]
    assert SelectOutput(s=s.to_sparse_csr()).cluster_index.tolist() == [0, 1]


def test_inverse_is_the_pseudo_inverse():
    so = SelectOutput(cluster_index=torch.tensor([0, 0, 1]), s_inv_op="inverse")
    assert so.s_inv.to_dense().tolist() == [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    weighted = partial()
    weighted.set_s_inv("inverse")
    expected = torch.linalg.pinv(weighted.s.to_dense())
    torch.testing.assert_close(weighted.s_inv.to_dense(), expected)
    torch.testing.assert_close(partial().s_inv.to_dense(), partial().s.to_dense().T)


def test_onehot_is_dense_and_knows_its_clusters():
    so = SelectOutput.onehot(torch.tensor([1, 0, -1]), 2, batch=torch.tensor([0, 1, 1]))
    assert so.is_dense and so.cluster_index is None
    assert so.s.tolist() == [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]
    assert so.cluster.tolist() == [1, 2, -1]
    assert so.out_mask.tolist() == [[False, True], [True, False]]


def test_out_mask_marks_non_zero_columns_and_includes_empty_last_graphs():
    s = torch.tensor([[1.0, -1.0], [-1.0, 0.0]])
    assert SelectOutput(s=s).out_mask.tolist() == [[True, True]]
    batched = SelectOutput(s=s, batch=torch.tensor([1, 1]), batch_size=3).out_mask
    assert batched.tolist() == [[False, False], [True, True], [False, False]]
    assert partial().out_mask is None


@pytest.mark.parametrize(
    ("so", "expected"),
    [
        (SelectOutput(cluster_index=torch.tensor([0, 0, 1])), True),
        (partial(), False),
        (SelectOutput(s=torch.full((1, 3, 2), 0.5)), True),
        (SelectOutput(s=torch.tensor([[[1.0, 0.0], [0.0, 2.0]]])), False),
        (SelectOutput(s=torch.tensor([[[1.0], [0.0]]]), in_mask=torch.tensor([[True, False]])), True),
        (SelectOutput(cluster_index=torch.empty(0, dtype=torch.long), num_supernodes=0), False),
    ],
)
def test_is_expressive(so, expected):
    assert so.is_expressive is expected


def test_to_works_in_place_and_converts_only_floats():
    so = SelectOutput(cluster_index=torch.tensor([0, 0]), mis=torch.tensor([1]), theta=torch.ones(2, 3))
    assert so.to(torch.float64) is so
    assert so.weight.dtype == so.s.dtype == so.theta.dtype == torch.float64
    assert so.mis.dtype == torch.int64
    assert so.to(device="cpu", non_blocking=True) is so
    assert so.to("cpu", True) is so


def test_detach_and_clone_make_new_objects_that_keep_extras():
    weight = torch.ones(2, requires_grad=True) * 2
    so = SelectOutput(cluster_index=torch.tensor([0, 1]), weight=weight, q_z=Beta(weight, weight), name="a")
    clone, detached = so.clone(), so.detach()
    assert clone is not so and clone.weight.requires_grad and so.weight.requires_grad
    assert not detached.weight.requires_grad and not detached.q_z.concentration1.requires_grad
    assert detached.name == "a" and detached._extra_args == {"q_z", "name"}
    assert so.detach_() is so and not so.weight.requires_grad
    masked = SelectOutput(s=torch.ones(1, 2, 2), in_mask=torch.ones(1, 2), mis=torch.tensor([0]))
    assert masked.requires_grad_().s.requires_grad
    assert copy.deepcopy(clone).weight.requires_grad


def test_identity_equality_hash_pickle_and_shared_memory():
    so = partial()
    assert so == so and so != partial() and len({so, so, partial()}) == 2
    so.s, so.s_inv  # noqa: B018  built matrices must not get in the way
    twin = pickle.loads(pickle.dumps(so))
    assert twin.node_index.tolist() == [1, 3] and twin.s.to_dense().equal(so.s.to_dense())
    assert so.share_memory_().cluster_index.is_shared()


def test_apply_reaches_matrix_and_nested_extras_but_not_batch():
    so = SelectOutput(s=torch.ones(2, 2), batch=torch.tensor([0, 1]), more={"a": [torch.ones(1)]})
    so._extra_args.add("ghost")
    so.apply(lambda t: t * 3)
    assert so.s.max() == 3 and so.more["a"][0].item() == 3 and so.batch.tolist() == [0, 1]


def test_data_objects_move_and_clone_their_assignments():
    so = partial()
    data = Data(so=so, pooled_data=[Data(so=so)])
    assert data.clone().so is not so
    assert data.to("cpu").so is so
    assert data.detach().pooled_data[0].so is not so


def test_assign_all_nodes_keeps_numbering_size_and_extras():
    path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    so = SelectOutput(
        node_index=torch.tensor([0, 3]),
        cluster_index=torch.tensor([1, 0]),
        num_nodes=6,
        s_inv_op="inverse",
        tag="t",
    )
    full = so.assign_all_nodes(path)
    assert full.cluster_index[:4].tolist() == [1, 1, 0, 0]
    assert full.num_nodes == 6 and full.num_supernodes == 2
    assert set(full.cluster_index[4:].tolist()) <= {0, 1}
    assert full.s_inv_op == "inverse" and full.tag == "t" and "tag" in full._extra_args
    assert full.assign_all_nodes() is full
    with pytest.raises(ValueError, match=r"Weight tensor size \(2\) must match the number of nodes \(6\)"):
        so.assign_all_nodes(path, weight=torch.ones(2))
    with pytest.raises(AssertionError, match="adj must be provided for closest_node_assignment"):
        so.assign_all_nodes()
    with pytest.raises(AssertionError, match="max_iter must be greater than 0 for closest_node_assignment"):
        so.assign_all_nodes(path, max_iter=0)
    with pytest.raises(ValueError, match="Either num_nodes, batch, or edge_index must be provided"):
        so.assign_all_nodes(path, closest_node_assignment=False)
    filled = so.assign_all_nodes(closest_node_assignment=False, batch=torch.zeros(6, dtype=torch.long))
    assert filled.cluster_index[[0, 3]].tolist() == [1, 0]


def test_cluster_to_s_forms():
    index, weight = cluster_to_s(torch.tensor([1, 0]), as_edge_index=True)
    assert index.tolist() == [[0, 1], [1, 0]] and weight is None
    assert cluster_to_s(torch.tensor([1, 0]), num_nodes=3).shape == (3, 2)


def test_base_class_has_no_forward():
    assert repr(Select()) == "Select()" and Select.is_dense is False
    with pytest.raises(NotImplementedError):
        Select()()
