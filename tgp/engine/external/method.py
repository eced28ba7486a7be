"""Interface of methods that can coarsen a graph whose edges are files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.engine.external.buckets import Limits
from tgp.engine.external.journal import Journal
from tgp.engine.external.ranges import RangeMap
from tgp.engine.external.row_files import RowFiles
from tgp.engine.level_method import RandomKey
from tgp.errors import ParameterError
from tgp.ragged.block import IndexArray

__all__ = ["Assigned", "ExternalMethod", "LevelWork", "Restriction"]


@dataclass(frozen=True)
class LevelWork:
    """A level that is to be computed.

    Args:
        journal: Journal of the run. All files are in its folder.
        rows: The finer graph.
        name: First part of the names of files and steps, such as ``"level1"``.
        params: Parameters of the method.
        key: Key of the random numbers.
        limits: Sizes of the run.
        ranges: Strategy that calls the functions of ranges. The result does not depend on it.
    """

    journal: Journal
    rows: RowFiles
    name: str
    params: Any
    key: RandomKey
    limits: Limits
    ranges: RangeMap


@dataclass(frozen=True, eq=False)
class Assigned:
    """Supernodes of the nodes of one graph.

    Args:
        cluster: ``[N]`` supernode of each node.
        num_supernodes: Number of supernodes.
        weight: ``[N]`` values of the assignment matrix, float32; ``None`` if all are 1.
        representative: ``[K]`` node that stands for each supernode; ``None`` if there is none.
    """

    cluster: IndexArray
    num_supernodes: int
    weight: npt.NDArray[np.float32] | None = None
    representative: IndexArray | None = None


@dataclass(frozen=True)
class Restriction:
    """Values that a parameter can have if the edges of the graph are files.

    Args:
        values: The values; others need the graph in memory.
        hint: Alternative for the user.
    """

    values: tuple[Any, ...]
    hint: str


_NORMALIZE = Restriction((False,), "leave it out, and normalize the weights when the store is read")
_CONNECTION = {
    "connect_red_op": Restriction(("sum", "min", "max", "mul"), "use sum, which is the default"),
    "degree_norm": _NORMALIZE,
    "edge_weight_norm": _NORMALIZE,
}
"""Restrictions of the parameters that all methods share."""


@dataclass(frozen=True)
class ExternalMethod:
    """Implementation of a level method for a graph whose edges are files.

    The coarse graph is the contraction of the assignment, with the parameters of
    :class:`~tgp.engine.contraction.ConnectParams`.

    Args:
        assign: Function that computes the assignment. It has the values of the assignment in memory.
        restrictions: Parameters of the method that cannot have all values.
        adds_reverse_edges: True if the method and its contraction add the reverse of every edge that has none.
        node_bytes: Size of the files of an assignment beside its supernodes, in bytes for each node.
    """

    assign: Callable[[LevelWork], Assigned]
    restrictions: Mapping[str, Restriction] = field(default_factory=lambda: MappingProxyType({}))
    adds_reverse_edges: bool = False
    node_bytes: int = 0

    def check(self, name: str, params: Any) -> None:
        """Check that no parameter needs the graph in memory.

        Args:
            name: Name of the method.
            params: Parameters.

        Raises:
            ParameterError: If a parameter does.
        """
        for parameter, restriction in {**self.restrictions, **_CONNECTION}.items():
            value = getattr(params, parameter)
            if value not in restriction.values:
                raise ParameterError(
                    f"{name} with {parameter}={_text(value)} needs the graph in memory: expected "
                    f"{' or '.join(map(_text, restriction.values))}, got {_text(value)}",
                    field=parameter,
                    hint=restriction.hint,
                )

    def describe_restrictions(self) -> str:
        """Return the parameters of the method itself that cannot have all values, such as ``"order_k=1, no max_size"``."""
        return ", ".join(
            f"no {name}" if values[0] in (None, ()) else f"{name}={' or '.join(map(_text, values))}"
            for name, values in ((name, each.values) for name, each in self.restrictions.items())
        )


def _text(value: Any) -> str:
    """Return a value as users write it in a schedule."""
    if value is None or value == ():
        return "none"
    if isinstance(value, tuple):
        return "/".join(map(_text, value))
    return str(value).lower()
