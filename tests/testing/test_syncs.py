"""The counter of host synchronizations counts all operations that wait for a device, and no others."""

import torch

from tgp.testing import count_host_syncs
from tgp.utils import tracing
from tgp.utils.tracing import on_host


def test_operations_that_need_a_value_or_a_size():
    x, mask = torch.arange(6.0), torch.tensor([True, False] * 3)
    assert count_host_syncs(lambda: x.sum().item()) == {"_local_scalar_dense": 1}
    assert count_host_syncs(lambda: bool((x > 2).any())) == {"_local_scalar_dense": 1}
    assert sum(count_host_syncs(lambda: x[mask]).values()) == 1
    assert count_host_syncs(lambda: torch.unique(x)).total() == 1
    assert count_host_syncs(lambda: x.tolist())["tolist"] == 1
    counts = torch.tensor([1, 2])
    assert count_host_syncs(lambda: torch.repeat_interleave(counts)).total() == 1
    assert count_host_syncs(lambda: torch.repeat_interleave(counts, output_size=3)).total() == 0


def test_plain_arithmetic_does_not_synchronize():
    x = torch.randn(4, 4)
    assert not count_host_syncs(lambda: (x @ x).softmax(-1).sum(0).index_add(0, torch.arange(4), x[0]))


def test_on_host_returns_false_while_counting():
    seen = []
    count_host_syncs(lambda: seen.append(tracing.on_host(torch.zeros(1))))
    assert seen == [False]
    assert on_host(torch.zeros(1)) and tracing.on_host(torch.zeros(1))
