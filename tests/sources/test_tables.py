"""Slices, blocks and splits of tables."""

import numpy as np
import pytest

from tgp.errors import DatasetError
from tgp.ragged import Field, GraphTable
from tgp.sources import open_source
from tgp.sources.tables import join_splits, slice_table
from tgp.store import data_digest


def test_slice_table_returns_the_graphs():
    table = open_source("molecules:num_graphs=10").table
    for low, high in ((0, 10), (3, 7), (5, 5)):
        part = slice_table(table, low, high).validate()
        assert data_digest(part) == data_digest(table.take(range(low, high)))


def test_blocks_take_weights_from_edge_weight_only():
    edges = Field("edge_index", np.array([[1, 0], [0, 1]]), np.array([0, 2]), -1, "rows", True)
    attr = Field("edge_attr", np.array([[5.0], [6.0]]), np.array([0, 2]))
    table = GraphTable(np.array([0, 2]), {"edge_index": edges, "edge_attr": attr})
    assert table.to_block().weight is None
    weight = Field("edge_weight", np.array([5.0, 6.0]), np.array([0, 2]))
    weighted = GraphTable(table.node_ptr, {"edge_index": edges, "edge_weight": weight})
    assert weighted.to_block().weight.tolist() == [6, 5]
    with pytest.raises(DatasetError, match="edge_index"):
        GraphTable(table.node_ptr, {}).to_block()


def test_join_splits_checks_attributes():
    table = open_source("er:num_graphs=2").table
    joined = join_splits([table, table, table])
    assert joined.num_graphs == 6 and joined.fields["split"].values.tolist() == [0, 0, 1, 1, 2, 2]
    other = GraphTable(table.node_ptr, {name: f for name, f in table.fields.items() if name != "x"})
    with pytest.raises(DatasetError, match="'x' is not in both train and test"):
        join_splits([table, table, other])
