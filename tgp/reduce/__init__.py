"""Reduce: features of supernodes, and readouts. Names resolve on first access."""

from tgp._lazy import lazy_package

_CLASSES = {
    "Reduce": "base_reduce",
    "BaseReduce": "base_reduce",
    "AggrReduce": "aggr_reduce",
    "GlobalReduce": "global_reduce",
    "EigenPoolReduce": "eigenpool_reduce",
}
_FUNCTIONS = {"get_aggr": "get_aggr"}

reduce_classes = list(_CLASSES)
reduce_functions = list(_FUNCTIONS)

__all__ = [*lazy_package(__name__, {**_CLASSES, **_FUNCTIONS}), "reduce_classes", "reduce_functions"]
