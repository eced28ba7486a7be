"""The interface of a level method: a frozen parameter class and two functions on arrays."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from tgp.kernels.array_types import FloatArray, LongArray
from tgp.ragged import Assignment, BlockCSR
from tgp.registry import load

if TYPE_CHECKING:
    from tgp.engine.external.method import ExternalMethod

__all__ = [
    "ADDED",
    "GraphSizes",
    "LevelBound",
    "LevelEstimate",
    "LevelMethod",
    "RandomKey",
    "linear_bound",
    "linear_cost",
    "parameter_fields",
]

Params = Any
"""An instance of the method's own frozen dataclass."""

ADDED = MappingProxyType({"added": True})
"""Metadata of a parameter that was added after the first stores were written.

The JSON form of a level leaves the parameter out while it has its default value. The default must be the rule of the old stores,
or the revision of the method must increase. The fingerprint of a store therefore does not change: ``two_hop: bool = field(default=False, metadata=ADDED)``.
"""

CostModel = Callable[[LongArray, LongArray, Params], FloatArray]


@dataclass(frozen=True)
class RandomKey:
    """Key of the random numbers of a level.

    Every random choice is a hash of ``seed``, ``level`` and the index of a node inside its graph (see
    ``tgp.kernels._prims``). It never depends on a thread, on the position in a batch, or on the number of earlier
    calls. The hierarchy of a graph is therefore a function of the graph, the schedule and the seed.

    Args:
        seed: seed of the run.
        level: number of the level in its schedule, from 0 on.
    """

    seed: int = 0
    level: int = 0


def linear_cost(nodes: LongArray, edges: LongArray, params: Params) -> FloatArray:
    """Return the number of nodes and edges of each graph, the work of a method that visits each of them once.

    Args:
        nodes: ``[G]`` number of nodes of each graph.
        edges: ``[G]`` number of stored edges of each graph.
        params: parameters of the method; not used.
    """
    return (nodes + edges).astype(np.float64)


@dataclass(frozen=True)
class LevelEstimate:
    """Expected size of a level and memory needed to compute it. Used for planning only; no result depends on it.

    Args:
        nodes: share of the nodes that remains. A dense method always has ``params.k`` supernodes per graph.
        edges: share of the edges that remains.
        weighted: True if the coarse edges are weighted even if those of the graph are not.
        scratch: bytes of working memory per node.
    """

    nodes: float = 0.5625
    edges: float = 0.625
    weighted: bool = False
    scratch: float = 60.0


@dataclass(frozen=True, eq=False)
class GraphSizes:
    """Sizes of graphs from which a method bounds its time and memory.

    On the input graphs all figures are exact. On coarse graphs, which do not exist yet, they are upper bounds.

    Args:
        nodes: ``[G]`` number of nodes of each graph.
        edges: ``[G]`` number of stored edges of each graph.
        degree: ``[G]`` largest number of edges of one node.
        signed: True if a weight can be negative.
    """

    nodes: LongArray
    edges: LongArray
    degree: LongArray
    signed: bool = False


@dataclass(frozen=True, eq=False)
class LevelBound:
    """Upper bounds of what a level needs and of what it leaves, one number per graph. They are shown before a run.

    Args:
        seconds: processor seconds on a core that sorts 10^6 random float64 numbers in 0.1 s.
        memory: bytes of working memory, without the graphs and the coarse graphs.
        nodes: number of supernodes.
        edges: number of stored coarse edges.
    """

    seconds: FloatArray
    memory: FloatArray
    nodes: LongArray
    edges: LongArray


def linear_bound(
    sizes: GraphSizes, nanoseconds: float, memory: float, *, nodes: LongArray | None = None
) -> LevelBound:
    """Return the bound of a method whose time and memory are linear and whose coarse graphs have no additional edges.

    Args:
        sizes: sizes of the graphs.
        nanoseconds: processor time per node and stored edge. Twice the largest value that
            ``tests/benchmarks/bench_families.py`` finds is a good bound.
        memory: bytes of working memory per node and stored edge.
        nodes: ``[G]`` largest number of supernodes; default the number of nodes.
    """
    work = (sizes.nodes + sizes.edges).astype(np.float64)
    return LevelBound(
        1e-9 * nanoseconds * work, memory * work, sizes.nodes if nodes is None else nodes, sizes.edges
    )


@dataclass(frozen=True)
class LevelMethod:
    """A deterministic pooling method that the engine can run.

    Args:
        name: alias of the method.
        params: frozen dataclass of the parameters. Schedules, the command line and ``get_pooler`` accept its fields by
            their types and defaults. Its ``__post_init__`` raises ``ParameterError`` for a wrong value.
        assign: function ``(block, params, key) -> Assignment``.
        connect: function ``(block, assignment, params) -> BlockCSR`` that returns the coarse graphs, such as
            :func:`tgp.engine.contract` if ``params`` extends :class:`~tgp.engine.contraction.ConnectParams`.
        assign_levels: function ``(block, params, key, num_levels) -> list[Assignment]`` of a method that builds one
            tree for a run of equal levels (SEP); ``None`` for other methods. A method with the parameter ``ratios`` needs
            it: level ``i`` has the share ``ratios[i]`` of the nodes of ``block``, and does not depend on ``ratios[i + 1:]``.
        cost: function ``(nodes, edges, params) -> work`` that estimates the typical work of each graph. A core does a work
            of about 5e7 in a second. Dividing graphs among shards depends on it: another function makes other shards.
        estimate: expected size of a level, for the same purpose.
        dense: True if ``S`` is dense, with ``params.k`` columns for every graph.
        representative: name under which a ``SelectOutput`` exposes the node that stands for each supernode
            (``"mis"`` for k-MIS); ``None`` if it does not expose it.
        revision: engine revision in which the results of the method with default parameters last changed, see
            :data:`tgp.engine.revision.ENGINE_REVISION`.
        bound: function ``(sizes, params) -> LevelBound`` with upper bounds of time and memory, which ``--dry-run`` shows.
            ``None`` if nothing better than ``cost`` and ``estimate`` is known; nothing depends on it.
        builds_levels: function ``params -> bool`` of a method that uses ``assign_levels`` with some parameters only; ``None`` if
            it always does.
        contracts: True if every coarse edge stands for the edges between the members of its two supernodes. Levels of such
            methods have edge attributes. False for other connections, such as the Kron reduction.
        needs: Attributes of nodes that ``assign`` reads by :meth:`BlockCSR.node_values <tgp.ragged.BlockCSR>`, such as
            ``("x",)`` or ``("pos",)``. On the first level these are the attributes of the graphs, and on later levels the means
            of the input nodes that belong to each supernode. Graphs without them are an error before anything is computed.
        one_core: part of ``assign`` that uses one core for a large graph, such as ``"the matching"``. ``tgp coarsen`` says so before
            it starts. Empty if all parts use several.
        optional_package: import name of a package that ``assign`` needs and that an extra installs; ``None`` if there is none. Without it
            ``assign`` raises ``MissingPackageError``, and commands that run on all methods leave this one out.
        external: ``"module:NAME"`` of the ``ExternalMethod`` (``tgp.engine.external.method``) that computes levels of a graph whose edges
            are files, for ``tgp coarsen --memory``; ``None`` if the method needs the graph in memory.
        joins_components: True if a supernode can have nodes of several connected components. The types of nodes of a heterogeneous
            graph are then coarsened as graphs of their own, so that sizes hold for each type.
    """

    name: str
    params: type
    assign: Callable[[BlockCSR, Params, RandomKey], Assignment]
    connect: Callable[[BlockCSR, Assignment, Params], BlockCSR]
    assign_levels: Callable[[BlockCSR, Params, RandomKey, int], list[Assignment]] | None = None
    cost: CostModel = linear_cost
    estimate: LevelEstimate = LevelEstimate()
    dense: bool = False
    representative: str | None = None
    revision: int = 1
    bound: Callable[[GraphSizes, Params], LevelBound] | None = None
    builds_levels: Callable[[Params], bool] | None = None
    contracts: bool = False
    needs: tuple[str, ...] = ()
    one_core: str = ""
    optional_package: str | None = None
    external: str | None = None
    joins_components: bool = False

    def external_method(self) -> ExternalMethod | None:
        """Return the implementation for a graph whose edges are files, or ``None`` if there is none."""
        if self.external is None:
            return None
        found: ExternalMethod = load(self.external)
        return found

    @property
    def is_installed(self) -> bool:
        """True if the method can run here: it needs no optional package, or the package is installed."""
        return self.optional_package is None or importlib.util.find_spec(self.optional_package) is not None

    def joint_levels(
        self, params: Params
    ) -> Callable[[BlockCSR, Params, RandomKey, int], list[Assignment]] | None:
        """Return ``assign_levels``, or ``None`` if levels with these parameters are computed one by one.

        Args:
            params: parameters of the levels.
        """
        if self.builds_levels is not None and not self.builds_levels(params):
            return None
        return self.assign_levels


def parameter_fields(params: type) -> tuple[dataclasses.Field[Any], ...]:
    """Return the fields of a parameter class in the order in which they are shown.

    Parameters of the method itself come first. Parameters that it shares with other methods by a base class, such as
    those of :class:`~tgp.engine.contraction.ConnectParams`, come last.

    Args:
        params: a dataclass.

    Examples:
        >>> from tgp.engine.methods.graclus import GraclusParams
        >>> [field.name for field in parameter_fields(GraclusParams)][:4]
        ['order', 'two_hop', 'match_on', 'connect_red_op']
    """
    bases = [base for base in params.__bases__ if dataclasses.is_dataclass(base)]
    shared = {field.name for base in bases for field in dataclasses.fields(base)}
    return tuple(sorted(dataclasses.fields(params), key=lambda field: field.name in shared))
