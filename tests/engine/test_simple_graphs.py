"""Graphs that NDP computes once for its cut and its Kron reduction, and the check of the kept nodes."""

import numpy as np
import pytest

from tgp.engine import kron_reduction
from tgp.engine.kron_reduction import kron_reduce
from tgp.engine.level_method import RandomKey
from tgp.engine.methods.ndp import METHOD, NDPParams
from tgp.errors import InputError
from tgp.ragged import Assignment, BlockCSR
from tgp.testing.graphs import path


@pytest.mark.parametrize("weighted", [False, True])
def test_simple_graphs_are_computed_once_per_level(monkeypatch, weighted):
    from tgp.kernels import undirected as kernels

    weight = [1.0, 2.0, 3.0, 1.0] if weighted else None
    block = BlockCSR.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]], weight)
    calls = []
    compute = kernels.undirected
    monkeypatch.setattr(kernels, "undirected", lambda *args: calls.append(args) or compute(*args))
    found = METHOD.assign(block, NDPParams(), RandomKey())
    coarse = METHOD.connect(block, found, NDPParams())
    assert len(calls) == 1
    again = METHOD.connect(block, found, NDPParams())  # nothing is kept after the first reduction
    assert len(calls) == 2
    assert (
        coarse.indices.tolist() == again.indices.tolist() and coarse.weight.tolist() == again.weight.tolist()
    )


def test_simple_graphs_of_large_blocks_are_not_kept(monkeypatch):
    monkeypatch.setattr(kron_reduction, "_MOST_KEPT", 7)
    small, large = path(4), path(5)
    for block, expected in ((small, True), (large, False)):
        before = set(vars(block))
        METHOD.assign(block, NDPParams(), RandomKey())
        assert (set(vars(block)) != before) == expected
        METHOD.connect(block, METHOD.assign(block, NDPParams(), RandomKey()), NDPParams())
        assert set(vars(block)) == before


@pytest.mark.parametrize("node", [-1, 4])
def test_kept_nodes_outside_of_the_block_raise(node):
    wrong = Assignment(
        "hard", np.array([0, 1]), np.zeros(4, np.int32), representative=np.array([node], np.int32)
    )
    with pytest.raises(InputError, match="a kept node does not exist"):
        kron_reduce(path(4), wrong)
