"""``LevelPooling``: a pooler over a method of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tgp.coarsen.run import coarsen, connect_level
from tgp.coarsen.schedule import LevelSpec, Schedule
from tgp.connect.base_conn import Connect, SparseConnect
from tgp.lift.base_lift import BaseLift, Lift
from tgp.ragged import BlockCSR
from tgp.reduce.base_reduce import BaseReduce, Reduce
from tgp.select.base_select import SelectOutput
from tgp.select.level_select import LevelSelect, to_select_output
from tgp.src.base import PoolCall, SRCPooling
from tgp.src.dense import DenseSRCPooling
from tgp.src.output import PoolingOutput
from tgp.src.precoarsening import BasePrecoarseningMixin, check_connectivity, check_levels
from tgp.utils.blocks import TorchBlock, pooled_batch, to_adjacency, to_block
from tgp.utils.typing import LiftType, ReduceType, SinvType

__all__ = ["DenseLevelPooling", "LevelMixin", "LevelPooling"]


class LevelMixin(BasePrecoarseningMixin):
    """Selection, connection and pre-coarsening by the engine.

    The engine connects as long as the pooler's own selector and connector are in place and the edge
    weights need no gradient: then layer, transform and store agree bit for bit. Otherwise the connector
    module runs in torch.
    """

    honours_so = True

    def use_engine(self, spec: LevelSpec) -> None:
        """Remember the stages that the engine stands for; call it at the end of a constructor."""
        self.spec = spec
        self.selector.spec = spec
        connectors = (self.connector, getattr(self, "preconnector", None))
        # A tuple, so that the stages are not registered as sub-modules twice.
        self._stock = tuple((stage, stage.options()) for stage in connectors if stage is not None)

    def connects_by_engine(self, edge_weight: Tensor | None) -> bool:
        """Whether the engine may connect: stock connector, no gradient asked for."""
        if edge_weight is not None and edge_weight.requires_grad and torch.is_grad_enabled():
            return False
        current = (self.connector, getattr(self, "preconnector", None))
        pairs = zip([stage for stage in current if stage is not None], self._stock, strict=False)
        return all(stage is stock and stage.options() == options for stage, (stock, options) in pairs)

    def selects_by_engine(self) -> bool:
        """Whether the selector is the engine's own, with this pooler's parameters."""
        return isinstance(self.selector, LevelSelect) and self.selector.spec == self.spec

    def select(self, **kwargs: Any) -> SelectOutput:
        """Run the selector; the engine's arrays stay with the result until the coarse graph is made."""
        if self.selects_by_engine():
            kwargs["keep_link"] = True
        return super().select(**kwargs)

    def call_connector(self, **kwargs: Any) -> tuple[Any, Tensor | None]:
        """Connect by the engine where it may, else by the connector module."""
        so, weight = kwargs["so"], kwargs.get("edge_weight")
        if so._link is not None and self.connects_by_engine(weight):
            source, assignment = so._link
            coarse = connect_level(source.block, assignment, self.spec, source.weight_dtype)
            return self.present(coarse, source)
        return super().call_connector(**kwargs)

    def present(self, coarse: BlockCSR, source: TorchBlock) -> tuple[Any, Tensor | None]:
        """The coarse graphs in the form of this pooler's output."""
        return to_adjacency(coarse, source)

    def finish(self, call: PoolCall, output: PoolingOutput) -> PoolingOutput:
        """Let go of the engine's arrays."""
        output.so._link = None
        return super().finish(call, output)

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
        """One level; see :meth:`multi_level_precoarsening`."""
        return self._levels(
            1, edge_index, edge_weight, batch=batch, num_nodes=num_nodes, level=level, **kwargs
        )[0]

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
        """Several levels in one call of the engine; a method that builds trees builds one for all of them.

        Args:
            levels: how many.
            edge_index: connectivity of the finest graphs.
            edge_weight: its weights.
            batch: ``[N]`` graph ids, in any order; one graph if absent.
            num_nodes: ``N``.
            level: place of the first of them in a longer schedule.
            **kwargs: ``batch_size``; the rest is handed to swapped stages.
        """
        check_levels(levels)
        self.clear_cache()
        return self._levels(
            levels, edge_index, edge_weight, batch=batch, num_nodes=num_nodes, level=level, **kwargs
        )

    def _levels(
        self, levels: int, edge_index: Any, edge_weight: Tensor | None, **kwargs: Any
    ) -> list[PoolingOutput]:
        check_connectivity(edge_index)
        if self.selects_by_engine() and self.connects_by_engine(edge_weight):
            return self._engine_levels(levels, edge_index, edge_weight, **kwargs)
        if levels == 1:
            return [super().precoarsening(edge_index, edge_weight, **kwargs)]
        return super().multi_level_precoarsening(levels, edge_index, edge_weight, **kwargs)

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
        selector = self.selector
        source = to_block(edge_index, edge_weight, batch, num_nodes, batch_size)
        hierarchy = coarsen(
            source.block,
            Schedule((self.spec,) * levels),
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


class LevelPooling(LevelMixin, SRCPooling):
    """A pooler with hard clusters from a level method.

    ``get_pooler`` builds one for every method that has no class of its own.

    Args:
        method: alias of the method.
        params: its parameters; what is left out has its default.
        selector, reducer, connector, lifter: stages; by default those that follow from the method's parameters.
        lift: which matrix lifts: ``precomputed``, ``transpose`` or ``inverse``.
        s_inv_op: ``transpose`` or ``inverse``.
        lift_red_op: how lifted entries of a node meet.
        cached: keep the result as long as the input graph stays the same.
        seed: seed of every random choice.
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
            connector=connector or sparse_connector(spec),
            cached=cached,
        )
        self.use_engine(spec)

    @property
    def seed(self) -> int:
        """Seed of every random choice."""
        return self.selector.seed


def sparse_connector(spec: LevelSpec) -> SparseConnect:
    """The connector that does in torch what the parameters of ``spec`` ask of the engine."""
    names = {
        "reduce_op": "connect_red_op",
        "remove_self_loops": "remove_self_loops",
        "edge_weight_norm": "edge_weight_norm",
        "degree_norm": "degree_norm",
        "count_edges": "count_edges",
    }
    given = {key: getattr(spec.params, name) for key, name in names.items() if hasattr(spec.params, name)}
    return SparseConnect(**given)


class DenseLevelPooling(LevelMixin, DenseSRCPooling):
    """A pooler with a dense ``[N, K]`` assignment from a level method; always unbatched.

    A subclass makes its stages, calls ``super().__init__`` with them and then :meth:`use_engine`.
    """

    def run_connect(
        self, call: PoolCall, so: SelectOutput, batch_pool: Tensor | None
    ) -> tuple[Any, Tensor | None]:
        """By the engine where it may, else as any dense pooler."""
        if so._link is not None and self.connects_by_engine(call.edge_weight):
            return SRCPooling.run_connect(self, call, so, batch_pool)
        return super().run_connect(call, so, batch_pool)

    def present(self, coarse: BlockCSR, source: TorchBlock) -> tuple[Any, Tensor | None]:
        """Dense ``[B, K, K]``, or the edge list for ``sparse_output``."""
        if self.sparse_output:
            return to_adjacency(coarse, source)
        graphs = coarse.num_graphs
        k = coarse.num_nodes // graphs if graphs else 0
        dense = np.zeros((graphs, k, k), source.weight_dtype)
        rows = coarse.rows().astype(np.int64)
        dense[rows // max(k, 1), rows % max(k, 1), coarse.indices % max(k, 1)] = coarse.weights_or_ones()
        return source.tensor(dense), None
