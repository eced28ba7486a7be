"""Host synchronizations of selectors, counted without an accelerator."""

import sys

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tgp.select import EdgeContractionSelect, LaPoolSelect, MaxCutSelect, MLPSelect, SelectOutput, TopkSelect

_WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_consecutive", "bincount")
BATCH = torch.arange(4).repeat_interleave(10)
_path = torch.arange(39)[BATCH[:-1] == BATCH[1:]]
EDGES = torch.cat([torch.stack([_path, _path + 1]), torch.stack([_path + 1, _path])], dim=1)


class Waits(TorchDispatchMode):
    """Record operations that synchronize an accelerator, because the host needs a value or a size."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.removeprefix("aten::")
        if name in _WAITING:
            self.seen.append(name)
        if name in ("index", "index_put", "index_put_"):
            self.seen += [name for part in args[1] if part is not None and part.dtype is torch.bool]
        return func(*args, **(kwargs or {}))


@pytest.fixture
def waits(monkeypatch):
    """Count as on an accelerator: ``on_host`` returns False."""
    for name, module in list(sys.modules.items()):
        if name.startswith("tgp.") and hasattr(module, "on_host"):
            monkeypatch.setattr(module, "on_host", lambda *tensors: False)
    return Waits()


def run(selector, waits):
    x = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
    with waits:
        so = selector(x=x, edge_index=EDGES, batch=BATCH, batch_size=4, num_nodes=40)
    return so, waits.seen


@pytest.mark.parametrize("selector", [TopkSelect(4), TopkSelect(4, min_score=0.1), TopkSelect(4, 3)], ids=str)
def test_topk_synchronizes_once(selector, waits):
    assert len(run(selector, waits)[1]) == 1


@pytest.mark.parametrize("batched", [True, False])
def test_mlp_never_synchronizes(batched, waits):
    _, seen = run(MLPSelect(4, 3, batched_representation=batched), waits)
    assert seen == []


def test_edge_contraction_synchronizes_once_per_round_and_three_times(waits):
    _, seen = run(EdgeContractionSelect(4), waits)
    rounds = seen.count("index")
    assert len(seen) == rounds + 3
    assert rounds <= 8


def test_synchronizations_of_lapool(waits):
    _, seen = run(LaPoolSelect(batched_representation=False), waits)
    assert len(seen) <= 3, seen


@pytest.mark.parametrize(("assign_all_nodes", "count"), [(False, 2), (True, 3)])
def test_synchronizations_of_maxcut(assign_all_nodes, count, waits):
    _, seen = run(MaxCutSelect(4, assign_all_nodes=assign_all_nodes, mp_units=[4]), waits)
    assert len(seen) <= count, seen


def test_masks_of_onehot_assignments_do_not_synchronize(waits):
    so = SelectOutput.onehot(torch.tensor([0, 1, -1]), 3, batch=torch.tensor([1, 0, 0]), batch_size=2)
    with waits:
        mask = so.out_mask
    assert waits.seen == [] and mask.tolist() == [[False, True, False], [True, False, False]]


def test_ids_of_a_new_assignment_are_checked_without_synchronizing(waits):
    with waits:
        so = SelectOutput(cluster_index=torch.tensor([0, 1, 1]), num_supernodes=2)
    assert waits.seen == [] and so.num_nodes == 3
    with pytest.raises(RuntimeError, match="cluster_index must hold ids"):
        SelectOutput(cluster_index=torch.tensor([0, 5]), num_supernodes=2)
