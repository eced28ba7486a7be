"""``SRCPooling``: the base class of all poolers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tgp.connect.base_conn import Connect
from tgp.lift.base_lift import Lift
from tgp.reduce.base_reduce import Reduce
from tgp.select.base_select import Select, SelectOutput
from tgp.src._cache import ResultCache, assignment_tensors
from tgp.src.execution import SparseExecution
from tgp.src.inputs import PoolInputs, check_assignment, check_keywords, read_inputs
from tgp.src.output import PoolingOutput
from tgp.src.precoarsening import Precoarsenable
from tgp.utils.signature import Signature, accepted, foo_signature

__all__ = ["SRCPooling"]


class SRCPooling(nn.Module):
    """Select, reduce, connect, lift.

    A forward pass checks its arguments and runs the stages in this order (see :mod:`tgp.src.execution`).
    A pooler is made by passing stages, and changed by overriding :meth:`select`, :meth:`reduce`,
    :meth:`connect`, :meth:`lift` or :meth:`compute_loss`. What is overridden, replaced or hooked takes effect in
    every mode. Stages and overridden methods receive the keywords that their signature accepts.

    The public names of this class are those of tgp 1.0.2; names of our own start with an underscore, so that
    subclasses may use any other attribute.

    Args:
        selector: Makes the assignment.
        reducer: Pools features.
        lifter: Brings pooled features back to nodes.
        connector: Connects supernodes.
        cached: Keep the assignment and the pooled connectivity as long as the input graph stays the same.
    """

    _accepts_assignment: bool = False
    """A given ``so`` replaces selection. False where the assignment must carry gradients."""

    _needs_features: bool = False
    """The pooler cannot run without ``x``."""

    _selector_checks_ids: bool = False
    """The selector refuses node and graph ids out of range on its own."""

    _separates_graphs: bool = False
    """An edge between two graphs of a batch has no place in the result, so it is refused."""

    _connectivity_optional: bool = False
    """The pooler can run without ``adj``."""

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
        selector = _present(self.selector, "selector")
        if not self.cached:
            return selector(**accepted(selector, **kwargs))
        inputs = [kwargs.get(name) for name in ("edge_index", "edge_weight", "batch", "num_nodes", "level")]
        found = self._select_cache.find(*inputs)
        if found is None:
            found = selector(**accepted(selector, **kwargs))
            self._select_cache.keep(found, assignment_tensors(found), *inputs)
        return _handed_out(found)

    def reduce(self, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
        """Run the reducer."""
        reducer = _present(self.reducer, "reducer")
        return reducer(**accepted(reducer, **kwargs))

    def connect(self, **kwargs: Any) -> tuple[Any, Tensor | None]:
        """Run the connector, or return its cached result for the same graph and assignment."""
        connector = _present(self.connector, "connector")
        if not self.cached:
            return connector(**accepted(connector, **kwargs))
        so = kwargs.get("so")
        inputs = [kwargs.get(name) for name in ("edge_index", "edge_weight", "batch_pooled")]
        inputs += [] if so is None else assignment_tensors(so)
        found = self._connect_cache.find(*inputs)
        if found is None:
            found = connector(**accepted(connector, **kwargs))
            self._connect_cache.keep(found, found, *inputs)
        return _handed_out(found)

    def lift(self, **kwargs: Any) -> Tensor:
        """Run the lifter."""
        lifter = _present(self.lifter, "lifter")
        return lifter(**accepted(lifter, **kwargs))

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
            x: Node features ``[N, F]``; pooled features when lifting.
            adj: Edge list ``[2, E]``, sparse matrix or ``SparseTensor``.
            edge_weight: ``[E]`` or ``[E, 1]``.
            so: Assignment to lift with. Poolers that read only the topology also pool with it.
            batch: Graph ids ``[N]``.
            lifting: Bring ``x`` back to the nodes of ``so`` instead of pooling.
            **kwargs: ``batch_size``, ``batch_pooled``, ``num_nodes``, ``validate`` (False skips the check of node
                and graph ids), and keywords of the selector.

        Returns:
            A :class:`PoolingOutput`, or the lifted features.

        Raises:
            InputError: For an argument of a wrong shape, length or type, or with ids out of range.
        """
        return self._pool(lifting, x=x, adj=adj, edge_weight=edge_weight, so=so, batch=batch, **kwargs)

    def _pool(self, lifting: bool = False, **arguments: Any) -> PoolingOutput | Tensor:
        """Run a forward pass; the ``forward`` methods of poolers only name the arguments."""
        if lifting:
            return self._run_lift(**arguments)
        return self._execution(read_inputs(self, arguments)).run()

    def _execution(self, inputs: PoolInputs) -> SparseExecution:
        """Return the object that runs the stages on these inputs."""
        return SparseExecution(self, inputs)

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

    # -- facts ---------------------------------------------------------------------------------

    def preprocessing(self, x: Tensor, edge_index: Any, **kwargs: Any) -> tuple[Tensor, Any, None]:
        """Return ``(x, edge_index, None)``: sparse poolers take their inputs as they are."""
        return x, edge_index, None

    def compute_loss(self, *args: Any, **kwargs: Any) -> dict[str, Tensor] | None:
        """Return auxiliary losses; a pooler that has any overrides this method."""
        return None

    @staticmethod
    def data_transforms() -> Any:
        """Return a transform that the pooler needs on its data, or ``None``."""
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
        """The pooled graph depends on the topology alone, so it can be computed before training."""
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
        """Return further lines of the repr."""
        return {}

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the stages."""
        for stage in (self.selector, self.reducer, self.lifter, self.connector):
            if stage is not None:
                stage.reset_parameters()

    def clear_cache(self) -> None:
        """Forget cached assignments and connectivity."""
        self._select_cache.clear()
        self._connect_cache.clear()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> SRCPooling:
        # Results that are kept belong to the old device and dtype.
        self.clear_cache()
        return super()._apply(fn, recurse)

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


def _present(stage: Any, name: str) -> Any:
    if stage is None:
        raise NotImplementedError(f"this pooler has no {name}")
    return stage


def _handed_out(kept: Any) -> Any:
    """Return a kept result in a form that its user may change without changing the cache."""
    inference = torch.is_inference_mode_enabled()  # where changes in place are not counted
    if isinstance(kept, tuple):
        return tuple(map(_clone, kept)) if inference else kept
    out = kept.clone() if inference else copy.copy(kept)
    out._link = kept._link
    return out


def _clone(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value
