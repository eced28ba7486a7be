"""``SelectOutput.split`` is the inverse of ``SelectOutput.cat``."""

import pytest
import torch

from tgp.select import SelectOutput

ZEROS = torch.zeros(3, dtype=torch.long)


def sparse_pair():
    a = SelectOutput(
        cluster_index=torch.tensor([0, 0, 1]), batch=ZEROS, mis=torch.tensor([0, 2]), n=3, tags="a"
    )
    b = SelectOutput(
        node_index=torch.tensor([2, 0]),
        cluster_index=torch.tensor([0, 1]),
        num_nodes=3,
        batch=ZEROS,
        mis=torch.tensor([0, 2]),
        n=5,
        tags="b",
    )
    return [a, b]


def test_sparse_assignments_become_block_diagonal_and_node_ids_are_shifted():
    so = SelectOutput.cat(sparse_pair())
    expected = torch.block_diag(*(p.s.to_dense() for p in sparse_pair()))
    assert torch.equal(so.s.to_dense(), expected)
    assert so.mis.tolist() == [0, 2, 3, 5]
    assert so.batch.tolist() == [0, 0, 0, 1, 1, 1] and so.batch_size == 2
    assert so.n.tolist() == [3, 5] and so.tags == ["a", "b"]


@pytest.mark.parametrize("by_offsets", [False, True])
def test_split_returns_the_joined_assignments(by_offsets):
    so = SelectOutput.cat(sparse_pair())
    parts = so.split([0, 3, 6], [0, 2, 4]) if by_offsets else so.split()
    for part, original in zip(parts, sparse_pair(), strict=True):
        assert torch.equal(part.s.to_dense(), original.s.to_dense())
        assert part.mis.tolist() == original.mis.tolist()
        assert part.batch.tolist() == original.batch.tolist()
        assert part.tags == original.tags
        assert int(part.n) == original.n
    if not by_offsets:
        assert isinstance(parts[0].n, int)


@pytest.mark.parametrize("onehot", [True, False])
def test_dense_rows_are_stacked(onehot):
    columns = [torch.tensor([0, 1, 1]), torch.tensor([1, 0])]
    parts = [SelectOutput.onehot(c, 2, theta=torch.rand(len(c), 3)) for c in columns]
    if not onehot:
        parts = [SelectOutput(s=p.s, theta=p.theta) for p in parts]
    so = SelectOutput.cat(parts)
    assert so.s.shape == (5, 2) and so.theta.shape == (5, 3)
    for part, original in zip(so.split(), parts, strict=True):
        assert torch.equal(part.s, original.s) and torch.equal(part.theta, original.theta)


def test_batched_dense_assignments_keep_their_masks():
    parts = [SelectOutput(s=torch.rand(1, 4, 2), in_mask=torch.ones(1, 4)) for _ in range(3)]
    so = SelectOutput.cat(parts)
    assert so.s.shape == (3, 4, 2) and so.in_mask.shape == (3, 4)
    assert torch.equal(so.split()[1].s, parts[1].s)


def test_a_given_inverse_is_joined_and_split():
    parts = [
        SelectOutput(cluster_index=torch.tensor([0, 1]), s_inv=torch.eye(2).to_sparse() * i) for i in (2, 3)
    ]
    so = SelectOutput.cat(parts)
    assert so.s_inv.to_dense().diagonal().tolist() == [2, 2, 3, 3]
    assert so.split()[1].s_inv.to_dense().diagonal().tolist() == [3, 3]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"batch": ZEROS}, "batch"),
        ({"more": 1}, "different extra attributes"),
    ],
)
def test_assignments_with_different_attributes_are_refused(change, text):
    plain = SelectOutput(cluster_index=torch.tensor([0, 0, 1]))
    other = SelectOutput(cluster_index=torch.tensor([0, 0, 1]), **change)
    with pytest.raises(ValueError, match=text):
        SelectOutput.cat([plain, other])


def test_assignments_of_different_widths_or_kinds_are_refused():
    with pytest.raises(ValueError, match="same number of supernodes"):
        SelectOutput.cat([SelectOutput(s=torch.ones(2, 2)), SelectOutput(s=torch.ones(2, 3))])
    with pytest.raises(ValueError, match="cannot be joined"):
        SelectOutput.cat([SelectOutput(s=torch.ones(2, 2)), SelectOutput(cluster_index=torch.tensor([0]))])
    with pytest.raises(ValueError, match="node_ptr must be given"):
        SelectOutput(s=torch.ones(2, 2)).split()
