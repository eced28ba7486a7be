"""``SRCPooling``: the four stages and the one forward that every pooler shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from tgp.connect.base_conn import Connect
from tgp.lift.base_lift import Lift
from tgp.reduce.base_reduce import Reduce
from tgp.select.base_select import Select, SelectOutput
from tgp.src._cache import InputKey
from tgp.src.output import PoolingOutput
from tgp.src.precoarsening import Precoarsenable
from tgp.utils.layout import LayoutView
from tgp.utils.ops.batching import GraphLayout
from tgp.utils.ops.connectivity import check_and_filter_edge_weights
from tgp.utils.signature import Signature, foo_signature

__all__ = ["PoolCall", "SRCPooling"]


@dataclass
class PoolCall:
    """What one forward works on; :meth:`SRCPooling.prepare` may replace fields.

    Args:
        x: node features.
        adj: connectivity.
        edge_weight: its weights.
        so: a ready-made assignment, or ``None`` to select.
        batch: ``[N]`` graph ids.
        mask: ``[B, N]`` real nodes of padded input.
        batch_pooled: graph ids of supernodes, for lifting.
        batch_size: number of graphs, where known.
        num_nodes: ``N``, where features do not tell.
        extra: further keywords of the call, handed to the selector.
        layout: the graphs of a padded call that runs on flat rows.
        row_extras: what the selector gave along with flat rows.
        view: the layout view of assignment and adjacency, once made.
    """

    x: Tensor | None = None
    adj: Any = None
    edge_weight: Tensor | None = None
    so: SelectOutput | None = None
    batch: Tensor | None = None
    mask: Tensor | None = None
    batch_pooled: Tensor | None = None
    batch_size: int | None = None
    num_nodes: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    layout: GraphLayout | None = None
    row_extras: dict[str, Any] = field(default_factory=dict)
    view: LayoutView | None = None


class SRCPooling(nn.Module):
    """Select, reduce, connect, lift.

    :meth:`pool` is the only implementation of pooling. A pooler overrides what differs: :meth:`prepare`
    (inputs), :meth:`select`, :meth:`reduce`, :meth:`connect`, :meth:`loss` and :meth:`finish` (outputs).

    Args:
        selector: makes the assignment.
        reducer: pools features.
        lifter: brings pooled features back to nodes.
        connector: connects supernodes.
        cached: keep the assignment and the pooled connectivity as long as the input graph stays the same.
    """

    def __init__(
        self,
        selector: Select | None = None,
        reducer: Reduce | None = None,
        lifter: Lift | None = None,
        connector: Connect | None = None,
        cached: bool = False,
    ) -> None:
        super().__init__()
        self.selector = selector
        self.reducer = reducer
        self.lifter = lifter
        self.connector = connector
        self.cached = cached
        self.clear_cache()

    # -- the stages ----------------------------------------------------------------------------

    def select(self, **kwargs: Any) -> SelectOutput:
        """Run the selector, or return its cached result for the same graph."""
        selector = _present(self.selector, "selector")
        if not self.cached:
            return selector(**kwargs)
        inputs = [kwargs.get(name) for name in ("edge_index", "edge_weight", "batch", "num_nodes", "level")]
        if self._so_cached is None or not self._select_key.matches(*inputs):
            self._so_cached = selector(**kwargs)
            self._select_key = InputKey(*inputs)
            self._pooled_edge_index = self._pooled_edge_weight = None
        return self._so_cached

    def reduce(self, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
        """Run the reducer."""
        return _present(self.reducer, "reducer")(**kwargs)

    def connect(self, **kwargs: Any) -> tuple[Any, Tensor | None]:
        """Run the connector, or return its cached result for the same graph and assignment."""
        if not self.cached:
            return self.call_connector(**kwargs)
        so = kwargs.get("so")
        inputs = [kwargs.get(name) for name in ("edge_index", "edge_weight", "batch_pooled")]
        fresh = (
            self._connect_key is not None and self._connect_so is so and self._connect_key.matches(*inputs)
        )
        if self._pooled_edge_index is None or not fresh:
            self._pooled_edge_index, self._pooled_edge_weight = self.call_connector(**kwargs)
            self._connect_key, self._connect_so = InputKey(*inputs), so
        return self._pooled_edge_index, self._pooled_edge_weight

    def call_connector(self, **kwargs: Any) -> tuple[Any, Tensor | None]:
        """Run the connector, whatever is cached."""
        return _present(self.connector, "connector")(**kwargs)

    def lift(self, **kwargs: Any) -> Tensor:
        """Run the lifter."""
        return _present(self.lifter, "lifter")(**kwargs)

    # -- the forward ---------------------------------------------------------------------------

    def forward(
        self,
        x: Tensor | None = None,
        adj: Any = None,
        edge_weight: Tensor | None = None,
        so: SelectOutput | None = None,
        batch: Tensor | None = None,
        lifting: bool = False,
        **kwargs: Any,
    ) -> PoolingOutput | Tensor:
        """Pool a graph or a batch of graphs, or lift pooled features.

        Args:
            x: node features ``[N, F]``; pooled features when lifting.
            adj: edge list, sparse matrix or ``SparseTensor``.
            edge_weight: ``[E]`` or ``[E, 1]``.
            so: assignment to lift with; poolers that read the topology only also pool with it.
            batch: ``[N]`` graph ids.
            lifting: bring ``x`` back to the nodes of ``so`` instead.
            **kwargs: ``batch_size``, ``batch_pooled``, ``num_nodes``, and whatever the selector reads.

        Returns:
            A :class:`PoolingOutput`, or the lifted features.
        """
        return self.pool(lifting, x=x, adj=adj, edge_weight=edge_weight, so=so, batch=batch, **kwargs)

    def pool(self, lifting: bool = False, **kwargs: Any) -> PoolingOutput | Tensor:
        """The forward of every pooler; their ``forward`` methods only name the arguments."""
        call = _to_call(kwargs)
        if lifting:
            return self.lift(
                x_pool=call.x,
                so=call.so,
                batch=call.batch,
                batch_pooled=call.batch_pooled,
                batch_size=call.batch_size,
            )
        call = self.prepare(call)
        so = call.so if call.so is not None else self.run_select(call)
        x_pool = batch_pool = None
        if call.x is not None:
            x_pool, batch_pool = self.run_reduce(call, so)
        elif self.reducer is not None:
            batch_pool = self.reducer.reduce_batch(so, call.batch)
        adj, weight = self.run_connect(call, so, batch_pool)
        output = PoolingOutput(x_pool, adj, weight, batch_pool, so, self.loss(call, so))
        return self.finish(call, output)

    def prepare(self, call: PoolCall) -> PoolCall:
        """Bring the inputs into the form the stages take."""
        if call.adj is None and call.so is None:
            raise NotImplementedError(f"{type(self).__name__} needs a connectivity: adj is None")
        call.so = None if not self.honours_so else call.so
        call.edge_weight = check_and_filter_edge_weights(call.edge_weight)
        if call.num_nodes is None and call.x is not None:
            call.num_nodes = call.x.size(0)
        return call

    def run_select(self, call: PoolCall) -> SelectOutput:
        """Hand the call to :meth:`select`."""
        return self.select(
            x=call.x,
            edge_index=call.adj,
            edge_weight=call.edge_weight,
            batch=call.batch,
            num_nodes=call.num_nodes,
            batch_size=call.batch_size,
            **call.extra,
        )

    def run_reduce(self, call: PoolCall, so: SelectOutput) -> tuple[Tensor, Tensor | None]:
        """Hand the call to :meth:`reduce`."""
        return self.reduce(x=call.x, so=so, batch=call.batch)

    def run_connect(
        self, call: PoolCall, so: SelectOutput, batch_pool: Tensor | None
    ) -> tuple[Any, Tensor | None]:
        """Hand the call to :meth:`connect`."""
        return self.connect(
            edge_index=call.adj,
            so=so,
            edge_weight=call.edge_weight,
            batch=call.batch,
            batch_pooled=batch_pool,
            batch_size=call.batch_size,
        )

    def loss(self, call: PoolCall, so: SelectOutput) -> dict[str, Tensor] | None:
        """Auxiliary losses of this call; none by default."""
        return None

    def finish(self, call: PoolCall, output: PoolingOutput) -> PoolingOutput:
        """Bring the outputs into the form the caller asked for."""
        return output

    # -- facts ---------------------------------------------------------------------------------

    honours_so: bool = False
    """A given ``so`` replaces selection. Off where the assignment must carry gradients."""

    def preprocessing(self, x: Tensor, edge_index: Any, **kwargs: Any) -> tuple[Tensor, Any, None]:
        """``(x, edge_index, None)``: sparse poolers take their inputs as they are."""
        return x, edge_index, None

    def compute_loss(self, *args: Any, **kwargs: Any) -> dict[str, Tensor] | None:
        """Auxiliary losses from their ingredients; poolers that have any override this."""
        return None

    @staticmethod
    def data_transforms() -> Any:
        """A transform the pooler wants on its data, or ``None``."""
        return None

    @property
    def is_dense(self) -> bool:
        """Assignments are dense matrices."""
        return bool(_present(self.selector, "selector").is_dense)

    @property
    def is_sparse(self) -> bool:
        """Assignments are sparse matrices."""
        return not self.is_dense

    @property
    def has_loss(self) -> bool:
        """The pooler yields auxiliary losses."""
        return type(self).compute_loss is not SRCPooling.compute_loss

    @property
    def is_trainable(self) -> bool:
        """The pooler has parameters to learn."""
        return any(p.requires_grad for p in self.parameters())

    @property
    def is_precoarsenable(self) -> bool:
        """Its hierarchy depends on the graph alone, so it can be computed before training."""
        return isinstance(self, Precoarsenable) and not self.is_trainable

    @classmethod
    def get_signature(cls) -> Signature:
        """Arguments of the constructor."""
        return foo_signature(cls)

    @classmethod
    def get_forward_signature(cls) -> Signature:
        """Arguments of ``forward``."""
        return foo_signature(cls.forward)

    def extra_repr_args(self) -> dict[str, Any]:
        """Further lines of the repr."""
        return {}

    def reset_parameters(self) -> None:
        """Draw the learnable parameters of all stages anew."""
        for stage in (self.selector, self.reducer, self.lifter, self.connector):
            if stage is not None:
                stage.reset_parameters()

    def clear_cache(self) -> None:
        """Forget cached assignments and connectivity."""
        self._so_cached: SelectOutput | None = None
        self._pooled_edge_index: Any = None
        self._pooled_edge_weight: Tensor | None = None
        self._select_key = InputKey()
        self._connect_key: InputKey | None = None
        self._connect_so: SelectOutput | None = None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> SRCPooling:
        out = super()._apply(fn, recurse)
        if self._so_cached is not None:
            self._so_cached._map(fn)
            self._select_key = self._select_key.apply(fn)
        if self._connect_key is not None:
            self._connect_key = self._connect_key.apply(fn)
        for name in ("_pooled_edge_index", "_pooled_edge_weight"):
            value = getattr(self, name)
            if isinstance(value, Tensor):
                setattr(self, name, fn(value))
        return out

    def __repr__(self) -> str:
        stages = {
            "select": self.selector,
            "reduce": self.reducer,
            "lift": self.lifter,
            "connect": self.connector,
            **self.extra_repr_args(),
        }
        lines = "".join(f"\t{name}={value}\n" for name, value in stages.items())
        return f"{type(self).__name__}(\n{lines})"


_OWN = ("extra", "layout", "row_extras", "view")
_FIELDS = tuple(name for name in PoolCall.__dataclass_fields__ if name not in _OWN)


def _to_call(kwargs: dict[str, Any]) -> PoolCall:
    known = {name: kwargs.pop(name) for name in _FIELDS if name in kwargs}
    return PoolCall(**known, extra=kwargs)


def _present(stage: Any, name: str) -> Any:
    if stage is None:
        raise NotImplementedError(f"this pooler has no {name}")
    return stage
