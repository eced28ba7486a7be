"""Compiled selectors have the values and gradients of eager mode; dense selectors compile to one graph."""

import pytest
import torch

from tgp.select import (
    DPSelect,
    EdgeContractionSelect,
    EigenPoolSelect,
    GraclusSelect,
    IdentitySelect,
    KMISSelect,
    LaPoolSelect,
    MaxCutSelect,
    MLPSelect,
    NDPSelect,
    NMFSelect,
    SEPSelect,
    TopkSelect,
)

BATCH = torch.arange(4).repeat_interleave(10)
_path = torch.arange(39)
_path = _path[BATCH[:-1] == BATCH[1:]]
EDGES = torch.cat([torch.stack([_path, _path + 1]), torch.stack([_path + 1, _path])], dim=1)

SELECTORS = {
    "graclus": lambda: GraclusSelect(),
    "ndp": lambda: NDPSelect(),
    "sep": lambda: SEPSelect(),
    "nmf": lambda: NMFSelect(3),
    "eigen": lambda: EigenPoolSelect(3),
    "kmis": lambda: KMISSelect(4),
    "kmis_degree": lambda: KMISSelect(scorer="degree"),
    "identity": lambda: IdentitySelect(),
    "topk": lambda: TopkSelect(4),
    "topk_min": lambda: TopkSelect(4, min_score=0.1),
    "ec": lambda: EdgeContractionSelect(4),
    "maxcut": lambda: MaxCutSelect(4, mp_units=[4, 4]),
    "lap": lambda: LaPoolSelect(True, batched_representation=False),
    "mlp": lambda: MLPSelect(4, 3, batched_representation=False),
}
BREAKS = {"topk": 2, "topk_min": 3, "ec": 1, "maxcut": 8, "lap": 8, "mlp": 0}
"""Largest number of graph breaks of a selector. Whole poolers of 1.0.2 have 14 (topk), 20 (ec) and 14 (lap)."""


class Values(torch.nn.Module):
    def __init__(self, selector):
        super().__init__()
        self.selector = selector

    def forward(self, x, edge_index, batch):
        so = self.selector(x=x, edge_index=edge_index, batch=batch, batch_size=4, num_nodes=40)
        return (so.s if so.is_dense else so.weight) * 2


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def run(model, function):
    x = torch.randn(40, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    out = function(x, EDGES, BATCH)
    parameters = [x, *model.parameters()]
    if not out.requires_grad:
        return [out]
    grads = torch.autograd.grad(out.square().sum(), parameters, allow_unused=True)
    return [out, *(g for g in grads if g is not None)]


@pytest.mark.parametrize("name", SELECTORS)
def test_compiled_selectors_have_the_values_and_gradients_of_eager_mode(name):
    """The backend "aot_eager" traces the program as the backend "eager" does, and its gradients too."""
    torch.manual_seed(0)
    model = Values(SELECTORS[name]())
    eager = run(model, model)
    compiled = run(model, torch.compile(model, backend="aot_eager"))
    assert len(eager) == len(compiled)
    for a, b in zip(eager, compiled, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", BREAKS)
def test_graph_breaks(name):
    model = Values(SELECTORS[name]())
    found = torch._dynamo.explain(model)(torch.randn(40, 4), EDGES, BATCH)
    assert found.graph_break_count <= BREAKS[name], [r.reason for r in found.break_reasons]


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(
    "selector", [MLPSelect([4, 5], 3, act="relu"), DPSelect(4, 3).eval()], ids=["mlp", "dp"]
)
def test_dense_selectors_compile_to_one_graph(selector, masked):
    x = torch.randn(2, 6, 4)
    mask = torch.arange(6) < torch.tensor([[6], [4]]) if masked else None

    def assign(x, mask):
        so = selector(x=x, mask=mask)
        return so.s, so.s_inv

    compiled = torch.compile(assign, backend="aot_eager", fullgraph=True)
    for a, b in zip(compiled(x, mask), assign(x, mask), strict=True):
        torch.testing.assert_close(a, b)
