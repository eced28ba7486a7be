"""Poolers and methods of other packages under their own aliases."""

import numpy as np
import pytest
import torch

from tgp.engine import coarsen, parse_schedule, register_method
from tgp.engine.methods import METHODS
from tgp.poolers import TopkPooling, get_pooler, pooler_map, register_pooler
from tgp.ragged import BlockCSR
from tgp.registry import Entry, LazyRegistry
from tgp.src.mlp import MLPPooling


@pytest.fixture(autouse=True)
def tables(monkeypatch):
    """Restore the tables after each test."""
    for table in (pooler_map, METHODS):
        monkeypatch.setattr(table, "entries", dict(table.entries))
        monkeypatch.setattr(table, "_loaded", dict(table._loaded))


def test_a_class_defined_in_a_function():
    class Own(MLPPooling):
        def __init__(self, in_channels, k, wish=1, batched=True):
            super().__init__(in_channels, k, batched=batched)
            self.wish = wish

    entry = register_pooler("own", Own, "mine", dense=True)
    assert entry is pooler_map.entry("own") and entry.summary == "mine"
    pooler = get_pooler("own_u", in_channels=3, k=2, wish=5)
    assert isinstance(pooler, Own) and pooler.wish == 5 and not pooler.batched
    assert pooler(x=torch.rand(4, 3), adj=torch.tensor([[0, 1], [1, 2]])).x.shape == (1, 2, 3)
    with pytest.raises(ValueError, match="Did you mean 'own'"):
        get_pooler("owm")


def test_parameters_of_registered_poolers_give_no_warning(recwarn):
    class Other(TopkPooling):
        def __init__(self, in_channels, wish=1):
            super().__init__(in_channels)

    with pytest.warns(UserWarning, match="No pooler has the parameter"):
        get_pooler("topk", in_channels=2, wish=3)
    register_pooler("other", Other)
    recwarn.clear()
    get_pooler("topk", in_channels=2, wish=3)
    assert not recwarn.list


def test_a_target_is_imported_on_first_use():
    register_pooler("again", "tgp.poolers.topk:TopkPooling")
    assert isinstance(get_pooler("again", in_channels=2), TopkPooling)
    register_pooler("nowhere", "no_such_package.x:Y")
    with pytest.raises(ImportError, match="no_such_package"):
        get_pooler("nowhere")


def test_registered_aliases_are_refused():
    with pytest.raises(ValueError, match=r"pooler 'topk' is taken by tgp\.poolers\.topk:TopkPooling"):
        register_pooler("topk", MLPPooling)
    register_pooler("topk", MLPPooling, replace=True)
    assert pooler_map["topk"] is MLPPooling


@pytest.mark.parametrize("alias", ["", "Own", "own_u", "a,b", "a:b", "a*2", "2own", "a b"])
def test_aliases_that_cannot_be_written_in_a_schedule(alias):
    with pytest.raises(ValueError, match="alias"):
        register_pooler(alias, MLPPooling)
    with pytest.raises(ValueError, match="alias"):
        register_method(alias, "tgp.engine.methods.nopool:METHOD")


@pytest.mark.parametrize("target", ["", "module", "module:", ":name"])
def test_wrong_targets_are_refused(target):
    with pytest.raises(ValueError, match="target"):
        LazyRegistry("thing", ()).register(Entry("alias", target, ""))


def test_a_method_in_layers_and_schedules():
    register_method("same", "tgp.engine.methods.nopool:METHOD", "identity once more")
    block = BlockCSR.from_edge_index(np.array([[0, 1], [1, 0]]), None, num_nodes=3)
    hierarchy = coarsen(block, parse_schedule("same*2,graclus"))
    assert [level.block.num_nodes for level in hierarchy.levels] == [3, 3, 2]
    out = get_pooler("same")(x=torch.rand(3, 2), adj=torch.tensor([[0, 1], [1, 0]]))
    assert out.x.shape == (3, 2)
    with pytest.raises(ValueError, match="is taken"):
        register_method("graclus", "tgp.engine.methods.nopool:METHOD")
