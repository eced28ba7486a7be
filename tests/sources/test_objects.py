"""Conversion of Python objects to tables of graphs."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
import torch
from torch.utils.data import ConcatDataset, Subset
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset

from tgp.errors import DatasetError, UserCodeError
from tgp.sources import open_source
from tgp.sources.callables import open_callable
from tgp.sources.objects import objects_to_table


def ring(n=4, **values):
    i = torch.arange(n)
    edges = torch.stack([i, (i + 1) % n])
    return Data(edge_index=torch.cat([edges, edges.flip(0)], 1), num_nodes=n, **values)


class Rings(InMemoryDataset):
    def __init__(self, transform=None):
        super().__init__(None, transform)
        self.data, self.slices = self.collate([ring(3), ring(4), ring(5)])


def sizes(graphs):
    return np.diff(objects_to_table(graphs).node_ptr).tolist()


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: ring(), [4]),
        (lambda: [ring(3), ring(5)], [3, 5]),
        (lambda: (ring(n) for n in (3, 5)), [3, 5]),
        (lambda: Batch.from_data_list([ring(3), ring(5)]), [3, 5]),
        (Rings, [3, 4, 5]),
        (lambda: Rings()[1:], [4, 5]),
        (lambda: Subset(Rings(), [2, 0]), [5, 3]),
        (lambda: ConcatDataset([Rings(), Rings()]), [3, 4, 5, 3, 4, 5]),
        (lambda: Rings(transform=lambda data: ring(data.num_nodes + 1)), [4, 5, 6]),
        (lambda: nx.path_graph(4), [4]),
        (lambda: [nx.path_graph(4), nx.star_graph(2)], [4, 3]),
        (lambda: scipy.sparse.csr_array(np.eye(3)), [3]),
        (lambda: scipy.sparse.coo_matrix(np.ones((2, 2))), [2]),
    ],
)
def test_objects_of_all_kinds(make, expected):
    assert sizes(make()) == expected


def test_edges_and_weights_of_a_matrix():
    table = objects_to_table(scipy.sparse.csr_array([[0, 2.0], [3.0, 0]]))
    assert table.fields["edge_index"].values.tolist() == [[0, 1], [1, 0]]
    assert table.fields["edge_weight"].values.tolist() == [2.0, 3.0]
    mixed = objects_to_table(
        [scipy.sparse.csr_array([[0, 1], [1, 0]]), scipy.sparse.csr_array([[0, 2.0], [2.0, 0]])]
    )
    assert mixed.fields["edge_weight"].values.tolist() == [1, 1, 2, 2]


def test_attributes_of_networkx_graphs_become_attributes():
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, 1.5, "x")
    nx.set_edge_attributes(graph, {(0, 1): 2.0, (1, 2): 3.0}, "weight")
    table = objects_to_table(graph)
    assert table.fields["x"].values.tolist() == [1.5] * 3
    edges = table.fields["edge_index"].values.T.tolist()
    weights = dict(zip(map(tuple, edges), table.fields["edge_weight"].values.tolist(), strict=True))
    assert weights == {(0, 1): 2.0, (1, 0): 2.0, (1, 2): 3.0, (2, 1): 3.0}


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        (3, "got int"),
        ({"a": 1}, "got dict"),
        ([], "empty list"),
        ([ring(), 3], "got int at position 1"),
        ([ring(), nx.path_graph(2)], "got Graph at position 1"),
        (np.eye(3), "got ndarray"),
        (torch.eye(3), "got Tensor"),
        ([np.eye(3)], "got ndarray at position 0"),
        (scipy.sparse.csr_array(np.ones((2, 3))), "2 x 3"),
        (HeteroData(), "HeteroData"),
    ],
)
def test_other_objects_are_refused(graphs, message):
    with pytest.raises(DatasetError, match=message):
        objects_to_table(graphs)


def test_networkx_nodes_with_different_attributes_are_reported():
    graph = nx.path_graph(3)
    graph.nodes[0]["x"] = 1.0
    with pytest.raises(DatasetError, match="networkx graph 1") as caught:
        objects_to_table([nx.path_graph(3), graph])
    assert "same attributes" in caught.value.hint


def test_excluded_attributes_are_not_converted():
    graphs = [ring(note=object()), ring(note=object())]
    found = open_source(graphs, exclude=["note"])
    assert "note" not in found.table.fields
    assert found.description == {"source": "object", "name": "list", "exclude": ["note"]}
    for name in ("nothing", "edge_index"):
        with pytest.raises(DatasetError, match=f"cannot exclude '{name}'"):
            open_source([ring()], exclude=[name])


def test_excluded_attributes_of_scipy_and_stored_graphs():
    weighted = scipy.sparse.csr_array([[0, 2.0], [2.0, 0]])
    assert "edge_weight" not in open_source(weighted, exclude=["edge_weight"]).table.fields
    assert "x" not in open_source("er:num_graphs=2", exclude=["x"]).table.fields


def test_errors_of_users_keep_their_cause(tmp_path, monkeypatch):
    (tmp_path / "broken_for_test.py").write_text("import nothing_of_that_name\n")
    (tmp_path / "exits_for_test.py").write_text("import sys\n\ndef load():\n    sys.exit('stop')\n")
    (tmp_path / "syntax_for_test.py").write_text("def load(:\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserCodeError, match="nothing_of_that_name") as caught:
        open_callable("broken_for_test:load")
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)
    with pytest.raises(UserCodeError, match="stop"):
        open_callable("exits_for_test.py:load")
    with pytest.raises(UserCodeError, match="SyntaxError"):
        open_callable("syntax_for_test.py:load")
    with pytest.raises(DatasetError, match="there is no file"):
        open_callable("absent_for_test.py:load")


def test_a_file_is_imported_once(tmp_path, monkeypatch):
    (tmp_path / "once_for_test.py").write_text(
        "from scipy.sparse import csr_array\ncalls = []\n\ndef load():\n    calls.append(1)\n"
        "    return csr_array([[0, len(calls)], [len(calls), 0]])\n"
    )
    monkeypatch.chdir(tmp_path)
    open_callable("once_for_test.py:load")
    assert open_callable("once_for_test.py:load").fields["edge_weight"].values.tolist() == [2, 2]


def test_weights_that_are_not_finite_name_the_graph():
    graphs = [
        ring(edge_weight=torch.ones(8)),
        ring(edge_weight=torch.ones(8).index_fill(0, torch.tensor(5), torch.nan)),
    ]
    with pytest.raises(
        DatasetError, match=r"1 edge weight is not finite, in 1 of 2 graphs.* at edge 5 of graph 1"
    ) as caught:
        open_source(graphs)
    assert "--exclude edge_weight" in caught.value.hint
    assert open_source(graphs, exclude=["edge_weight"]).table.num_graphs == 2
