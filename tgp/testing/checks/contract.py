"""Checks that hooks, overridden methods and attributes of users have their effect in every mode."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tgp.testing.batches import (
    GraphBatch,
    adjacency,
    assert_same_output,
    close,
    complete_batch,
    mixed_batch,
    ring_batch,
)
from tgp.testing.cases import Case, Skip

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
"""Names that subclasses of users give to attributes of their own."""


def batches() -> dict[str, GraphBatch]:
    """Return batches of different density: poolers may compute differently on each."""
    return {"rings": ring_batch(), "mixed graphs": mixed_batch(), "complete graphs": complete_batch()}


def subclass(cls: type, **methods: Callable[..., Any]) -> type:
    """Return a subclass as a user writes it: outside of the library."""
    for method in methods.values():
        method.__module__ = "__main__"
    return type(f"User{cls.__name__}", (cls,), {"__module__": "__main__", **methods})


def _class(case: Case) -> type:
    return type(case.build())


def check_hooks(case: Case) -> None:
    """Forward hooks on all four stages fire, and what they return counts."""
    for name, data in batches().items():
        pooler = case.build()
        stages = {stage: getattr(pooler, stage) for stage in ("selector", "reducer", "connector", "lifter")}
        fired = _watch({stage: module for stage, module in stages.items() if module is not None})
        out = data(pooler)
        for stage in ("selector", "reducer", "connector"):
            assert stage in fired or getattr(pooler, stage) is None, f"no hook of the {stage} fired on {name}"
        pooler(x=out.x, so=out.so, lifting=True, batch=data.batch, batch_pooled=out.batch)
        assert "lifter" in fired or pooler.lifter is None, f"no hook of the lifter fired on {name}"
        plain, pooler = data(case.build()), case.build()
        pooler.reducer.register_forward_hook(lambda module, args, result: (2 * result[0], *result[1:]))
        close(data(pooler).x, 2 * plain.x, f"a hook of the reducer doubles x on {name}")


def _watch(modules: dict[str, nn.Module]) -> set[str]:
    """Return a set that gets the name of a module whenever it is called."""
    fired: set[str] = set()
    for name, module in modules.items():
        module.register_forward_hook(lambda *_, name=name: fired.add(name))
    return fired


def check_layers_called(case: Case) -> None:
    """Every layer with parameters is called as a module, so that hooks, pruning and quantization work."""
    pooler = case.build()
    layers = {
        name: part
        for name, part in pooler.named_modules()
        if any(parameter is not None for parameter in part._parameters.values())
    }
    if not layers:
        raise Skip("the pooler has no layers")
    for where, data in batches().items():
        fired = _watch(layers)
        data(pooler)
        silent = sorted(layers.keys() - fired)
        assert not silent, f"not called as modules on {where}: {', '.join(silent)}"


def check_override_reduce(case: Case) -> None:
    """An overridden ``reduce`` decides about the pooled features."""

    def reduce(self: Any, *args: Any, **kwargs: Any) -> Any:
        x, batch = super(cls, self).reduce(*args, **kwargs)
        return 2 * x, batch

    cls = subclass(_class(case), reduce=reduce)
    for name, data in batches().items():
        close(data(case.build(cls)).x, 2 * data(case.build()).x, f"doubled by `reduce` on {name}")


def check_override_connect(case: Case) -> None:
    """An overridden ``connect`` decides about the pooled connectivity."""

    def connect(self: Any, *args: Any, **kwargs: Any) -> Any:
        adj, weight = super(cls, self).connect(*args, **kwargs)
        if adj.is_floating_point():
            return 2 * adj, weight
        return adj, torch.full((adj.size(1),), 2.0) if weight is None else 2 * weight

    cls = subclass(_class(case), connect=connect)
    for name, data in batches().items():
        mine, plain = adjacency(data(case.build(cls))), adjacency(data(case.build()))
        close(mine, 2 * plain, f"doubled by `connect` on {name}")


def check_override_select(case: Case) -> None:
    """An overridden ``select`` is called, and its assignment is used and returned."""
    seen: list[Any] = []

    def select(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(super(cls, self).select(*args, **kwargs))
        return seen[-1]

    cls = subclass(_class(case), select=select)
    for name, data in batches().items():
        seen.clear()
        out = data(case.build(cls))
        assert len(seen) == 1, f"`select` was called {len(seen)} times on {name}"
        assert seen[0].num_supernodes == out.so.num_supernodes, f"{name}: another assignment was used"


def check_override_lift(case: Case) -> None:
    """An overridden ``lift`` decides about the lifted features."""

    def lift(self: Any, *args: Any, **kwargs: Any) -> Any:
        return 2 * super(cls, self).lift(*args, **kwargs)

    cls = subclass(_class(case), lift=lift)
    data = mixed_batch()
    out = data(case.build())
    lifted = [
        pooler(x=out.x, so=out.so, lifting=True, batch=data.batch, batch_pooled=out.batch)
        for pooler in (case.build(cls), case.build())
    ]
    close(lifted[0], 2 * lifted[1], "doubled by `lift`")


def check_override_loss(case: Case) -> None:
    """An overridden ``compute_loss`` (``compute_sparse_loss`` in flat mode) gives the losses of the result."""
    if not mixed_batch()(case.build()).loss:
        raise Skip("the pooler has no losses")

    def marked(self: Any, *args: Any, **kwargs: Any) -> dict[str, torch.Tensor]:
        return {"marker": torch.tensor(42.0)}

    def extended(self: Any, *args: Any, **kwargs: Any) -> dict[str, torch.Tensor]:
        return {**getattr(super(more, self), method)(*args, **kwargs), "marker": torch.tensor(42.0)}

    base = _class(case)
    flat = case.options.get("batched") is False and hasattr(base, "compute_sparse_loss")
    method = "compute_sparse_loss" if flat else "compute_loss"
    cls, more = subclass(base, **{method: marked}), subclass(base, **{method: extended})
    for name, data in batches().items():
        loss = data(case.build(cls)).loss
        assert loss is not None and list(loss) == ["marker"], f"`{method}` has no effect on {name}"
        plain, loss = data(case.build()).loss, data(case.build(more)).loss
        assert list(loss) == [*plain, "marker"], f"`{method}` with super() has no effect on {name}"
        for key, value in plain.items():
            close(loss[key], value, f"{key} by super().{method} on {name}", atol=1e-4, rtol=1e-4)


def check_override_nothing(case: Case) -> None:
    """Methods that only call ``super()`` change nothing."""
    base = _class(case)
    names = [
        name
        for name in ("select", "reduce", "connect", "lift", "forward", "preprocessing")
        if hasattr(base, name)
    ]

    def plain(name: str) -> Callable[..., Any]:
        return lambda self, *args, **kwargs: getattr(super(cls, self), name)(*args, **kwargs)

    cls = subclass(base, **{name: plain(name) for name in names})
    for name, data in batches().items():
        assert_same_output(
            data(case.build(cls)), data(case.build()), f"plain overrides on {name}:", atol=1e-4
        )


def check_attributes(case: Case) -> None:
    """Attributes of a subclass may have any name that is not documented."""
    base = _class(case)
    expected, problems = mixed_batch()(case.build()), []
    for name in FREE_NAMES:
        if case.takes(name) or isinstance(inspect.getattr_static(base, name, None), property):
            continue  # an argument of the constructor or a public property: documented
        for value in (nn.Identity(), "mine"):
            try:
                pooler = case.build(_with_attribute(base, name, value))
                assert getattr(pooler, name) is value, "the attribute has another value"
                assert_same_output(mixed_batch()(pooler), expected, atol=1e-4)
            except Exception as error:  # noqa: BLE001 - every name is tried
                problems.append(f"self.{name} = {value!r}: {type(error).__name__}: {str(error)[:80]}")
    assert not problems, "\n".join(problems)


def _with_attribute(base: type, name: str, value: Any) -> type:
    """Return a subclass whose constructor sets one more attribute."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        super(cls, self).__init__(*args, **kwargs)
        setattr(self, name, value)

    __init__.__signature__ = inspect.signature(base.__init__)  # type: ignore[attr-defined]
    cls = subclass(base, __init__=__init__)
    return cls
