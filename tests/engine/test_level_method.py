"""Parameter classes of methods: shared parameters and the order in which they are shown."""

from dataclasses import dataclass, fields

import pytest

from tgp.engine import METHODS, ConnectParams, ContractOptions, parse_schedule
from tgp.engine.level_method import parameter_fields
from tgp.errors import ParameterError

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


def test_dense_methods_declare_the_number_of_columns():
    for alias in METHODS.entries:
        method = METHODS[alias]
        assert not method.dense or "k" in {field.name for field in fields(method.params)}
