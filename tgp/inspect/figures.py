"""Figures of a level: name, meaning, precision and aggregation. One table for the command line, the report and the viewer.

Needs neither torch nor numba.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tgp.errors import UnknownNameError
from tgp.inspect.numbers import bytes_text, count_text

if TYPE_CHECKING:
    from tgp.build.summary import LevelSummary

__all__ = [
    "CONVENTION_FIGURES",
    "FIGURES",
    "SPECTRAL_FIGURES",
    "Figure",
    "figure_of",
    "find_figure",
    "level_value",
]

Aggregation = Literal["sum", "mean", "max", "quotient"]


@dataclass(frozen=True)
class Figure:
    """One figure of a level.

    Args:
        key: name in the library, in JSON and in CSV.
        label: name for people: heading of a column or of a row.
        meaning: one sentence without a full stop.
        digits: number of decimals; 0 for counts.
        aggregation: computation of the value of a level from the values of its graphs. ``"quotient"`` divides two sums.
        better: ``"more"`` or ``"less"`` if a larger or a smaller value is better; ``None`` if neither is.
        unit: ``"bytes"`` if the figure is a size.
        aliases: further names that :func:`find_figure` accepts, among them older headings.
        metric: True if the value is in :attr:`tgp.build.summary.LevelSummary.metrics`; False if it is an attribute of
            the summary.
    """

    key: str
    label: str
    meaning: str
    digits: int = 0
    aggregation: Aggregation = "sum"
    better: Literal["more", "less"] | None = None
    unit: Literal["", "bytes"] = ""
    aliases: tuple[str, ...] = ()
    metric: bool = True

    def text(self, value: float | None, missing: str = "-") -> str:
        """Format a value with the precision of the figure.

        Args:
            value: value of a level; ``None`` and NaN are missing.
            missing: text of a missing value.

        Examples:
            >>> find_figure("cut").text(0.25), find_figure("singletons").text(12345), find_figure("size").text(1500)
            ('0.250', '12,345', '1.5 kB')
        """
        if value is None or not math.isfinite(value):
            return missing
        if self.unit == "bytes":
            return bytes_text(value)
        return f"{value:,.{self.digits}f}" if self.digits else count_text(value)


_CONVENTIONS: tuple[tuple[str, str, str, int, tuple[str, ...]], ...] = (
    (
        "combinatorial_error",
        "combinatorial REE",
        "relative eigenvalue error: mean for the smallest eigenvalues of D - A of the stored graph",
        3,
        ("ree_combinatorial",),
    ),
    (
        "combinatorial_error_highest",
        "highest combinatorial REE",
        "the same for the largest eigenvalues of D - A",
        3,
        ("ree_combinatorial_highest",),
    ),
    (
        "eigenvalue_error_highest",
        "highest normalised REE",
        "mean relative error of the largest eigenvalues of the normalised Laplacian of the stored graph",
        3,
        ("ree_normalized_highest",),
    ),
    (
        "size_weighted_error",
        "size-weighted REE",
        "mean relative error of the smallest eigenvalues of C'(D - A)C, where C has columns of norm 1, one per cluster",
        3,
        ("ree_size_weighted",),
    ),
    (
        "size_weighted_error_highest",
        "highest size-weighted REE",
        "the same for the largest eigenvalues of C'(D - A)C",
        3,
        ("ree_size_weighted_highest",),
    ),
    ("hyperbolic_error", "hyperbolic error", "hyperbolic error of the lifted Laplacian", 3, ("he",)),
    (
        "reconstruction_error",
        "reconstruction error",
        "squared Frobenius norm of the difference to the lifted Laplacian",
        1,
        ("rce",),
    ),
    (
        "restricted_approximation",
        "restricted approximation",
        "constant of the restricted spectral approximation of the lowest eigenvectors of D - A",
        3,
        ("rsa", "restricted spectral approximation"),
    ),
)
"""Figures of the literature on graph reduction: key, label, meaning, digits and aliases."""

_TABLE = (
    Figure("nodes", "nodes", "number of nodes of all graphs", metric=False),
    Figure("edges", "edges", "number of edges of all graphs", metric=False),
    Figure("ratio", "ratio", "nodes divided by the nodes of the level before", 3, "quotient", metric=False),
    Figure(
        "edge_ratio",
        "edge ratio",
        "edges divided by the edges of the level before",
        3,
        "quotient",
        metric=False,
    ),
    Figure(
        "cluster_mean",
        "mean cluster",
        "mean number of nodes of a supernode",
        2,
        "quotient",
        aliases=("mean",),
        metric=False,
    ),
    Figure(
        "cluster_largest",
        "largest cluster",
        "number of nodes of the largest supernode",
        aggregation="max",
        aliases=("max", "largest"),
        metric=False,
    ),
    Figure("dropped", "dropped nodes", "nodes without a supernode", better="less"),
    Figure("singletons", "singletons", "supernodes with one node", better="less", aliases=("single",)),
    Figure("empty", "empty supernodes", "supernodes without a node", better="less"),
    Figure("isolated", "isolated supernodes", "supernodes without an edge to another one", better="less"),
    Figure("components_before", "components before", "connected components of the level before"),
    Figure("components", "components", "number of connected components", aliases=("parts",)),
    Figure("cut", "cut", "share of the edge weight between supernodes; less is better", 3, "mean", "less"),
    Figure(
        "modularity",
        "modularity",
        "edge weight inside supernodes beyond chance, at most 1; more is better",
        3,
        "mean",
        "more",
        aliases=("modul.",),
    ),
    Figure("entropy", "entropy", "structural entropy in bits; less is better", 2, "mean", "less"),
    Figure("entropy_flat", "flat entropy", "structural entropy in bits without supernodes", 2, "mean"),
    Figure(
        "weight_kept", "weight kept", "edge weight that coarsening kept; 1 if nothing was lost", 3, "mean"
    ),
    Figure(
        "expressive",
        "expressive",
        "share of graphs in which all rows of S have the same sum",
        3,
        "mean",
        "more",
        aliases=("expr.",),
    ),
    Figure("symmetric", "symmetric", "share of graphs whose coarse weights are symmetric", 3, "mean"),
    Figure(
        "eigenvalue_error",
        "eigenvalue error",
        "mean relative error of the smallest Laplacian eigenvalues; less is better",
        3,
        "mean",
        "less",
        aliases=("eig.err",),
    ),
    Figure(
        "eigenvalue_error_scaled",
        "scaled eigenvalue error",
        "eigenvalue error after the best common factor; less is better",
        3,
        "mean",
        "less",
        aliases=("scaled",),
    ),
    Figure(
        "eigenvalue_error_restricted",
        "restricted eigenvalue error",
        "eigenvalue error of the clusters alone; less is better",
        3,
        "mean",
        "less",
        aliases=("restr.",),
    ),
    *(
        Figure(key, label, f"{meaning}; less is better", digits, "mean", "less", aliases=aliases)
        for key, label, meaning, digits, aliases in _CONVENTIONS
    ),
    Figure(
        "stalled",
        "stalled",
        "1 if the level keeps almost all nodes",
        better="less",
        metric=False,
        aliases=("stall",),
    ),
    Figure(
        "stalled_graphs", "stalled graphs", "graphs that keep almost all nodes", better="less", metric=False
    ),
    Figure(
        "failures",
        "failed graphs",
        "graphs of the hierarchy that could not be coarsened",
        better="less",
        metric=False,
    ),
    Figure("bytes", "size", "size of the arrays of the level on disk", unit="bytes", metric=False),
)

FIGURES: Mapping[str, Figure] = {figure.key: figure for figure in _TABLE}
"""Figures by key, in the order in which they are shown."""

CONVENTION_FIGURES = tuple(key for key, *_ in _CONVENTIONS)
"""Keys of the figures in the conventions of the literature on graph reduction. They are computed only on request."""

SPECTRAL_FIGURES = (
    "eigenvalue_error",
    "eigenvalue_error_scaled",
    "eigenvalue_error_restricted",
    *CONVENTION_FIGURES,
)
"""Keys of the figures that are computed only on request."""


def figure_of(key: str) -> Figure:
    """Return the figure of a metric. A metric that the table does not have, such as one of a newer version, is a mean.

    Args:
        key: name of the metric in a store.
    """
    if key in FIGURES:
        return FIGURES[key]
    name = key.replace("_", " ")
    if key.endswith("_purity"):
        meaning = f"mean share of the members of a supernode with its majority value of {name[:-7]}"
        return Figure(key, name, meaning, 3, "mean", "more")
    if key.endswith("_mixed"):
        return Figure(key, name, f"supernodes whose training members differ in {name[:-6]}", better="less")
    return Figure(key, name, "", 3, "mean")


def _normalized(name: str) -> str:
    return " ".join(name.lower().replace("_", " ").split())


_NAMES = {
    _normalized(name): figure for figure in _TABLE for name in (figure.key, figure.label, *figure.aliases)
}


def find_figure(name: str, others: Iterable[str] = ()) -> Figure:
    """Return the figure with a key, label or alias. Case, and spaces instead of underscores, make no difference.

    Args:
        name: name that a user typed, such as ``"dropped nodes"``, ``"dropped"`` or ``"parts"``.
        others: keys of metrics that are not in the table but are accepted.

    Raises:
        UnknownNameError: if there is no such figure. The message names the most similar one.

    Examples:
        >>> find_figure("Parts").key, find_figure("failed graphs").key
        ('components', 'failures')
    """
    wanted = _normalized(name)
    if wanted in _NAMES:
        return _NAMES[wanted]
    further = {_normalized(key): key for key in others}
    if wanted in further:
        return figure_of(further[wanted])
    raise UnknownNameError("figure", name, {*further.values(), *(figure.label for figure in _TABLE)})


def level_value(level: LevelSummary, figure: Figure, failures: int | None = None) -> float | None:
    """Return the value of a figure of a level.

    Args:
        level: summary of the level.
        figure: the figure.
        failures: number of failed graphs of the hierarchy, which is not a part of the level.

    Returns:
        The value, or ``None`` if the level does not have it.
    """
    if figure.metric:
        return level.metrics.get(figure.key)
    if figure.key == "failures":
        return failures
    if level.level == 0 and figure.key in ("stalled", "stalled_graphs"):
        return None
    value: float | None = getattr(level, figure.key)
    return value
