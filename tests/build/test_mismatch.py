"""A store of other data or settings: the error names the attribute, the graph and the option that differ."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import tgp
from tgp.build import CoarsenConfig, coarsen_dataset, mismatch
from tgp.errors import StoreMismatchError
from tgp.ragged import Field, GraphTable


def table(seed=0, count=30, *, dtype=np.float32, extra=False):
    """Return paths of 4 to 6 nodes with random features, a label and a name."""
    rng = np.random.default_rng(seed)
    nodes = np.arange(count) % 3 + 4
    node_ptr = np.concatenate(([0], np.cumsum(nodes)))
    edges = np.concatenate([np.stack([np.arange(n - 1), np.arange(1, n)]) for n in nodes], axis=1)
    edge_ptr = np.concatenate(([0], np.cumsum(nodes - 1)))
    names = [f"g{i}".encode() for i in range(count)]
    fields = {
        "edge_index": Field("edge_index", edges, edge_ptr, -1, "rows", True),
        "x": Field("x", rng.random((int(nodes.sum()), 3)).astype(dtype), node_ptr),
        "y": Field("y", np.arange(count), np.arange(count + 1), 0, "int"),
        "name": Field(
            "name",
            np.frombuffer(b"".join(names), np.uint8).copy(),
            np.concatenate(([0], np.cumsum([len(n) for n in names]))),
            0,
            "str",
        ),
    }
    if extra:
        fields["pos"] = Field("pos", np.zeros((int(nodes.sum()), 2)), node_ptr)
    return GraphTable(node_ptr, fields)


@pytest.fixture
def mismatched(tmp_path, monkeypatch):
    """Write a store, and return a function that runs again with other graphs and returns the error."""
    made = {"graphs": table()}
    monkeypatch.setattr("tests.build.test_mismatch.load", lambda: made["graphs"], raising=False)
    config = {"dataset": "tests.build.test_mismatch:load", "out": tmp_path / "s", "poolers": ("graclus",)}
    coarsen_dataset(CoarsenConfig(**config, shard_size=4_000))

    def again(graphs=None, **values):
        made["graphs"] = graphs or table()
        with pytest.raises(StoreMismatchError) as caught:
            coarsen_dataset(CoarsenConfig(**(config | values)))
        return caught.value

    return again


def edited(name, position, value):
    """Return the graphs with another value of one attribute."""
    graphs = table()
    graphs.fields[name].values[position] = value
    return graphs


def test_the_first_graph_with_another_value_is_named(mismatched):
    row = int(table().node_ptr[17]) + 2
    graphs = edited("x", (row, 1), 9)
    graphs.fields["x"].values[row + 40] = 7
    error = mismatched(graphs)
    assert "although the description of the dataset is the same" in error.differences[0].text
    last = error.differences[-1]
    assert (last.graph, last.attribute) == (17, "x")
    assert "x[2, 1] is 0." in last.text and "9 in this run" in last.text
    assert "fix their seed" in error.hint and "--force" in error.hint and "--out" in error.hint
    assert "{" not in str(error)


def test_the_first_of_several_attributes_is_named(mismatched):
    graphs = edited("x", int(table().node_ptr[20]), 9)
    graphs.fields["y"].values[11] = -5
    last = mismatched(graphs).differences[-1]
    assert (last.graph, last.attribute) == (11, "y")
    assert "y is 11 in the store, -5 in this run" in last.text
    graphs.fields["name"].values[3] = ord("h")
    assert mismatched(graphs).differences[-1].attribute == "name"


def test_values_that_are_not_a_number_are_equal():
    same = table()
    same.fields["x"].values[5, 0] = np.nan
    changed = table()
    changed.fields["x"].values[5, 0] = np.nan
    changed.fields["x"].values[50, 0] = 3
    assert (
        mismatch._first_changed(same.fields["x"], changed.fields["x"])
        == np.searchsorted(same.node_ptr, 50, side="right") - 1
    )


def test_the_first_graph_of_another_size_is_named(mismatched):
    graphs = table()
    keep = [*range(8), *range(9, 30), 8]
    last = mismatched(graphs.take(keep)).differences[-1]
    assert last.graph == 8
    assert "6 nodes and 5 edges in the store, 4 nodes and 3 edges in this run" in last.text


def test_other_types_and_attributes_are_named(mismatched):
    texts = [d.text for d in mismatched(table(dtype=np.float64, extra=True)).differences]
    assert "attribute 'x': float32 [*, 3] in the store, float64 [*, 3] in this run" in texts
    assert "attribute 'pos' is not in the store" in texts
    fewer = table()
    del fewer.fields["y"]
    assert "attribute 'y' is in the store, but not" in str(mismatched(fewer))


def test_lists_of_texts_are_compared(tmp_path):
    def graphs(names):
        edges = torch.tensor([[0, 1], [1, 0]])
        return [Data(edge_index=edges, names=names, x=torch.zeros(2, 1))]

    tgp.coarsen(graphs(["a", "b"]), "graclus", out=tmp_path)
    with pytest.raises(StoreMismatchError, match="attribute 'names' has another text"):
        tgp.coarsen(graphs(["a", "c"]), "graclus", out=tmp_path)
    with pytest.raises(
        StoreMismatchError, match=r"attribute 'names': JSON in the store, int64 \[\*\] in this run"
    ):
        tgp.coarsen(graphs(torch.arange(2)), "graclus", out=tmp_path)


def test_a_limit_is_named_and_the_common_graphs_are_compared(mismatched):
    texts = [d.text for d in mismatched(limit=20).differences]
    assert texts == [
        "option limit of the dataset: not set in the store, 20 asked for",
        "number of graphs: 30 in the store, 20 asked for",
        "the first 20 graphs are the same",
    ]


def test_the_comparison_is_bounded(mismatched, monkeypatch):
    monkeypatch.setattr(mismatch, "PIECE_BYTES", 600)
    monkeypatch.setattr(mismatch, "MOST_BYTES", 1800)
    error = mismatched(edited("x", (-1, 0), 9))
    assert "the others were not compared" in error.differences[-1].text
    graphs = edited("x", (int(table().node_ptr[7]), 0), 9)
    assert mismatched(graphs).differences[-1].graph == 7


def test_an_unfinished_store_is_explained_without_its_graphs(mismatched, tmp_path):
    (tmp_path / "s" / "manifest.json").unlink()
    error = mismatched(edited("x", (0, 0), 9))
    assert [d.what for d in error.differences] == ["graphs"]
    assert "All jobs of an array" in mismatched(edited("x", (0, 0), 9), shard=(0, 2)).hint


def test_parameters_seed_and_layout(mismatched):
    error = mismatched(poolers=("graclus:order=degree",), names=("graclus",), seed=4)
    texts = {d.what: d for d in error.differences}
    assert texts["params.order"].level == 1 and texts["params.order"].asked == "degree"
    assert (texts["seed"].stored, texts["seed"].asked, texts["seed"].hierarchy) == (0, 4, "graclus")
    assert "--name OTHER" in error.hint
    error = mismatched(shard_size=2_000)
    assert [d.what for d in error.differences] == ["bounds"] and "Leave out --shard-size" in error.hint
    error = mismatched(poolers=("kmis",), names=("graclus",))
    assert [d.text for d in error.differences] == [
        "hierarchy 'graclus', level 1: method: graclus in the store, kmis asked for"
    ]
