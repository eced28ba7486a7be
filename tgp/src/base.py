"""``SRCPooling``: the base class of all poolers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from tgp.connect.base_conn import Connect, Connected
from tgp.lift.base_lift import Lift
from tgp.reduce.base_reduce import Reduce
from tgp.select.base_select import Select, SelectOutput
from tgp.src.data_call import is_graph, lift_graph, pool_graph
from tgp.src.execution import SparseExecution
from tgp.src.inputs import PoolInputs, check_assignment, check_keywords, read_inputs
from tgp.src.output import PoolingOutput
from tgp.src.precoarsening import Precoarsenable, require_stage
from tgp.src.result_cache import ResultCache, assignment_tensors
from tgp.utils.signature import Signature, accepted, foo_signature

__all__ = ["SRCPooling"]


class SRCPooling(nn.Module):
    """Base class of all poolers: select, reduce, connect, lift.

    A forward pass checks its arguments and runs the stages in this order (see :mod:`tgp.src.execution`).
    Pass other stages to the constructor to build a pooler. Override :meth:`select`, :meth:`reduce`,
    :meth:`connect`, :meth:`lift` or :meth:`compute_loss` to change one. Overridden methods, replaced stages
    and hooks take effect in every mode. Stages and overridden methods receive the keywords that their signature
    accepts.

    The public names of this class are those of tgp 1.0.2. All other names start with an underscore, so
    subclasses may use any other name for their attributes.

    Args:
        selector: Stage that computes the assignment.
        reducer: Stage that pools features.
        lifter: Stage that maps pooled features back to nodes.
        connector: Stage that connects supernodes.
        cached: Keep the assignment and the pooled connectivity as long as the input graph stays the same.
    """

    _accepts_assignment: bool = False
    """True if an assignment that is passed as ``so`` replaces the selection. False if it must carry gradients."""

    _needs_features: bool = False
    """True if the pooler cannot run without ``x``."""

    _connectivity_optional: bool = False
    """True if the pooler can run without ``adj``."""

    _rejects_crossing_edges: bool = False
    """True if edges between two graphs of a batch raise an error, because the result cannot represent them."""

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
        self._select_cache = ResultCache()
        self._connect_cache = ResultCache()

    # -- the stages ----------------------------------------------------------------------------

    def select(self, **kwargs: Any) -> SelectOutput:
        """Run the selector, or return its cached result for the same graph."""
        selector = require_stage(self.selector, "selector")
        if not self.cached:
            so: SelectOutput = selector(**accepted(selector, **kwargs))
            return so
        names = ("edge_index", "edge_weight", "batch", "num_nodes", "level", *getattr(selector, "needs", ()))
        inputs = [kwargs.get(name) for name in names]
        found: SelectOutput | None = self._select_cache.find(*inputs)
        if found is None:
            found = selector(**accepted(selector, **kwargs))
            self._select_cache.keep(found, assignment_tensors(found), *inputs)
        # The caller may change its assignment; in inference mode, changes of tensors are not counted.
        out = found.clone() if torch.is_inference_mode_enabled() else copy.copy(found)
        out._link = found._link
        return out

    def reduce(self, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
        """Run the reducer."""
        reducer = require_stage(self.reducer, "reducer")
        pooled: tuple[Tensor, Tensor | None] = reducer(**accepted(reducer, **kwargs))
        return pooled

    def connect(self, **kwargs: Any) -> Connected:
        """Run the connector, or return its cached result for the same graph and assignment.

        Returns:
            The pooled connectivity and its weights. With the argument ``edge_attr`` also edge attributes, if the connector
            returns them.
        """
        connector = require_stage(self.connector, "connector")
        if not self.cached:
            connected: Connected = connector(**accepted(connector, **kwargs))
            return connected
        so = kwargs.get("so")
        inputs = [kwargs.get(name) for name in _CONNECT_INPUTS]
        inputs += [] if so is None else assignment_tensors(so)
        found: Connected | None = self._connect_cache.find(*inputs)
        if found is None:
            found = connector(**accepted(connector, **kwargs))
            self._connect_cache.keep(found, found, *inputs)
        # In inference mode, changes of tensors are not counted: the caller gets copies.
        if not torch.is_inference_mode_enabled():
            return found
        adj, *values = found
        return _clone(adj), *map(_clone, values)  # type: ignore[return-value]  # as many values as before

    def lift(self, **kwargs: Any) -> Tensor:
        """Run the lifter."""
        lifter = require_stage(self.lifter, "lifter")
        lifted: Tensor = lifter(**accepted(lifter, **kwargs))
        return lifted

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
            x: Node features ``[N, F]``; pooled features when lifting. Or a graph of PyG (``Data`` or ``Batch``): then the
                result is a pooled graph with all attributes, see :func:`~tgp.src.data_call.pool_graph`. The argument
                ``carry`` changes how they are reduced. When lifting, the pooled graph.
            adj: Edge list ``[2, E]``, sparse matrix or ``SparseTensor``.
            edge_weight: ``[E]`` or ``[E, 1]``.
            so: Assignment to lift with. Poolers that read only the topology also accept it for pooling.
            batch: Graph ids ``[N]``.
            lifting: Map ``x`` back to the nodes of ``so`` instead of pooling.
            **kwargs: ``edge_attr`` (``[E]`` or ``[E, D]`` attributes of the edges, returned pooled), ``edge_attr_reduce``
                (their reduction, by default ``mean``; see :func:`~tgp.connect.sparse_connect`), ``batch_size``,
                ``batch_pooled``, ``num_nodes``, ``validate`` (False skips the check of node and graph ids), and further
                keywords of the selector.

        Returns:
            A :class:`PoolingOutput`, or the lifted features.

        Raises:
            InputError: If an argument has a wrong shape, length or type, or ids out of range.
        """
        return self._pool(lifting, x=x, adj=adj, edge_weight=edge_weight, so=so, batch=batch, **kwargs)

    def _pool(self, lifting: bool = False, **arguments: Any) -> PoolingOutput | Tensor:
        """Run a forward pass. The ``forward`` methods of poolers only give names to the arguments."""
        x = arguments.get("x")
        if x is not None and not isinstance(x, Tensor) and is_graph(x):
            if lifting:
                return lift_graph(self, x)
            pooled: Any = pool_graph(self, arguments.pop("x"), **arguments)
            return cast("PoolingOutput", pooled)  # in fact a graph, because the argument is a graph
        if lifting:
            return self._run_lift(**arguments)
        return self._execution(read_inputs(self, arguments)).run()

    def _execution(self, inputs: PoolInputs) -> SparseExecution:
        """Return the object that runs the stages on these inputs."""
        return SparseExecution(self, inputs)

    def _selection_checks_ids(self) -> bool:
        """Return True if the selector itself raises an error for node and graph ids out of range."""
        return False

    def _run_lift(
        self,
        x: Tensor | None = None,
        so: SelectOutput | None = None,
        batch: Tensor | None = None,
        batch_pooled: Tensor | None = None,
        batch_size: int | None = None,
        **unused: Any,
    ) -> Tensor:
        check_keywords(self, unused)
        check_assignment(so)
        return self.lift(
            **accepted(
                self.lift, x_pool=x, so=so, batch=batch, batch_pooled=batch_pooled, batch_size=batch_size
            )
        )

    # -- properties ---------------------------------------------------------------------------------

    def preprocessing(self, x: Tensor, edge_index: Any, **kwargs: Any) -> tuple[Tensor, Any, Tensor | None]:
        """Return ``(x, edge_index, None)``: sparse poolers do not change their inputs."""
        return x, edge_index, None

    def compute_loss(self, *args: Any, **kwargs: Any) -> dict[str, Tensor] | None:
        """Return auxiliary losses, or ``None``. A pooler with losses overrides this method."""
        return None

    @staticmethod
    def data_transforms() -> Any:
        """Return a transform that the pooler needs on its data, or ``None``."""
        return None

    @property
    def is_dense(self) -> bool:
        """True if assignments are dense matrices."""
        return bool(require_stage(self.selector, "selector").is_dense)

    @property
    def is_sparse(self) -> bool:
        """True if assignments are sparse matrices."""
        return not self.is_dense

    @property
    def has_loss(self) -> bool:
        """True if the pooler returns auxiliary losses."""
        return type(self).compute_loss is not SRCPooling.compute_loss

    @property
    def is_trainable(self) -> bool:
        """True if the pooler has learnable parameters."""
        return any(p.requires_grad for p in self.parameters())

    @property
    def is_precoarsenable(self) -> bool:
        """True if the pooled graph depends on the topology alone and can be computed before training."""
        return not self.is_trainable and (
            isinstance(self, Precoarsenable) or hasattr(self, "multi_level_precoarsening")
        )

    @classmethod
    def get_signature(cls) -> Signature:
        """Return the arguments of the constructor."""
        return foo_signature(cls)

    @classmethod
    def get_forward_signature(cls) -> Signature:
        """Return the arguments of ``forward``."""
        return foo_signature(cls.forward)

    def extra_repr_args(self) -> dict[str, Any]:
        """Return further lines of the repr, by name."""
        return {}

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the stages."""
        for stage in (self.selector, self.reducer, self.lifter, self.connector):
            if stage is not None:
                stage.reset_parameters()

    def clear_cache(self) -> None:
        """Remove the cached assignment and connectivity."""
        self._select_cache.clear()
        self._connect_cache.clear()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> SRCPooling:
        self.clear_cache()  # cached results have the old device and dtype
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]  # torch has no annotation here
        return self

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


_CONNECT_INPUTS = ("edge_index", "edge_weight", "batch_pooled", "edge_attr", "edge_attr_reduce")
"""Arguments on which a cached connectivity depends, in addition to the assignment."""


def _clone(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value
