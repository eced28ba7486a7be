"""``torch.func`` transforms and second derivatives of the products over edges and of the losses."""

import pytest
import torch
from torch.func import functional_call, grad, hessian, jacrev, jvp, stack_module_state, vmap

from tests.utils.formulas import FORMULAS
from tgp.utils.layout import DenseView, SegmentView
from tgp.utils.losses import cut
from tgp.utils.ops.products import EdgeMatrix, max_over_edges
from tgp.utils.tracing import on_host

torch.manual_seed(0)
EDGES = torch.randint(0, 6, (2, 14))
EDGES = EDGES[:, EDGES[0] // 3 == EDGES[1] // 3]
WEIGHT = torch.rand(EDGES.size(1), dtype=torch.float64) + 0.1
BATCH = torch.tensor([0, 0, 0, 1, 1, 1])
LOGITS = torch.randn(6, 3, dtype=torch.float64)


def matrix(weight):
    return EdgeMatrix(EDGES[0], EDGES[1], weight, 6)


PRODUCTS = {
    "product": lambda values, weight: matrix(weight) @ values,
    "transposed": lambda values, weight: matrix(weight).mT @ values,
    "dots": lambda values, weight: weight * matrix(None).dots(values, values.sin()),
    "distances": lambda values, weight: weight * matrix(None).distances(values),
    "largest": lambda values, weight: weight.sum() * max_over_edges(values, *EDGES),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_second_derivatives(name):
    inputs = (LOGITS.clone().requires_grad_(), WEIGHT.clone().requires_grad_())
    assert torch.autograd.gradcheck(PRODUCTS[name], inputs)
    assert torch.autograd.gradgradcheck(PRODUCTS[name], inputs)


def test_mixed_second_derivative_of_the_total_variation():
    """Second derivatives exist for learned weights and assignments."""

    def loss(logits, weight):
        return cut.total_variation(SegmentView(logits.softmax(-1), EDGES, weight, BATCH, 2)).sum()

    inputs = (LOGITS.clone().requires_grad_(), WEIGHT.clone().requires_grad_())
    (slope,) = torch.autograd.grad(loss(*inputs), inputs[0], create_graph=True)
    assert torch.autograd.grad(slope.square().sum(), inputs[1])[0].abs().sum() > 0
    assert torch.autograd.gradgradcheck(loss, inputs)


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_under_transforms(name):
    def total(values, weight):
        return PRODUCTS[name](values, weight).square().sum()

    values, weight = LOGITS.clone().requires_grad_(), WEIGHT.clone().requires_grad_()
    expected = torch.autograd.grad(total(values, weight), (values, weight))
    for mine, other in zip(grad(total, argnums=(0, 1))(LOGITS, WEIGHT), expected, strict=True):
        torch.testing.assert_close(mine, other)
    many = torch.stack([LOGITS, 2 * LOGITS, -LOGITS])
    torch.testing.assert_close(
        vmap(PRODUCTS[name], in_dims=(0, None))(many, WEIGHT),
        torch.stack([PRODUCTS[name](one, WEIGHT) for one in many]),
    )
    value, tangent = jvp(lambda v: PRODUCTS[name](v, WEIGHT), (LOGITS,), (torch.ones_like(LOGITS),))
    torch.testing.assert_close(value, PRODUCTS[name](LOGITS, WEIGHT))
    assert torch.isfinite(tangent).all()


def build(layout, s):
    if layout == "flat":
        return SegmentView(s, EDGES, WEIGHT, BATCH, 2)
    adj = torch.zeros(2, 3, 3, dtype=s.dtype).index_put(
        (BATCH[EDGES[0]], EDGES[0] % 3, EDGES[1] % 3), WEIGHT, accumulate=True
    )
    return DenseView(s.view(2, 3, 3), adj)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("layout", ["flat", "padded"])
def test_losses_under_transforms(name, layout):
    """``grad``, ``vmap(grad)`` and ``jacrev`` give the results of autograd."""

    def loss(logits):
        return FORMULAS[name](build(layout, logits.softmax(-1))).sum()

    logits = LOGITS.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(logits), logits)
    torch.testing.assert_close(grad(loss)(LOGITS), expected)
    torch.testing.assert_close(jacrev(loss)(LOGITS), expected)
    twice = vmap(grad(loss))(torch.stack([LOGITS, LOGITS]))
    torch.testing.assert_close(twice[1], expected)


@pytest.mark.parametrize("name", sorted(set(FORMULAS) - {"totvar"}))  # cdist has no second derivative
@pytest.mark.parametrize("layout", ["flat", "padded"])
def test_hessians(name, layout):
    def loss(logits):
        return FORMULAS[name](build(layout, logits.softmax(-1))).sum()

    torch.testing.assert_close(
        hessian(loss)(LOGITS), torch.autograd.functional.hessian(loss, LOGITS), rtol=1e-6, atol=1e-9
    )


def test_many_models_at_once():
    """``vmap`` over stacked parameters of a model with a loss of each layout."""
    models = [torch.nn.Linear(4, 3).double() for _ in range(3)]
    params, buffers = stack_module_state(models)
    x = torch.randn(6, 4, dtype=torch.float64)

    def loss(params, buffers, x):
        s = functional_call(models[0], (params, buffers), (x,)).softmax(-1)
        return cut.mincut(build("flat", s)).sum() + cut.modularity(build("padded", s)).sum()

    slopes = vmap(grad(loss), in_dims=(0, 0, None))(params, buffers, x)
    for i, model in enumerate(models):
        s = model(x).softmax(-1)
        total = cut.mincut(build("flat", s)).sum() + cut.modularity(build("padded", s)).sum()
        torch.testing.assert_close(slopes["weight"][i], torch.autograd.grad(total, model.weight)[0])


def test_on_host_inside_transforms():
    """Inside a transform, ``on_host`` returns False for all tensors."""
    plain = torch.ones(2)
    seen = []
    vmap(lambda x: seen.append(on_host(plain)) or seen.append(on_host(x)) or x)(torch.ones(2, 2))
    grad(lambda x: seen.append(on_host(plain)) or x.sum())(plain)
    assert seen == [False] * 3 and on_host(plain, None) and not on_host(plain.to("meta"))
