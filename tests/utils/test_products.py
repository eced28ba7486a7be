"""Products over edges equal formulas with one row per edge."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import trainable as reference
from tgp.utils.ops import products
from tgp.utils.ops.products import EdgeMatrix, group_by, max_over_edges, softmax_rows

CASES = {"deadline": None, "max_examples": 40}


@st.composite
def edge_lists(draw):
    size = draw(st.integers(1, 8))
    ids = st.integers(0, size - 1)
    pairs = draw(st.lists(st.tuples(ids, ids), max_size=20))
    pairs = sorted(pairs) if draw(st.booleans()) else pairs
    return size, torch.tensor(pairs, dtype=torch.long).view(-1, 2).t().contiguous()


def random(*shape, grad=False):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=grad)


@settings(**CASES)
@given(edge_lists(), st.booleans(), st.integers(0, 3))
def test_products_equal_dense_ones(graph, weighted, width):
    size, (source, target) = graph
    torch.manual_seed(0)
    weight = random(len(source), grad=True) if weighted else None
    values = random(size, width, grad=True) if width else random(size, grad=True)
    matrix = EdgeMatrix(source, target, weight, size)
    dense = reference.dense_matrix(source, target, weight, size)
    inputs = [values] if weight is None else [values, weight]
    for mine, expected in ((matrix @ values, dense @ values), (matrix.mT @ values, dense.mT @ values)):
        torch.testing.assert_close(mine, expected)
        gradients = torch.autograd.grad(mine.square().sum(), inputs)
        others = torch.autograd.grad(expected.square().sum(), inputs, retain_graph=True)
        for a, b in zip(gradients, others, strict=True):
            torch.testing.assert_close(a, b)


def test_gradients_of_gradients():
    torch.manual_seed(0)
    source, target = torch.randint(0, 5, (2, 9))
    inputs = (random(5, 2, grad=True), random(9, grad=True))

    def product(values, weight):
        return EdgeMatrix(source, target, weight, 5) @ values

    assert torch.autograd.gradcheck(product, inputs)
    assert torch.autograd.gradgradcheck(product, inputs)


@settings(**CASES)
@given(edge_lists(), st.integers(1, 3))
def test_values_per_edge(graph, width):
    size, (source, target) = graph
    torch.manual_seed(0)
    u, v = random(size, width, grad=True), random(size, width, grad=True)
    matrix = EdgeMatrix(source, target, None, size)
    pairs = (
        (matrix.dots(u, v), (u[source] * v[target]).sum(-1)),
        (matrix.distances(u) + 0 * v.sum(), (u[source] - u[target]).abs().sum(-1) + 0 * v.sum()),
    )
    for mine, expected in pairs:
        torch.testing.assert_close(mine, expected)
        scale = random(len(source))
        gradients = [torch.autograd.grad((out * scale).sum(), (u, v)) for out in (mine, expected)]
        for a, b in zip(*gradients, strict=True):
            torch.testing.assert_close(a, b)


def test_chunks_do_not_change_results(monkeypatch):
    torch.manual_seed(0)
    source, target = torch.randint(0, 30, (2, 3000))
    values = random(30, 2, grad=True)
    results = []
    for numbers in (1, 2**18):  # the smallest portion is 1,024 edges
        monkeypatch.setattr(products, "_NUMBERS_AT_ONCE", numbers)
        matrix = EdgeMatrix(source, target, None, 30)
        parts = [
            matrix.dots(values, values),
            matrix.distances(values),
            max_over_edges(values, source, target),
        ]
        total = sum((part * part).sum() for part in parts)
        results.append([*parts, *torch.autograd.grad(total, values)])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)


def test_products_off_the_host_use_one_row_per_edge():
    edges, values = torch.empty(2, 7, dtype=torch.long, device="meta"), torch.empty(4, 3, device="meta")
    assert (EdgeMatrix(*edges, None, 4) @ values).shape == (4, 3)
    half = torch.ones(3, 2, dtype=torch.bfloat16)
    assert (EdgeMatrix(torch.tensor([0, 0]), torch.tensor([1, 2]), None, 3) @ half).tolist()[0] == [2, 2]


@settings(**CASES)
@given(st.lists(st.integers(0, 6), max_size=30))
def test_groups_are_stable(ids):
    ids = torch.tensor(ids, dtype=torch.long)
    indptr, order = group_by(ids, 7)
    assert indptr.tolist() == [int((ids < i).sum()) for i in range(8)]
    order = torch.arange(len(ids)) if order is None else order
    assert order.tolist() == ids.argsort(stable=True).tolist()


@settings(**CASES)
@given(edge_lists(), st.booleans())
def test_largest_neighbours(graph, ties):
    size, (source, target) = graph
    torch.manual_seed(0)
    values = random(size, 3)
    values = (values.round() if ties else values).requires_grad_()
    mine, expected = (f(values, source, target) for f in (max_over_edges, reference.largest_neighbour))
    torch.testing.assert_close(mine, expected)
    scale = random(size, 3)
    a, b = (torch.autograd.grad((out * scale).sum(), values)[0] for out in (mine, expected))
    torch.testing.assert_close(a, b)


@pytest.mark.parametrize("shape", [(5, 1), (4, 3, 7), (3, 40), (0, 4), (6,)])
def test_softmax_of_rows(shape):
    x = torch.randn(shape)
    torch.testing.assert_close(softmax_rows(x), x.softmax(-1))
    assert softmax_rows(x).is_contiguous()
