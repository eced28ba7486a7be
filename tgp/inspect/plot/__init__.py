"""Draw figures for papers with matplotlib (``pip install 'tgp-coarsen[plot]'``).

Names are imported on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgp._lazy import lazy_package

if TYPE_CHECKING:
    from tgp.inspect.plot.canvas import save
    from tgp.inspect.plot.level_figure import hierarchy
    from tgp.inspect.plot.pooler_gallery import gallery

__all__ = [
    "hierarchy",
    "gallery",
    "save",
]

lazy_package(__name__)
