"""Checks that hooks, overridden methods and attributes of users, also those of edges, take effect in every mode."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tgp.testing.batches import (
    FeatureOutput,
    GraphBatch,
    adjacency,
    assert_same_output,
    close,
    complete_batch,
    is_dense_output,
    mixed_batch,
    normal,
    ring_batch,
)
from tgp.testing.cases import Case, Skip
from tgp.utils.ops.connectivity import connectivity_to_edge_index

ONCE: frozenset[str] = frozenset()
SLOW: frozenset[str] = frozenset()

FREE_NAMES = (
    "pool",
    "loss",
    "view",
    "prepare",
    "finish",
    "seed",
    "loss_terms",
    "run_select",
    "run_reduce",
    "run_connect",
    "call_connector",
    "honours_so",
    "layout",
    "plan",
    "strategy",
)
"""Names of attributes that users may define in subclasses."""


def batches() -> dict[str, GraphBatch]:
    """Return batches of different density, for which a pooler may use different code."""
    return {"rings": ring_batch(), "mixed graphs": mixed_batch(), "complete graphs": complete_batch()}


def subclass(cls: type, **methods: Callable[..., Any]) -> type:
    """Return a subclass that is defined outside of the library, as by a user."""
    for method in methods.values():
        method.__module__ = "__main__"
    return type(f"User{cls.__name__}", (cls,), {"__module__": "__main__", **methods})


def _class(case: Case) -> Any:
    return type(case.build())


def check_hooks(case: Case) -> None:
    """Check that forward hooks on all four stages run, and that their return values are used."""
    for name, data in batches().items():
        pooler = case.build()
        stages = {stage: getattr(pooler, stage) for stage in ("selector", "reducer", "connector", "lifter")}
        called = _watch({stage: module for stage, module in stages.items() if module is not None})
        out = data(pooler)
        for stage in ("selector", "reducer", "connector"):
            assert stage in called or getattr(pooler, stage) is None, (
                f"the hook of the {stage} did not run on {name}"
            )
        pooler(x=out.x, so=out.so, lifting=True, batch=data.batch, batch_pooled=out.batch)
        assert "lifter" in called or pooler.lifter is None, f"the hook of the lifter did not run on {name}"
        plain, pooler = data(case.build()), case.build()
        pooler.reducer.register_forward_hook(lambda module, args, result: (2 * result[0], *result[1:]))
        close(data(pooler).x, 2 * plain.x, f"a hook of the reducer doubles x on {name}")


def _watch(modules: dict[str, nn.Module]) -> set[str]:
    """Return a set to which the name of a module is added when the module is called."""
    called: set[str] = set()
    for name, module in modules.items():
        module.register_forward_hook(lambda *_, name=name: called.add(name))
    return called


def check_layers_called(case: Case) -> None:
    """Check that layers are called as modules, so that hooks, pruning and quantization work."""
    pooler = case.build()
    layers = {
        name: part
        for name, part in pooler.named_modules()
        if any(parameter is not None for parameter in part._parameters.values())
    }
    if not layers:
        raise Skip("the pooler has no layers")
    for where, data in batches().items():
        called = _watch(layers)
        data(pooler)
        silent = sorted(layers.keys() - called)
        assert not silent, f"not called as modules on {where}: {', '.join(silent)}"


def check_override_reduce(case: Case) -> None:
    """Check that an overridden ``reduce`` determines the pooled features."""

    def reduce(self: Any, *args: Any, **kwargs: Any) -> Any:
        x, batch = base.reduce(self, *args, **kwargs)
        return 2 * x, batch

    base = _class(case)
    cls = subclass(base, reduce=reduce)
    for name, data in batches().items():
        close(data(case.build(cls)).x, 2 * data(case.build()).x, f"doubled by `reduce` on {name}")


def check_override_connect(case: Case) -> None:
    """Check that an overridden ``connect`` determines the pooled connectivity."""

    def connect(self: Any, *args: Any, **kwargs: Any) -> Any:
        adj, weight = base.connect(self, *args, **kwargs)
        if adj.is_floating_point():
            return 2 * adj, weight
        return adj, torch.full((adj.size(1),), 2.0) if weight is None else 2 * weight

    base = _class(case)
    cls = subclass(base, connect=connect)
    for name, data in batches().items():
        mine, plain = adjacency(data(case.build(cls))), adjacency(data(case.build()))
        close(mine, 2 * plain, f"doubled by `connect` on {name}")


def check_override_select(case: Case) -> None:
    """Check that an overridden ``select`` is called, and that its assignment is used and returned."""
    seen: list[Any] = []

    def select(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(base.select(self, *args, **kwargs))
        return seen[-1]

    base = _class(case)
    cls = subclass(base, select=select)
    for name, data in batches().items():
        seen.clear()
        out = data(case.build(cls))
        assert len(seen) == 1, f"`select` was called {len(seen)} times on {name}"
        assert seen[0].num_supernodes == out.so.num_supernodes, f"{name}: another assignment was used"


def check_override_lift(case: Case) -> None:
    """Check that an overridden ``lift`` determines the lifted features."""

    def lift(self: Any, *args: Any, **kwargs: Any) -> Any:
        return 2 * base.lift(self, *args, **kwargs)

    base = _class(case)
    cls = subclass(base, lift=lift)
    data = mixed_batch()
    out = data(case.build())
    lifted = [
        pooler(x=out.x, so=out.so, lifting=True, batch=data.batch, batch_pooled=out.batch)
        for pooler in (case.build(cls), case.build())
    ]
    close(lifted[0], 2 * lifted[1], "doubled by `lift`")


def check_override_loss(case: Case) -> None:
    """Check that an overridden ``compute_loss`` or ``compute_sparse_loss`` determines the losses."""
    if not mixed_batch()(case.build()).loss:
        raise Skip("the pooler has no losses")

    def marked(self: Any, *args: Any, **kwargs: Any) -> dict[str, torch.Tensor]:
        return {"marker": torch.tensor(42.0)}

    def extended(self: Any, *args: Any, **kwargs: Any) -> dict[str, torch.Tensor]:
        return {**getattr(base, method)(self, *args, **kwargs), "marker": torch.tensor(42.0)}

    base = _class(case)
    flat = case.options.get("batched") is False and hasattr(base, "compute_sparse_loss")
    method = "compute_sparse_loss" if flat else "compute_loss"
    cls, more = subclass(base, **{method: marked}), subclass(base, **{method: extended})
    for name, data in batches().items():
        loss = data(case.build(cls)).loss
        assert loss is not None and list(loss) == ["marker"], f"`{method}` has no effect on {name}"
        plain, loss = data(case.build()).loss or {}, data(case.build(more)).loss or {}
        assert list(loss) == [*plain, "marker"], f"`{method}` with super() has no effect on {name}"
        for key, value in plain.items():
            close(loss[key], value, f"{key} by super().{method} on {name}", atol=1e-4, rtol=1e-4)


def check_override_nothing(case: Case) -> None:
    """Check that overridden methods that only call ``super()`` change nothing."""
    base = _class(case)
    names = [
        name
        for name in ("select", "reduce", "connect", "lift", "forward", "preprocessing")
        if hasattr(base, name)
    ]

    def plain(name: str) -> Callable[..., Any]:
        return lambda self, *args, **kwargs: getattr(base, name)(self, *args, **kwargs)

    cls = subclass(base, **{name: plain(name) for name in names})
    for name, data in batches().items():
        assert_same_output(
            data(case.build(cls)), data(case.build()), f"plain overrides on {name}:", atol=1e-4
        )


def check_attributes(case: Case) -> None:
    """Check that a subclass may use any attribute name that is not documented."""
    base = _class(case)
    names = [
        name
        for name in FREE_NAMES
        # Others are documented as a constructor argument or a public property.
        if not case.takes(name) and not isinstance(inspect.getattr_static(base, name, None), property)
    ]
    expected, problems = mixed_batch()(case.build()), []
    for value in (nn.Identity(), "mine"):
        together = _attribute_problem(case, names, value, expected)
        if together is not None:
            alone = [_attribute_problem(case, [name], value, expected) for name in names]
            problems += list(filter(None, alone)) or [together]
    assert not problems, "\n".join(problems)


def _attribute_problem(case: Case, names: list[str], value: Any, expected: FeatureOutput) -> str | None:
    """Return what happens if a subclass sets these attributes, or ``None`` if the pooler works."""
    try:
        pooler = case.build(_with_attributes(_class(case), names, value))
        for name in names:
            assert getattr(pooler, name) is value, "the attribute has another value"
        assert_same_output(mixed_batch()(pooler), expected, atol=1e-4)
    except Exception as error:  # noqa: BLE001 - any error is a problem
        return f"self.{', self.'.join(names)} = {value!r}: {type(error).__name__}: {str(error)[:80]}"
    return None


def _with_attributes(base: Any, names: list[str], value: Any) -> type:
    """Return a subclass whose constructor sets more attributes."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        base.__init__(self, *args, **kwargs)
        for name in names:
            setattr(self, name, value)

    setattr(__init__, "__signature__", inspect.signature(base.__init__))  # noqa: B010 - mypy knows no such attribute
    return subclass(base, __init__=__init__)


def check_edge_attr(case: Case) -> None:
    """Check the values of pooled edge attributes for ``sum`` and ``mean``, and their gradients."""
    merges = foreign = False
    for name, data in batches().items():
        for how in ("sum", "mean"):
            attr = _attributes(data).requires_grad_()
            pooler = case.build()
            out = data(pooler, edge_attr=attr, edge_attr_reduce=how)
            if out.edge_attr is None:
                foreign = foreign or _has_foreign_edges(out, data)
                continue
            merges = True
            expected = _expected(pooler, out, data, attr, how)
            close(out.edge_attr, expected, f"edge_attr of {name}, {how}")
            factor = normal(expected.shape, 9)
            grads = [
                torch.autograd.grad((factor * value).sum(), attr, retain_graph=True)[0]
                for value in (out.edge_attr, expected)
            ]
            close(grads[0], grads[1], f"gradient of edge_attr of {name}, {how}", rtol=1e-4, atol=1e-4)
    assert merges or foreign, "edge_attr is lost: expected one row per pooled edge, got None"
    if not merges:
        raise Skip("the pooled edges are not merged input edges")


def check_edge_attr_shapes(case: Case) -> None:
    """Check that ``[E]`` attributes and ``[E, 1]`` attributes give equal values, and that ``none`` drops them."""
    for name, data in batches().items():
        attr = _attributes(data)[:, 0]
        flat = data(case.build(), edge_attr=attr)
        column = data(case.build(), edge_attr=attr.unsqueeze(-1))
        assert (flat.edge_attr is None) == (column.edge_attr is None)
        assert data(case.build(), edge_attr=attr, edge_attr_reduce="none").edge_attr is None
        assert data(case.build()).edge_attr is None, "edge_attr without edge_attr in the call"
        if flat.edge_attr is not None and column.edge_attr is not None:
            close(flat.edge_attr, column.edge_attr.squeeze(-1), f"edge_attr [E] and [E, 1] of {name}")


def check_override_edge_attr(case: Case) -> None:
    """Check that an overridden ``connect`` that returns two values does not lose edge attributes."""

    def connect(self: Any, *args: Any, **kwargs: Any) -> Any:
        adj, weight = base.connect(self, *args, **kwargs)
        return adj, weight

    base: Any = type(case.build())
    cls = subclass(base, connect=connect)
    merges = False
    for name, data in batches().items():
        attr = _attributes(data)
        plain = data(case.build(), edge_attr=attr)
        if plain.edge_attr is not None:
            merges = True
            mine = data(case.build(cls), edge_attr=attr)
            close(mine.edge_attr, plain.edge_attr, f"edge_attr of {name} with an overridden `connect`")
    if not merges:
        raise Skip("the pooled edges are not merged input edges")


def _attributes(data: GraphBatch) -> Tensor:
    return normal((data.adj.size(1), 2), 5)


def _has_foreign_edges(out: FeatureOutput, data: GraphBatch) -> bool:
    """Return True if there is a pooled edge without an input edge between its supernodes."""
    cluster = out.so.cluster
    if cluster is None:
        return False
    present = set(zip(*cluster[data.adj].tolist(), strict=True))
    pooled, _ = connectivity_to_edge_index(out.edge_index)
    return not present >= set(zip(*pooled.tolist(), strict=True))


def _expected(pooler: Any, out: FeatureOutput, data: GraphBatch, attr: Tensor, how: str) -> Tensor:
    """Return the edge attributes in the form of the result, computed from the assignment with dense matrices."""
    weight = data.edge_weight if out.so.is_dense else torch.ones_like(data.edge_weight)
    s = _rows(out, data)
    channels = [_product(s, data.adj, weight)] if how == "mean" else []
    channels += [_product(s, data.adj, weight * column) for column in attr.unbind(1)]
    if how == "mean":
        total, *channels = channels
        channels = [part / torch.where(total == 0, torch.ones_like(total), total) for part in channels]
    values = torch.stack(channels, -1)
    if not is_dense_output(out):
        if out.x.size(0) < s.size(1):  # without empty supernodes
            used = (s != 0).any(0)
            values = values[used][:, used]
        source, target = connectivity_to_edge_index(out.edge_index)[0]
        return values[source, target]
    graphs, k = out.edge_index.shape[:2]
    blocks = values.view(graphs, k, graphs, k, -1).diagonal(dim1=0, dim2=2).permute(3, 0, 1, 2)
    if getattr(pooler, "adj_transpose", False):
        blocks = blocks.transpose(1, 2)
    present: Tensor = out.edge_index != 0
    return blocks * present.unsqueeze(-1)


def _rows(out: FeatureOutput, data: GraphBatch) -> Tensor:
    """Return the assignment as a dense ``[N, B * K]`` matrix over all supernodes, without gradients."""
    so = out.so
    if so.is_sparse:
        return (so.s.to_dense() != 0).to(data.x.dtype)
    rows = so.to_nodes(so.s).detach()
    k = rows.size(-1)
    full = rows.new_zeros(rows.size(0), data.num_graphs, k)
    full[torch.arange(rows.size(0)), data.batch] = rows
    return full.view(rows.size(0), -1)


def _product(s: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
    """Return ``S^T A S`` with a dense adjacency."""
    zeros = weight.new_zeros(s.size(0), s.size(0))
    adj = zeros.index_put(tuple(edge_index), weight, accumulate=True)
    return s.t() @ adj @ s
