"""Selectors call their layers as modules, so hooks, pruning, parametrizations and replaced layers take effect."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize, prune
from torch_geometric.nn import GCNConv

from tgp.select import EdgeContractionSelect, KMISSelect, MaxCutScoreNet, MaxCutSelect, MLPSelect
from tgp.utils.ops import delta_gcn_matrix

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4, 4, 0], [1, 0, 2, 1, 3, 2, 4, 3, 0, 4]])
X = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))


class Doubled(nn.Module):
    def forward(self, weight):
        return 2 * weight


class OtherLinear(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 3


class OtherConv(GCNConv):
    def forward(self, x, edge_index, edge_weight=None):
        return super().forward(x, edge_index, edge_weight) * 3


def double_output(layer):
    layer.register_forward_hook(lambda module, args, out: 2 * out)


def zero_half(layer):
    torch.manual_seed(0)
    prune.random_unstructured(layer, "weight", amount=0.5)


def double_weight(layer):
    parametrize.register_parametrization(layer, "weight", Doubled())


def ec_formula(selector, x=X):
    pairs = torch.cat([x[EDGES[0]], x[EDGES[1]]], dim=-1)
    return selector.lin(pairs).view(-1).sigmoid() + 0.5


def ec():
    torch.manual_seed(0)
    return EdgeContractionSelect(4, EdgeContractionSelect.compute_edge_score_sigmoid)


def test_plain_and_fast_edge_scores_agree():
    selector = ec()
    torch.testing.assert_close(selector.scores(X, EDGES), ec_formula(selector))


@pytest.mark.parametrize("change", [double_output, zero_half, double_weight])
def test_changes_of_the_edge_layer_take_effect(change):
    selector = ec()
    before = selector.scores(X, EDGES)
    change(selector.lin)
    after = selector.scores(X, EDGES)
    assert after.equal(ec_formula(selector))
    assert not torch.allclose(after, before)


def test_other_edge_layers_are_called():
    selector = ec()
    for layer in (OtherLinear(8, 1), nn.Sequential(nn.Linear(8, 3), nn.ReLU(), nn.Linear(3, 1))):
        selector.lin = layer
        assert selector.scores(X, EDGES).equal(ec_formula(selector))
    assert selector(X, EDGES).num_nodes == 5


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_quantized_edge_layer_is_called():
    selector = ec()
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        pytest.skip("no quantized kernels")
    quantized = torch.ao.quantization.quantize_dynamic(selector, {nn.Linear}, dtype=torch.qint8)
    assert type(quantized.lin) is not nn.Linear
    assert quantized.scores(X, EDGES).equal(ec_formula(quantized))


def maxcut_formula(net, x=X):
    index, weight = delta_gcn_matrix(EDGES, None, net.delta, 5)
    x = net.initial_layer(x)
    for conv in net.mp_convs:
        x = net.mp_act(conv(x, index, weight))
    for layer in net.mlp:
        x = net.mlp_act(layer(x))
    return net.act(net.final_layer(x))


def score_net():
    torch.manual_seed(0)
    return MaxCutScoreNet(4, mp_units=[6, 5], mlp_units=[3])


def test_plain_and_fast_convolutions_agree():
    net = score_net()
    torch.testing.assert_close(net(X, EDGES), maxcut_formula(net))


def scale_conv(net):
    double_output(net.mp_convs[1])


def scale_inner_linear(net):
    double_output(net.mp_convs[0].lin)


def other_conv(net):
    net.mp_convs[0] = OtherConv(4, 6, normalize=False, add_self_loops=False)


def replaced_forward(net):
    conv = net.mp_convs[0]
    inner = conv.forward
    conv.forward = lambda x, index, weight=None: inner(x, index, weight) * 2


@pytest.mark.parametrize("change", [scale_conv, scale_inner_linear, other_conv, replaced_forward])
def test_changes_of_convolutions_take_effect(change):
    net = score_net()
    before = net(X, EDGES)
    change(net)
    torch.testing.assert_close(net(X, EDGES), maxcut_formula(net))
    assert not torch.allclose(net(X, EDGES), before)


def test_hooks_of_the_score_net_and_of_its_layers_are_called():
    seen = []
    selector = MaxCutSelect(4, mp_units=[4], mlp_units=[3])
    selector.score_net.register_forward_hook(lambda *args: seen.append("net"))
    selector.score_net.mp_convs[0].register_forward_hook(lambda *args: seen.append("conv"))
    selector(X, EDGES)
    mlp = MLPSelect(4, 2)
    mlp.mlp.register_forward_hook(lambda *args: seen.append("mlp"))
    mlp(X)
    kmis = KMISSelect(4)
    kmis.lin.register_forward_hook(lambda *args: seen.append("lin"))
    kmis(x=X, edge_index=EDGES)
    assert seen == ["conv", "net", "mlp", "lin"]
