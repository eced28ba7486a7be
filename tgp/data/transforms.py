"""Transforms that attach pooled levels to graphs."""

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
from tgp.data.pooled_data import attach_levels
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

_LEVEL_METHODS = ("multi_level_precoarsening", "precoarsening")
"""Methods that compute levels of a pooler. One of them is enough."""


class PreCoarsening(BaseTransform):
    """PyG transform that attaches the levels of a hierarchy to a graph.

    Every level is a ``Data`` with ``edge_index``, ``edge_weight`` (if the coarse graph is weighted), ``batch``,
    ``num_nodes`` and the assignment ``so`` of the nodes of the level before. Levels with dense assignments also have the
    ``mask`` of non-empty supernodes. The model pools the features: ``x, _ = reducer(x=x, so=level.so)``.

    A level is specified as

    - an alias in lower or upper case, such as ``"ndp"``. Parameters have the defaults of ``tgp coarsen``. These are the
      defaults of the layer, except that ``kmis`` ranks nodes by degree and that ``nmf`` and ``eigen`` make 8 supernodes;
    - an alias with parameters: ``("eigen", {"k": 8})`` or ``{"pooler": "eigen", "k": 8}`` (or ``"name"``);
    - a pooler object.

    ``poolers`` is one level or an iterable of levels. Consecutive equal levels are computed as one run, so
    ``["sep", "sep"]`` is one tree of two levels. Two different pooler objects are always two runs.

    Args:
        poolers: Levels, finest first.
        input_key: Attribute that holds the graph to coarsen; the graph itself if ``None``.
        output_key: Attribute for the list of levels. The input graph is level 0, so entry 0 is level 1.
        seed: Seed of all random choices, for levels that are not pooler objects.

    Raises:
        InputError: If a pooler is unknown, is trainable, or depends on more than the topology.

    Examples:
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
        configs = [_parse_level(item) for item in _level_items(poolers)]
        if not configs:
            raise InputError(
                "`poolers` must be a non-empty pooler, level config, or sequence, got no level",
                field="poolers",
            )
        self._keys = [_key(name, params) for name, params in configs]
        made: dict[Key, SRCPooling] = {}
        for key, (name, params) in zip(self._keys, configs, strict=True):
            if key not in made:
                made[key] = _make_pooler(name, params, seed)
        self.poolers: tuple[SRCPooling, ...] = tuple(made[key] for key in self._keys)

        grouped = (
            list(group)
            for _, group in groupby(zip(self._keys, self.poolers, strict=True), lambda pair: pair[0])
        )
        self.runs: list[tuple[SRCPooling, int]] = [(group[0][1], len(group)) for group in grouped]

    @torch.no_grad()
    def forward(self, data: Data) -> Data:
        """Attach the levels to the graph. PyG passes a copy of it."""
        source = data if self.input_key is None else getattr(data, self.input_key)
        steps = self._steps() if _is_plain(source) else None
        if steps is not None:
            block = to_block(source.edge_index, source.get("edge_weight"), None, source.num_nodes)
            levels = _engine_levels(steps, block.block, block.weight_dtype)[0]
            return attach_levels(data, self.output_key, levels)
        levels = []
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
        return attach_levels(data, self.output_key, levels)

    @torch.no_grad()
    def block(self, graphs: Iterable[Data]) -> list[Data]:
        """Return copies of many graphs with their levels, computed as one block.

        The result equals that of calling the transform on each graph, and is computed much faster. Graphs are coarsened
        one by one if a pooler does not run on the engine.

        Args:
            graphs: Graphs to coarsen.
        """
        with paused_gc():
            items = [copy.copy(data) for data in graphs]
        sources = items if self.input_key is None else [getattr(data, self.input_key) for data in items]
        steps = self._steps()
        if not items or steps is None or not all(_is_plain(data) for data in sources):
            return [self.forward(data) for data in items]
        for data, levels in zip(items, _engine_levels(steps, *_joint_block(sources)), strict=True):
            attach_levels(data, self.output_key, levels)
        return items

    def _steps(self) -> list[tuple[_Step, int]] | None:
        """Return the runs in the form of the engine, or ``None`` if a pooler does not run on the engine."""
        steps = []
        for pooler, length in self.runs:
            step = _engine_step(pooler)
            if step is None:
                return None
            steps.append((step, length))
        return steps

    def __repr__(self) -> str:
        shown = [
            f"{_format_key(key)}*{length}" if length > 1 else _format_key(key)
            for key, length in self._key_runs()
        ]
        return f"{type(self).__name__}([{', '.join(shown)}], seed={self.seed})"

    def _key_runs(self) -> list[tuple[Key, int]]:
        return [(key, len(list(group))) for key, group in groupby(self._keys)]


def precoarsen(
    graphs: Iterable[Data], poolers: Any, seed: int = 0, *, output_key: str = "pooled_data"
) -> list[Data]:
    """Return copies of many graphs with the levels that :class:`PreCoarsening` attaches, computed as one block.

    Args:
        graphs: Graphs to coarsen.
        poolers: Levels, see :class:`PreCoarsening`.
        seed: Seed of all random choices.
        output_key: Attribute for the list of levels.

    Examples:
        >>> data = Data(edge_index=torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]), num_nodes=4)
        >>> [level.num_nodes for level in precoarsen([data, data], ["graclus"] * 2)[1].pooled_data]
        [2, 1]
    """
    return PreCoarsening(poolers, output_key=output_key, seed=seed).block(graphs)


# -- parsing the levels ---------------------------------------------------------------------------


def _level_items(poolers: Any) -> list[Any]:
    """Return the specifications of the single levels."""
    if isinstance(poolers, (SRCPooling, str, Mapping)) or _is_pair(poolers):
        return [poolers]
    return list(poolers)


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, tuple) and len(value) == 2 and (value[1] is None or isinstance(value[1], Mapping))
    )


def _parse_level(item: Any) -> tuple[Any, dict[str, Any]]:
    """Return alias or pooler, and parameters."""
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
                f"{item!r} is ambiguous: it can be one level with parameters or two levels, because its mapping has the "
                f"key {clash[0]!r}",
                field="poolers",
                hint="write two levels as a list",
            )
        return _named(item[0], params)
    raise _WrongType(
        f"Pooler config must be a pooler, an alias, a pair or a mapping, got {type(item).__name__}"
    )


class _WrongType(InputError, TypeError):
    """A level has the wrong type. Also a ``TypeError``, which tgp 1.0.2 raised."""


def _named(name: Any, params: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    if not isinstance(name, (str, SRCPooling)):
        raise _WrongType(f"Pooler config must be a pooler or an alias, got {type(name).__name__}")
    if isinstance(name, SRCPooling) and params:
        raise InputError(
            f"Cannot provide kwargs together with a pooler instance, got {sorted(params)}", field="poolers"
        )
    return name, params


def _key(name: Any, params: Mapping[str, Any]) -> Key:
    """Return the identity of a level: alias and parameters, or the pooler object."""
    if isinstance(name, str):
        return ("config", name.lower(), tuple(sorted((key, repr(value)) for key, value in params.items())))
    return ("instance", id(name), type(name).__name__)


def _format_key(key: Key) -> str:
    if key[0] == "instance":
        return f"{key[2]}()"
    shown = ", ".join(f"{name}={value}" for name, value in key[2])
    return f"{key[1]}({shown})" if shown else str(key[1])


def _make_pooler(name: Any, params: dict[str, Any], seed: int) -> SRCPooling:
    """Return the pooler of a level, after checking that it can precompute levels."""
    pooler: SRCPooling = (
        get_pooler(name, **_with_defaults(name, params, seed)) if isinstance(name, str) else name
    )
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
    return not isinstance(pooler, Precoarsenable) and any(hasattr(pooler, name) for name in _LEVEL_METHODS)


def _with_defaults(name: str, params: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return the parameters with the seed, if the pooler has one, and with the defaults of its method.

    The defaults of a layer can differ from those of its method: a k-MIS layer learns its scores, which is impossible
    before training.
    """
    alias = name if name in pooler_map.entries else name.lower().removesuffix("_u")
    if alias not in pooler_map:
        return {"seed": seed, **params}
    if alias not in METHODS and not any(hasattr(pooler_map[alias], method) for method in _LEVEL_METHODS):
        raise InputError(
            f"The pooler must not be trainable or read features, got {alias!r}; "
            f"use one of {', '.join(METHODS)}",
            field="poolers",
        )
    known = set(foo_signature(pooler_map[alias]).args)
    defaults: dict[str, Any] = {"seed": seed}
    if alias in METHODS:
        fields = dataclasses.fields(METHODS[alias].params)
        defaults |= {
            field.name: field.default for field in fields if field.default is not dataclasses.MISSING
        }
    return {key: value for key, value in defaults.items() if key in known} | params


# -- computing the levels -------------------------------------------------------------------------


_STEPS = (
    "select",
    "connect",
    "precoarsening",
    "multi_level_precoarsening",
    "_precoarsening_from_select_output",
)
"""Methods of a pooler that the engine replaces."""


class _Step(NamedTuple):
    """Arguments with which the engine computes the levels of a pooler."""

    spec: LevelSpec
    seed: int
    s_inv_op: SinvType


def _engine_step(pooler: SRCPooling) -> _Step | None:
    """Return the arguments for the engine, or ``None`` if the engine would skip code of the user."""
    if isinstance(pooler, LevelMixin):
        if not pooler._runs_by_engine():
            return None
        selector = pooler._level_select()
        return _Step(pooler._spec, selector.seed, selector.s_inv_op)
    # The identity has no parameters. The engine sorts its edges, as a store does.
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
    """Return True for a single graph with an edge list on the CPU."""
    mapping = data._store._mapping
    edges = mapping.get("edge_index")
    return type(edges) is Tensor and edges.layout is torch.strided and edges.is_cpu and "batch" not in mapping


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
