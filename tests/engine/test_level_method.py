"""Parameter classes of methods: shared parameters and the order in which they are shown."""

from dataclasses import dataclass, fields

import pytest

from tgp.engine import METHODS, ConnectParams, ContractOptions, parse_schedule
from tgp.engine.level_method import RandomKey, parameter_fields
from tgp.engine.level_spec import LevelSpec
from tgp.errors import ParameterError
from tgp.testing.graphs import grid2d, with_attributes

RANDOM = (
    "affinity",
    "amg",
    "collapse",
    "graclus",
    "hem",
    "leiden",
    "louvain",
    "lv",
    "partition",
    "random",
    "ugc",
)
"""Methods that use random numbers with their default parameters, and `amg` with a ratio."""

SHARED = [field.name for field in fields(ConnectParams)]


@dataclass(frozen=True)
class NeedsK(ConnectParams):
    k: int
    scale: float = 1.0


def test_own_parameters_are_shown_before_shared_ones():
    assert [field.name for field in parameter_fields(NeedsK)] == ["k", "scale", *SHARED]
    assert NeedsK(3, 0.5, degree_norm=True) == NeedsK(k=3, scale=0.5, degree_norm=True)


def test_a_default_can_be_changed_without_changing_the_order():
    sep = METHODS["sep"].params
    assert [field.name for field in parameter_fields(sep)] == ["cut", *SHARED]
    assert sep().degree_norm and not ConnectParams().degree_norm


def test_text_of_a_schedule_has_own_parameters_first():
    text = "kmis:order_k=2:scorer=random:connect_red_op=max:count_edges=true"
    assert str(parse_schedule(text)) == text


def test_contract_options_of_connect_params():
    params = NeedsK(1, connect_red_op="min", remove_self_loops=False, edge_weight_norm=True)
    assert params.contract_options() == ContractOptions("min", False, False, True, False)
    with pytest.raises(ParameterError, match="got 'median'"):
        NeedsK(1, connect_red_op="median")


@pytest.mark.parametrize("alias", list(METHODS.entries))
def test_random_choices_depend_on_the_seed_and_on_the_level(alias):
    """Levels of one run must not repeat their random choices."""
    method = METHODS[alias]
    params = LevelSpec.of(alias, {"ratio": 0.3} if alias == "amg" else {}).params
    block = with_attributes(grid2d(9, 9))

    def count(keys):
        return len({_bytes_of(method.assign(block, params, key)) for key in keys})

    by_seed, by_level = (
        count(RandomKey(seed, 0) for seed in range(6)),
        count(RandomKey(0, level) for level in range(6)),
    )
    assert (by_seed > 1) == (by_level > 1), (by_seed, by_level)
    assert by_seed > 1 or alias not in RANDOM


def _bytes_of(assignment):
    arrays = (assignment.cluster, assignment.soft, assignment.representative)
    return b"".join(b"" if values is None else values.tobytes() for values in arrays)


def test_dense_methods_declare_the_number_of_columns():
    for alias in METHODS.entries:
        method = METHODS[alias]
        assert not method.dense or "k" in {field.name for field in fields(method.params)}
