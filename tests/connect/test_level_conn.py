"""Connector of level methods that do not contract edges: the same graphs as the engine, in every mode."""

import pytest
import torch

from tgp.connect.base_conn import SparseConnect
from tgp.connect.level_conn import LevelConnect
from tgp.engine.schedule import LevelSpec
from tgp.errors import InputError
from tgp.poolers import get_pooler
from tgp.select.base_select import SelectOutput

EDGES = torch.tensor([[0, 1, 2, 3, 5, 6, 7, 1], [1, 2, 3, 4, 6, 7, 5, 3]])
EDGES = torch.cat([EDGES, EDGES.flip(0)], 1)
BATCH = torch.tensor([0, 0, 0, 0, 0, 1, 1, 1])


def call(pooler, weight, order):
    """Pool the graphs with nodes in another order."""
    return pooler(
        x=torch.arange(8.0)[:, None][order],
        adj=torch.argsort(order)[EDGES],
        edge_weight=weight,
        batch=BATCH[order],
    )


@pytest.mark.parametrize(
    "order", [torch.arange(8), torch.tensor([5, 0, 3, 6, 1, 4, 7, 2])], ids=["sorted", "mixed"]
)
@pytest.mark.parametrize(
    ("name", "options"),
    [("bistride", {}), ("bistride", {"keep_edges": True}), ("amg", {}), ("amg", {"kind": "sa"})],
)
def test_weights_with_gradients_give_the_same_graph(order, name, options):
    """The connector gets no arrays of the engine then. The representatives of ``amg`` come from the assignment."""
    weight = torch.linspace(0.5, 2.0, 8).repeat(2)
    pooler = get_pooler(name, **options)
    assert isinstance(pooler.connector, LevelConnect) and not isinstance(pooler.connector, SparseConnect)
    expected = call(pooler, weight, order)
    found = call(pooler, weight.clone().requires_grad_(), order)
    assert torch.equal(found.edge_index, expected.edge_index) and expected.edge_index.numel() > 0
    assert torch.equal(found.edge_weight, expected.edge_weight) and not found.edge_weight.requires_grad
    assert torch.equal(found.x, expected.x)


def test_edge_attributes_are_dropped():
    out = get_pooler("bistride")(x=torch.ones(8, 1), adj=EDGES, batch=BATCH, edge_attr=torch.ones(16, 3))
    assert out.edge_attr is None


def test_assignments_that_do_not_fit_are_refused():
    connector = LevelConnect(LevelSpec.of("bistride", None))
    with pytest.raises(InputError, match="does not keep single nodes"):
        connector(EDGES, SelectOutput(cluster_index=torch.tensor([0, 0, 1, 1, 1, 2, 2, 2])))
    with pytest.raises(InputError, match="the assignment is dense"):
        connector(EDGES, SelectOutput(s=torch.eye(8)))


def test_representatives_out_of_range_are_refused():
    pytest.importorskip("pyamg")
    so = get_pooler("amg")(x=torch.ones(8, 1), adj=EDGES, batch=BATCH).so
    so.centers = so.centers + 8
    with pytest.raises(InputError, match=r"so\.centers is out of range"):
        LevelConnect(LevelSpec.of("amg", None))(EDGES, so, batch=BATCH)
