"""Checks that the modes of a pooler agree, and that the layer and pre-coarsening agree."""

from __future__ import annotations

import torch

from tgp.testing.batches import (
    FeatureOutput,
    GraphBatch,
    adjacency,
    assert_same_losses,
    close,
    complete_batch,
    mixed_batch,
    needed_arguments,
    ring_batch,
)
from tgp.testing.cases import Case, Skip

ONCE = frozenset({"modes_agree", "precoarsening"})
SLOW: frozenset[str] = frozenset()


def check_modes_agree(case: Case) -> None:
    """Check that padded, flat, dense and sparse modes give the same pooled graphs and losses."""
    modes = case.modes()
    if len(modes) < 2:
        raise Skip("the constructor has neither `batched` nor `sparse_output`")
    for name, data in _densities().items():
        for weight in (data.edge_weight, None):
            outputs = {str(mode): data(mode.build(), edge_weight=weight) for mode in modes}
            first, expected = next(iter(outputs.items()))
            for mode, out in outputs.items():
                what = f"{name} graphs, {'un' if weight is None else ''}weighted, {mode} against {first}:"
                close(_flat_x(out), _flat_x(expected), f"{what} x")
                close(adjacency(out, flat=True), adjacency(expected, flat=True), f"{what} adjacency")
                assert_same_losses(out, expected, what)


def _densities() -> dict[str, GraphBatch]:
    return {"mixed": mixed_batch(), "ring": ring_batch(), "complete": complete_batch()}


def _flat_x(out: FeatureOutput) -> torch.Tensor:
    if out.x.dim() == 2:
        return out.x
    flat = out.x.reshape(-1, out.x.size(-1))
    return flat if out.mask is None else flat[out.mask.reshape(-1)]


def check_precoarsening(case: Case) -> None:
    """Check that pre-coarsening gives the assignment and the coarse graph of a forward."""
    pooler, data = case.build(), mixed_batch()
    if not pooler.is_precoarsenable:
        raise Skip("the pooler reads features or has parameters")
    given = {"batch": data.batch, "num_nodes": data.x.size(0), **needed_arguments(pooler, data.x)}
    if "x" in getattr(pooler.selector, "needs", ()):
        given["x"] = data.x
    level = pooler.precoarsening(edge_index=data.adj, edge_weight=data.edge_weight, **given)
    out = data(case.build(sparse_output=True))
    close(level.so.s.to_dense(), out.so.s.to_dense(), "assignment")
    assert torch.equal(level.edge_index, out.edge_index), "coarse edges"
    assert (level.edge_weight is None) == (out.edge_weight is None), "coarse weights"
    if out.edge_weight is not None:
        close(level.edge_weight, out.edge_weight, "coarse weights")
    two = pooler.multi_level_precoarsening(2, data.adj, data.edge_weight, **given)
    assert len(two) == 2
    assert two[1].so.num_nodes == two[0].batch.numel()
