"""``SelectOutput``: node order of padded results, masks without matrices, dtypes and copies."""

import copy
import dataclasses
import pickle

import pytest
import torch

from tgp.select import SelectOutput
from tgp.utils.ops.batching import GraphLayout

UNSORTED = torch.tensor([1, 0, 2, 1, 0, 2, 2])


def padded(batch=UNSORTED, layout=True):
    graphs = GraphLayout(batch, batch.numel())
    so = SelectOutput(s=graphs.pad(torch.rand(batch.numel(), 2)), in_mask=graphs.mask())
    if layout:
        so._layout = graphs
    return so, graphs


@pytest.mark.parametrize(
    "change",
    [
        lambda so: so,
        copy.copy,
        copy.deepcopy,
        lambda so: so.clone(),
        lambda so: so.detach(),
        lambda so: so.to(torch.float64),
        lambda so: pickle.loads(pickle.dumps(so)),
    ],
)
def test_to_nodes_restores_the_order_of_unsorted_graphs(change):
    so, graphs = padded()
    rows = torch.arange(14.0).view(7, 2)
    assert change(so).to_nodes(graphs.pad(rows)).equal(rows)


def test_to_nodes_uses_the_mask_and_returns_flat_rows_unchanged():
    so, graphs = padded(UNSORTED.sort().values, layout=False)
    rows = torch.rand(7, 3)
    assert so.to_nodes(graphs.pad(rows)).equal(rows)
    flat = SelectOutput(cluster_index=torch.tensor([0, 0, 1]))
    assert flat.to_nodes(rows[:3]).equal(rows[:3])
    assert SelectOutput(s=torch.rand(2, 3, 2)).to_nodes(torch.ones(2, 3, 4)).shape == (6, 4)


def test_to_nodes_refuses_other_shapes():
    with pytest.raises(ValueError, match="wrong shape"):
        padded()[0].to_nodes(torch.rand(7, 2))
    with pytest.raises(ValueError, match="wrong shape"):
        SelectOutput(cluster_index=torch.tensor([0, 0, 1])).to_nodes(torch.rand(1, 3, 2))


def test_joined_and_split_assignments_keep_the_node_order():
    first, graphs = padded()
    second, others = padded(torch.tensor([1, 1, 0, 1]))
    rows, more = torch.rand(7, 2), torch.rand(4, 2)
    joined = SelectOutput.cat([first, second])
    x = torch.cat([graphs.pad(rows), others.pad(more)])
    assert joined.to_nodes(x).equal(torch.cat([rows, more]))
    parts = SelectOutput.cat([first, first]).split()
    assert parts[1].to_nodes(graphs.pad(rows)).equal(rows)


@pytest.mark.parametrize("batch", [None, torch.tensor([2, 0, 2, 0])])
def test_out_mask_of_a_onehot_assignment_needs_no_matrix(batch, monkeypatch):
    so = SelectOutput.onehot(
        torch.tensor([1, 0, -1, 2]), 4, batch=batch, batch_size=None if batch is None else 4
    )
    mask = so.out_mask
    assert so._s is None
    assert mask.equal(SelectOutput(s=so.s, batch=batch, batch_size=so.batch_size).out_mask)


def test_default_weights_have_the_requested_dtype():
    wide = SelectOutput.hard(torch.tensor([0, 0, 1]), 2, dtype=torch.float64)
    assert wide.s.dtype == wide.weight.dtype == torch.float64
    assert pickle.loads(pickle.dumps(wide)).s.dtype == torch.float64
    assert SelectOutput.onehot(torch.tensor([0, 1]), 2, dtype=torch.float64).s.dtype == torch.float64
    late = SelectOutput.onehot(torch.tensor([0, 1]), 2).to(torch.float64)
    assert late.s.dtype == torch.float64


def test_copies_and_pickles_do_not_contain_private_results_of_a_pooler():
    so = SelectOutput(cluster_index=torch.tensor([0, 0, 1]))
    so._memo, so._link = object(), object()
    for other in (copy.copy(so), so.clone(), copy.deepcopy(so), pickle.loads(pickle.dumps(so))):
        assert other._memo is None and other._link is None
    so.to("cpu")
    assert so._memo is None


def test_select_output_is_a_dataclass():
    so = SelectOutput(cluster_index=torch.tensor([0, 0, 1]), batch=torch.tensor([0, 0, 0]))
    assert dataclasses.is_dataclass(so)
    assert [f.name for f in dataclasses.fields(so)] == ["s", "s_inv", "batch"]
    other = dataclasses.replace(so, batch=torch.tensor([0, 0, 1]))
    assert other.batch.tolist() == [0, 0, 1] and other.s.to_dense().equal(so.s.to_dense())


def test_repeated_nodes_are_found_after_joining_and_splitting():
    twice = SelectOutput(s=torch.ones(2, 2).to_sparse())
    part = SelectOutput(node_index=torch.tensor([0, 2]), cluster_index=torch.tensor([0, 1]), num_nodes=4)
    joined = SelectOutput.cat([twice, part])
    assert joined.cluster is None and not joined.covers_all
    assert joined.split()[0].cluster is None
    assert joined.split()[1].cluster.tolist() == [0, -1, 1, -1]
    assert SelectOutput.cat([part, part]).cluster.tolist() == [0, -1, 1, -1, 2, -1, 3, -1]
    assert (
        SelectOutput(node_index=torch.tensor([0, 0]), cluster_index=torch.tensor([0, 1])).covers_all is False
    )


@pytest.mark.parametrize(
    ("args", "kwargs", "dtype"),
    [
        (("cpu",), {}, torch.float32),
        (("cpu", True), {}, torch.float32),
        (("cpu", torch.float64), {}, torch.float64),
        (("cpu", torch.float64, True), {}, torch.float64),
        ((torch.float64,), {}, torch.float64),
        ((torch.ones(1, dtype=torch.float64),), {}, torch.float64),
        ((), {"device": "cpu", "non_blocking": True}, torch.float32),
        ((), {"dtype": torch.float64}, torch.float64),
        ((), {"device": "cpu", "dtype": torch.float64}, torch.float64),
    ],
)
def test_to_accepts_the_arguments_of_tensor_to(args, kwargs, dtype):
    so = SelectOutput(cluster_index=torch.tensor([0, 0, 1]), weight=torch.ones(3))
    assert so.to(*args, **kwargs) is so and so.weight.dtype == dtype
