"""Transforms of input graphs, compared with networkx and with known results."""

import networkx as nx
import numpy as np
import pytest

from tgp.errors import DatasetError
from tgp.ragged import Field, GraphTable
from tgp.sources import table_transforms as transforms
from tgp.sources.builtin import make_builtin


def table_of(*graphs, **fields):
    """Return a table of graphs that are given as (number of nodes, edges)."""
    node_ptr = np.concatenate([[0], np.cumsum([n for n, _ in graphs])])
    edge_ptr = np.concatenate([[0], np.cumsum([len(e) for _, e in graphs])])
    edges = np.array([pair for _, e in graphs for pair in e], np.int64).reshape(-1, 2).T
    ptrs = {"node": node_ptr, "edge": edge_ptr}
    extra = {name: Field(name, np.asarray(values), ptrs[kind]) for name, (kind, values) in fields.items()}
    return GraphTable(
        node_ptr, {"edge_index": Field("edge_index", edges, edge_ptr, -1, "rows", True), **extra}
    )


def test_undirected_adds_missing_reverse_edges():
    table = table_of(
        (3, [(0, 1), (1, 0), (1, 2), (1, 2), (2, 2)]),
        (2, [(1, 0)]),
        edge_weight=("edge", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        x=("node", np.arange(5)),
    )
    out = transforms.make_undirected(table).validate()
    assert out.fields["edge_index"].item(0).T.tolist() == [[0, 1], [1, 0], [1, 2], [1, 2], [2, 2], [2, 1]]
    assert out.fields["edge_weight"].item(0).tolist() == [1, 2, 3, 4, 5, 3]
    assert out.fields["edge_index"].item(1).T.tolist() == [[1, 0], [0, 1]]
    assert out.fields["edge_weight"].item(1).tolist() == [6, 6]
    assert out.fields["x"] is table.fields["x"]


def test_undirected_does_not_change_undirected_graphs():
    table, _ = make_builtin("er:num_graphs=5")
    out = transforms.make_undirected(table)
    assert np.array_equal(out.fields["edge_index"].values, table.fields["edge_index"].values)


def test_largest_component_of_known_graphs():
    table = table_of(
        (5, [(0, 1), (1, 0), (2, 3), (3, 4)]),
        (2, []),
        (0, []),
        x=("node", np.arange(7.0)),
        edge_attr=("edge", [[1], [2], [3], [4]]),
    )
    out = transforms.keep_largest_component(table).validate()
    assert np.diff(out.node_ptr).tolist() == [3, 1, 0]
    assert out.fields["x"].values.tolist() == [2, 3, 4, 5]
    assert out.fields["edge_index"].item(0).T.tolist() == [[0, 1], [1, 2]]
    assert out.fields["edge_attr"].values.tolist() == [[3], [4]]


def test_largest_component_against_networkx():
    table, _ = make_builtin("er:num_graphs=30:num_nodes=25:degree=2")
    out = transforms.keep_largest_component(table).validate()
    for index in range(30):
        graph = nx.Graph(table.fields["edge_index"].item(index).T.tolist())
        best = max(nx.connected_components(graph), key=len)
        assert np.diff(out.node_ptr)[index] == len(best)
        got = nx.Graph(out.fields["edge_index"].item(index).T.tolist())
        assert nx.is_connected(got) and got.number_of_edges() == graph.subgraph(best).number_of_edges()


def test_largest_component_updates_num_nodes_and_refuses_node_ids():
    table = table_of((3, [(0, 1)]))
    sized = GraphTable(
        table.node_ptr,
        {**table.fields, "num_nodes": Field("num_nodes", np.array([3]), np.arange(2), form="int")},
    )
    assert transforms.keep_largest_component(sized).fields["num_nodes"].values.tolist() == [2]
    ids = Field("my_index", np.array([2]), np.array([0, 1]), shifted=True)
    with pytest.raises(DatasetError, match="my_index"):
        transforms.keep_largest_component(GraphTable(table.node_ptr, {**table.fields, "my_index": ids}))


def test_add_degree_appends_to_x_or_creates_x():
    table = table_of((3, [(0, 1), (1, 0), (1, 2)]))
    made = transforms.add_degree(table)
    assert made.fields["x"].values.tolist() == [[1], [2], [0]]
    again = transforms.add_degree(made)
    assert again.fields["x"].values.tolist() == [[1, 1], [2, 2], [0, 0]]


def test_exclude():
    table, _ = make_builtin("molecules:num_graphs=2")
    assert "x" not in transforms.exclude(table, ("x",)).fields
    for name in ("z", "edge_index"):
        with pytest.raises(DatasetError, match=name):
            transforms.exclude(table, (name,))
