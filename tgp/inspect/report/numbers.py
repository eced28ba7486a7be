"""Numbers for eyes."""

from __future__ import annotations

import math

__all__ = ["bytes_text", "count_text", "counted", "figure_text", "share_text"]


def count_text(value: float | None) -> str:
    """``12,345``."""
    return "–" if value is None else f"{value:,.0f}"


def counted(count: int, one: str, many: str | None = None) -> str:
    """``1 node``, ``12,345 nodes``."""
    return f"{count_text(count)} {one if count == 1 else many or one + 's'}"


def figure_text(value: float | None) -> str:
    """Whole and large numbers in full, others with three figures."""
    if value is None or not math.isfinite(value):
        return "–"
    text = f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:#.3g}"
    return text.replace("-", "−")


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
