"""Wrong and unusual calls of poolers, and the checks that the wrong ones raise errors and the others do not."""

from __future__ import annotations

import inspect
import json
import os
import random
import signal
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tgp.errors import TgpError
from tgp.testing.batches import needed_arguments, normal
from tgp.testing.cases import IN_CHANNELS, Case, Skip

__all__ = ["ACCEPTED", "REFUSED", "Call", "accepted_calls", "refusal_problem", "refused_calls"]

ADJ = ("adj", "edge_index", "connectivity")


@dataclass(frozen=True)
class Call:
    """Arguments of a forward.

    Args:
        kind: Property that makes the call wrong or unusual.
        args: Positional arguments.
        kwargs: Keyword arguments.
        names: Arguments of which the error message must name one; empty if the call must be accepted.
    """

    kind: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()


@dataclass
class _RandomBatch:
    """Random batch from which calls are made by changing some arguments."""

    rng: random.Random
    case: Case

    def __post_init__(self) -> None:
        sizes = [self.rng.randint(3, 7) for _ in range(self.rng.randint(2, 4))]
        seed = self.rng.getrandbits(30)
        pairs, start = [], 0
        for size in sizes:
            chain = [(i, i + 1) for i in range(size - 1)] + [
                (self.rng.randrange(size), self.rng.randrange(size))
            ]
            pairs += [(start + a, start + b) for a, b in chain] + [(start + b, start + a) for a, b in chain]
            start += size
        self.n, self.graphs = start, len(sizes)
        self.edges = torch.tensor(pairs).t().contiguous()
        self.e = self.edges.size(1)
        self.x = normal((start, IN_CHANNELS), seed)
        self.weight = normal((self.e,), seed + 1).abs() + 0.1
        self.batch = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))

    def kwargs(self, **changes: Any) -> dict[str, Any]:
        """Return the arguments of a valid call with changes. The value ``...`` removes an argument."""
        given = {"x": self.x, "adj": self.edges, "edge_weight": self.weight, "batch": self.batch, **changes}
        return {name: value for name, value in given.items() if value is not ...}

    def entry(self, tensor: Tensor, value: Any) -> Tensor:
        """Return a copy of ``tensor`` with one random entry replaced."""
        copy = tensor.clone()
        copy.view(-1)[self.rng.randrange(copy.numel())] = value
        return copy

    def dense(self, names: tuple[str, ...] | str, **changes: Any) -> Call | None:
        """Return a call with padded graphs, or ``None`` if the pooler does not accept them in this mode."""
        if not self.case.options.get("batched"):
            return None
        given = {"x": torch.rand(2, 6, IN_CHANNELS), "adj": torch.rand(2, 6, 6), **changes}
        return _call(names, **{name: value for name, value in given.items() if value is not ...})

    @property
    def fourth(self) -> str:
        """Name of the fourth positional argument of ``forward``."""
        return list(inspect.signature(self.case.build().forward).parameters)[3]

    @property
    def works_without_edges(self) -> bool:
        """True if the pooler does not need a connectivity."""
        return bool(getattr(self.case.build(), "_connectivity_optional", False))

    @property
    def reads_topology(self) -> bool:
        """True if the pooler does not need features."""
        return bool(self.case.build().is_precoarsenable)

    def pick(self, *values: Any) -> Any:
        """Return one of the values."""
        return self.rng.choice(values)


CallMaker = Callable[[_RandomBatch], Call | None]


def _call(names: tuple[str, ...] | str, **changes: Any) -> Call:
    return Call("", (), changes, (names,) if isinstance(names, str) else names)


REFUSED: dict[str, CallMaker] = {
    "node id too large": lambda d: _call(
        ADJ, **d.kwargs(adj=d.entry(d.edges, d.n + d.pick(0, 1, 5, 99, 10**4, 2**31, 2**40)))
    ),
    "node id negative": lambda d: _call(ADJ, **d.kwargs(adj=d.entry(d.edges, -d.pick(1, 2, d.n, 10**6)))),
    "node id too large, int32": lambda d: _call(
        ADJ, **d.kwargs(adj=d.entry(d.edges, d.n + d.pick(0, 7)).int())
    ),
    "node id too large, no weights": lambda d: _call(
        ADJ, **d.kwargs(adj=d.entry(d.edges, d.n + d.pick(0, 3)), edge_weight=None)
    ),
    "node id too large, no batch": lambda d: _call(
        ADJ, **d.kwargs(adj=d.entry(d.edges, d.n + d.pick(0, 3)), batch=None)
    ),
    "edge list of wrong shape": lambda d: _call(
        ADJ,
        **d.kwargs(
            adj=d.pick(d.edges.t().contiguous(), d.edges.view(-1), d.edges[:1], d.edges[None], d.edges[0, 0])
        ),
    ),
    "edge list of three rows": lambda d: _call(ADJ, **d.kwargs(adj=torch.cat([d.edges, d.edges[:1]]))),
    "edge list of wrong dtype": lambda d: _call(
        ADJ, **d.kwargs(adj=d.edges.to(d.pick(torch.float32, torch.float64, torch.complex64, torch.bool)))
    ),
    "edge list of wrong type": lambda d: _call(
        ADJ,
        **d.kwargs(adj=d.pick(d.edges.tolist(), d.edges.cpu().numpy(), "edges", 7, {"edge_index": d.edges})),
    ),
    "no connectivity": lambda d: (
        None if d.works_without_edges else _call(ADJ, **d.kwargs(adj=d.pick(..., None)))
    ),
    "sparse matrix of wrong size": lambda d: _call(
        (*ADJ, "x"),
        **d.kwargs(
            adj=torch.sparse_coo_tensor(
                d.edges, d.weight, (d.n + d.pick(1, 3),) * 2, check_invariants=True
            ).coalesce(),
            edge_weight=None,
        ),
    ),
    "edge_weight of wrong length": lambda d: _call(
        "edge_weight", **d.kwargs(edge_weight=torch.rand(d.pick(d.e - 1, d.e + 1, d.n, 0, 1, 2 * d.e)))
    ),
    "edge_weight of wrong shape": lambda d: _call(
        "edge_weight",
        **d.kwargs(edge_weight=d.pick(torch.rand(d.e, 2), torch.rand(1, d.e), torch.rand(d.e, 1, 1))),
    ),
    "edge_weight of wrong dtype": lambda d: _call(
        "edge_weight", **d.kwargs(edge_weight=d.weight.to(d.pick(torch.complex64, torch.complex128)))
    ),
    "edge_weight of wrong type": lambda d: _call(
        "edge_weight",
        **d.kwargs(edge_weight=d.pick(d.weight.tolist(), d.weight.cpu().numpy(), "weight", 1.0)),
    ),
    "batch of wrong length": lambda d: _call(
        "batch",
        **d.kwargs(batch=d.pick(d.batch[:-1], torch.cat([d.batch, d.batch[-1:]]), d.batch[:0], d.batch[:1])),
    ),
    "batch of wrong shape": lambda d: _call(
        "batch", **d.kwargs(batch=d.pick(d.batch[:, None], d.batch[None]))
    ),
    "batch of wrong dtype": lambda d: _call(
        "batch", **d.kwargs(batch=d.batch.to(d.pick(torch.float32, torch.float64, torch.bool)))
    ),
    "batch of wrong type": lambda d: _call(
        "batch", **d.kwargs(batch=d.pick(d.batch.tolist(), d.batch.cpu().numpy(), "batch", 0))
    ),
    "batch id negative": lambda d: _call("batch", **d.kwargs(batch=d.entry(d.batch, -d.pick(1, 3)))),
    "batch id beyond batch_size": lambda d: _call(
        ("batch", "batch_size"), **d.kwargs(batch_size=d.graphs - d.pick(*range(1, d.graphs)))
    ),
    "batch_size of wrong type": lambda d: _call(
        "batch_size", **d.kwargs(batch_size=d.pick("3", 2.5, [4], -1))
    ),
    "no features": lambda d: None if d.reads_topology else _call("x", **d.kwargs(x=d.pick(..., None))),
    "x of wrong shape": lambda d: _call("x", **d.kwargs(x=d.pick(d.x[0, 0], d.x[None, None]))),
    "x of wrong dtype": lambda d: _call("x", **d.kwargs(x=d.x.to(d.pick(torch.complex64, torch.complex128)))),
    "x of wrong type": lambda d: _call("x", **d.kwargs(x=d.pick(d.x.tolist(), d.x.cpu().numpy(), "x", 3))),
    "x with too few rows": lambda d: _call(
        ("x", "batch", *ADJ), **d.kwargs(x=d.x[: -d.pick(1, 2)], batch=d.pick(None, d.batch))
    ),
    "x with too many rows": lambda d: _call(("x", "batch"), **d.kwargs(x=torch.cat([d.x, d.x[:1]]))),
    "so of wrong type": lambda d: _call(
        "so", **d.kwargs(so=d.pick(d.batch, d.batch.tolist(), "so", 3, {"s": d.x}, d.x))
    ),
    "unknown keyword": lambda d: _call(
        (),
        **d.kwargs(**{d.pick("edge_weights", "edge_attrs", "batchs", "weights", "adjs", "Batch"): d.weight}),
    ),
    "edge_attr of wrong length": lambda d: _call(
        "edge_attr",
        **d.kwargs(edge_attr=torch.rand(d.pick((d.e - 1, 2), (d.e + 1,), (d.n, 3), (0, 2), (2, d.e)))),
    ),
    "edge_attr of wrong shape": lambda d: _call(
        "edge_attr", **d.kwargs(edge_attr=d.pick(torch.rand(d.e, 2, 1), torch.rand(1, d.e), torch.rand(())))
    ),
    "edge_attr of wrong dtype": lambda d: _call(
        "edge_attr", **d.kwargs(edge_attr=d.weight.to(d.pick(torch.complex64, torch.complex128)))
    ),
    "edge_attr of wrong type": lambda d: _call(
        "edge_attr",
        **d.kwargs(edge_attr=d.pick(d.weight.tolist(), d.weight.cpu().numpy(), "attr", 1.0, {"a": d.weight})),
    ),
    "edge_attr_reduce unknown": lambda d: _call(
        "reduction", **d.kwargs(edge_attr=d.weight, edge_attr_reduce=d.pick("median", "auto", 3, "Mean", ""))
    ),
    "PyG's order of arguments": lambda d: Call(
        "",
        (d.x, d.edges, d.weight if d.fourth == "batch" else d.pick(d.weight, None), d.batch),
        {},
        ("batch=", "so"),
    ),
    "batch as third argument": lambda d: Call(
        "", (d.x, d.edges, d.batch if d.n != d.e else d.batch[:-1]), {}, ("edge_weight", "so")
    ),
    "edges first": lambda d: Call("", (d.edges, d.x), {"batch": d.batch}, ("x", *ADJ)),
    "mask of wrong shape": lambda d: d.dense(
        "mask",
        mask=d.pick(
            torch.ones(2, 5), torch.ones(3, 6), torch.ones(2, 6, 1), torch.ones(12), torch.ones(2, 6, 6)
        ).bool(),
    ),
    "mask of wrong type": lambda d: d.dense(
        "mask", mask=d.pick([[True] * 6] * 2, "mask", np.ones((2, 6), bool))
    ),
    "dense adjacency of wrong shape": lambda d: d.dense(
        (*ADJ, "x"),
        adj=d.pick(torch.rand(2, 6, 5), torch.rand(2, 5, 5), torch.rand(3, 6, 6), torch.rand(2, 2, 6, 6)),
    ),
    "dense x of wrong shape": lambda d: d.dense(
        ("x", *ADJ),
        x=d.pick(torch.rand(2, 5, IN_CHANNELS), torch.rand(3, 6, IN_CHANNELS), torch.rand(2, 1, 6, 4)),
    ),
    "lifting without so": lambda d: _call(("so", "SelectOutput"), **d.kwargs(lifting=True)),
}
"""Functions that make a call to refuse, by kind. They return ``None`` if a pooler has no such call."""

ACCEPTED: dict[str, CallMaker] = {
    "int32 ids": lambda d: _call((), **d.kwargs(adj=d.edges.int())),
    "[E, 1] weights": lambda d: _call((), **d.kwargs(edge_weight=d.weight[:, None])),
    "other weights": lambda d: _call(
        (), **d.kwargs(edge_weight=d.pick(None, (d.weight * 9).long(), d.weight.double(), d.weight > 0.5))
    ),
    "edge attributes": lambda d: _call(
        (),
        **d.kwargs(
            edge_attr=d.pick(
                d.weight, (d.weight * 9).long(), d.weight > 0.5, torch.rand(d.e, 0), torch.rand(d.e, 3)
            ),
            edge_attr_reduce=d.pick(None, "mean", "sum", "none"),
        ),
    ),
    "no batch": lambda d: _call((), **d.kwargs(batch=None)),
    "int32 batch": lambda d: _call((), **d.kwargs(batch=d.batch.int())),
    "larger batch_size": lambda d: _call((), **d.kwargs(batch_size=d.graphs + d.pick(0, 1, 2))),
    "no edges": lambda d: _call((), **d.kwargs(adj=d.edges[:, :0], edge_weight=d.weight[:0])),
    "positional": lambda d: Call("", (d.x, d.edges), {"batch": d.batch}),
    "without checks": lambda d: _call((), **d.kwargs(validate=False)),
    "other features": lambda d: _call((), **d.kwargs(x=d.x.clone().requires_grad_())),
    "shuffled edges": lambda d: _call((), **d.kwargs(adj=d.edges.flip(1), edge_weight=d.weight.flip(0))),
    "dense input": lambda d: d.dense((), mask=d.pick(..., None, torch.ones(2, 6).bool(), torch.ones(2, 6))),
    "dense integer adjacency": lambda d: d.dense(
        (), adj=(torch.rand(2, 6, 6) > 0.5).to(d.pick(torch.long, torch.bool))
    ),
    "COO": lambda d: _call(
        (),
        **d.kwargs(
            adj=torch.sparse_coo_tensor(d.edges, d.weight, (d.n, d.n), check_invariants=True).coalesce(),
            edge_weight=None,
        ),
    ),
}
"""Functions that make a call to accept, by kind. They return ``None`` if a pooler has no such call."""


def refused_calls(case: Case, seed: int = 0) -> Iterator[Call]:
    """Yield one call of every kind that ``case`` must refuse."""
    yield from _calls(REFUSED, case, seed)


def accepted_calls(case: Case, seed: int = 0) -> Iterator[Call]:
    """Yield one call of every kind that ``case`` must accept."""
    yield from _calls(ACCEPTED, case, seed)


def _calls(kinds: dict[str, CallMaker], case: Case, seed: int) -> Iterator[Call]:
    for kind, make in kinds.items():
        # A string gives the same seed in every process, a tuple does not.
        found = make(_RandomBatch(random.Random(f"{case}/{kind}/{seed}"), case))
        if found is not None:
            yield Call(kind, found.args, found.kwargs, found.names)


def refusal_problem(pooler: Any, call: Call, refused: bool) -> str | None:
    """Make a call and return a description of the problem, or ``None`` if the pooler reacts as it should.

    Args:
        pooler: Pooler to call.
        call: Arguments.
        refused: True if the pooler must refuse the call, False if it must accept it.
    """
    try:
        x = call.kwargs.get("x", call.args[0] if call.args else None)
        needed = needed_arguments(pooler, x if isinstance(x, Tensor) and x.dim() > 1 else None)
        pooler(*call.args, **{**needed, **call.kwargs})
    except (ValueError, TypeError, TgpError) as error:
        if not refused:
            return f"refused: {type(error).__name__}: {error}"
        text = str(error)
        if call.names and not any(name in text for name in call.names):
            return f"the message names none of {', '.join(call.names)}: {type(error).__name__}: {text[:200]}"
        return None
    except Exception as error:  # noqa: BLE001 - any other exception is the problem to report
        return f"raised {type(error).__name__}: {str(error)[:200]}"
    return "accepted" if refused else None


ONCE: frozenset[str] = frozenset()
SLOW: frozenset[str] = frozenset()

TIMEOUT = 120
"""Seconds for all calls of a pooler."""


def check_refusals(case: Case) -> None:
    """Check that wrong ids, lengths, types and argument orders raise an error that names the argument."""
    _assert_no_problem(case, refused=True)


def check_acceptance(case: Case) -> None:
    """Check that unusual but valid calls are accepted."""
    _assert_no_problem(case, refused=False)


def _assert_no_problem(case: Case, refused: bool) -> None:
    pooler = case.build()
    calls = list((refused_calls if refused else accepted_calls)(case))

    def run(report: Callable[[str], None]) -> None:
        for call in calls:
            report(f"{call.kind}: the process died")
            problem = refusal_problem(pooler, call, refused)
            report(f"{call.kind}: {problem}" if problem else "")

    reports = _in_child(run)
    assert len(reports) >= 2 * len(calls) or len(reports) % 2, "the process ended before all calls were made"
    # The second report of a call replaces the first; the last one of a process that died has no second.
    problems = [*reports[1::2], *reports[len(reports) - len(reports) % 2 :]]
    assert not any(problems), "\n".join(filter(None, problems))


def _in_child(run: Callable[[Callable[[str], None]], None]) -> list[str]:
    """Run a function in a forked process, because a wrong node id may end it; return what it reports."""
    if not hasattr(os, "fork") or torch.cuda.is_initialized():
        raise Skip("needs os.fork without CUDA: a wrong call may end the process")
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork in a process with threads
        child = os.fork()
    if not child:
        _child(run, reader, writer)
    os.close(writer)
    with os.fdopen(reader) as stream:
        reports = [json.loads(line) for line in stream]
    os.waitpid(child, 0)
    return reports


def _child(run: Callable[[Callable[[str], None]], None], reader: int, writer: int) -> None:
    os.close(reader)
    torch.set_num_threads(1)  # the threads of the parent do not exist here, and OpenMP would wait for them
    signal.alarm(TIMEOUT)  # a call that does not return ends the process, too
    try:
        with warnings.catch_warnings(), os.fdopen(writer, "w", buffering=1) as stream:
            warnings.simplefilter("ignore")
            run(lambda text: print(json.dumps(text), file=stream))
    finally:
        os._exit(0)
