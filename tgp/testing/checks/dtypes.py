"""Checks of double precision, half precision and autocast."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from tgp.testing.batches import (
    FeatureOutput,
    GraphBatch,
    adjacency,
    entries,
    finite_gradient,
    is_dense_output,
    mixed_batch,
    objective,
    ring_batch,
)
from tgp.testing.cases import Case, Skip

ONCE = frozenset({"half_losses", "half_large"})
SLOW = frozenset({"half_large"})

HALF_TOLERANCE = {torch.bfloat16: 0.05, torch.float16: 0.01}
"""Largest allowed difference from float32, relative to the largest value of the result (at least 1)."""


@contextmanager
def _plain_kernels() -> Iterator[None]:
    """Disable oneDNN, whose bfloat16 kernels fail on some virtual machines."""
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)


def check_double(case: Case) -> None:
    """Check that double precision inputs give double precision results, with and without weights."""
    data, pooler = mixed_batch(torch.float64), case.build().double()
    for weight in (data.edge_weight, None):
        out = data(pooler, edge_weight=weight)
        what = "without edge weights" if weight is None else "with edge weights"
        assert out.x.dtype == torch.float64, f"x is {out.x.dtype} {what}"
        values = out.edge_index if is_dense_output(out) else out.edge_weight
        assert values is None or values.dtype == torch.float64, f"pooled weights are {values.dtype} {what}"
        for name, value in (out.loss or {}).items():
            assert value.dtype == torch.float64, f"loss {name} is {value.dtype} {what}"


def check_bfloat16(case: Case) -> None:
    """Check that a bfloat16 pooler gives the results of float32 within a tolerance."""
    _check_half(case, torch.bfloat16)


def check_float16(case: Case) -> None:
    """Check that a float16 pooler gives the results of float32 within a tolerance."""
    _check_half(case, torch.float16)


def _check_half(case: Case, dtype: torch.dtype) -> None:
    data, pooler = mixed_batch(), case.build().to(dtype)
    half, rounded = _half_and_rounded(data, dtype)
    expected = rounded(pooler.float())
    with _plain_kernels():
        mine = half.with_leaf()
        out = mine(pooler.to(dtype))
        objective(out).backward()
    assert out.x.dtype == dtype, f"x is {out.x.dtype}"
    assert finite_gradient(mine.x), "the gradient of the features is not finite"
    _assert_near(out, expected, HALF_TOLERANCE[dtype])


def _half_and_rounded(data: GraphBatch, dtype: torch.dtype) -> tuple[GraphBatch, GraphBatch]:
    """Return a batch in half precision, and the same numbers in float32."""
    half = GraphBatch(data.x.to(dtype), data.adj, data.edge_weight.to(dtype), data.batch)
    return half, GraphBatch(half.x.float(), data.adj, half.edge_weight.float(), data.batch)


def check_autocast(case: Case) -> None:
    """Check that bfloat16 autocast gives the results of float32 within a tolerance, and finite gradients."""
    for data in (mixed_batch(), ring_batch()):
        pooler, leaf = case.build(), data.with_leaf()
        expected = data(pooler)
        with _plain_kernels():
            with torch.autocast(data.x.device.type, torch.bfloat16):
                out = leaf(pooler)
            objective(out).backward()
        assert finite_gradient(leaf.x), "the gradient of the features is not finite"
        _assert_near(out, expected, HALF_TOLERANCE[torch.bfloat16])


def check_half_losses(case: Case) -> None:
    """Check that losses of large graphs in half precision and under autocast are those of float32."""
    data, pooler = ring_batch((1000, 700)), case.build()
    expected = data(pooler, edge_weight=None)
    if not expected.loss:
        raise Skip("the pooler has no losses")
    with _plain_kernels(), torch.autocast(data.x.device.type, torch.bfloat16):
        _assert_near_losses(
            data(pooler, edge_weight=None), expected, HALF_TOLERANCE[torch.bfloat16], "autocast"
        )
    for dtype, tolerance in HALF_TOLERANCE.items():
        pooler = case.build().to(dtype)
        half, rounded = _half_and_rounded(data, dtype)
        expected = rounded(pooler.float(), edge_weight=None)
        with _plain_kernels():
            out = half(pooler.to(dtype), edge_weight=None)
        _assert_near_losses(out, expected, tolerance, str(dtype))


def check_half_large(case: Case) -> None:
    """Check that half precision gives the losses of float32 and as many supernodes on 10^5 nodes."""
    pooler = _flat(case)
    if pooler.is_precoarsenable:
        raise Skip("the assignment does not depend on features")
    small = ring_batch((300,))(pooler).so
    if small.is_dense and small.num_supernodes > 30:
        raise Skip("a dense assignment whose width grows with the graph needs too much memory")
    data = ring_batch((70_000, 30_000))
    for dtype, tolerance in HALF_TOLERANCE.items():
        half, rounded = _half_and_rounded(data, dtype)
        with torch.no_grad(), _plain_kernels():
            expected = rounded(_flat(case).to(dtype).float(), edge_weight=None)
            out = half(_flat(case).to(dtype), edge_weight=None)
        assert torch.isfinite(out.x).all(), f"x is not finite in {dtype}"
        mine, theirs = out.so.num_supernodes, expected.so.num_supernodes
        assert abs(mine - theirs) <= 0.01 * theirs, f"{mine} supernodes in {dtype}, {theirs} in float32"
        _assert_near_losses(out, expected, tolerance, str(dtype))


def _flat(case: Case) -> Any:
    """Return the pooler in flat mode if it has one, because a padded batch of large graphs needs too much memory."""
    flat = [mode for mode in case.modes() if not mode.options.get("batched")]
    return (flat or [case])[0].build()


def _assert_near(out: FeatureOutput, expected: FeatureOutput, tolerance: float) -> None:
    """Compare two results. If rounding changed the selected nodes, only check that the features are finite."""
    assert torch.isfinite(out.x).all(), "x is not finite"
    if _same_selection(out, expected):
        for name, mine, theirs in (
            ("x", out.x, expected.x),
            ("adjacency", adjacency(out), adjacency(expected)),
        ):
            assert mine.shape == theirs.shape, (
                f"{name} has shape {list(mine.shape)}, not {list(theirs.shape)}"
            )
            error = _error(mine, theirs)
            assert error <= tolerance, f"{name} differs by {error:.3g}, more than {tolerance}"
    _assert_near_losses(out, expected, tolerance, "")


def _same_selection(out: FeatureOutput, expected: FeatureOutput) -> bool:
    if out.so.is_dense:
        return out.mask is None or (expected.mask is not None and torch.equal(out.mask, expected.mask))
    return all(map(torch.equal, entries(out), entries(expected)))


def _assert_near_losses(out: FeatureOutput, expected: FeatureOutput, tolerance: float, what: str) -> None:
    losses = out.loss or {}
    for name, value in (expected.loss or {}).items():
        error = _error(losses[name], value)
        assert error <= tolerance, (
            f"loss {name} {what} is {float(losses[name]):.4g}, {float(value):.4g} in float32: "
            f"the difference of {error:.3g} is larger than {tolerance}"
        )


def _error(mine: torch.Tensor, theirs: torch.Tensor) -> float:
    if not torch.isfinite(mine).all():
        return float("inf")
    if not mine.numel():
        return 0.0
    scale = theirs.detach().abs().max().clamp(min=1)
    return float((mine.detach().float() - theirs.detach().float()).abs().max() / scale)
