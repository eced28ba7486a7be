"""Show objects in a notebook. Classes of all layers call these functions; the HTML is made by :mod:`tgp.inspect.notebook`.

This is the only module of the lower layers that imports :mod:`tgp.inspect`, and it does so when an object is shown (see
``docs/decisions/1051-notebook-output.md``). ``repr`` and ``str`` do not use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from tgp.inspect.notebook import StoreReport

__all__ = ["DatasetDisplay", "repr_html"]


def repr_html(value: Any) -> str:
    """Return an object as HTML for a notebook: small tables, and a drawing if the graph is small.

    Args:
        value: object of a class that :mod:`tgp.inspect.notebook` knows.

    Returns:
        HTML of limited size. All text from graphs and stores is escaped.
    """
    from tgp.inspect.notebook import render_html

    return render_html(value)


class DatasetDisplay:
    """Methods of :class:`~tgp.data.PooledDataset` that show its graphs."""

    _repr_html_ = repr_html

    def plot(self, idx: int = 0, hierarchy: str | None = None) -> Figure:
        """Draw one graph and its levels with matplotlib, as ``tgp plot`` does.

        Args:
            idx: Position of the graph in the dataset.
            hierarchy: Name of a hierarchy; that of the dataset if ``None``.

        Returns:
            The figure. A notebook shows it; ``figure.savefig`` writes it to a file.

        Raises:
            IndexError: If there is no such graph.
            UnknownNameError: If the store has no such hierarchy.
            MissingPackageError: If matplotlib is not installed (``pip install 'tgp-coarsen[plot]'``).
        """
        from tgp.inspect.notebook import plot_graph

        return plot_graph(self, idx, hierarchy)

    def report(self, *, graphs: Sequence[int] | str | None = None) -> StoreReport:
        """Make the report of the whole store, as ``tgp report`` does.

        Args:
            graphs: Ids of the graphs to draw; five from the smallest to the largest if ``None``.

        Returns:
            The report. A notebook shows it, and its method ``save`` writes it to a file.

        Raises:
            InputError: If a graph does not exist.
        """
        from tgp.inspect.notebook import make_report

        return make_report(self, graphs)
