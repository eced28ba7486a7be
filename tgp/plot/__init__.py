"""Figures for papers, drawn with matplotlib (``pip install 'tgp-coarsen[plot]'``)."""

from __future__ import annotations

from tgp._lazy import lazy_package

__all__ = lazy_package(__name__, {"hierarchy": "levels", "gallery": "poolers", "save": "canvas"})
