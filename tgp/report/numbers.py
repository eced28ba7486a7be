"""Numbers for eyes."""

from __future__ import annotations

import math

__all__ = ["bytes_text", "count_text", "figure_text", "share_text"]


def count_text(value: float | None) -> str:
    """``12,345``."""
    return "–" if value is None else f"{value:,.0f}"


def figure_text(value: float | None) -> str:
    """Whole and large numbers in full, others with three figures."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:#.3g}"


def share_text(value: float | None) -> str:
    """``58.6 %``; two figures of small shares."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{100 * value:.1f} %" if value == 0 or abs(value) >= 0.001 else f"{100 * value:.2g} %"


def bytes_text(count: float) -> str:
    """``1.5 MB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
