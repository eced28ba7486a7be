"""A store as one HTML page: figures, charts and drawings. Needs neither torch nor numba."""

from __future__ import annotations

from tgp._lazy import lazy_package

__all__ = lazy_package(
    __name__,
    {
        "write_report": "page",
        "render_report": "page",
        "layout": "placement",
        "graph_scenes": "scene",
        "pooled_pictures": "scene",
        "Picture": "scene",
        "Scene": "scene",
    },
)
