"""Format numbers for people. Used by the report, the plots and the command line."""

from __future__ import annotations

import math

__all__ = ["bytes_text", "count_text", "counted", "figure_text", "share_text"]

_MISSING = "–"


def count_text(value: float | None, missing: str = _MISSING) -> str:
    """Format a count.

    Args:
        value: the count.
        missing: text that is returned for ``None``.

    Examples:
        >>> count_text(12345), count_text(None, "-")
        ('12,345', '-')
    """
    return missing if value is None else f"{value:,.0f}"


def counted(count: float, one: str, many: str | None = None) -> str:
    """Format a count with its noun.

    Args:
        count: the count.
        one: noun in the singular.
        many: noun in the plural; ``one`` with an ``s`` if ``None``.

    Examples:
        >>> counted(1, "node"), counted(2000, "hierarchy", "hierarchies")
        ('1 node', '2,000 hierarchies')
    """
    return f"{count_text(count)} {one if count == 1 else many or one + 's'}"


def figure_text(value: float | None) -> str:
    """Format a figure: whole and large numbers in full, others with three digits.

    Examples:
        >>> figure_text(0.6), figure_text(12345.6), figure_text(-0.0346)
        ('0.600', '12,346', '−0.0346')
    """
    if value is None or not math.isfinite(value):
        return _MISSING
    text = f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:#.3g}"
    return text.replace("-", "−")


def share_text(value: float | None) -> str:
    """Format a share as a percentage; small shares have two digits.

    Examples:
        >>> share_text(0.5861), share_text(7.94e-05)
        ('58.6 %', '0.0079 %')
    """
    if value is None or not math.isfinite(value):
        return _MISSING
    return f"{100 * value:.1f} %" if value == 0 or abs(value) >= 0.001 else f"{100 * value:.2g} %"


def bytes_text(count: float) -> str:
    """Format a number of bytes.

    Examples:
        >>> bytes_text(999), bytes_text(1_500_000)
        ('999 B', '1.5 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
