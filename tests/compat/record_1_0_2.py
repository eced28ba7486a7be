"""Record the results of tgp 1.0.2 for ``test_parity.py``: ``PYTHON tests/compat/record_1_0_2.py OUT.npz``.

``PYTHON`` has that release installed. The file holds plain arrays: a small weighted batch, and per pooler its parameters,
assignment, pooled features and losses in evaluation mode.
"""

from __future__ import annotations

import sys

import numpy as np
import torch

from tgp.poolers import get_pooler
from tgp.select import EdgeContractionSelect

CASES = {
    "topk": {},
    "topk_min_score": {"min_score": 0.05},
    "sag": {},
    "asap": {},
    # All leaves have the same softmax score, and 1.0.2 sorts equal scores in an undefined order.
    "ec_tanh": {"edge_score_method": EdgeContractionSelect.compute_edge_score_tanh},
    "maxcut": {},
    **{name: {} for name in ("diff", "mincut", "dmon", "jb", "hosc", "acc", "lap", "bnpool")},
    **{f"{name}_u": {"batched": False} for name in ("diff", "mincut", "dmon", "jb", "acc", "lap")},
}
"""Options of the pooler of each case. The part of the key before ``_`` is the alias."""


def graphs() -> dict[str, torch.Tensor]:
    """Four undirected weighted graphs of 6 to 14 nodes."""
    generator = torch.Generator().manual_seed(0)
    sizes, edges, start = [9, 14, 6, 11], [], 0
    for size in sizes:
        joined = torch.rand(size, size, generator=generator) < 0.2
        joined |= torch.eye(size, dtype=torch.bool).roll(1, 1)
        edges.append((joined | joined.t()).triu(1).nonzero().t() + start)
        start += size
    upper = torch.cat(edges, dim=1)
    weight = torch.rand(upper.size(1), generator=generator) + 0.5
    both = torch.cat([upper, upper.flip(0)], dim=1)
    order = (both[0] * start + both[1]).argsort()
    return {
        "x": torch.randn(start, 6, generator=generator),
        "edge_index": both[:, order],
        "edge_weight": torch.cat([weight, weight])[order],
        "batch": torch.arange(4).repeat_interleave(torch.tensor(sizes)),
    }


def main() -> None:
    data = graphs()
    arrays = {f"data/{name}": value.numpy() for name, value in data.items()}
    for case, options in CASES.items():
        torch.manual_seed(1)
        pooler = get_pooler(case.partition("_")[0], in_channels=6, k=4, ratio=0.5, **options).eval()
        for name, value in pooler.state_dict().items():
            arrays[f"{case}/state/{name}"] = value.numpy()
        weight = (
            None if case == "sag" else data["edge_weight"]
        )  # 1.0.2 does not pass weights to the convolution
        with torch.no_grad():
            out = pooler(x=data["x"], adj=data["edge_index"], edge_weight=weight, batch=data["batch"])
        s = out.so.s.to_dense() if out.so.s.is_sparse else out.so.s
        arrays[f"{case}/x"], arrays[f"{case}/s"] = out.x.numpy(), s.numpy()
        if out.edge_index.is_floating_point():
            arrays[f"{case}/adj"] = out.edge_index.numpy()
        else:
            arrays[f"{case}/edge_index"] = out.edge_index.numpy()
            ones = torch.ones(out.edge_index.size(1))
            arrays[f"{case}/edge_weight"] = (ones if weight is None else out.edge_weight).numpy()
        for name, value in (out.loss or {}).items():
            arrays[f"{case}/loss/{name}"] = np.asarray(float(value))
    np.savez_compressed(sys.argv[1], **arrays)


if __name__ == "__main__":
    main()
