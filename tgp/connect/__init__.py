"""Connect: edges between supernodes. Names resolve on first access."""

from tgp._lazy import lazy_package

_CLASSES = {
    "Connect": "base_conn",
    "SparseConnect": "base_conn",
    "DenseConnect": "dense_conn",
    "EigenPoolConnect": "eigenpool_conn",
    "KronConnect": "kron_conn",
}
_FUNCTIONS = {"sparse_connect": "base_conn"}

connect_classes = list(_CLASSES)
connect_functions = list(_FUNCTIONS)

__all__ = [*lazy_package(__name__, {**_CLASSES, **_FUNCTIONS}), "connect_classes", "connect_functions"]
