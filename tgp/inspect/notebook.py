"""Show datasets, batches, assignments and hierarchies in a notebook: small tables, and drawings of small graphs.

This module imports no torch. It reads objects of the model half through their attributes.
"""

from __future__ import annotations

import html
import io
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tgp.build.summary import describe_manifest
from tgp.inspect.inline_html import card, cell_text, draw_levels, draw_matrix, table
from tgp.inspect.numbers import count_text, counted
from tgp.inspect.output_file import write_file
from tgp.inspect.report.drawings import draw_scene
from tgp.inspect.report.level_graphs import LevelGraph, largest_owners
from tgp.inspect.report.pictures import chain_pictures
from tgp.inspect.report.scene import Scene
from tgp.store.locations import is_url

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["StoreReport", "make_report", "plot_graph", "render_html"]

MAX_NODES = 120
"""Largest number of nodes of a graph that is drawn."""

MAX_EDGES = 2_000
"""Largest number of stored edges of a level that is drawn."""

MAX_CELLS = 6_000
"""Largest number of entries of an assignment matrix that is drawn."""

MAX_ROWS = 16
"""Largest number of rows of a table."""

MAX_HIERARCHIES = 4
"""Largest number of hierarchies of a dataset that are shown."""


def render_html(value: Any) -> str:
    """Return an object as HTML of limited size, see :func:`tgp.display.repr_html`.

    Args:
        value: dataset, batch, graph with levels, assignment, pooled graph or hierarchy.

    Raises:
        TypeError: if the class is not known.
    """
    for cls in type(value).__mro__:
        render = _RENDERERS.get(f"{cls.__module__}.{cls.__qualname__}")
        if render is not None:
            return render(value)
    raise TypeError(f"{type(value).__name__} has no notebook output")


# Datasets -----------------------------------------------------------------------------------------


def _dataset_html(dataset: Any) -> str:
    reader = dataset.reader
    whole = "" if len(dataset) == reader.num_graphs else f" of {count_text(reader.num_graphs)}"
    names = [*reader.hierarchies]
    if dataset.hierarchy in names:
        names = [dataset.hierarchy, *(name for name in names if name != dataset.hierarchy)]
    remote = is_url(reader.files.location)  # sizes of single graphs would be downloaded with all shards
    describe = _total_table if remote else _hierarchy_table
    parts = [describe(dataset, name) for name in names[:MAX_HIERARCHIES]] or [describe(dataset, None)]
    if len(names) > MAX_HIERARCHIES:
        parts.append(_more(len(names) - MAX_HIERARCHIES, "hierarchy", "hierarchies"))
    if len(dataset) and dataset.hierarchy is not None and not remote:
        graph = int(dataset._ids()[0])
        nodes, edges = reader.sizes()
        if nodes[graph] <= MAX_NODES and edges[graph] <= MAX_EDGES:
            from tgp.inspect.report.drawings import draw_graph

            parts += [draw_levels(scene) for scene in draw_graph(reader, graph, dataset.hierarchy).scenes]
    fields = [f"{info.name} {info.value_type}{list(info.tail) or ''}" for info in reader.fields.values()]
    subtitle = f"{reader.files.location} · {', '.join(fields[:MAX_ROWS])}"
    return card(f"{type(dataset).__name__}: {counted(len(dataset), 'graph')}{whole}", subtitle, *parts)


def _hierarchy_table(dataset: Any, name: str | None) -> str:
    """Return the table of the levels of one hierarchy, or of the input graphs alone."""
    reader, ids = dataset.reader, dataset._ids()
    methods = [] if name is None else [level.method for level in reader.hierarchies[name].levels]
    before, rows = 0, []
    for level, method in enumerate(["input", *methods][:MAX_ROWS]):
        nodes, edges = (sizes[ids] for sizes in reader.sizes(name if level else None, level))
        total = int(nodes.sum())
        kept = f"{total / before:.3f}" if level and before else ""
        rows.append((level, method, _spread(nodes), _spread(edges), kept))
        before = total
    columns = ("level", "method", "nodes per graph", "edges per graph", "ratio")
    return _hierarchy_title(dataset, name) + table(columns, rows, right=(2, 3, 4))


def _total_table(dataset: Any, name: str | None) -> str:
    """Return the table of the levels of one hierarchy with totals over all graphs of the store, from the manifest."""
    manifest = dataset.reader.manifest
    shards = manifest.shards["graphs"]
    rows = [
        (
            0,
            "input",
            count_text(sum(s.nodes[0] for s in shards)),
            count_text(sum(s.edges[0] for s in shards)),
            "",
        )
    ]
    for summary in describe_manifest(manifest)[0]:
        if summary.name == name:
            rows += [
                (
                    level.level,
                    level.method,
                    count_text(level.nodes),
                    count_text(level.edges),
                    f"{level.ratio or 0:.3f}",
                )
                for level in summary.levels[: MAX_ROWS - 1]
            ]
    return _hierarchy_title(dataset, name) + table(
        ("level", "method", "nodes", "edges", "ratio"), rows, right=(2, 3, 4)
    )


def _hierarchy_title(dataset: Any, name: str | None) -> str:
    title = "" if name is None else f"hierarchy {name}{'' if name == dataset.hierarchy else ' (not read)'}"
    return f'<div style="margin-top:6px">{cell_text(title)}</div>'


def _more(count: int, one: str, many: str | None = None) -> str:
    """Say how many rows a table leaves out."""
    return f"<div>and {counted(count, f'more {one}', None if many is None else f'more {many}')}</div>"


def _spread(values: npt.NDArray[np.int64]) -> str:
    if not len(values):
        return "-"
    low, high = int(values.min()), int(values.max())
    return count_text(low) if low == high else f"{values.mean():,.1f} ({low:,} to {high:,})"


def plot_graph(dataset: Any, idx: int, hierarchy: str | None = None) -> Figure:
    """Draw a graph of a dataset, see :meth:`tgp.display.DatasetDisplay.plot`."""
    from tgp.inspect.plot import hierarchy as draw_hierarchy

    count = len(dataset)
    if not -count <= idx < count:
        raise IndexError(f"there is no graph {idx}: expected an index in [0, {count})")
    figure = draw_hierarchy(dataset.reader, int(dataset._ids()[idx]), hierarchy or dataset.hierarchy)
    # Figures made without pyplot have no output in notebooks that never imported it.
    figure._repr_png_ = partial(_png, figure)  # type: ignore[attr-defined]
    return figure


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=144)
    return buffer.getvalue()


class StoreReport:
    """Report of a store that a notebook shows in a frame.

    Args:
        page: the report as a complete HTML page.

    Attributes:
        page: the report as a complete HTML page.
    """

    def __init__(self, page: str) -> None:
        self.page = page

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the report to a file, which appears complete or not at all.

        Args:
            path: file to write.

        Returns:
            The file.

        Raises:
            InputError: if the file cannot be written there.
        """
        return write_file(Path(path), self.page.encode("utf-8"))

    def __repr__(self) -> str:
        return f"StoreReport({counted(len(self.page), 'character')}, save(path) writes it to a file)"

    def _repr_html_(self) -> str:
        # The sandbox gives the page an origin of its own, so its script cannot reach the notebook.
        return (
            f'<iframe srcdoc="{html.escape(self.page, quote=True)}" sandbox="allow-scripts" title="Report" '
            'style="width:100%;height:640px;border:1px solid #8886"></iframe>'
        )


def make_report(dataset: Any, graphs: Sequence[int] | str | None = None) -> StoreReport:
    """Make the report of the store of a dataset, see :meth:`tgp.display.DatasetDisplay.report`."""
    from tgp.inspect.report import render_report

    return StoreReport(render_report(dataset.reader, graphs=graphs))


# Graphs with levels -------------------------------------------------------------------------------


def _graph_html(data: Any) -> str:
    """Return a graph or a batch with its levels."""
    levels = data.get("pooled_data")
    levels = list(levels) if isinstance(levels, list | tuple) else []
    joined = "ptr" in data
    title = f"PooledBatch: {counted(data.num_graphs, 'graph')}" if joined else type(data).__name__
    rows = [
        (key, _value_text(value))
        for key, value in data.to_dict().items()
        if key not in ("pooled_data", "ptr", "batch")
    ]
    parts = [_level_table([data, *levels]), table(("attribute", "value"), rows[:MAX_ROWS])]
    if len(rows) > MAX_ROWS:
        parts.append(_more(len(rows) - MAX_ROWS, "attribute"))
    return card(title, "", *parts, _draw_chain([data, *levels]))


def _graph_hierarchy_html(hierarchy: Any) -> str:
    graphs = list(hierarchy)
    title = f"{type(hierarchy).__name__}: {counted(len(hierarchy), 'level')}"
    return card(title, "", _level_table(graphs), _draw_chain(graphs))


def _level_table(graphs: list[Any]) -> str:
    rows, before = [], 0
    for level, graph in enumerate(graphs[:MAX_ROWS]):
        nodes, edges = int(graph.num_nodes or 0), int(graph.num_edges or 0)
        rows.append(
            (level, count_text(nodes), count_text(edges), f"{nodes / before:.3f}" if level and before else "")
        )
        before = nodes
    return table(("level", "nodes", "edges", "ratio"), rows, right=(0, 1, 2, 3))


def _draw_chain(graphs: list[Any]) -> str:
    """Draw a small graph and its levels; return no text if it is large or has no plain edge list."""
    chain = list(_chain(graphs))
    return _draw(chain) if chain else ""


def _chain(graphs: list[Any]) -> Iterator[LevelGraph]:
    """Yield the levels as arrays, up to the first one that cannot be drawn."""
    members: npt.NDArray[np.int64] | None = None
    for level, graph in enumerate(graphs[:MAX_ROWS]):
        ends = _edges(graph.get("edge_index"))
        count = int(graph.num_nodes or 0)
        if ends is None or not 0 < count <= MAX_NODES:
            return
        if members is None:
            members = np.ones(count, np.int64)
        following = graphs[level + 1].get("so") if level + 1 < len(graphs) else None
        s = None if following is None else _small_matrix(following)
        weight = graph.get("edge_weight")
        weight = None if weight is None or weight.numel() != ends.shape[1] else _array(weight).reshape(-1)
        method = "input" if level == 0 else "pooled"
        if s is None or len(s) != count or not s.shape[1]:
            yield LevelGraph(method, members, ends, weight)
            return
        owner, share = largest_owners(s)
        yield LevelGraph(method, members, ends, weight, owner, share)
        kept = owner >= 0
        members = np.bincount(owner[kept], weights=members[kept], minlength=s.shape[1]).astype(np.int64)


def _draw(chain: list[LevelGraph], first: str = "input") -> str:
    if chain[-1].owner is not None:  # the next level is not drawn
        chain = [*chain[:-1], replace(chain[-1], owner=None, share=None)]
    sizes = tuple(level.num_nodes for level in chain)
    return draw_levels(draw_scene(Scene(0, "", sizes, chain_pictures(chain))), first)


# Assignments and pooled graphs --------------------------------------------------------------------


def _select_html(so: Any) -> str:
    kind = "dense" if so.is_dense else "sparse"
    title = (
        f"{type(so).__name__}: {count_text(so.num_nodes)} nodes → {count_text(so.num_supernodes)} supernodes"
    )
    s = _small_matrix(so)
    if s is None:
        return card(title, f"{kind} assignment")
    owner, share = largest_owners(s)
    groups = [np.flatnonzero(owner == group) for group in range(min(s.shape[1], MAX_ROWS))]
    rows = [(number, len(group), _id_text(group)) for number, group in enumerate(groups)]
    dropped = int((owner < 0).sum())
    facts = [f"{kind} assignment"]
    facts += [f"{counted(dropped, 'dropped node')}"] if dropped else []
    facts += ["each node is listed with its largest share"] if (share < 0.995).any() else []
    parts = [draw_matrix(s), table(("supernode", "size", "nodes"), rows, right=(0, 1))]
    if s.shape[1] > MAX_ROWS:
        parts.append(_more(s.shape[1] - MAX_ROWS, "supernode"))
    return card(title, ", ".join(facts), *parts)


def _id_text(ids: npt.NDArray[Any]) -> str:
    """Return a list of ids that is cut after twelve."""
    return ", ".join([*map(str, ids[:12].tolist()), *(["..."] if len(ids) > 12 else [])])


def _pooling_html(out: Any) -> str:
    names = ("x", "edge_index", "edge_weight", "batch", "so")
    rows = [(name, _value_text(getattr(out, name))) for name in names if getattr(out, name) is not None]
    rows += [(f"loss: {name}", _value_text(value)) for name, value in [*(out.loss or {}).items()][:MAX_ROWS]]
    drawing, so, ends = "", out.so, _edges(out.edge_index)
    s = None if so is None else _small_matrix(so)
    if (
        s is not None
        and ends is not None
        and 0 < s.shape[1] <= MAX_NODES
        and ends.max(initial=0) < s.shape[1]
    ):
        owner = largest_owners(s)[0]
        members = np.maximum(np.bincount(owner[owner >= 0], minlength=s.shape[1]), 1)
        drawing = _draw([LevelGraph("pooled", members, ends, None)], "pooled graph")
    return card(type(out).__name__, "", table(("part", "value"), rows), drawing)


def _array_hierarchy_html(hierarchy: Any) -> str:
    rows = [
        (
            number,
            level.method,
            count_text(int(level.node_ptr[-1])),
            count_text(level.assignment.num_supernodes),
        )
        for number, level in enumerate(hierarchy.levels[:MAX_ROWS], 1)
    ]
    title = f"{type(hierarchy).__name__}: {counted(hierarchy.depth, 'level')} of {counted(hierarchy.num_graphs, 'graph')}"
    return card(title, "", table(("level", "method", "nodes before", "nodes"), rows, right=(0, 2, 3)))


def _small_matrix(so: Any) -> npt.NDArray[Any] | None:
    """Return the ``[N, K]`` matrix of a small assignment, or ``None``."""
    if not 0 < so.num_nodes * so.num_supernodes <= MAX_CELLS:
        return None
    if so.is_sparse:
        s = np.zeros((so.num_nodes, so.num_supernodes))
        np.add.at(s, (_array(so.node_index), _array(so.cluster_index)), _array(so.weight))
        return s
    dense = _array(so.s)
    return dense if dense.ndim == 2 else dense[0] if len(dense) == 1 else None


def _edges(edge_index: Any) -> npt.NDArray[np.int64] | None:
    """Return a short edge list as an array, or ``None`` for long ones and for other kinds of connectivity."""
    shape = tuple(getattr(edge_index, "shape", ()))
    if len(shape) != 2 or shape[0] != 2 or shape[1] > MAX_EDGES or getattr(edge_index, "is_sparse", False):
        return None
    return _array(edge_index).astype(np.int64)


def _array(tensor: Any) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = tensor.detach().cpu().numpy()
    return found


def _value_text(value: Any) -> str:
    """Return shape and type of a tensor, and other values as text."""
    shape = getattr(value, "shape", None)
    if shape is None:
        return repr(value)
    dtype = str(getattr(value, "dtype", "")).removeprefix("torch.")
    if not tuple(shape) and hasattr(value, "item"):
        return f"{value.item():.6g} ({dtype})"
    return f"{dtype} {list(shape)}"


_RENDERERS: dict[str, Callable[[Any], str]] = {
    "tgp.data.dataset.PooledDataset": _dataset_html,
    "tgp.data.batch.PooledBatch": _graph_html,
    "tgp.data.pooled_data.PooledData": _graph_html,
    "tgp.data.graph_hierarchy.GraphHierarchy": _graph_hierarchy_html,
    "tgp.select.base_select.SelectOutput": _select_html,
    "tgp.src.output.PoolingOutput": _pooling_html,
    "tgp.ragged.hierarchy.Hierarchy": _array_hierarchy_html,
}
"""Full name of a class -> function that renders its objects. Names, because importing the classes would import torch."""
