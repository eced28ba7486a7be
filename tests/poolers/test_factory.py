"""get_pooler, and the names that are derived from the table of poolers."""

import ast
import importlib.util
import warnings
from pathlib import Path

import pytest
import torch

from tgp import poolers
from tgp.engine.methods import METHODS
from tgp.poolers import (
    GraclusPooling,
    TopkPooling,
    get_pooler,
    pooler_classes,
    pooler_map,
    register_pooler,
)
from tgp.poolers.table import POOLERS
from tgp.src import LevelPooling

SHARED = {
    "in_channels": 4, "ratio": 0.5, "k": 3, "cached": True, "lift": "precomputed", "s_inv_op": "transpose",
    "lift_red_op": "mean", "loss_coeff": 1.0, "remove_self_loops": True, "scorer": "degree", "reduce": "sum",
}  # fmt: skip


def test_names_are_derived_from_the_table():
    assert list(pooler_map) == [e.alias for e in POOLERS]
    assert pooler_classes == [e.attribute for e in POOLERS] and set(pooler_classes) < set(poolers.__all__)
    assert pooler_map["topk"] is TopkPooling and isinstance(get_pooler("Graclus"), GraclusPooling)
    with pytest.raises(KeyError, match="Did you mean 'topk'"):
        pooler_map["topkk"]


def test_type_checkers_see_every_class_of_the_table():
    path = Path(poolers.__file__)
    (block,) = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.If)]
    imports = {ast.unparse(line) for line in block.body}
    expected = {f"from {e.target.partition(':')[0]} import {e.attribute} as {e.attribute}" for e in POOLERS}
    missing, extra = expected - imports, imports - expected
    assert not missing, f"{path}: add these lines under 'if TYPE_CHECKING:': {sorted(missing)}"
    assert not extra, f"{path}: remove these lines, whose classes are not in the table: {sorted(extra)}"


@pytest.mark.parametrize("alias", ["topk", "graclus", "nopool", "random"])
def test_the_same_parameters_can_be_passed_to_every_pooler(alias):
    pooler = get_pooler(alias, **SHARED)
    out = pooler(x=torch.rand(4, 4), adj=torch.tensor([[0, 1, 2], [1, 2, 3]]))
    assert out.x.size(0) == out.so.num_supernodes and type(pooler).__name__ in repr(pooler)
    pooler.reset_parameters()
    pooler.clear_cache()


def test_strict_mode_refuses_unknown_parameters():
    with pytest.raises(ValueError, match=r"Unknown parameter of graclus 'ordr'\. Did you mean 'order'"):
        get_pooler("graclus", strict=True, ordr="index")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        get_pooler("graclus", reduce="sum", ratio=0.5)


COMPLETE = all(importlib.util.find_spec(entry.target.partition(":")[0]) for entry in POOLERS)


@pytest.mark.skipif(
    not COMPLETE, reason="a pooler cannot be imported, so the parameters of all poolers are not known"
)
def test_a_parameter_that_no_pooler_has_gives_a_warning():
    with pytest.warns(UserWarning, match=r"No pooler has the parameter.*ratioo"):
        get_pooler("topk", in_channels=2, ratioo=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        get_pooler("topk", **SHARED)


def test_unknown_aliases_and_missing_arguments():
    for name in ("gracluss", "gracluss_u"):
        with pytest.raises(ValueError, match="Unknown pooler"):
            get_pooler(name)
    with pytest.raises(ValueError, match="Did you mean 'graclus'"):
        get_pooler("gracluss")
    with pytest.raises(
        TypeError, match=r"Missing required argument\(s\) for pooler 'topk' \(TopkPooling\): in_channels"
    ):
        get_pooler("topk")
    with pytest.raises(ValueError, match="ratio must be a number"):
        get_pooler("topk", in_channels=2, ratio="half")
    with pytest.raises(ValueError, match="pooler_name must be text such as 'topk', got int"):
        get_pooler(3)


def test_a_type_error_of_a_constructor_is_not_replaced(monkeypatch):
    class Refusing(TopkPooling):
        def __init__(self, in_channels):
            raise TypeError("not supported")

    monkeypatch.setattr(pooler_map, "entries", dict(pooler_map.entries))
    monkeypatch.setattr(pooler_map, "_loaded", dict(pooler_map._loaded))
    register_pooler("refusing", Refusing)
    with pytest.raises(TypeError, match="not supported"):
        get_pooler("refusing", in_channels=2)


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
