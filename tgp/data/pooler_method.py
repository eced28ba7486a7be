"""Poolers of users as level methods: run a pooler class as a level of a schedule.

The engine knows level methods, which work on arrays. A pooler that a user wrote has ``precoarsening`` or
``multi_level_precoarsening`` on tensors. :func:`level_method` wraps such a class: graph by graph it runs the pooler and
stores what the pooler returned, assignment and coarse graph. The engine finds this module by its name
(``tgp.poolers.factory.method_entry``) and does not import it.
"""

from __future__ import annotations

import dataclasses
import inspect
import random
import threading
import types
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Union

import numpy as np
import torch
from torch import Tensor

from tgp.engine.level_method import LevelMethod, RandomKey
from tgp.errors import GraphError, ParameterError, TgpError
from tgp.poolers import pooler_map
from tgp.ragged import Assignment, BlockCSR
from tgp.registry import Entry, load
from tgp.src.precoarsening import run_levels
from tgp.utils.ops.connectivity import connectivity_to_edge_index

__all__ = ["level_method", "seeded"]

_SIMPLE = (int, float, bool, str, type(None))
_ANY = int | float | bool | str
_GENERATOR_LOCK = threading.RLock()
"""Lock around code that uses the global generators. Another thread that reads a schedule builds its poolers, too."""


def level_method(entry: Entry) -> LevelMethod:
    """Return the level method that runs the pooler class of a table line.

    Args:
        entry: Line of the class in ``pooler_map``.

    Raises:
        ParameterError: if the class cannot be imported, cannot precompute levels, or has a required parameter that a
            schedule cannot express.
    """
    known = pooler_map.find(entry.alias)
    if known is not None and known.target == entry.target:
        return _wrap(entry.alias, pooler_map[entry.alias])
    try:  # a worker process: the class was registered in another one
        cls = load(entry.target)
    except (ImportError, AttributeError) as error:
        raise ParameterError(
            f"pooler {entry.alias!r} cannot be imported from {entry.target!r}: {error}",
            field="alias",
            hint="move the class to a module that worker processes can import, or run with one worker",
        ) from error
    return _wrap(entry.alias, cls)


@lru_cache(maxsize=64)
def _wrap(alias: str, cls: type) -> LevelMethod:
    if not (hasattr(cls, "precoarsening") or hasattr(cls, "multi_level_precoarsening")):
        raise ParameterError(
            f"pooler {alias!r} cannot be a level of a schedule: its class {cls.__name__} has neither "
            "'precoarsening' nor 'multi_level_precoarsening'",
            field="alias",
        )
    runner = _Runner(alias, cls)
    return LevelMethod(
        alias, _params_class(alias, cls), runner.assign, _coarse_graph, assign_levels=runner.assign_levels
    )


@contextmanager
def seeded(seed: int, level: int) -> Iterator[None]:
    """Seed the global generators of torch, NumPy and Python inside of the block, and restore them after it.

    Only one thread at a time is inside of such a block.

    Args:
        seed: Seed of the run.
        level: Number of the level.
    """
    mixed = int(np.random.SeedSequence([seed, level]).generate_state(1, np.uint32)[0])
    generator = torch.default_generator  # ``torch.manual_seed`` also prepares accelerators, which takes long
    with _GENERATOR_LOCK:
        states = generator.get_state(), random.getstate(), np.random.get_state()  # noqa: NPY002
        generator.manual_seed(mixed)
        random.seed(mixed)
        np.random.seed(mixed)  # noqa: NPY002 - code of users calls the global generator
        try:
            yield
        finally:
            generator.set_state(states[0])
            random.setstate(states[1])
            np.random.set_state(states[2])  # noqa: NPY002


@dataclass(frozen=True, eq=False)
class _PooledLevel(Assignment):
    """An assignment together with the coarse graphs that the pooler's own connector made."""

    coarse: BlockCSR | None = None


def _coarse_graph(block: BlockCSR, assignment: Assignment, params: Any) -> BlockCSR:
    assert isinstance(assignment, _PooledLevel) and assignment.coarse is not None
    return assignment.coarse


@dataclass(frozen=True)
class _Runner:
    """Runs a pooler class on every graph of a block."""

    alias: str
    cls: type

    def assign(self, block: BlockCSR, params: Any, draw: RandomKey) -> Assignment:
        """Return the assignment of one level."""
        return self.assign_levels(block, params, draw, 1)[0]

    def assign_levels(
        self, block: BlockCSR, params: Any, draw: RandomKey, num_levels: int
    ) -> list[Assignment]:
        """Return the assignments of several levels.

        Every graph is run alone, with a new pooler and the same state of the random generators: its levels cannot
        depend on the other graphs.
        """
        levels: list[tuple[list[Assignment], list[BlockCSR]]] = [([], []) for _ in range(num_levels)]
        for graph in range(block.num_graphs):
            for (assignments, blocks), step in zip(
                levels, self._run(block, graph, params, draw, num_levels), strict=True
            ):
                assignments.append(step[0])
                blocks.append(step[1])
        return [self._join(*level) for level in levels]

    def _run(
        self, block: BlockCSR, graph: int, params: Any, draw: RandomKey, num_levels: int
    ) -> list[tuple[Assignment, BlockCSR]]:
        first, last = int(block.node_ptr[graph]), int(block.node_ptr[graph + 1])
        if first == last:  # most poolers cannot run on nothing
            nothing = Assignment("hard", np.zeros(2, np.int64), np.zeros(0, np.int32))
            return [(nothing, BlockCSR.from_edge_index(np.zeros((2, 0)), num_nodes=0))] * num_levels
        edges, weight = _edges(block, first, last)
        try:
            with seeded(draw.seed, draw.level), torch.no_grad():
                outputs = run_levels(
                    _build(self.cls, params, draw.seed),
                    num_levels,
                    edge_index=edges,
                    edge_weight=weight,
                    num_nodes=last - first,
                    level=draw.level,
                )
            return list(self._steps(outputs, last - first, num_levels))
        except (GraphError, MemoryError):
            raise
        except Exception as error:  # code of the user: whatever it raises concerns this graph
            text = str(error) if isinstance(error, TgpError) else f"{type(error).__name__}: {error}"
            raise GraphError(f"pooler {self.alias!r} failed: {text}", graph=graph) from error

    def _steps(self, outputs: Any, num_nodes: int, num_levels: int) -> Iterator[tuple[Assignment, BlockCSR]]:
        if len(outputs) != num_levels:
            raise GraphError(f"the number of levels is wrong: expected {num_levels}, got {len(outputs)}")
        for output in outputs:
            assignment = _assignment(output.so, num_nodes)
            num_nodes = assignment.num_supernodes
            yield assignment, _block(output.edge_index, output.edge_weight, num_nodes)

    def _join(self, assignments: list[Assignment], blocks: list[BlockCSR]) -> Assignment:
        live = [part for part in assignments if part.num_supernodes]
        kinds = {(part.kind, part.width) for part in live}
        if len(kinds) > 1:
            shown = ", ".join(f"{kind} {width or ''}".strip() for kind, width in sorted(kinds, key=str))
            raise ParameterError(
                f"pooler {self.alias!r} makes different kinds of assignments: expected the same kind and number of "
                f"columns for all graphs, got {shown}",
                field="pooler",
            )
        joined = Assignment.concat(assignments)
        values = {field.name: getattr(joined, field.name) for field in dataclasses.fields(Assignment)}
        return _PooledLevel(**values, coarse=BlockCSR.concat(blocks))


# -- arrays and tensors -----------------------------------------------------------------------------------------


def _edges(block: BlockCSR, first: int, last: int) -> tuple[Tensor, Tensor | None]:
    """Return edges and weights of one graph, sorted by source and target, with ids from 0 on."""
    low, high = int(block.indptr[first]), int(block.indptr[last])
    counts = np.diff(block.indptr[first : last + 1])
    edges = np.stack([np.repeat(np.arange(last - first), counts), block.indices[low:high] - first])
    weight = None
    if block.weight is not None:
        wide = block.weight[low:high]
        narrow = wide.astype(np.float32)
        weight = torch.from_numpy(narrow if (narrow == wide).all() else wide.copy())
    return torch.from_numpy(edges.astype(np.int64)), weight


def _assignment(so: Any, num_nodes: int) -> Assignment:
    if so is None or so.num_nodes != num_nodes:
        got = "none" if so is None else f"one of {so.num_nodes} nodes"
        raise GraphError(f"the assignment is wrong: expected one of {num_nodes} nodes, got {got}")
    super_ptr = np.array([0, so.num_supernodes], np.int64)
    if so.is_dense:
        s = so.s.squeeze(0) if so.s.dim() == 3 else so.s
        return Assignment("soft", super_ptr, soft=s.detach().to(torch.float32).contiguous().cpu().numpy())
    node, column = so.node_index.cpu().numpy(), so.cluster_index.cpu().numpy()
    cluster = np.full(num_nodes, -1, np.int32)
    cluster[node] = column
    values = so.weight.detach().to(torch.float32).cpu().numpy()
    weight = None
    if (values != 1).any():
        weight = np.zeros(num_nodes, np.float32)
        weight[node] = values
    return Assignment("hard", super_ptr, cluster, weight).validate(np.array([0, num_nodes], np.int64))


def _block(adj: Any, weight: Tensor | None, num_nodes: int) -> BlockCSR:
    """Return a coarse graph as a block; ``adj`` is any connectivity or a dense matrix."""
    if adj is None:
        adj = torch.zeros(2, 0, dtype=torch.long)
    if isinstance(adj, Tensor) and adj.layout is torch.strided and adj.is_floating_point():
        dense = adj.squeeze(0) if adj.dim() == 3 else adj
        adj = dense.nonzero().t()
        weight = dense[adj[0], adj[1]]
    edges, weight = connectivity_to_edge_index(adj, weight)
    values = None if weight is None else weight.detach().double().flatten().cpu().numpy()
    return BlockCSR.from_edge_index(edges.cpu().numpy(), values, num_nodes=num_nodes)


# -- parameters -------------------------------------------------------------------------------------------------


def _build(cls: type, params: Any, seed: int) -> Any:
    values = {field.name: getattr(params, field.name) for field in dataclasses.fields(params)}
    if "seed" in inspect.signature(cls).parameters:
        values["seed"] = seed
    return cls(**values)


def _params_class(alias: str, cls: type) -> type:
    """Return a frozen dataclass of those constructor parameters that a schedule can express.

    Numbers, text, ``true``, ``false`` and ``none`` can be expressed. ``seed`` is left out: it is the seed of the run.
    """
    fields: list[Any] = []
    hints = _type_hints(cls)
    for parameter in inspect.signature(cls).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or parameter.name == "seed":
            continue
        hint = _expressible(hints.get(parameter.name), parameter.default)
        if hint is not None:
            default = {} if parameter.default is parameter.empty else {"default": parameter.default}
            fields.append((parameter.name, hint, dataclasses.field(**default)))
        elif parameter.default is parameter.empty:
            raise ParameterError(
                f"pooler {alias!r} cannot be a level of a schedule: its parameter {parameter.name!r} has no default "
                "and is neither a number nor text",
                field=parameter.name,
            )

    def check(self: Any) -> None:
        _check(alias, cls, self)

    return dataclasses.make_dataclass(
        f"{cls.__name__}Params", fields, frozen=True, kw_only=True, namespace={"__post_init__": check}
    )


def _type_hints(cls: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls.__init__)  # type: ignore[misc]
    except (NameError, TypeError, AttributeError):  # an annotation that only a type checker can resolve
        return {}


def _expressible(hint: Any, default: Any) -> Any:
    """Return the part of a type that text can express, or ``None`` if there is none."""
    empty = inspect.Parameter.empty
    if default is not empty and not isinstance(default, _SIMPLE):
        return None
    if hint is None:
        if default is empty:
            return _ANY
        return _ANY | None if default is None else type(default)
    parts = typing.get_args(hint) if typing.get_origin(hint) in (Union, types.UnionType) else (hint,)
    simple = [part for part in parts if part in _SIMPLE or typing.get_origin(part) is Literal]
    if not any(part is not type(None) for part in simple):
        return None
    return Union[tuple(simple)]  # noqa: UP007


def _check(alias: str, cls: type, params: Any) -> None:
    """Build the pooler once, so that wrong values are found when a schedule is read."""
    try:
        with seeded(0, 0):
            pooler = _build(cls, params, 0)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"{alias}: {error}", field="pooler") from error
    if pooler.is_trainable:
        raise ParameterError(
            f"pooler {alias!r} cannot be a level of a schedule: it has learnable parameters", field="pooler"
        )
