"""Transforms that attach pooled levels to graphs."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.data.data import BaseData
from torch_geometric.transforms import BaseTransform

from tgp.data.attributes import levels_to_data
from tgp.data.convert import check_data
from tgp.data.fast_data import paused_gc
from tgp.data.hetero import coarsen_hetero
from tgp.data.level_attributes import CarryPlan, carry_to_data
from tgp.data.level_items import LevelKey, format_level_key, level_key, make_pooler, parse_levels
from tgp.data.pooled_data import attach_levels
from tgp.data.pooler_method import seeded
from tgp.engine.carry import CarryLike, CarryRules
from tgp.engine.coarsening import coarsen, count_levels
from tgp.engine.schedule import LevelSpec, Schedule, parse_schedule
from tgp.engine.type_graph import TypeGraph
from tgp.errors import InputError
from tgp.poolers.nopool import NoPool
from tgp.ragged import BlockCSR, GraphTable, Level
from tgp.ragged.types import Relation
from tgp.src.base import SRCPooling
from tgp.src.level import LevelMixin
from tgp.src.output import PoolingOutput
from tgp.src.precoarsening import run_levels
from tgp.utils.blocks import to_block
from tgp.utils.transforms import NormalizeAdj, SortNodes
from tgp.utils.typing import SinvType
from tgp.utils.user_code import has_user_code

__all__ = ["NormalizeAdj", "PreCoarsening", "SortNodes", "precoarsen"]


class PreCoarsening(BaseTransform):
    """PyG transform that attaches the levels of a hierarchy to a graph.

    Every level is a ``Data`` with ``edge_index``, ``edge_weight`` (if the coarse graph is weighted), ``batch``,
    ``num_nodes`` and the assignment ``so`` of the nodes of the level before. Levels with dense assignments also have the
    ``mask`` of non-empty supernodes. The model pools the features: ``x, _ = reducer(x=x, so=level.so)``.

    ``poolers`` is the text that ``tgp coarsen --pooler`` takes, such as ``"graclus*3"`` or ``"ndp,eigen:k=8"``; or one
    level, or an iterable of levels. A level is specified as

    - an alias in lower or upper case, such as ``"ndp"``. Parameters have the defaults of ``tgp coarsen``. These are the
      defaults of the layer, except that ``kmis`` ranks nodes by degree and that ``nmf`` and ``eigen`` make 8 supernodes;
    - an alias with parameters: ``"eigen:k=8"``, ``("eigen", {"k": 8})`` or ``{"pooler": "eigen", "k": 8}`` (or ``"name"``);
    - a pooler object.

    Consecutive equal levels are computed as one run, so
    ``["sep", "sep"]`` is one tree of two levels. Two different pooler objects are always two runs.

    Args:
        poolers: Levels, finest first.
        input_key: Attribute that holds the graph to coarsen; the graph itself if ``None``.
        output_key: Attribute for the list of levels. The input graph is level 0, so entry 0 is level 1.
        seed: Seed of all random choices, for levels that are not pooler objects.
        carry: Attributes of the levels: ``"auto"``, ``"pos=mean,y=majority"``, ``"auto,pos=none"``, or a dictionary such as
            ``{"pos": "mean"}``. ``None`` carries nothing. See the guide "Attributes on levels".
        relations: For ``HeteroData``: relations on which the supernodes depend, such as ``"cites"`` or
            ``("author", "writes", "paper")``; all if ``None``. See the guide "Heterogeneous graphs".
        type_graph: For ``HeteroData``: edges that methods see, ``"auto"``, ``"same"`` or ``"project"``.

    Raises:
        InputError: If a pooler is trainable, or depends on more than the topology and the attributes that its method needs.
        UnknownNameError: If a pooler or a parameter does not exist.
        ScheduleError: If a text cannot be read.

    Examples:
        >>> ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> data = Data(edge_index=torch.cat([ring, ring.flip(0)], dim=1), num_nodes=4)
        >>> [level.num_nodes for level in PreCoarsening("graclus*2")(data).pooled_data]
        [2, 1]
    """

    def __init__(
        self,
        poolers: Any,
        input_key: str | None = None,
        output_key: str = "pooled_data",
        *,
        seed: int = 0,
        carry: CarryLike = None,
        relations: Iterable[str | Relation] | str | None = None,
        type_graph: TypeGraph = "auto",
    ) -> None:
        self.input_key = input_key
        self.output_key = output_key
        self.seed = seed
        self.carry = CarryRules.parse(carry)
        self._hetero = partial(coarsen_hetero, carry=self.carry, relations=relations, type_graph=type_graph)
        configs = parse_levels(poolers)
        if not configs:
            raise InputError(
                "`poolers` must be a non-empty pooler, level config, or sequence, got no level",
                field="poolers",
            )
        self._keys = [level_key(name, params) for name, params in configs]
        made: dict[LevelKey, SRCPooling] = {}
        limits: dict[LevelKey, int | None] = {}
        for key, (name, params) in zip(self._keys, configs, strict=True):
            if key not in made:
                limits[key] = params.get("until")
                given = {name: value for name, value in params.items() if name != "until"}
                made[key] = make_pooler(name, given, seed)
        self.poolers: tuple[SRCPooling, ...] = tuple(made[key] for key in self._keys)

        grouped = (
            list(group)
            for _, group in groupby(zip(self._keys, self.poolers, strict=True), lambda pair: pair[0])
        )
        self.runs: list[tuple[SRCPooling, int]] = [(group[0][1], len(group)) for group in grouped]
        self._limits = [limits[key] for key, _ in self._key_runs()]
        self._needs: dict[str, str] = {}  # attributes of nodes, each with the first method that needs it
        for pooler in self.poolers:
            if isinstance(pooler, LevelMixin):
                self._needs |= {
                    name: pooler._spec.method for name in _needs_of(pooler) if name not in self._needs
                }

    def forward(self, data: Data) -> Data:
        """Attach the levels to the graph. PyG passes a copy of it."""
        if isinstance(data, HeteroData) and self.input_key is None:
            data[self.output_key] = self._hetero_levels(data)
            return data
        source = check_data(data if self.input_key is None else getattr(data, self.input_key), "the graph")
        steps = self._steps() if _is_plain(source) else None
        plan = CarryPlan.make([source], self.carry) if self.carry else None
        if steps is None:
            return attach_levels(data, self.output_key, self._pooler_levels(source, plan))
        needs = self._needs
        if needs:  # the table checks attributes, and names the graph in errors
            table = CarryPlan.make([source], CarryRules.parse(None), needs).table
            levels = _engine_levels(steps, table.to_block(needs), _weight_dtype(table), plan)[0]
            return attach_levels(data, self.output_key, levels)
        block = to_block(source.edge_index, source.get("edge_weight"), None, source.num_nodes)
        levels = _engine_levels(steps, block.block, block.weight_dtype, plan)[0]
        return attach_levels(data, self.output_key, levels)

    @torch.no_grad()
    def _pooler_levels(self, source: Data, plan: CarryPlan | None) -> list[Data]:
        """Return the levels of a graph, computed by the poolers, with the attributes of a plan."""
        if any(limit is not None for limit in self._limits):
            raise InputError(
                "a size limit (until) needs methods of the engine and a single graph with an edge list on the CPU, got a pooler "
                "with its own code, a batch or another layout",
                field="poolers",
            )
        levels: list[Data] = []
        batch = source.get("batch")
        count = _num_graphs(source)
        for (pooler, length), (key, _) in zip(self.runs, self._key_runs(), strict=True):
            if _needs_of(pooler) and levels:
                raise InputError(
                    f"{key[1] if key[0] == 'config' else type(pooler).__name__} needs {', '.join(_needs_of(pooler))} on a later "
                    "level: expected methods of the engine and single graphs with an edge list on the CPU, got a pooler with its "
                    "own code, a batch or another layout. Coarsen graphs before they are joined.",
                    field="poolers",
                )
            with seeded(self.seed, len(levels)) if key[0] == "config" else nullcontext():
                outputs = _run(pooler, length, source, len(levels), count)
            if len(outputs) != length:
                raise InputError(
                    f"{type(pooler).__name__} returned {len(outputs)} levels, expected {length}",
                    field="poolers",
                )
            levels += [output.as_data() for output in outputs]
            source = levels[-1]
        if plan is not None:
            carry_to_data(plan, batch, levels, [_engine_method(pooler) for pooler in self.poolers])
        return levels

    @torch.no_grad()
    def block(self, graphs: Data | Iterable[Data]) -> list[Data]:
        """Return copies of many graphs with their levels, computed as one block.

        The result equals that of calling the transform on each graph, and is computed much faster. Graphs are coarsened
        one by one if a pooler does not run on the engine.

        Args:
            graphs: Graphs to coarsen. One graph counts as a list of one.
        """
        with paused_gc():
            items = [copy.copy(data) for data in _check_graphs(graphs)]
        sources = items if self.input_key is None else [getattr(data, self.input_key) for data in items]
        steps = self._steps()
        if not items or steps is None or not all(map(_is_plain, sources)):
            return [self.forward(data) for data in items]
        plan = CarryPlan.make(sources, self.carry, self._needs)
        rows = _engine_levels(steps, plan.table.to_block(self._needs), _weight_dtype(plan.table), plan)
        for data, levels in zip(items, rows, strict=True):
            attach_levels(data, self.output_key, levels)
        return items

    def _hetero_levels(self, data: HeteroData) -> list[HeteroData]:
        """Return the levels of a heterogeneous graph."""
        steps = self._steps()
        if steps is None:
            raise InputError(
                "heterogeneous graphs need methods of the engine: expected names such as 'graclus*2', got a pooler with its own "
                "code",
                field="poolers",
            )
        schedule = Schedule(tuple(step.spec for step, length in steps for _ in range(length)))
        return self._hetero(data, schedule, steps[0][0].seed)

    def _steps(self) -> list[tuple[_Step, int]] | None:
        """Return the runs in the form of the engine, or ``None`` if a pooler does not run on the engine."""
        steps = []
        for (pooler, length), until in zip(self.runs, self._limits, strict=True):
            step = _engine_step(pooler)
            if step is None:
                return None
            if until is not None:
                step = step._replace(
                    spec=LevelSpec.of(step.spec.method, {**step.spec.changed(), "until": until})
                )
            steps.append((step, length))
        return steps

    def __repr__(self) -> str:
        shown = [
            f"{format_level_key(key)}*{length}" if length > 1 else format_level_key(key)
            for key, length in self._key_runs()
        ]
        carry = f", carry={str(self.carry)!r}" if self.carry else ""
        return f"{type(self).__name__}([{', '.join(shown)}], seed={self.seed}{carry})"

    def _key_runs(self) -> list[tuple[LevelKey, int]]:
        return [(key, len(list(group))) for key, group in groupby(self._keys)]


def precoarsen(
    graphs: Data | Iterable[Data],
    poolers: Any,
    seed: int = 0,
    *,
    output_key: str = "pooled_data",
    carry: CarryLike = None,
) -> list[Data]:
    """Return copies of many graphs with the levels that :class:`PreCoarsening` attaches, computed as one block.

    Args:
        graphs: Graphs to coarsen: a list, a dataset, or any iterable. One graph counts as a list of one.
        poolers: Levels, such as ``"graclus*3"``, see :class:`PreCoarsening`. The text may also be open-ended: ``"graclus:until=10*"``
            repeats the last level until every graph has at most 10 nodes, or hardly shrinks.
        seed: Seed of all random choices.
        output_key: Attribute for the list of levels.
        carry: Attributes of the levels, see :class:`PreCoarsening`.

    Examples:
        >>> data = Data(edge_index=torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]), num_nodes=4)
        >>> [level.num_nodes for level in precoarsen([data, data], "graclus*2")[1].pooled_data]
        [2, 1]
    """
    if isinstance(poolers, str | Schedule) and str(poolers).rstrip().endswith("*"):
        graphs = list(_check_graphs(graphs))
        schedule = parse_schedule(poolers)
        table = CarryPlan.make(graphs, CarryRules.parse(None), schedule.needs).table
        poolers = schedule.close(
            count_levels(table.to_block(schedule.needs), schedule, seed, weight_dtype=_weight_dtype(table))
        )
    return PreCoarsening(poolers, output_key=output_key, seed=seed, carry=carry).block(graphs)


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


def _needs_of(pooler: SRCPooling) -> tuple[str, ...]:
    """Return the attributes of nodes that a pooler reads."""
    return pooler._spec.level_method.needs if isinstance(pooler, LevelMixin) else ()


def _engine_method(pooler: SRCPooling) -> str:
    """Return the method by which a pooler computes its levels, or an empty text if it runs code of the user."""
    step = _engine_step(pooler)
    return "" if step is None else step.spec.method


def _engine_levels(
    steps: Sequence[tuple[_Step, int]],
    block: BlockCSR,
    weight_dtype: type,
    plan: CarryPlan | None = None,
) -> list[list[Data]]:
    """Return the levels of each graph, computed by the engine, with the attributes of a plan."""
    levels: list[Level] = []
    inverse: list[SinvType] = []
    for step, length in steps:
        schedule = Schedule((step.spec,) * length)
        hierarchy = coarsen(block, schedule, step.seed, weight_dtype=weight_dtype, first_level=len(levels))
        levels += hierarchy.levels
        inverse += [step.s_inv_op] * length
        block = levels[-1].block
    if plan is not None:
        levels = list(plan.apply(levels))
    rows = levels_to_data(levels)
    if any(op != "transpose" for op in inverse):
        for row in rows:
            for level, op in zip(row, inverse, strict=True):
                level.so.s_inv_op = op
    return rows


def _check_graphs(graphs: Data | Iterable[Data]) -> Iterator[Data]:
    """Yield the graphs after checking their types."""
    for position, data in enumerate([graphs] if isinstance(graphs, BaseData) else graphs):
        yield data if isinstance(data, HeteroData) else check_data(data, f"graph {position}")


def _is_plain(data: Data) -> bool:
    """Return True for a single homogeneous graph with an edge list on the CPU."""
    if not isinstance(data, Data):
        return False
    mapping = data._store._mapping
    edges = mapping.get("edge_index")
    return type(edges) is Tensor and edges.layout is torch.strided and edges.is_cpu and "batch" not in mapping


def _weight_dtype(table: GraphTable) -> type:
    weight = table.fields.get("edge_weight")
    double = weight is not None and weight.values.dtype == np.float64
    return np.float64 if double else np.float32


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
        **{name: data.get(name) for name in _needs_of(pooler)},
    )
