"""Message-passing layers.

Names are imported on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgp._lazy import lazy_package

if TYPE_CHECKING:
    from tgp.mp.gtvconv import GTVConv
    from tgp.mp.panconv import PANConv

__all__ = [
    "GTVConv",
    "PANConv",
]

lazy_package(__name__)
