"""Objects of the wrong type or size, and stages of users that return something else: the message names what to write."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import ToSparseTensor
from torch_geometric.utils import to_edge_index

import tgp
from tgp.connect import Connect, SparseConnect
from tgp.data import PreCoarsening, precoarsen
from tgp.errors import DatasetError, InputError, ParameterError, UnknownNameError
from tgp.lift import BaseLift
from tgp.poolers import TopkPooling, get_pooler, register_pooler
from tgp.reduce import AggrReduce, BaseReduce, GlobalReduce, get_aggr
from tgp.select import Select, SelectOutput
from tgp.src import SRCPooling

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])


def graph(**changes):
    return Data(**{"x": torch.ones(4, 3), "edge_index": EDGES, **changes})


# -- readouts and stages --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.parametrize("op", ["sum", "max", "median"])
def test_readout_with_the_batch_of_another_level(size, op):
    # Too few ids: the last rows were left out silently.
    with pytest.raises(InputError, match=rf"one graph id per row of x: expected \[4\], got \[{size}\]"):
        GlobalReduce(op)(torch.ones(4, 3), batch=torch.zeros(size, dtype=torch.long))


def test_aggregation_of_features_of_another_level():
    # Rows beyond the nodes of the assignment were left out silently.
    so = SelectOutput(cluster_index=torch.tensor([0, 0, 1]))
    with pytest.raises(InputError, match="one row per node: expected 3 rows, got"):
        AggrReduce(get_aggr("sum"))(torch.ones(4, 3), so)


def test_aggregations_as_pyg_writes_them():
    with pytest.raises(TypeError, match=r"MultiAggregation\(\['mean', 'max'\]\)"):
        GlobalReduce(["mean", "max"])
    with pytest.raises(TypeError, match=r"get_aggr\('lstm'\)"):
        AggrReduce("lstm")


def test_assignment_of_one_dimension():
    # Was read as three nodes and three supernodes.
    with pytest.raises(InputError, match=r"s must have shape \[N, K\] or \[B, N, K\].*got \[3\]"):
        SelectOutput(s=torch.ones(3))


@pytest.mark.parametrize("name", ["cluster_index", "node_index", "weight"])
def test_assignment_of_lists(name):
    given = {"cluster_index": torch.tensor([0, 1]), name: [0, 1]}
    with pytest.raises(InputError, match=f"{name} must be a Tensor, got list"):
        SelectOutput(**given)


def test_lifting_with_a_matrix():
    with pytest.raises(InputError, match="so must be a SelectOutput, got Tensor"):
        BaseLift()(torch.ones(2, 3), torch.ones(4, 2))


class Labels(Select):
    def forward(self, **kwargs):
        return torch.tensor([0, 0, 1, 1])


class Halves(Select):
    def forward(self, **kwargs):
        return SelectOutput(cluster_index=torch.tensor([0, 0, 1, 1]))


class OnlyEdges(Connect):
    def forward(self, edge_index, so, **kwargs):
        return so.cluster_index[edge_index]


def test_selector_that_returns_labels():
    pooler = SRCPooling(Labels(), BaseReduce(), BaseLift(), SparseConnect())
    with pytest.raises(InputError, match="Labels must return a SelectOutput, got Tensor"):
        pooler(x=torch.ones(4, 3), adj=EDGES)


@pytest.mark.parametrize("attributes", [{}, {"edge_attr": torch.ones(6, 2)}])
def test_connector_that_returns_only_edges(attributes):
    # The two rows of the edges became edges and weights.
    pooler = SRCPooling(Halves(), BaseReduce(), BaseLift(), OnlyEdges())
    with pytest.raises(InputError, match=r"OnlyEdges must return \(edge_index, edge_weight\), got Tensor"):
        pooler(x=torch.ones(4, 3), adj=EDGES, **attributes)


@pytest.mark.parametrize("alias", ["topk", "pan", "asap", "graclus"])
def test_subclass_that_selects_labels(alias):
    base = type(get_pooler(alias, in_channels=3))

    class Mine(base):
        def select(self, **kwargs):
            return torch.tensor([0, 0, 1, 1])

    pooler = Mine() if alias == "graclus" else Mine(3)
    with pytest.raises(InputError, match=r"Mine\.select must return a SelectOutput, got Tensor"):
        pooler(x=torch.ones(4, 3), adj=EDGES)


def test_name_of_a_loss():
    out = get_pooler("mincut", in_channels=3, k=2)(x=torch.ones(4, 3), adj=EDGES)
    with pytest.raises(UnknownNameError, match=r"Unknown loss 'cut'.*cut_loss, ortho_loss") as caught:
        out.get_loss_value("cut")
    assert isinstance(caught.value, KeyError) and not str(caught.value).startswith('"')


def test_transform_without_return(tmp_path):
    # The dataset held None, and loaders failed inside of PyG.
    dataset = tgp.coarsen([graph()], "graclus", out=tmp_path / "store")
    dataset.transform = lambda data: None
    with pytest.raises(DatasetError, match="the transform returned None for graph 0"):
        dataset[0]


def test_dense_pooler_with_stages_that_return_something_else():
    class Soft(type(get_pooler("mincut", in_channels=3, k=2))):
        def select(self, **kwargs):
            return super().select(**kwargs).s

    with pytest.raises(InputError, match=r"Soft\.select must return a SelectOutput, got Tensor"):
        Soft(3, 2)(x=torch.ones(4, 3), adj=EDGES)
    with pytest.raises(InputError, match=r"Soft\.select must return a SelectOutput, got Tensor"):
        Soft(3, 2, batched=False)(x=torch.ones(4, 3), adj=EDGES)


# -- poolers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alias", ["topk", "pan"])
@pytest.mark.parametrize("width", [1, 5])
def test_features_of_another_width(alias, width):
    # One column was repeated silently.
    pooler = get_pooler(alias, in_channels=3)
    with pytest.raises(InputError, match=rf"in_channels=3 features per node, got \[4, {width}\]"):
        pooler(x=torch.ones(4, width), adj=EDGES)


@pytest.mark.parametrize(
    "wrong", [{"ratio": "0.5"}, {"in_channels": "3"}, {"min_score": "0.1", "ratio": None}]
)
def test_numbers_as_text(wrong):
    name = next(iter(wrong))
    with pytest.raises(InputError, match=f"{name} must be a number, got '{wrong[name]}'"):
        get_pooler("topk", **{"in_channels": 3, **wrong})


@pytest.mark.parametrize("wrong", [[graph()], {"x": 1}])
def test_pooler_of_a_list(wrong):
    with pytest.raises(InputError, match=r"x must be a Tensor or a graph \(Data, Batch\), got (list|dict)"):
        get_pooler("graclus")(wrong)


def test_register_an_object():
    with pytest.raises(ParameterError, match=r"must be a class or .*, got an object of TopkPooling"):
        register_pooler("my_topk", TopkPooling(3), "An object")


# -- graphs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "coarsen",
    [
        lambda data: precoarsen([data], "graclus"),
        PreCoarsening("graclus"),
        lambda data: tgp.coarsen([data], "graclus"),
    ],
    ids=["precoarsen", "PreCoarsening", "coarsen"],
)
@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_adjacency_instead_of_edges(coarsen):
    # The hint was to leave adj_t out, and then the edges were missing.
    data = ToSparseTensor()(graph())
    with pytest.raises(
        DatasetError, match=r"has no 'edge_index': .* got the sparse matrix 'adj_t'"
    ) as caught:
        coarsen(data)
    assert "to_edge_index(data.adj_t.t())" in caught.value.hint
    data.edge_index, data.edge_weight = to_edge_index(data.adj_t.t())  # the hint works
    del data["adj_t"]
    coarsen(data)


def test_sparse_and_bfloat16_features():
    for x, advice in ((torch.eye(4).to_sparse(), "x.to_dense()"), (torch.ones(4, 3).bfloat16(), "x.float()")):
        with pytest.raises(DatasetError) as caught:
            tgp.coarsen([graph(x=x)], "graclus")
        assert f"data.x = data.{advice}" in caught.value.hint


@pytest.mark.parametrize("edges", [EDGES.tolist(), EDGES.numpy()], ids=["list", "numpy"])
def test_edges_that_are_no_tensor(edges):
    with pytest.raises(DatasetError, match="'edge_index' must be a tensor on graph 0, got") as caught:
        tgp.coarsen([graph(edge_index=edges)], "graclus")
    assert "torch.as_tensor" in caught.value.hint


def test_graphs_without_edges():
    with pytest.raises(DatasetError, match="need an 'edge_index', got x") as caught:
        tgp.coarsen([Data(x=torch.ones(4, 3))], "graclus")
    assert "torch.empty(2, 0" in caught.value.hint and "KNNGraph" in caught.value.hint


def test_transposed_edges_in_a_transform():
    # Was reported as a dense adjacency matrix.
    with pytest.raises(InputError, match=r"must have shape \[2, E\], got \[6, 2\]\. Transpose it"):
        PreCoarsening("graclus")(graph(edge_index=EDGES.t()))


@pytest.mark.parametrize("weight", ["ones", np.ones(6), [1.0] * 6])
def test_weights_that_are_no_tensor_in_a_transform(weight):
    with pytest.raises(InputError, match="edge_weight must be a Tensor, got"):
        PreCoarsening("graclus")(graph(edge_weight=weight))


# -- files ----------------------------------------------------------------------------------------------


def test_adjacency_matrix_as_a_file(tmp_path):
    np.save(tmp_path / "matrix.npy", np.ones((4, 4)))
    with pytest.raises(
        DatasetError, match=r"integers of shape \[2, E\] or \[E, 2\], got float64 \[4, 4\]"
    ) as caught:
        tgp.coarsen(tmp_path / "matrix.npy", "graclus")
    assert "scipy.sparse.save_npz" in caught.value.hint


def test_arguments_of_a_function_in_brackets(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("def load(n=3): ...\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DatasetError, match="is a Python file") as caught:
        tgp.coarsen("mine.py:load(n=5)", "graclus")
    assert caught.value.hint == "write mine.py:load; arguments follow the name: mine.py:load:name=value"


def test_function_of_a_module_with_a_dot(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("def load(): ...\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DatasetError, match=r"'mine\.load' is") as caught:
        tgp.coarsen("mine.load", "graclus")
    assert "mine.py:load" in caught.value.hint
