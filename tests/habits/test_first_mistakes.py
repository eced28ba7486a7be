"""Mistakes that users of PyG make first: the message names what to write instead."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data, InMemoryDataset

import tgp
from tgp.data import LevelStore, PoolDataLoader, PooledDataset, PreCoarsening
from tgp.data.convert import graphs_to_table
from tgp.errors import DatasetError, InputError, ScheduleError, UnknownNameError
from tgp.lift import BaseLift
from tgp.poolers import get_pooler
from tgp.select import SelectOutput
from tgp.testing import check_method, check_pooler

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def graph(**changes):
    return Data(**{"x": torch.ones(3, 2), "edge_index": EDGES, **changes})


@pytest.mark.parametrize("alias", ["mincut", "graclus", "topk"])
def test_edge_index_as_a_keyword(alias):
    pooler = get_pooler(alias, in_channels=2, k=2)
    with pytest.raises(UnknownNameError, match=r"'edge_index'\. Did you mean 'adj'") as caught:
        pooler(x=torch.ones(3, 2), edge_index=EDGES)
    assert caught.value.nearest == "adj"


@pytest.mark.parametrize("rows", [1, 3])
def test_lifting_features_of_another_level(rows):
    # Three rows were accepted, and the last one was ignored.
    so = SelectOutput(cluster_index=torch.tensor([0, 0, 1]))
    with pytest.raises(InputError, match=f"one row per supernode: expected 2, got {rows}"):
        BaseLift()(torch.ones(rows, 2), so)


@pytest.mark.parametrize("k", [0, -1, 2.5, "2"])
def test_number_of_clusters(k):
    with pytest.raises(InputError, match="k must be a whole number of at least 1"):
        get_pooler("mincut", in_channels=2, k=k)


def test_alias_that_is_no_text():
    with pytest.raises(InputError, match="pooler_name must be text"):
        get_pooler(None)


class Transposed(InMemoryDataset):
    def __init__(self):
        super().__init__()
        self.data, self.slices = self.collate([graph(edge_index=EDGES.t())] * 2)


@pytest.mark.parametrize(
    "graphs",
    [[graph(edge_index=EDGES.t()), graph(edge_index=EDGES.t()[:2])], Transposed()],
    ids=["list", "dataset"],
)
def test_transposed_edges(graphs):
    with pytest.raises(DatasetError, match=r"'edge_index' must have shape \[2, E\].*\[4, 2\]") as caught:
        graphs_to_table(graphs)
    assert caught.value.hint == "transpose it: data.edge_index.t().contiguous()"


@pytest.mark.parametrize("shift", [1, -1])
def test_node_ids_out_of_range(shift):
    with pytest.raises(
        DatasetError, match=r"'edge_index' must hold node ids in \[0, 3\) on graph 1"
    ) as caught:
        tgp.coarsen([graph(), graph(edge_index=EDGES + shift)], "graclus")
    assert "count from 0" in caught.value.hint and "exclude" not in caught.value.hint


def test_attributes_that_differ_name_the_argument_of_coarsen():
    with pytest.raises(DatasetError) as caught:
        tgp.coarsen([graph(), Data(edge_index=EDGES, num_nodes=3)], "graclus")
    assert "exclude=['x'] (on the command line: --exclude x" in caught.value.hint


def test_a_dataset_of_graphs_is_not_a_store():
    with pytest.raises(InputError, match="store must be a directory, a URL or an open store, got Data"):
        PooledDataset(graph())


def test_levels_as_a_number(tmp_path):
    tgp.coarsen(graph(), "graclus", out=tmp_path / "store")
    with pytest.raises(InputError, match=r"levels must be a list of numbers, such as \[1, 2\], got 1"):
        PooledDataset(tmp_path / "store", levels=1)


def test_loader_of_a_path_or_of_one_graph(tmp_path):
    # A path was loaded character by character.
    with pytest.raises(InputError, match="dataset must be a dataset or a list of graphs, got str") as caught:
        PoolDataLoader("pooled/molecules")
    assert "PooledDataset('pooled/molecules')" in caught.value.hint
    with pytest.raises(InputError, match="got Data"):
        PoolDataLoader(graph())
    assert next(iter(PoolDataLoader(Batch.from_data_list([graph(), graph()]), batch_size=2))).num_graphs == 2


@pytest.mark.parametrize(("wrap", "error"), [(lambda p: p, InputError), (lambda p: [p], ScheduleError)])
def test_pooler_objects_in_coarsen(wrap, error):
    with pytest.raises(error, match=r"got GraclusPooling(\n|$)") as caught:
        tgp.coarsen(graph(), wrap(get_pooler("graclus")))
    assert "precoarsen" in caught.value.hint


@pytest.mark.parametrize("name", ["mincut", "topk"])
def test_trainable_pooler_in_a_schedule(name):
    with pytest.raises(UnknownNameError) as caught:
        tgp.coarsen(graph(), name)
    assert caught.value.hint.startswith(f"{name} is trained with the model")
    if hasattr(caught.value, "__notes__"):
        assert caught.value.__notes__ == [f"Hint: {caught.value.hint}"]


def test_number_in_front_of_a_pooler():
    with pytest.raises(UnknownNameError, match="'2'") as caught:
        tgp.coarsen(graph(), "2*graclus")
    assert "graclus*2" in caught.value.hint


@pytest.mark.parametrize("rows", [1, 3, 4])
def test_one_row_per_edge_in_a_file(tmp_path, rows):
    # Was read with --memory only.
    edges = np.array([[0, 1], [1, 2], [2, 3], [3, 0]])[:rows]
    np.savez(tmp_path / "two_rows.npz", edge_index=edges.T, x=np.ones((4, 1)))
    np.savez(tmp_path / "two_columns.npz", edge_index=edges, x=np.ones((4, 1)))
    first, second = (
        tgp.coarsen(str(tmp_path / f"{name}.npz"), "nopool")[0] for name in ("two_rows", "two_columns")
    )
    assert torch.equal(first.edge_index, second.edge_index) and first.edge_index.shape == (2, rows)


def test_edges_between_nodes_with_names(tmp_path):
    (tmp_path / "friends.txt").write_text("anna bert\nbert carl\n")
    with pytest.raises(DatasetError, match=r"friends\.txt holds no edges") as caught:
        tgp.coarsen(str(tmp_path / "friends.txt"), "graclus")
    assert "networkx.read_edgelist" in caught.value.hint


def test_attribute_that_no_graph_has():
    with pytest.raises(UnknownNameError, match="Unknown attribute 'y'") as caught:
        PreCoarsening("graclus", carry="y=mean")(graph())
    assert caught.value.valid == ["edge_index", "x"]


def test_level_store_of_a_path():
    with pytest.raises(InputError, match="dataset must be a PooledDataset, got str"):
        LevelStore("pooled/regions", level=1)


@pytest.mark.parametrize("options", [{"only": ["shape"]}, {"exceptions": {"shape": "by design"}}])
def test_checks_that_do_not_exist(options):
    # Ran nothing and passed.
    with pytest.raises(UnknownNameError, match=r"'shape'\. Did you mean 'shapes'"):
        check_pooler("topk", **options)
    with pytest.raises(UnknownNameError, match=r"Unknown check 'shape'"):
        check_method("graclus", **options)
