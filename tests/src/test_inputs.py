"""Wrong arguments of a forward pass raise an error that names the argument."""

import pytest
import torch

from tgp.errors import TgpError
from tgp.poolers import get_pooler

ALIASES = [
    "acc", "asap", "bnpool", "diff", "dmon", "ec", "eigen", "graclus", "hosc", "jb", "kmis", "lap", "maxcut", "mincut",
    "ndp", "nmf", "pan", "sag", "sep", "topk",
]  # fmt: skip
PATH = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4, 4, 5], [1, 0, 2, 1, 3, 2, 4, 3, 5, 4]])


def build(alias):
    return get_pooler(alias, in_channels=4, k=2, scorer="degree").eval()


def call(pooler, **changes):
    return pooler(
        **{"x": torch.randn(6, 4), "adj": PATH, "batch": torch.zeros(6, dtype=torch.long), **changes}
    )


@pytest.mark.parametrize("wrong", [6, 99, -1, 2**40])
@pytest.mark.parametrize("place", [(0, 0), (1, 3)])
@pytest.mark.parametrize("alias", ALIASES)
def test_node_ids_out_of_range(alias, place, wrong):
    # Reached scipy unchecked: free(): invalid pointer, segmentation faults, silently wrong edges.
    edges = PATH.clone()
    edges[place] = wrong
    for suffix in ("", "_u") if alias not in ("eigen", "nmf") and hasattr(build(alias), "batched") else ("",):
        with pytest.raises(TgpError, match=rf"edge_index .*\[0, 6\).* got {wrong}"):
            call(build(alias + suffix), adj=edges)


@pytest.mark.parametrize("alias", ALIASES)
def test_lengths(alias):
    pooler = build(alias)
    with pytest.raises(TgpError, match="edge_weight must have one value per edge: expected 10, got 12"):
        call(pooler, edge_weight=torch.ones(12))
    with pytest.raises(TgpError, match="batch must have one graph id per node: expected 6, got 7"):
        call(pooler, batch=torch.zeros(7, dtype=torch.long))
    with pytest.raises(TgpError, match=r"batch .*\[0, 2\), got 2"):
        call(pooler, batch=torch.tensor([0, 0, 0, 2, 2, 2]), batch_size=2)
    with pytest.raises(TgpError, match=r"batch has .* got -"):
        call(pooler, batch=torch.tensor([0, 0, 0, -1, 0, 0]))
    with pytest.raises(TgpError, match=r"batch must hold one graph id per node, \[N\] of int64"):
        call(pooler, batch=torch.zeros(6))


@pytest.mark.parametrize("alias", [a for a in ALIASES if a != "pan"])
def test_the_argument_order_of_pyg_is_refused(alias):
    # Was accepted: batch became the assignment, and the whole batch was pooled as one graph.
    batch = torch.tensor([0, 0, 0, 1, 1, 1])
    with pytest.raises(TgpError, match=r"so must be a SelectOutput.*pooler\(x=x, adj=edge_index"):
        build(alias)(torch.randn(6, 4), PATH, None, batch)


@pytest.mark.parametrize(
    ("name", "nearest"), [("edge_weights", "edge_weight"), ("edge_attrs", "edge_attr"), ("batchs", "batch")]
)
@pytest.mark.parametrize("alias", ALIASES)
def test_unknown_keywords(alias, name, nearest):
    with pytest.raises(TypeError, match=f"Unknown argument of .* '{name}'. Did you mean '{nearest}'"):
        call(build(alias), **{name: torch.ones(10)})


def test_all_poolers_accept_the_same_call():
    extra = {"mask": None, "batch_size": 1, "num_nodes": 6, "attn": None, "batch_pooled": None}
    for alias in ALIASES:
        assert call(build(alias), **extra).so.num_nodes in (6, 1)


@pytest.mark.parametrize("alias", ["topk", "sag", "asap", "pan", "ec", "maxcut", "mincut", "lap", "mincut_u"])
def test_missing_features(alias):
    with pytest.raises(TypeError, match="needs node features: x is None"):
        call(build(alias), x=None)


def test_types_and_shapes():
    pooler = build("mincut")
    with pytest.raises(TgpError, match="x must be a Tensor, got list"):
        call(pooler, x=[1, 2, 3])
    with pytest.raises(TgpError, match=r"edge_index must hold int64 ids: got torch\.float32"):
        call(pooler, adj=PATH.float())
    with pytest.raises(TgpError, match=r"adj must be an edge list \[2, E\].*got \[3, 10\]"):
        call(pooler, adj=torch.zeros(3, 10, dtype=torch.long))
    with pytest.raises(TgpError, match="adj must be a Tensor or a SparseTensor, got ndarray"):
        call(pooler, adj=PATH.numpy())
    with pytest.raises(TgpError, match="x must have a row for every node of adj"):
        pooler(x=torch.randn(2, 5, 4), adj=torch.ones(2, 6, 6))
    with pytest.raises(TgpError, match=r"mask must have shape \[2, 6\]: got \[2, 5\]"):
        pooler(x=torch.randn(2, 6, 4), adj=torch.ones(2, 6, 6), mask=torch.ones(2, 5, dtype=torch.bool))
    with pytest.raises(TgpError, match="num_nodes must be the number of rows of x: expected 6, got 5"):
        call(pooler, num_nodes=5)
    with pytest.raises(TgpError, match="batch_size must be an int, got float"):
        call(pooler, batch_size=1.0)
    matrix = torch.sparse_coo_tensor(PATH, torch.ones(10), (7, 7), check_invariants=False)
    with pytest.raises(TgpError, match=r"adj must be a matrix over the nodes: expected shape \[6, 6\]"):
        call(pooler, adj=matrix)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.int64])
@pytest.mark.parametrize("alias", ALIASES)
def test_weights_of_whole_numbers(alias, dtype):
    x = torch.randn(6, 4)
    out = call(build(alias), x=x, edge_weight=torch.ones(10, dtype=dtype))
    torch.manual_seed(0)
    assert out.edge_weight is None or out.edge_weight.is_floating_point()


def test_unchecked_values_stay_safe():
    # validate=False skips the check of the forward; compiled code still looks before it writes.
    edges = PATH.clone()
    edges[0, 0] = 99
    for alias in ("mincut", "mincut_u", "sag", "asap", "dmon", "acc", "graclus", "ndp"):
        with pytest.raises((TgpError, IndexError, RuntimeError)):
            call(build(alias), adj=edges, validate=False)


def test_an_accelerator_is_not_read(monkeypatch):
    from tgp.src import inputs

    monkeypatch.setattr(inputs, "on_host", lambda *tensors: False)
    monkeypatch.setattr(torch.Tensor, "numpy", None)
    pooler = build("topk")
    assert call(pooler).x.shape == (3, 4)


@pytest.mark.parametrize(
    "alias", ["acc", "dmon", "eigen", "graclus", "lap", "mincut", "mincut_u", "ndp", "nmf"]
)
def test_edges_between_graphs(alias):
    # A dense adjacency has no place for them: they became edges between other nodes.
    with pytest.raises(TgpError, match="got 2 -> 3 between graphs 0 and 1"):
        call(build(alias), batch=torch.tensor([0, 0, 0, 1, 1, 1]))
