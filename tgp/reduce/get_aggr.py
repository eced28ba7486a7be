"""PyG aggregations by name."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import torch_geometric
import torch_geometric.nn.aggr as pyg_aggr
from torch_geometric.nn.aggr import Aggregation

from tgp.errors import UnknownNameError

__all__ = ["AGGREGATIONS", "get_aggr", "has_pyg_aggregation", "is_pyg_aggregation", "resolve_reduce_op"]

AGGREGATIONS: dict[str, str] = {
    "sum": "SumAggregation",
    "mean": "MeanAggregation",
    "max": "MaxAggregation",
    "min": "MinAggregation",
    "mul": "MulAggregation",
    "var": "VarAggregation",
    "std": "StdAggregation",
    "softmax": "SoftmaxAggregation",
    "power_mean": "PowerMeanAggregation",
    "median": "MedianAggregation",
    "quantile": "QuantileAggregation",
    "lstm": "LSTMAggregation",
    "gru": "GRUAggregation",
    "set2set": "Set2Set",
    "degree_scaler": "DegreeScalerAggregation",
    "sort": "SortAggregation",
    "multi": "MultiAggregation",
    "attentional": "AttentionalAggregation",
    "equilibrium": "EquilibriumAggregation",
    "mlp": "MLPAggregation",
    "deep_sets": "DeepSetsAggregation",
    "set_transformer": "SetTransformerAggregation",
    "lcm": "LCMAggregation",
    "variance_preserving": "VariancePreservingAggregation",
    "patch_transformer": "PatchTransformerAggregation",
    "graph_multiset_transformer": "GraphMultisetTransformer",
}
"""Class name in :mod:`torch_geometric.nn.aggr` of each alias. :func:`get_aggr` also accepts other spellings."""

_SPELLINGS = {"powermean": "power_mean", "degreescaler": "degree_scaler", "deepsets": "deep_sets"}


class _UnknownAggregation(UnknownNameError):
    """Unknown alias. The message contains the words of the message of tgp 1.0.2."""

    def __init__(self, alias: str) -> None:
        super().__init__("aggregator alias:", alias, AGGREGATIONS)


def has_pyg_aggregation() -> bool:
    """Return True, because PyG is a required dependency. tgp 1.0.2 has this function."""
    return True


def is_pyg_aggregation(obj: object) -> bool:
    """Return True if ``obj`` is an instance of PyG's ``Aggregation``."""
    return isinstance(obj, Aggregation)


def get_aggr(alias: str, **kwargs: Any) -> Aggregation:
    """Build a PyG aggregation from its name.

    Args:
        alias: one of :data:`AGGREGATIONS`. Upper and lower case, surrounding spaces and ``-`` instead of ``_`` make no
            difference.
        **kwargs: arguments of the class. Arguments that it does not accept are ignored with a warning, so that the same
            arguments can be passed to several aggregations. For ``lstm`` and ``gru``, ``out_channels`` is by default
            ``in_channels``.

    Returns:
        The aggregation.

    Raises:
        UnknownNameError: if the name is unknown. This is a ``ValueError``.

    Examples:
        >>> get_aggr("power-mean")
        PowerMeanAggregation(learn=False)
    """
    name = alias.strip().lower().replace("-", "_")
    name = _SPELLINGS.get(name, name)
    if name not in AGGREGATIONS:
        raise _UnknownAggregation(alias)
    cls = getattr(pyg_aggr, AGGREGATIONS[name], None)
    if cls is None:
        raise ValueError(
            f"{AGGREGATIONS[name]} not found in torch_geometric.nn.aggr: expected a newer version, "
            f"got torch_geometric {torch_geometric.__version__}. Update torch_geometric"
        )
    if name in ("lstm", "gru") and "in_channels" in kwargs:
        kwargs.setdefault("out_channels", kwargs["in_channels"])
    return cls(**_accepted(cls, kwargs))


def _accepted(cls: type, kwargs: dict[str, Any]) -> dict[str, Any]:
    parameters = inspect.signature(cls).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return kwargs
    ignored = sorted(set(kwargs) - set(parameters))
    if ignored:
        warnings.warn(f"{cls.__name__} takes no argument named {', '.join(ignored)}: ignored", stacklevel=3)
    return {key: value for key, value in kwargs.items() if key in parameters}


def resolve_reduce_op(reduce_op: str | Aggregation, **kwargs: Any) -> Aggregation:
    """Return an aggregation from its name. An aggregation is returned unchanged.

    Args:
        reduce_op: Name for :func:`get_aggr`, or an aggregation.
        **kwargs: Arguments of the aggregation, for a name.

    Raises:
        TypeError: If ``reduce_op`` has another type, or if it is an aggregation and there are arguments.
    """
    if isinstance(reduce_op, str):
        return get_aggr(reduce_op, **kwargs)
    if not is_pyg_aggregation(reduce_op):
        several = isinstance(reduce_op, (list, tuple))
        hint = (
            f". For several: torch_geometric.nn.aggr.MultiAggregation({list(reduce_op)})" if several else ""
        )
        raise TypeError(
            f"reduce_op must be a string alias or a PyG Aggregation instance, got {type(reduce_op).__name__}{hint}"
        )
    if kwargs:
        raise TypeError(
            f"arguments {sorted(kwargs)} have no effect on an aggregation: expected none, because reduce_op is an "
            "instance. Pass them to the constructor of the aggregation"
        )
    return reduce_op
