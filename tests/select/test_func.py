"""``torch.func.grad`` of selectors equals autograd, and ``vmap`` maps over the parameters of dense selectors."""

import pytest
import torch
from torch.func import functional_call, grad, vmap

from tgp.select import (
    DPSelect,
    EdgeContractionSelect,
    KMISSelect,
    LaPoolSelect,
    MaxCutSelect,
    MLPSelect,
    TopkSelect,
)

BATCH = torch.tensor([0, 0, 0, 0, 1, 1, 1])
EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 4, 5, 5, 6], [1, 0, 2, 1, 3, 2, 5, 4, 6, 5]])
X = torch.randn(7, 4, generator=torch.Generator().manual_seed(0))


def value(selector, parameters, x):
    keywords = {"x": x, "edge_index": EDGES, "batch": BATCH, "batch_size": 2}
    so = functional_call(selector, parameters, (), keywords)
    return (so.s if so.is_dense else so.weight).square().sum()


@pytest.mark.parametrize(
    "make",
    [
        lambda: TopkSelect(4),
        lambda: TopkSelect(4, min_score=0.1),
        lambda: EdgeContractionSelect(4),
        lambda: MaxCutSelect(4, mp_units=[4]),
        lambda: LaPoolSelect(batched_representation=False),
        lambda: MLPSelect(4, 3, batched_representation=False),
        lambda: DPSelect(4, 3, batched_representation=False).eval(),
    ],
)
def test_func_grad_equals_autograd(make):
    torch.manual_seed(0)
    selector = make()
    parameters = {name: p.detach() for name, p in selector.named_parameters()}
    by_func, of_x = grad(value, argnums=(1, 2))(selector, parameters, X)
    x = X.clone().requires_grad_()
    value(selector, dict(selector.named_parameters()), x).backward()
    torch.testing.assert_close(of_x, x.grad if x.grad is not None else torch.zeros_like(x))
    for name, parameter in selector.named_parameters():
        expected = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        torch.testing.assert_close(by_func[name], expected)


@pytest.mark.parametrize("cls", [MLPSelect, DPSelect])
def test_vmap_over_parameters(cls):
    selectors = [cls(4, 3).eval() for _ in range(3)]
    stacked = {
        name: torch.stack([dict(s.named_parameters())[name].detach() for s in selectors])
        for name, _ in selectors[0].named_parameters()
    }

    def assign(parameters):
        return functional_call(selectors[0], parameters, (X,)).s

    together = vmap(assign)(stacked)
    for one, selector in zip(together, selectors, strict=True):
        torch.testing.assert_close(one, selector(X).s)


def test_kmis_runs_with_learned_scores():
    torch.manual_seed(0)
    selector = KMISSelect(4)
    selector(x=X, edge_index=EDGES).weight.sum().backward()
    assert selector.lin.weight.grad.abs().sum() > 0
