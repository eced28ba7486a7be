"""Checks that a cache never changes a result."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tgp.testing.batches import GraphBatch, assert_same_output, close, mixed_batch, objective, ring_batch
from tgp.testing.cases import Case, Skip

ONCE: frozenset[str] = frozenset()
SLOW: frozenset[str] = frozenset()

_CACHES = ("cached", "cache_preprocessing")
_EXACT = {"rtol": 1e-6, "atol": 1e-6}
"""Tolerance of comparisons with and without a cache."""


def _both(case: Case) -> list[tuple[str, Any, Any]]:
    """Return the name of each cache that the constructor has, a pooler with it, and one without."""
    names = [name for name in _CACHES if case.takes(name)]
    if not names:
        raise Skip(f"the constructor has none of {', '.join(_CACHES)}")
    return [(name, case.build(None, **{name: True}), case.build(None, **{name: False})) for name in names]


def check_cache_alternates(case: Case) -> None:
    """Check that training, evaluation, ``no_grad`` and ``inference_mode`` can alternate with a cache."""
    data = mixed_batch().take([3])
    for name, cached, plain in _both(case):
        for turn, step in enumerate(
            (_train, _inference, _train, _no_grad, _train, _evaluate, _inference, _train)
        ):
            expected, theirs = step(plain, data)
            out, mine = step(cached, data)
            what = f"{name}=True, turn {turn} ({step.__name__.strip('_')}):"
            assert_same_output(out, expected, what, **_EXACT)
            _assert_gradients(mine, theirs, what)


def check_cache_notices(case: Case) -> None:
    """Check that the cache is not used for another graph, or after weights or edges were changed in place."""
    for name, cached, plain in _both(case):
        for data in (mixed_batch(), ring_batch(), mixed_batch().take([0]), mixed_batch().take([2])):
            assert_same_output(data(cached), data(plain), f"{name}=True, another graph:", **_EXACT)
        data = mixed_batch().take([3])
        data(cached)
        data.edge_weight.mul_(torch.linspace(0.2, 3, data.edge_weight.numel()))
        assert_same_output(data(cached), data(plain), f"{name}=True, weights changed in place:", **_EXACT)
        data.adj.copy_(torch.stack([data.adj[1], data.adj[0]]))
        data.adj[:, :2] = torch.tensor([[0, 5], [5, 0]])
        assert_same_output(data(cached), data(plain), f"{name}=True, edges changed in place:", **_EXACT)


def check_cache_learned_weights(case: Case) -> None:
    """Check that edge weights computed from parameters give new results and gradients in every step."""
    data = mixed_batch().take([3])
    for name, cached, plain in _both(case):
        start = torch.linspace(-1, 1, data.edge_weight.numel())
        logits = start.clone().requires_grad_()
        for step in range(4):
            results = []
            for pooler in (cached, plain):
                logits.grad = None
                out = data(pooler, edge_weight=logits.sigmoid() + 0.5)
                total = objective(out)
                if total.requires_grad:
                    total.backward()
                results.append((out, logits.grad))
            what = f"{name}=True, learned weights, step {step}:"
            assert_same_output(results[0][0], results[1][0], what, **_EXACT)
            _assert_gradients([results[0][1]], [results[1][1]], what)
            with torch.no_grad():
                logits.add_(torch.linspace(0.3, -0.5, logits.numel()))


Result = tuple[Any, list[Tensor | None]]


def _train(pooler: Any, data: GraphBatch) -> Result:
    pooler.train()
    leaf = data.with_leaf()
    weight = data.edge_weight.clone().requires_grad_()
    pooler.zero_grad()
    out = leaf(pooler, edge_weight=weight)
    objective(out).backward()
    return out, [leaf.x.grad, weight.grad, *(p.grad for p in pooler.parameters())]


def _evaluate(pooler: Any, data: GraphBatch) -> Result:
    pooler.eval()
    return data(pooler), []


def _no_grad(pooler: Any, data: GraphBatch) -> Result:
    with torch.no_grad():
        return _evaluate(pooler, data)


def _inference(pooler: Any, data: GraphBatch) -> Result:
    with torch.inference_mode():
        return _evaluate(pooler, data)


def _assert_gradients(mine: list[Tensor | None], theirs: list[Tensor | None], what: str) -> None:
    for ours, other in zip(mine, theirs, strict=True):
        assert (ours is None) == (other is None), f"{what} a gradient is missing with or without the cache"
        if other is not None:
            close(ours, other, f"{what} gradient", **_EXACT)
