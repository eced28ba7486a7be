"""Transforms of single graphs: coarsening before training, and two helpers."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import BaseTransform

from tgp.data.attributes import levels_to_data
from tgp.data.convert import graphs_to_table
from tgp.data.fast_data import paused_gc
from tgp.data.pooler_method import seeded
from tgp.engine.coarsening import coarsen
from tgp.engine.methods import METHODS
from tgp.engine.schedule import LevelSpec, Schedule
from tgp.errors import InputError
from tgp.poolers import get_pooler, pooler_map
from tgp.poolers.nopool import NoPool
from tgp.ragged import BlockCSR, Level
from tgp.src.base import SRCPooling
from tgp.src.level import LevelMixin
from tgp.src.output import PoolingOutput
from tgp.src.precoarsening import Precoarsenable, run_levels
from tgp.utils.blocks import to_block
from tgp.utils.signature import foo_signature
from tgp.utils.transforms import NormalizeAdj, SortNodes
from tgp.utils.typing import SinvType
from tgp.utils.user_code import has_user_code

__all__ = ["NormalizeAdj", "PreCoarsening", "SortNodes", "precoarsen"]

Key = tuple[Any, ...]


class PreCoarsening(BaseTransform):
    """Attach the levels of a hierarchy to a graph.

    Every level is a ``Data`` with ``edge_index``, ``edge_weight`` (if the coarse graph is weighted), ``batch``,
    ``num_nodes``, the assignment ``so`` of the nodes of the level before, and for dense assignments the ``mask``
    of non-empty supernodes. Features are pooled later, in the model: ``x, _ = reducer(x=x, so=level.so)``.

    A level is written as

    - an alias, in any case: ``"ndp"``; parameters have the defaults of ``tgp coarsen``, which are those of the
      layer except that ``kmis`` ranks by degree and that ``nmf`` and ``eigen`` make 8 supernodes;
    - an alias with parameters: ``("eigen", {"k": 8})`` or ``{"pooler": "eigen", "k": 8}`` (or ``"name"``);
    - a pooler object.

    ``poolers`` is one level or an iterable of levels. Consecutive equal levels are computed as one run, so that
    ``["sep", "sep"]`` is one tree of two levels; two different pooler objects are always two runs.

    Args:
        poolers: the levels, finest first.
        input_key: attribute that holds the graph to coarsen; the graph itself if ``None``.
        output_key: attribute that gets the list of levels.
        seed: of every random choice, for levels that are not given as objects.

    Examples:
        >>> import torch
        >>> from torch_geometric.data import Batch, Data
        >>> ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> data = Data(edge_index=torch.cat([ring, ring.flip(0)], dim=1), num_nodes=4)
        >>> [level.num_nodes for level in PreCoarsening(["graclus", "graclus"])(data).pooled_data]
        [2, 1]
    """

    def __init__(
        self, poolers: Any, input_key: str | None = None, output_key: str = "pooled_data", *, seed: int = 0
    ) -> None:
        self.input_key = input_key
        self.output_key = output_key
        self.seed = seed
        configs = [_read(item) for item in _items(poolers)]
        if not configs:
            raise InputError(
                "`poolers` must be a non-empty pooler, level config, or sequence, got nothing",
                field="poolers",
            )
        self._keys = [_key(name, params) for name, params in configs]
        made: dict[Key, SRCPooling] = {}
        for key, (name, params) in zip(self._keys, configs, strict=True):
            if key not in made:
                made[key] = _checked(name, params, seed)
        self.poolers: tuple[SRCPooling, ...] = tuple(made[key] for key in self._keys)

        grouped = (
            list(group)
            for _, group in groupby(zip(self._keys, self.poolers, strict=True), lambda pair: pair[0])
        )
        self.runs: list[tuple[SRCPooling, int]] = [(group[0][1], len(group)) for group in grouped]

    @torch.no_grad()
    def forward(self, data: Data) -> Data:
        """A copy of the graph with its levels (PyG copies before it calls)."""
        source = data if self.input_key is None else getattr(data, self.input_key)
        steps = self._steps() if _is_plain(source) else None
        if steps is not None:
            data[self.output_key] = _engine_levels(steps, *_single_block(source))[0]
            return data
        levels: list[Data] = []
        count = _num_graphs(source)
        for (pooler, length), (key, _) in zip(self.runs, self._key_runs(), strict=True):
            with seeded(self.seed, len(levels)) if key[0] == "config" else nullcontext():
                outputs = _run(pooler, length, source, len(levels), count)
            if len(outputs) != length:
                raise InputError(
                    f"{type(pooler).__name__} returned {len(outputs)} levels, expected {length}",
                    field="poolers",
                )
            levels += [output.as_data() for output in outputs]
            source = levels[-1]
        data[self.output_key] = levels
        return data

    @torch.no_grad()
    def block(self, graphs: Iterable[Data]) -> list[Data]:
        """Copies of many graphs with their levels, computed as one block: the same result, much faster.

        Graphs are coarsened one by one if a pooler does not run on the engine.
        """
        with paused_gc():
            items = [copy.copy(data) for data in graphs]
        sources = items if self.input_key is None else [getattr(data, self.input_key) for data in items]
        steps = self._steps()
        if not items or steps is None or not all(_is_plain(data) for data in sources):
            return [self.forward(data) for data in items]
        for data, levels in zip(items, _engine_levels(steps, *_joint_block(sources)), strict=True):
            data[self.output_key] = levels
        return items

    def _steps(self) -> list[tuple[_Step, int]] | None:
        """The runs as the engine takes them, or ``None`` if a pooler has no engine behind it."""
        steps = [(_engine_step(pooler), length) for pooler, length in self.runs]
        return None if any(step is None for step, _ in steps) else steps

    def __repr__(self) -> str:
        shown = [f"{_shown(key)}*{length}" if length > 1 else _shown(key) for key, length in self._key_runs()]
        return f"{type(self).__name__}([{', '.join(shown)}], seed={self.seed})"

    def _key_runs(self) -> list[tuple[Key, int]]:
        return [(key, len(list(group))) for key, group in groupby(self._keys)]


def precoarsen(
    graphs: Iterable[Data], poolers: Any, seed: int = 0, *, output_key: str = "pooled_data"
) -> list[Data]:
    """Copies of many graphs with the levels that ``PreCoarsening(poolers, seed=seed)`` attaches, as one block."""
    return PreCoarsening(poolers, output_key=output_key, seed=seed).block(graphs)


# -- reading the levels ---------------------------------------------------------------------------


def _items(poolers: Any) -> list[Any]:
    """The levels as they were written."""
    if isinstance(poolers, (SRCPooling, str, Mapping)) or _is_pair(poolers):
        return [poolers]
    return list(poolers)


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, tuple) and len(value) == 2 and (value[1] is None or isinstance(value[1], Mapping))
    )


def _read(item: Any) -> tuple[Any, dict[str, Any]]:
    """Alias or pooler, and parameters."""
    if isinstance(item, (str, SRCPooling)):
        return item, {}
    if isinstance(item, Mapping):
        params = dict(item)
        names = [params.pop(key) for key in ("pooler", "name") if key in params]
        if not names or names[0] is None:
            raise InputError(
                "Pooler config must include a pooler name or instance under 'pooler'", field="poolers"
            )
        return _named(names[0], params)
    if isinstance(item, tuple):
        if not _is_pair(item):
            raise InputError(
                f"Tuple pooler configs must be (pooler, parameters), got {item!r}", field="poolers"
            )
        params = dict(item[1] or {})
        clash = [key for key in ("pooler", "name") if key in params]
        if clash:
            raise InputError(
                f"{item!r} is one level with parameters or two levels: its mapping names a pooler ({clash[0]!r})",
                field="poolers",
                hint="write two levels as a list",
            )
        return _named(item[0], params)
    raise _WrongType(
        f"Pooler config must be a pooler, an alias, a pair or a mapping, got {type(item).__name__}"
    )


class _WrongType(InputError, TypeError):
    """Also a ``TypeError``."""


def _named(name: Any, params: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    if not isinstance(name, (str, SRCPooling)):
        raise _WrongType(f"Pooler config must be a pooler or an alias, got {type(name).__name__}")
    if isinstance(name, SRCPooling) and params:
        raise InputError(
            f"Cannot provide kwargs together with a pooler instance, got {sorted(params)}", field="poolers"
        )
    return name, params


def _key(name: Any, params: Mapping[str, Any]) -> Key:
    """What makes two levels equal: alias and parameters, or the very object."""
    if isinstance(name, str):
        return ("config", name.lower(), tuple(sorted((key, repr(value)) for key, value in params.items())))
    return ("instance", id(name), type(name).__name__)


def _shown(key: Key) -> str:
    if key[0] == "instance":
        return f"{key[2]}()"
    shown = ", ".join(f"{name}={value}" for name, value in key[2])
    return f"{key[1]}({shown})" if shown else key[1]


def _checked(name: Any, params: dict[str, Any], seed: int) -> SRCPooling:
    pooler = get_pooler(name, **_filled(name, params, seed)) if isinstance(name, str) else name
    title = f"{name!r} ({type(pooler).__name__})" if isinstance(name, str) else type(pooler).__name__
    if pooler.is_trainable:
        raise InputError(f"The pooler must not be trainable, got {title}", field="poolers")
    if not (pooler.is_precoarsenable or _defines_levels(pooler)):
        raise InputError(
            f"{title} cannot pre-coarsen: its pooled graph depends on more than the topology", field="poolers"
        )
    return pooler


def _defines_levels(pooler: SRCPooling) -> bool:
    """Return True if a class of the user defines levels without deriving from ``Precoarsenable``."""
    methods = ("multi_level_precoarsening", "precoarsening")
    return not isinstance(pooler, Precoarsenable) and any(hasattr(pooler, name) for name in methods)


def _filled(name: str, params: dict[str, Any], seed: int) -> dict[str, Any]:
    """The parameters with the seed, if the pooler has one, and with the defaults of its method.

    A layer may need more than its method: k-MIS learns its scores by default, which cannot be done beforehand.
    """
    alias = name if name in pooler_map.entries else name.lower().removesuffix("_u")
    if alias not in pooler_map:
        return {"seed": seed, **params}
    able = ("multi_level_precoarsening", "precoarsening")
    if alias not in METHODS and not any(hasattr(pooler_map[alias], method) for method in able):
        raise InputError(
            f"The pooler must not be trainable or read features, got {alias!r}; "
            f"use one of {', '.join(METHODS)}",
            field="poolers",
        )
    known = set(foo_signature(pooler_map[alias]).args)
    defaults = {"seed": seed, **(_method_defaults(alias) if alias in METHODS else {})}
    return {key: value for key, value in defaults.items() if key in known} | params


def _method_defaults(alias: str) -> dict[str, Any]:
    given = dataclasses.fields(METHODS[alias].params)
    return {field.name: field.default for field in given if field.default is not dataclasses.MISSING}


# -- running them ---------------------------------------------------------------------------------


_STEPS = (
    "select",
    "connect",
    "precoarsening",
    "multi_level_precoarsening",
    "_precoarsening_from_select_output",
)
"""Methods that the engine stands for."""


class _Step(NamedTuple):
    """A pooler as the engine runs it."""

    spec: LevelSpec
    seed: int
    s_inv_op: SinvType


def _engine_step(pooler: SRCPooling) -> _Step | None:
    """Return the pooler as the engine runs it, or ``None`` if that would skip code of the user."""
    if isinstance(pooler, LevelMixin):
        stock = pooler._runs_by_engine()
        return _Step(pooler._spec, pooler.selector.seed, pooler.selector.s_inv_op) if stock else None
    # The identity has no parameters; through the engine its edges come sorted, as they do from a store.
    if type(pooler) is NoPool and not has_user_code(pooler, methods=_STEPS):
        return _Step(LevelSpec.of("nopool"), 0, "transpose")
    return None


def _engine_levels(
    steps: Sequence[tuple[_Step, int]], block: BlockCSR, weight_dtype: type
) -> list[list[Data]]:
    """Return the levels of each graph, computed by the engine."""
    levels: list[Level] = []
    inverse: list[SinvType] = []
    for step, length in steps:
        schedule = Schedule((step.spec,) * length)
        hierarchy = coarsen(block, schedule, step.seed, weight_dtype=weight_dtype, first_level=len(levels))
        levels += hierarchy.levels
        inverse += [step.s_inv_op] * length
        block = levels[-1].block
    rows = levels_to_data(levels)
    if any(op != "transpose" for op in inverse):
        for row in rows:
            for level, op in zip(row, inverse, strict=True):
                level.so.s_inv_op = op
    return rows


def _is_plain(data: Data) -> bool:
    """One graph as an edge list on the CPU."""
    mapping = data._store._mapping
    edges = mapping.get("edge_index")
    return type(edges) is Tensor and edges.layout is torch.strided and edges.is_cpu and "batch" not in mapping


def _single_block(data: Data) -> tuple[BlockCSR, type]:
    source = to_block(data.edge_index, data._store._mapping.get("edge_weight"), None, data.num_nodes)
    return source.block, source.weight_dtype


def _joint_block(graphs: Sequence[Data]) -> tuple[BlockCSR, type]:
    needed = {"edge_index", "edge_weight", "num_nodes"}
    table = graphs_to_table(
        graphs, exclude_keys={key for data in graphs for key in data._store._mapping} - needed
    )
    weight = table.fields.get("edge_weight")
    double = weight is not None and weight.values.dtype == np.float64
    return table.to_block(), np.float64 if double else np.float32


def _num_graphs(data: Data) -> int:
    if "batch" not in data:
        return 1
    if isinstance(data, Batch):
        return int(data.num_graphs)
    return int(data.batch.max()) + 1 if data.batch.numel() else 1


def _run(pooler: SRCPooling, length: int, data: Data, level: int, num_graphs: int) -> list[PoolingOutput]:
    given: dict[str, Any] = {"batch_size": num_graphs} if isinstance(pooler, LevelMixin) else {}
    return run_levels(
        pooler,
        length,
        edge_index=data.edge_index,
        edge_weight=data.get("edge_weight"),
        batch=data.get("batch"),
        num_nodes=data.num_nodes,
        level=level,
        **given,
    )
