"""Message passing layers that belong to poolers. Names resolve on first access."""

from tgp._lazy import lazy_package

__all__ = lazy_package(__name__, {"GTVConv": "gtvconv", "PANConv": "panconv"})
