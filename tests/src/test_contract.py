"""Overridden methods, replaced stages and hooks take effect on every path.

The conformance checks test this for all poolers. These tests are examples of reported defects.
"""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize, prune
from torch_geometric.nn import GraphConv

from tgp.connect import DenseConnect, SparseConnect
from tgp.poolers import AsymCheegerCutPooling, MinCutPooling, TopkPooling, get_pooler
from tgp.reduce import BaseReduce
from tgp.select import TopkSelect
from tgp.src import DenseSRCPooling, SRCPooling
from tgp.src.inputs import read_inputs
from tgp.src.row_execution import RowExecution
from tgp.testing.cases import pooler_aliases

MODES = [
    {"batched": batched, "sparse_output": sparse} for batched in (True, False) for sparse in (False, True)
]
DENSE = pooler_aliases(dense=True, trainable=True)


def ring(size=20, graphs=2):
    node = torch.arange(size)
    edges = torch.stack([node, (node + 1) % size])
    edges = torch.cat([edges, edges.flip(0)], dim=1)
    return batch_of(edges, size, graphs)


def complete(size=6, graphs=2):
    return batch_of((~torch.eye(size, dtype=torch.bool)).nonzero().t(), size, graphs)


def batch_of(edges, size, graphs):
    x = torch.randn(size * graphs, 4, generator=torch.Generator().manual_seed(1))
    index = torch.cat([edges + size * g for g in range(graphs)], dim=1)
    return {"x": x, "adj": index, "batch": torch.arange(graphs).repeat_interleave(size)}


GRAPHS = pytest.mark.parametrize("data", [ring(), complete()], ids=["ring", "complete"])
EVERY_MODE = pytest.mark.parametrize("mode", MODES, ids=str)


def build(cls, **options):
    torch.manual_seed(0)
    return cls(4, 3, **options).eval()


@GRAPHS
@EVERY_MODE
def test_an_overridden_reduce_takes_effect_for_every_density(data, mode):
    class Doubled(MinCutPooling):
        def reduce(self, **kwargs):
            x, batch = super().reduce(**kwargs)
            return 2 * x, batch

    expected, out = build(MinCutPooling, **mode)(**data), build(Doubled, **mode)(**data)
    torch.testing.assert_close(out.x, 2 * expected.x)
    torch.testing.assert_close(out.loss, expected.loss)


@GRAPHS
@EVERY_MODE
def test_an_overridden_connect_takes_effect_in_every_dense_mode(data, mode):
    class Tripled(MinCutPooling):
        def connect(self, **kwargs):
            adj, weight = super().connect(**kwargs)
            return (3 * adj, weight) if weight is None else (adj, 3 * weight)

    expected, out = build(MinCutPooling, **mode)(**data), build(Tripled, **mode)(**data)
    if expected.edge_weight is None:
        torch.testing.assert_close(out.edge_index, 3 * expected.edge_index)
    else:
        torch.testing.assert_close(out.edge_weight, 3 * expected.edge_weight)


@GRAPHS
@EVERY_MODE
def test_an_overridden_compute_loss_is_the_loss_of_both_modes(data, mode):
    class Mine(MinCutPooling):
        def compute_loss(self, adj, S, adj_pooled):
            assert adj.shape[:2] == S.shape[:2] and adj_pooled.shape[-1] == self.k
            return {"mine": adj.sum(), **super().compute_loss(adj, S, adj_pooled)}

    expected, out = build(MinCutPooling, **mode)(**data), build(Mine, **mode)(**data)
    assert out.loss.pop("mine") == data["adj"].size(1)
    torch.testing.assert_close(out.loss, expected.loss)


@GRAPHS
@EVERY_MODE
def test_an_overridden_compute_sparse_loss_is_the_loss_of_both_modes(data, mode):
    class Mine(AsymCheegerCutPooling):
        def compute_sparse_loss(self, edge_index, edge_weight, S, batch):
            assert S.dim() == 2 and int(edge_index.max()) < S.size(0) == batch.numel()
            return super().compute_sparse_loss(edge_index, edge_weight, S, batch)

    expected, out = build(AsymCheegerCutPooling, **mode)(**data), build(Mine, **mode)(**data)
    torch.testing.assert_close(out.loss, expected.loss)


@GRAPHS
@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("alias", DENSE)
def test_a_loss_patched_on_an_instance_is_called(alias, batched, data):
    torch.manual_seed(0)
    pooler = get_pooler(alias, in_channels=4, k=3, batched=batched).eval()
    expected = pooler(**data).loss
    name = "compute_loss" if batched else "compute_sparse_loss"
    original = getattr(pooler, name)
    setattr(pooler, name, lambda *args, **kwargs: {**original(*args, **kwargs), "mine": torch.ones(())})
    loss = pooler(**data).loss
    assert loss.pop("mine") == 1
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-5)


@GRAPHS
def test_a_dense_pooler_of_the_user_overrides_compute_loss_only(data):
    class Mine(DenseSRCPooling):
        def compute_loss(self, adj, S, adj_pooled, mask):
            return {"volume": adj.sum() / mask.sum()}

    values = []
    for batched in (True, False):
        stock = build(MinCutPooling, batched=batched)
        mine = Mine(stock.selector, stock.reducer, stock.lifter, stock.connector, batched=batched)
        assert mine.has_loss
        values.append(mine(**data).loss["volume"])
    assert values[0] == values[1] == data["adj"].size(1) / len(data["x"])


@GRAPHS
@EVERY_MODE
@pytest.mark.parametrize("stage", ["selector", "reducer", "connector"])
def test_hooks_of_stages_run(data, mode, stage):
    for alias in DENSE:
        torch.manual_seed(0)
        pooler, fired = get_pooler(alias, in_channels=4, k=3, **mode).eval(), []
        expected = pooler(**data)
        getattr(pooler, stage).register_forward_hook(lambda *args, fired=fired: fired.append(1))
        out = pooler(**data)
        assert fired, alias
        torch.testing.assert_close(out.x, expected.x)


@pytest.mark.parametrize("alias", ["eigen", "graclus", "kmis", "lap", "ndp", "nmf", "sep"])
def test_hooks_of_connectors_run_if_the_engine_connects(alias):
    pooler, fired = get_pooler(alias, k=3, scorer="degree"), []
    expected = pooler(**ring())
    pooler.connector.register_forward_hook(lambda *args: fired.append(1))
    out = pooler(**ring())
    assert fired == [1]
    torch.testing.assert_close(out.edge_index, expected.edge_index, rtol=0, atol=0)


def test_the_fast_path_is_used_without_user_code():
    pooler = build(MinCutPooling)

    def starts(pooler, data):
        return RowExecution.start(pooler, read_inputs(pooler, dict(data))) is not None

    class Renamed(MinCutPooling):
        """Subclass that overrides none of the skipped methods."""

        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.mine = nn.Linear(2, 2)

    assert starts(pooler, ring()) and starts(build(Renamed), ring())
    assert not starts(pooler, complete())
    with torch.nn.modules.module.register_module_forward_hook(lambda *args: None):
        assert not starts(pooler, ring())
    parametrize.register_parametrization(pooler.selector.mlp.lins[0], "weight", nn.Identity())
    assert not starts(pooler, ring())


def test_stages_of_users_get_the_keywords_they_name():
    class Select(nn.Module):
        is_dense = False

        def forward(self, x, edge_index):
            return TopkSelect(ratio=0.5)(x[:, 0])

    class Reduce(BaseReduce):
        def forward(self, x, so):
            return super().forward(x, so)

    class Connect(SparseConnect):
        def forward(self, edge_index, so, edge_weight=None):
            return super().forward(edge_index, so, edge_weight=edge_weight)

    data = ring(graphs=1)
    out = SRCPooling(Select(), Reduce(), None, Connect())(**data)
    assert out.x.shape == (10, 4)


@pytest.mark.parametrize("name", ["pool", "loss", "view", "prepare", "finish", "loss_terms", "inputs"])
def test_attributes_of_users_do_not_collide(name):
    class Mine(TopkPooling):
        def __init__(self):
            super().__init__(4)
            setattr(self, name, nn.Linear(4, 4))

    class MineDense(MinCutPooling):
        def __init__(self):
            super().__init__(4, 3)
            setattr(self, name, nn.Linear(4, 4))

    for cls in (Mine, MineDense):
        pooler = cls()
        assert isinstance(getattr(pooler, name), nn.Linear)
        assert pooler(**ring()).x.size(-1) == 4


def same_features(one, other):
    return one.x.shape == other.x.shape and torch.allclose(one.x, other.x)


def scores(pooler, data):
    return pooler(**data).so.weight


@pytest.mark.parametrize(
    ("alias", "layer"),
    [("sag", "gnn.lin_rel"), ("asap", "att"), ("asap", "select_scorer.lin1"), ("ec", "selector.lin")],
)
def test_layers_are_called(alias, layer):
    data = ring()
    torch.manual_seed(0)
    pooler = get_pooler(alias, in_channels=4).eval()
    module = pooler.get_submodule(layer)
    expected = pooler(**data)

    handle = module.register_forward_hook(lambda module, args, output: output)
    same = pooler(**data)  # the plain computation, without the fast path
    torch.testing.assert_close(same.x, expected.x)
    handle.remove()

    handle = module.register_forward_hook(lambda module, args, output: output * 0 + 1)
    assert not same_features(pooler(**data), expected)
    handle.remove()

    prune.l1_unstructured(module, "weight", amount=0.99)
    pruned = pooler(**data)
    assert not same_features(pruned, expected)
    prune.remove(module, "weight")
    torch.testing.assert_close(pooler(**data).x, pruned.x)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_dynamic_quantization_reaches_the_layers():
    data = ring()
    for alias in ("asap", "ec", "mincut"):
        torch.manual_seed(0)
        pooler = get_pooler(alias, in_channels=4, k=3).eval()
        quantized = torch.ao.quantization.quantize_dynamic(pooler, {nn.Linear}, dtype=torch.qint8)
        assert torch.isfinite(quantized(**data).x).all()


def test_convolutions_of_users_are_called():
    class Mine(GraphConv):
        def forward(self, x, edge_index, edge_weight=None):
            return super().forward(x, edge_index, edge_weight) + 100

    pooler = get_pooler("sag", in_channels=4, GNN=Mine, nonlinearity="identity")
    assert (scores(pooler, ring()) > 50).all()


def test_a_connector_that_overrides_dense_connect_is_used():
    class Mine(DenseConnect):
        @staticmethod
        def dense_connect(adj, s):
            return 0 * DenseConnect.dense_connect(adj, s) + 5

    pooler = build(MinCutPooling)
    pooler.connector = Mine(remove_self_loops=False, degree_norm=False)
    assert (pooler(**ring()).edge_index == 5).all()
