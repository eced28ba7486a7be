"""Checks of ``torch.compile``, ``torch.export`` and ``torch.func``."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from tgp.testing.batches import (
    assert_same_output,
    close,
    mixed_batch,
    needed_arguments,
    normal,
    objective,
    ring_batch,
)
from tgp.testing.cases import IN_CHANNELS, Case, Skip

ONCE = frozenset({"compile_eager", "compile_aot", "recompiles", "fullgraph", "export", "func_grad", "vmap"})
SLOW = frozenset({"compile_aot", "recompiles"})


def check_compile_eager(case: Case) -> None:
    """Check that a compiled pooler (backend "eager") gives the values and gradients of an eager one."""
    _check_compiled(case, "eager")


def check_compile_aot(case: Case) -> None:
    """Check that a compiled pooler (backend "aot_eager") gives the values and gradients of an eager one."""
    _check_compiled(case, "aot_eager")


def _check_compiled(case: Case, backend: str) -> None:
    data, plain, pooler = mixed_batch(), case.build(), case.build()
    expected, theirs = _with_gradients(plain, plain, data)
    torch._dynamo.reset()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = torch.compile(pooler, backend=backend)
            out, mine = _with_gradients(compiled, pooler, data)
    finally:
        torch._dynamo.reset()
    assert_same_output(out, expected, f"compiled by {backend}:", atol=1e-4)
    for name, value in theirs.items():
        assert (mine[name] is None) == (value is None), f"gradient of {name} is missing"
        if value is not None:
            close(mine[name], value, f"gradient of {name}", atol=1e-4)


def check_recompiles(case: Case) -> None:
    """Check that batches of new sizes stop causing recompilation after a few batches."""
    from torch._dynamo.testing import CompileCounter

    counter, pooler = CompileCounter(), case.build()
    torch._dynamo.reset()
    try:
        strict = torch._dynamo.config.patch({_recompile_limit_option(): True})
        with warnings.catch_warnings(), torch.no_grad(), strict:
            warnings.simplefilter("ignore")
            compiled = torch.compile(pooler, backend=counter)
            counts = []
            for size in range(7, 13):
                data = ring_batch((size, size + 2, size - 1))
                assert_same_output(data(compiled), data(pooler), f"rings of {size} nodes:", atol=1e-4)
                counts.append(counter.frame_count)
    finally:
        torch._dynamo.reset()
    assert counts[-1] == counts[3], f"graphs compiled after each batch: {counts}"


def _recompile_limit_option() -> str:
    """Return the name of the option that makes too many recompilations an error."""
    name = "fail_on_recompile_limit_hit"
    return name if hasattr(torch._dynamo.config, name) else "fail_on_cache_limit_hit"  # torch 2.6


def _with_gradients(call: Any, pooler: nn.Module, data: Any) -> tuple[Any, dict[str, Tensor | None]]:
    leaf = data.with_leaf()
    out = leaf(call)
    objective(out).backward()
    return out, {"x": leaf.x.grad, **{name: p.grad for name, p in pooler.named_parameters()}}


class _DenseCall(nn.Module):
    """Module that calls a pooler on dense input and returns tensors only."""

    def __init__(self, pooler: nn.Module) -> None:
        super().__init__()
        self.pooler = pooler

    def forward(self, x: Tensor, adj: Tensor) -> tuple[Tensor, ...]:
        """Return pooled features, connectivity and losses."""
        out = self.pooler(x=x, adj=adj)
        return (out.x, out.edge_index, *(out.loss or {}).values())


def _dense_input() -> tuple[Tensor, Tensor]:
    edges = normal((2, 6, 6), 9) > 0
    return normal((2, 6, IN_CHANNELS), 10), (edges | edges.mT).float()


def _dense_model(case: Case) -> tuple[_DenseCall, tuple[Tensor, Tensor], tuple[Tensor, ...]]:
    """Return a module on dense input, its input and its result. Skip poolers without a padded mode."""
    if not case.options.get("batched") or case.options.get("sparse_output"):
        raise Skip("the default mode does not take padded input")
    model, inputs = _DenseCall(case.build()), _dense_input()
    expected = model(*inputs)
    return model, inputs, expected


def check_fullgraph(case: Case) -> None:
    """Check that a padded pooler compiles without graph breaks on dense input."""
    model, inputs, expected = _dense_model(case)
    torch._dynamo.reset()
    try:
        out = torch.compile(model, backend="eager", fullgraph=True)(*inputs)
    finally:
        torch._dynamo.reset()
    for mine, theirs in zip(out, expected, strict=True):
        close(mine, theirs, atol=1e-4)


def check_export(case: Case) -> None:
    """Check that a padded pooler can be exported on dense input."""
    model, inputs, expected = _dense_model(case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(model, inputs, strict=False)
    for mine, theirs in zip(program.module()(*inputs), expected, strict=True):
        close(mine, theirs, atol=1e-4)


def check_func_grad(case: Case) -> None:
    """Check that ``torch.func.grad`` gives the gradients of ``backward``."""
    data, pooler = mixed_batch(), case.build()
    _, expected = _with_gradients(pooler, pooler, data)

    def value(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        arguments = {"x": x, "adj": data.adj, "edge_weight": data.edge_weight, "batch": data.batch}
        arguments |= needed_arguments(pooler, data.x)
        torch.manual_seed(11)
        return objective(torch.func.functional_call(pooler, parameters, (), arguments))

    parameters = {name: p.detach() for name, p in pooler.named_parameters()}
    with torch.random.fork_rng(devices=[]):
        found, x_grad = torch.func.grad(value, argnums=(0, 1))(parameters, data.x)
    close(x_grad, expected.pop("x"), "gradient of x", atol=1e-4)
    for name, theirs in expected.items():
        if theirs is not None:
            close(found[name], theirs, f"gradient of {name}", atol=1e-4)


def check_vmap(case: Case) -> None:
    """Check that ``torch.func.vmap`` over parameters gives the results of separate poolers."""
    model, inputs, _ = _dense_model(case)
    members: list[dict[str, Tensor]] = [
        dict(_DenseCall(case.build(seed=seed)).named_parameters()) for seed in range(3)
    ]
    if not members[0]:
        raise Skip("the pooler has no parameters")
    stacked = {name: torch.stack([member[name].detach() for member in members]) for name in members[0]}
    found = torch.func.vmap(lambda parameters: torch.func.functional_call(model, parameters, inputs))(stacked)
    for number, member in enumerate(members):
        expected = torch.func.functional_call(model, member, inputs)
        for mine, theirs in zip(found, expected, strict=True):
            close(mine[number], theirs, f"member {number}", atol=1e-4)
