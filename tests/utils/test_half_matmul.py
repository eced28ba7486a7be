"""Dense poolers and layers in half precision, run in a child process.

Some processors with AVX-512 have no bfloat16 product, and oneDNN ends the process with SIGILL. The environment variable
that avoids this must be set before torch is imported, so the tests of this file run in a child process.
"""

import os
import subprocess
import sys

import pytest
import torch

from tgp.mp import GTVConv
from tgp.poolers import get_pooler
from tgp.testing.cases import pooler_aliases
from tgp.utils.ops import GraphLayout

IN_CHILD = os.environ.get("ONEDNN_MAX_CPU_ISA") == "AVX2"
child_only = pytest.mark.skipif(not IN_CHILD, reason="runs in the child process of test_in_child_process")
POOLERS = pooler_aliases(dense=True, loss=True)
TOLERANCE = 2e-2


@pytest.mark.skipif(IN_CHILD, reason="this is the child process")
def test_in_child_process():
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(
        command,
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


def rings(graphs, size):
    torch.manual_seed(0)
    node = torch.arange(graphs * size)
    after = node + 1 - size * ((node + 1) % size == 0).long()
    edges = torch.cat([torch.stack([node, after]), torch.stack([after, node])], dim=1)
    return torch.randn(graphs * size, 4), edges, node // size


@child_only
@pytest.mark.parametrize("alias", [*POOLERS, *(f"{name}_u" for name in POOLERS)])
@pytest.mark.parametrize("form", ["autocast", "bfloat16", "float16"])
def test_losses_of_poolers(alias, form):
    """Losses of two rings of 1,000 nodes differ from float32 by at most 2 % of the larger of 1 and their value."""
    x, edges, batch = rings(2, 1000)
    torch.manual_seed(1)
    pooler = get_pooler(alias, in_channels=4, k=5).eval()
    expected = pooler(x=x, adj=edges, batch=batch).loss
    if form == "autocast":
        with torch.autocast("cpu", torch.bfloat16):
            out = pooler(x=x, adj=edges, batch=batch)
    else:
        pooler = pooler.to(getattr(torch, form))
        out = pooler(x=x.to(getattr(torch, form)), adj=edges, batch=batch)
    kind = torch.float32 if form == "autocast" else getattr(torch, form)
    assert out.x.dtype is out.edge_index.dtype is out.so.s.dtype is kind
    for name, value in out.loss.items():
        assert value.dtype is torch.float32, (name, value.dtype)
        scale = max(1.0, float(expected[name].abs()))
        assert abs(float(value) - float(expected[name])) <= TOLERANCE * scale, (name, value, expected[name])
    sum(out.loss.values()).backward()
    for parameter in pooler.parameters():
        assert parameter.grad is None or torch.isfinite(parameter.grad).all()


@child_only
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_layers(dtype):
    x, edges, batch = rings(3, 40)
    torch.manual_seed(0)
    layer = GTVConv(4, 4)
    expected = layer(x, edges)
    out = layer.to(dtype)(x.to(dtype), edges)
    assert out.dtype is dtype
    # Weights grow as the inverse of small differences, which half precision cannot hold: compare on average.
    assert (out.float() - expected).abs().mean() <= TOLERANCE * expected.abs().max()
    layout = GraphLayout(batch, 120, 3)
    s = torch.rand(120, 3).softmax(-1)
    pooled = layout.matmul(s, x)
    lifted = layout.expand(s, pooled)
    half = layout.expand(s.to(dtype), layout.matmul(s.to(dtype), x.to(dtype)))
    assert half.dtype is dtype
    assert (half.float() - lifted).abs().max() <= TOLERANCE * lifted.abs().max()
