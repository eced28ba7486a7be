"""Conversion of graphs to arrays and back, compared with PyG's collate and separate."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset

from tgp.data.convert import graphs_to_arrays, graphs_to_table, table_to_data
from tgp.errors import DatasetError


class Frozen(InMemoryDataset):
    """In-memory dataset of a list of graphs."""

    def __init__(self, graphs, transform=None):
        super().__init__(None, transform)
        self.data, self.slices = self.collate(graphs)


def random_graph(rng, *, nodes=None, weighted=True):
    n = int(rng.integers(0, 7)) if nodes is None else nodes
    e = int(rng.integers(0, 12)) if n else 0
    data = Data(
        x=torch.from_numpy(rng.normal(size=(n, 3)).astype(np.float32)),
        edge_index=torch.from_numpy(rng.integers(0, max(n, 1), size=(2, e))),
        edge_attr=torch.from_numpy(rng.integers(0, 5, size=(e, 2))),
        y=torch.tensor([int(rng.integers(0, 3))]),
        train_mask=torch.from_numpy(rng.random(n) < 0.5),
        scalar=torch.tensor(float(rng.normal())),
        count=int(rng.integers(0, 9)),
        ratio=float(rng.random()),
        flag=bool(rng.random() < 0.5),
        name="graph-" + "é" * int(rng.integers(0, 4)),
        root_index=torch.from_numpy(rng.integers(0, max(n, 1), size=min(n, 1))),
    )
    if weighted:
        data.edge_weight = torch.from_numpy(rng.random(e).astype(np.float32))
    return data


def assert_same_graph(left, right):
    assert set(left.keys()) == set(right.keys())
    for key in left.to_dict():
        a, b = left[key], right[key]
        assert type(a) is type(b), key
        if isinstance(a, torch.Tensor):
            assert a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b), key
        else:
            assert a == b, key


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 6))
def test_a_list_is_converted_and_back(seed, count):
    rng = np.random.default_rng(seed)
    graphs = [random_graph(rng) for _ in range(count)]
    table, block = graphs_to_arrays(graphs)
    table.validate()
    block.validate()
    assert table.num_graphs == count
    for left, right in zip(graphs, table_to_data(table), strict=True):
        assert_same_graph(left, right)
        assert left.num_nodes == right.num_nodes


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(2, 6))
def test_in_memory_dataset_equals_its_items(seed, count):
    rng = np.random.default_rng(seed)
    dataset = Frozen([random_graph(rng) for _ in range(count)])
    order = rng.permutation(count)[: int(rng.integers(1, count + 1))].tolist()
    for chosen in (dataset, dataset[order]):
        table, block = graphs_to_arrays(chosen)
        items = [chosen[i] for i in range(len(chosen))]
        for left, right in zip(items, table_to_data(table), strict=True):
            assert_same_graph(left, right)
        reference = Batch.from_data_list(items)
        dense = torch.zeros(block.num_nodes, block.num_nodes, dtype=torch.float64)
        dense.index_put_(tuple(reference.edge_index), reference.edge_weight.double(), accumulate=True)
        ours = np.zeros((block.num_nodes, block.num_nodes))
        np.add.at(ours, (block.rows(), block.indices), block.weight)
        np.testing.assert_allclose(ours, dense.numpy())
        np.testing.assert_array_equal(block.node_ptr, reference.ptr.numpy())


def test_in_memory_dataset_is_not_indexed(monkeypatch):
    """The concatenated tensors are used directly: no graph is separated."""
    rng = np.random.default_rng(0)
    dataset = Frozen([random_graph(rng) for _ in range(5)])
    monkeypatch.setattr(InMemoryDataset, "__getitem__", lambda *_: pytest.fail("looped over graphs"))
    assert graphs_to_table(dataset).num_graphs == 5


def test_transform_of_a_dataset_is_applied():
    def double(data):
        data.x = data.x * 2
        return data

    rng = np.random.default_rng(1)
    graphs = [random_graph(rng, nodes=3) for _ in range(3)]
    table = graphs_to_table(Frozen(graphs, transform=double))
    np.testing.assert_allclose(table.fields["x"].values, 2 * torch.cat([g.x for g in graphs]).numpy())


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"num_nodes": 7, "x": torch.zeros(7, 1)}, 7),
        ({"x": torch.zeros(4, 2)}, 4),
        ({"pos": torch.zeros(5, 3)}, 5),
        ({"my_node_mark": torch.zeros(6)}, 6),
        ({}, 3),
    ],
)
def test_node_counts_follow_pyg(attributes, expected):
    graphs = [Data(edge_index=torch.tensor([[0, 2], [1, 0]]), **attributes) for _ in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert graphs[0].num_nodes == expected
    for source in (graphs, Frozen(graphs)):
        np.testing.assert_array_equal(np.diff(graphs_to_table(source).node_ptr), [expected, expected])


def test_excluded_features_still_count_nodes():
    graphs = [Data(x=torch.zeros(5, 2), edge_index=torch.tensor([[0], [1]])) for _ in range(2)]
    for source in (graphs, Frozen(graphs)):
        table = graphs_to_table(source, exclude_keys=["x"])
        assert list(table.fields) == ["edge_index"]
        assert [g.num_nodes for g in table_to_data(table)] == [5, 5]


def test_explicit_num_nodes_comes_back_once():
    graphs = [Data(edge_index=torch.tensor([[0], [1]]), num_nodes=n) for n in (2, 4)]
    for source in (graphs, Frozen(graphs)):
        back = table_to_data(graphs_to_table(source))
        assert [g.num_nodes for g in back] == [2, 4]
        assert [set(g.keys()) for g in back] == [{"edge_index", "num_nodes"}] * 2


def test_only_edge_weight_gives_weights_and_they_become_float64():
    edges = torch.tensor([[0, 1], [1, 0]])
    plain = Data(edge_index=edges, edge_attr=torch.tensor([3.0, 4.0]), num_nodes=2)
    assert graphs_to_arrays([plain])[1].weight is None
    for values in (torch.tensor([True, False]), torch.tensor([3, 4]), torch.tensor([[3.0], [4.0]])):
        weighted = Data(edge_index=edges, edge_weight=values, num_nodes=2)
        np.testing.assert_array_equal(
            graphs_to_arrays([weighted])[1].weight, values.double().flatten().numpy()
        )


def test_a_data_class_with_its_own_inc_and_cat_dim():
    class Pair(Data):
        def __inc__(self, key, value, *args, **kwargs):
            return self.num_nodes if key == "anchor" else super().__inc__(key, value, *args, **kwargs)

        def __cat_dim__(self, key, value, *args, **kwargs):
            return None if key == "graph_vector" else super().__cat_dim__(key, value, *args, **kwargs)

    graphs = [
        Pair(
            x=torch.zeros(n, 1),
            edge_index=torch.zeros(2, 0, dtype=torch.long),
            anchor=torch.tensor([n - 1]),
            graph_vector=torch.ones(4),
        )
        for n in (2, 3)
    ]
    table = graphs_to_table(graphs)
    assert table.fields["anchor"].shifted
    assert table.fields["graph_vector"].form == "stacked"
    assert table.fields["graph_vector"].values.shape == (2, 4)
    assert table_to_data(table)[1].graph_vector.shape == (4,)


EDGES = torch.tensor([[0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("graphs", "word"),
    [
        ([Data(x=torch.zeros(2, 1), edge_index=EDGES, extra={"a": torch.ones(1)})] * 2, "extra"),
        ([Data(x=torch.zeros(2, 1), edge_index=EDGES, parts=[torch.zeros(1)])] * 2, "parts"),
        (
            [
                Data(x=torch.zeros(2, 1), edge_index=EDGES, z=torch.zeros(1)),
                Data(x=torch.zeros(2, 1), edge_index=EDGES),
            ],
            "'z'",
        ),
        ([Data(x=torch.zeros(2, 1), edge_index=EDGES), Data(x=torch.zeros(2, 2), edge_index=EDGES)], "'x'"),
        (
            [
                Data(x=torch.zeros(2, 1), edge_index=EDGES),
                Data(x=torch.zeros(2, 1).double(), edge_index=EDGES),
            ],
            "dtype",
        ),
        (
            [
                Data(x=torch.zeros(2, 1), edge_index=EDGES, v=torch.ones(1)),
                Data(x=torch.zeros(2, 1), edge_index=EDGES, v="a"),
            ],
            "'v'",
        ),
        ([Data(x=torch.zeros(2, 1), edge_index=EDGES + 1)], "edge_index"),
        ([Data(x=torch.zeros(2, 1), edge_index=EDGES, edge_weight=torch.zeros(3))], "edge_weight"),
        (
            [Data(x=torch.zeros(2, 1), edge_index=EDGES, edge_weight=torch.tensor([1.0, float("nan")]))],
            "edge_weight",
        ),
        ([Data(x=torch.zeros(2, 1))], "edge_index"),
        ([Data(y=torch.zeros(1))], "num_nodes"),
        ([Data(x=torch.zeros(2, 1).to_sparse(), edge_index=EDGES)], "'x'"),
        ([Data(x=torch.zeros(2, 1, dtype=torch.bfloat16), edge_index=EDGES)], "'x'"),
        ([HeteroData()], "HeteroData"),
        (Data(x=torch.zeros(2, 1), edge_index=EDGES), "list"),
    ],
)
def test_an_attribute_that_cannot_be_stored_is_named(graphs, word):
    with pytest.raises(DatasetError, match=word):
        graphs_to_arrays(graphs)


def test_dict_attribute_of_an_in_memory_dataset_is_named():
    graphs = [Data(x=torch.zeros(2, 1), edge_index=EDGES, extra={"a": torch.zeros(2)}) for _ in range(2)]
    with pytest.raises(DatasetError, match="extra"):
        graphs_to_table(Frozen(graphs))
    assert list(graphs_to_table(Frozen(graphs), exclude_keys=["extra"]).fields) == ["x", "edge_index"]


def test_the_graph_with_an_invalid_node_id_is_named():
    good = Data(x=torch.zeros(3, 1), edge_index=EDGES)
    bad = Data(x=torch.zeros(1, 1), edge_index=EDGES)
    with pytest.raises(DatasetError, match="graph 1"):
        graphs_to_table([good, bad, good])


def test_no_graphs():
    table = graphs_to_table([])
    assert (table.num_graphs, table.num_nodes) == (0, 0)
    assert table_to_data(table) == []


def test_empty_graph_and_graph_without_edges():
    graphs = [
        Data(x=torch.zeros(0, 2), edge_index=torch.zeros(2, 0, dtype=torch.long)),
        Data(x=torch.zeros(3, 2), edge_index=torch.zeros(2, 0, dtype=torch.long)),
    ]
    table, block = graphs_to_arrays(graphs)
    np.testing.assert_array_equal(block.node_ptr, [0, 0, 3])
    assert block.num_edges == 0
    assert table.take([1]).to_block().num_nodes == 3
