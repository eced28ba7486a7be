"""get_pooler and the tables derived from one."""

import importlib.util
import warnings

import pytest
import torch

from tgp import poolers
from tgp.engine.methods import METHODS
from tgp.poolers import GraclusPooling, TopkPooling, get_pooler, pooler_classes, pooler_map
from tgp.poolers._table import POOLERS
from tgp.src import LevelPooling

SHARED = {
    "in_channels": 4, "ratio": 0.5, "k": 3, "cached": True, "lift": "precomputed", "s_inv_op": "transpose",
    "lift_red_op": "mean", "loss_coeff": 1.0, "remove_self_loops": True, "scorer": "degree", "reduce": "sum",
}  # fmt: skip


def test_tables_are_derived():
    assert list(pooler_map) == [e.alias for e in POOLERS] and len(pooler_map) == 21
    assert pooler_classes == [e.attribute for e in POOLERS] and set(pooler_classes) < set(poolers.__all__)
    assert pooler_map["topk"] is TopkPooling and isinstance(get_pooler("Graclus"), GraclusPooling)
    with pytest.raises(KeyError, match="Did you mean 'topk'"):
        pooler_map["topkk"]


@pytest.mark.parametrize("alias", ["topk", "graclus", "nopool", "random"])
def test_one_dictionary_drives_every_pooler(alias):
    pooler = get_pooler(alias, **SHARED)
    out = pooler(x=torch.rand(4, 4), adj=torch.tensor([[0, 1, 2], [1, 2, 3]]))
    assert out.x.size(0) == out.so.num_supernodes and type(pooler).__name__ in repr(pooler)
    pooler.reset_parameters()
    pooler.clear_cache()


def test_strict_mode_and_shared_names():
    with pytest.raises(ValueError, match=r"Unknown parameter of graclus 'ordr'\. Did you mean 'order'"):
        get_pooler("graclus", strict=True, ordr="index")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        get_pooler("graclus", reduce="sum", ratio=0.5)


COMPLETE = all(importlib.util.find_spec(entry.target.partition(":")[0]) for entry in POOLERS)


@pytest.mark.skipif(not COMPLETE, reason="a pooler cannot be imported, so no name is known to be foreign")
def test_names_nobody_knows_are_warned_about():
    with pytest.warns(UserWarning, match=r"No pooler has the parameter.*ratioo"):
        get_pooler("topk", in_channels=2, ratioo=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        get_pooler("topk", **SHARED)


def test_unknown_and_missing():
    for name in ("gracluss", "gracluss_u"):
        with pytest.raises(ValueError, match="Unknown pooler"):
            get_pooler(name)
    with pytest.raises(ValueError, match="Did you mean 'graclus'"):
        get_pooler("gracluss")
    with pytest.raises(
        TypeError, match=r"Missing required argument\(s\) for pooler 'topk' \(TopkPooling\): in_channels"
    ):
        get_pooler("topk")
    with pytest.raises(TypeError, match="not supported"):
        get_pooler("topk", in_channels=2, ratio="half")
    with pytest.raises(AttributeError):
        get_pooler(3)


def test_unbatched_suffix_needs_an_unbatched_mode():
    with pytest.raises(ValueError, match=r"no unbatched mode.*mincut"):
        get_pooler("topk_u", in_channels=2)


def test_methods_without_a_class_become_level_poolers():
    pooler = get_pooler("random", seed=7, cached=True)
    assert (
        type(pooler) is LevelPooling
        and pooler._spec.method == "random"
        and pooler.seed == 7
        and pooler.cached
    )
    assert "random" in METHODS and "random" not in pooler_map
