"""Connect: compute the edges between supernodes.

Names are imported on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgp._lazy import lazy_package

if TYPE_CHECKING:
    from tgp.connect.base_conn import Connect, SparseConnect, sparse_connect
    from tgp.connect.dense_conn import DenseConnect
    from tgp.connect.eigenpool_conn import EigenPoolConnect
    from tgp.connect.kron_conn import KronConnect

connect_classes: list[str] = ["Connect", "SparseConnect", "DenseConnect", "EigenPoolConnect", "KronConnect"]
"""Names of the classes of this package."""

connect_functions: list[str] = ["sparse_connect"]
"""Names of the functions of this package."""

__all__ = [
    "Connect",
    "SparseConnect",
    "DenseConnect",
    "EigenPoolConnect",
    "KronConnect",
    "sparse_connect",
    "connect_classes",
    "connect_functions",
]

lazy_package(__name__)
