"""Write an HTML report of a store. Needs neither torch nor numba.

Names are imported on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgp._lazy import lazy_package

if TYPE_CHECKING:
    from tgp.inspect.report.drawings import GraphDrawing, draw_graph
    from tgp.inspect.report.page import render_drawing, render_report, write_report
    from tgp.inspect.report.pictures import Picture, pooled_pictures
    from tgp.inspect.report.placement import layout
    from tgp.inspect.report.scene import Scene, graph_scenes

__all__ = [
    "write_report",
    "render_report",
    "draw_graph",
    "render_drawing",
    "GraphDrawing",
    "layout",
    "graph_scenes",
    "pooled_pictures",
    "Picture",
    "Scene",
]

lazy_package(__name__)
