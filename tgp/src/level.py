"""``LevelPooling``: a pooler that runs a level method of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from tgp.connect.base_conn import Connect, SparseConnect
from tgp.connect.dense_conn import DenseConnect
from tgp.connect.level_conn import LevelConnect
from tgp.engine.coarsening import coarsen
from tgp.engine.schedule import LevelSpec, Schedule
from tgp.errors import InputError, ParameterError
from tgp.lift.base_lift import BaseLift, Lift
from tgp.reduce.base_reduce import BaseReduce, Reduce
from tgp.select.base_select import SelectOutput
from tgp.select.level_select import LevelSelect, needed_attributes, to_select_output
from tgp.src.base import SRCPooling
from tgp.src.dense import DenseSRCPooling
from tgp.src.output import PoolingOutput
from tgp.src.precoarsening import BasePrecoarseningMixin
from tgp.utils.blocks import TorchBlock, pooled_batch, to_adjacency, to_block
from tgp.utils.checks import check_levels
from tgp.utils.engine_link import EngineLink
from tgp.utils.ops.connectivity import check_connectivity
from tgp.utils.signature import foo_signature
from tgp.utils.tracing import opaque
from tgp.utils.typing import LiftType, ReduceType, SinvType
from tgp.utils.user_code import has_user_code, is_overridden

__all__ = ["DenseLevelPooling", "LevelMixin", "LevelPooling"]

_SKIPPED = (
    "select",
    "connect",
    "precoarsening",
    "multi_level_precoarsening",
    "_precoarsening_from_select_output",
)
"""Methods that are not called if the engine computes whole levels."""


class LevelMixin(BasePrecoarseningMixin):
    """Selection, connection and pre-coarsening by the engine.

    The selector runs a level method. If selector and connector are those that the constructor made, and the edge
    weights need no gradient, the engine also connects the supernodes. The layer, the transform and the store then
    agree bit for bit (see :class:`~tgp.utils.engine_link.EngineLink`).
    """

    _accepts_assignment = True

    def _selection_checks_ids(self) -> bool:
        return isinstance(self.selector, LevelSelect) and not self.cached

    def _use_engine(self, spec: LevelSpec) -> None:
        """Store the stages that the engine may replace. Call it at the end of a constructor."""
        self._spec = spec
        self._level_select().spec = spec
        # In a tuple, torch does not register the stages as submodules a second time.
        self._stock = tuple((stage, stage.options()) for stage in self._connectors())

    def _level_select(self) -> LevelSelect:
        """Return the selector, which must run a level method."""
        selector = self._stage("selector")
        if not isinstance(selector, LevelSelect):
            raise ParameterError(
                f"the selector runs no level method: expected a LevelSelect, got {type(selector).__name__}.",
                field="selector",
            )
        return selector

    def _stage(self, name: str) -> Any:
        """Return a stage, or ``None`` if there is none. Reading it as an attribute takes three times as long."""
        if name in self.__dict__ or hasattr(type(self), name):
            return getattr(self, name)
        return self._modules.get(name)

    def _connectors(self) -> list[Connect]:
        stages = (self._stage("connector"), self._stage("preconnector"))
        return [stage for stage in stages if stage is not None]

    def _selects_by_engine(self) -> bool:
        """Return True if the selector runs the level method of this pooler with its parameters."""
        selector, spec = self._stage("selector"), self._spec
        return isinstance(selector, LevelSelect) and (selector.spec is spec or selector.spec == spec)

    def _runs_by_engine(self, edge_weight: Tensor | None = None) -> bool:
        """Return True if the engine may compute whole levels without calling the stages.

        Args:
            edge_weight: Weights of the edges. Weights that need gradients require the connector module.
        """
        if edge_weight is not None and edge_weight.requires_grad and torch.is_grad_enabled():
            return False
        connectors = self._connectors()
        if not self._selects_by_engine() or has_user_code(self._stage("selector"), *connectors):
            return False
        for method in _SKIPPED:
            if is_overridden(self, method):
                return False
        pairs = zip(connectors, self._stock, strict=False)
        return all(stage is stock and stage.options() == options for stage, (stock, options) in pairs)

    def select(self, **kwargs: Any) -> SelectOutput:
        """Run the selector. The result refers to the arrays of the engine until the coarse graph is computed."""
        if isinstance(self.selector, LevelSelect):
            kwargs["keep_link"] = True
        so = super().select(**kwargs)
        if isinstance(so._link, tuple):
            fits, (source, assignment) = self._level_select().spec == self._spec, so._link
            edge_index, edge_weight = kwargs.get("edge_index"), kwargs.get("edge_weight")
            so._link = (
                EngineLink(source, assignment, self._spec, edge_index, edge_weight, self._stock)
                if fits
                else None
            )
        return so

    def precoarsening(
        self,
        edge_index: Any = None,
        edge_weight: Tensor | None = None,
        *,
        batch: Tensor | None = None,
        num_nodes: int | None = None,
        level: int = 0,
        **kwargs: Any,
    ) -> PoolingOutput:
        """Return one level; see :meth:`multi_level_precoarsening`."""
        check_connectivity(edge_index, "precoarsening")
        kwargs.update(batch=batch, num_nodes=num_nodes, level=level)
        if self._runs_by_engine(edge_weight):
            return self._engine_levels(1, edge_index, edge_weight, **kwargs)[0]
        return super().precoarsening(edge_index, edge_weight, **kwargs)

    def multi_level_precoarsening(
        self,
        levels: int,
        edge_index: Any = None,
        edge_weight: Tensor | None = None,
        *,
        batch: Tensor | None = None,
        num_nodes: int | None = None,
        level: int = 0,
        **kwargs: Any,
    ) -> list[PoolingOutput]:
        """Return several levels. A method that builds trees (SEP) builds one tree for all of them.

        Args:
            levels: Number of levels.
            edge_index: Connectivity of the input graphs.
            edge_weight: Weights of the edges.
            batch: Graph ids ``[N]``, in any order; one graph if ``None``.
            num_nodes: ``N``.
            level: Position of the first level in a longer schedule.
            **kwargs: ``batch_size``, attributes of nodes that the method needs (``x``, ``pos``), and further keywords for
                stages that replace those of the library.

        Returns:
            One output per level.
        """
        check_levels(levels)
        check_connectivity(edge_index, "precoarsening")
        kwargs.update(batch=batch, num_nodes=num_nodes, level=level)
        if not self._runs_by_engine(edge_weight):
            names = self._spec.level_method.needs
            if names and levels > 1:
                raise InputError(
                    f"{self._spec.method} needs {', '.join(names)} on every level: expected the stages of the library, which "
                    "reduce them, got others. Compute the levels one by one.",
                    field="levels",
                )
            return super().multi_level_precoarsening(levels, edge_index, edge_weight, **kwargs)
        self.clear_cache()
        return self._engine_levels(levels, edge_index, edge_weight, **kwargs)

    @opaque
    def _engine_levels(
        self,
        levels: int,
        edge_index: Any,
        edge_weight: Tensor | None,
        *,
        batch: Tensor | None,
        num_nodes: int | None,
        level: int,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> list[PoolingOutput]:
        selector = self._level_select()
        needed = needed_attributes(self._spec, kwargs.get("x"), kwargs)
        source = to_block(edge_index, edge_weight, batch, num_nodes, batch_size, attributes=needed)
        hierarchy = coarsen(
            source.block,
            Schedule((self._spec,) * levels),
            selector.seed,
            weight_dtype=source.weight_dtype,
            first_level=level,
        )
        if batch is None:
            batch = torch.zeros(source.block.num_nodes, dtype=torch.long, device=source.device)
        outputs = []
        for step in hierarchy.levels:
            so = to_select_output(
                step.assignment,
                source,
                selector.s_inv_op,
                batch,
                batch_size,
                selector.representative,
            )
            adj, weight = to_adjacency(step.block, source)
            batch = pooled_batch(step.assignment, source)
            outputs.append(PoolingOutput(edge_index=adj, edge_weight=weight, batch=batch, so=so))
            source = TorchBlock(step.block, None, None, source.container, source.device, source.weight_dtype)
        return outputs

    def extra_repr_args(self) -> dict[str, Any]:
        """Return the mode of a dense pooler, and ``cached``."""
        return {**super().extra_repr_args(), "cached": self.cached}

    @property
    def seed(self) -> int:
        """Seed of every random choice."""
        return self._level_select().seed

    @seed.setter
    def seed(self, value: int) -> None:
        self._level_select().seed = value


class LevelPooling(LevelMixin, SRCPooling):
    """Pooler that runs a level method.

    ``get_pooler`` builds it for every method without a pooler class. Assignments are dense if the method is
    dense; the pooled graphs are always an edge list.

    Args:
        method: Alias of the method.
        params: Parameters of the method; others have their defaults.
        selector, reducer, connector, lifter: Stages; the defaults follow from the parameters of the method.
        lift: Matrix that lifts pooled features to nodes: ``precomputed`` (``s_inv`` transposed), ``transpose`` (the
            assignment ``s``) or ``inverse`` (the pseudo-inverse of ``s``, transposed).
        s_inv_op: Operation that makes ``s_inv`` from the assignment ``s``: ``transpose`` or ``inverse`` (Moore-Penrose).
        lift_red_op: Reduction of the entries that a node gets from several supernodes.
        cached: Keep the result as long as the input graph stays the same.
        seed: Seed of every random choice.
    """

    def __init__(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        selector: LevelSelect | None = None,
        reducer: Reduce | None = None,
        connector: Connect | None = None,
        lifter: Lift | None = None,
        lift: LiftType = "precomputed",
        s_inv_op: SinvType = "transpose",
        lift_red_op: ReduceType = "sum",
        cached: bool = False,
        seed: int = 0,
    ) -> None:
        spec = LevelSpec.of(method, params)
        super().__init__(
            selector=selector or LevelSelect(method, params, seed=seed, s_inv_op=s_inv_op),
            reducer=reducer or BaseReduce(),
            lifter=lifter or BaseLift(lift, lift_red_op),
            connector=connector or _default_connector(spec),
            cached=cached,
        )
        self._use_engine(spec)


def _default_connector(spec: LevelSpec) -> Connect:
    """Return the connector module with the options of ``spec``."""
    if not (spec.level_method.contracts or spec.level_method.dense):
        return LevelConnect(spec)
    connector: type[Connect] = DenseConnect if spec.level_method.dense else SparseConnect
    names = {name: name for name in foo_signature(connector).args} | {"reduce_op": "connect_red_op"}
    given = {key: getattr(spec.params, name) for key, name in names.items() if hasattr(spec.params, name)}
    if spec.level_method.dense:
        given["sparse_output"] = True
    return connector(**given)


class DenseLevelPooling(LevelMixin, DenseSRCPooling):
    """Base class of poolers with a dense ``[N, K]`` assignment from a level method. They are always unbatched.

    The constructor of a subclass passes its stages to ``super().__init__`` and then calls ``_use_engine``.
    """
