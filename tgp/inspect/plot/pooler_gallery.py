"""Draw the assignments that poolers make of one graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError
from tgp.inspect.plot.canvas import INK, draw_picture, new_figure
from tgp.inspect.report.pictures import pooled_pictures
from tgp.inspect.report.placement import layout
from tgp.inspect.report.scene import MAX_NODES
from tgp.kernels.array_types import FloatArray, LongArray
from tgp.text import inert_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["gallery", "pooled_matrices"]

_COLUMNS = 3
_CELL = (2.3, 0.95)
"""Width and height of the cell of a pooler in inches. Three cells fill the width of a page."""

_ROOM = (0.95, 0.8)
"""Width and height of a drawing in inches."""

_NODE = 1.8
"""Radius of a node in points."""

_FEATURES = 8
"""Number of features of a graph that has none."""


def gallery(
    graph: Any,
    poolers: Sequence[str] | None = None,
    *,
    k: int | None = None,
    ratio: float = 0.5,
    steps: int = 0,
    seed: int = 0,
) -> Figure:
    """Draw the assignment, the matrix ``S`` (one row per node) and the pooled graph of each pooler.

    The figure is as wide as the text of a page.

    Trainable poolers start from random weights. Those with a loss of their own can be trained on it for some steps. The
    others show the kind of assignment that they make, but not a good one.

    Args:
        graph: a PyG ``Data``, or an object with ``edge_index``, ``num_nodes`` and optionally ``x``. Without ``x``, smooth
            functions on the graph are used as features.
        poolers: names from :data:`tgp.poolers.pooler_map`; all that can be imported if ``None``.
        k: number of supernodes for the poolers that take it; a quarter of the nodes if ``None``.
        ratio: share of nodes to keep for the poolers that take it.
        steps: number of training steps for the poolers with a loss of their own.
        seed: seed of the weights.

    Returns:
        The figure.

    Raises:
        InputError: if the graph has fewer than 2 nodes, or too many to draw.
        MissingPackageError: if matplotlib is not installed.
    """
    new_figure(1, 1)  # fails early if matplotlib is not installed
    import torch

    from tgp.poolers import pooler_map

    edge_index = graph.edge_index.detach().cpu()
    num_nodes = int(graph.num_nodes)
    if not 2 <= num_nodes <= MAX_NODES:
        raise InputError(f"a gallery needs a graph of 2 to {MAX_NODES} nodes, got {num_nodes}", field="graph")
    given = getattr(graph, "x", None)
    places = layout(edge_index.numpy(), num_nodes)
    x = (
        torch.from_numpy(_smooth_features(edge_index.numpy(), num_nodes))
        if given is None
        else given.detach().cpu().float()
    )
    options = {
        "in_channels": x.size(-1),
        "k": k or max(2, num_nodes // 4),
        "ratio": ratio,
        "scorer": "degree",
    }
    names = [name for name in pooler_map if _importable(name)] if poolers is None else list(poolers)
    down = -(-len(names) // _COLUMNS)
    figure = new_figure(_CELL[0] * min(_COLUMNS, len(names)), _CELL[1] * down)
    cells = figure.subfigures(down, min(_COLUMNS, len(names)), squeeze=False).reshape(-1)
    for cell, name in zip(cells, names, strict=False):
        s, coarse = pooled_matrices(name, x, edge_index, options, steps, seed)
        _draw(cell, name, edge_index.numpy(), s, coarse, places)
    return figure


def _importable(name: str) -> bool:
    from tgp.poolers import pooler_map

    try:
        return pooler_map[name] is not None
    except ImportError:
        return False


def _smooth_features(edge_index: LongArray, num_nodes: int) -> npt.NDArray[np.float32]:
    """Return the smoothest eigenvectors of the graph Laplacian as features."""
    weight = np.zeros((num_nodes, num_nodes))
    weight[edge_index[0], edge_index[1]] = weight[edge_index[1], edge_index[0]] = 1.0
    np.fill_diagonal(weight, 0.0)
    scale = 1 / np.sqrt(np.maximum(weight.sum(1), 1.0))
    _, modes = np.linalg.eigh(np.eye(num_nodes) - scale[:, None] * weight * scale)
    modes = np.pad(modes[:, :_FEATURES], ((0, 0), (0, max(0, _FEATURES - num_nodes))))
    return np.asarray(modes * num_nodes**0.5, np.float32)


def pooled_matrices(
    name: str,
    x: Any,
    edge_index: Any,
    options: dict[str, Any],
    steps: int = 0,
    seed: int = 0,
    edge_weight: Any = None,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Pool one graph and return dense matrices.

    Args:
        name: name of a pooler or of a level method.
        x: features of the nodes.
        edge_index: edges of the graph.
        options: arguments of the pooler; those that it does not take are ignored.
        steps: number of training steps, if the pooler has a loss of its own.
        seed: seed of the weights.
        edge_weight: weights of the edges; 1 if ``None``.

    Returns:
        The assignment ``S`` (``[N, K]``) and the weights of the pooled graph (``[K, K]``).
    """
    import torch

    from tgp.poolers import get_pooler, pooler_map

    inputs = {"x": x, "adj": edge_index, "batch": torch.zeros(x.size(0), dtype=torch.long)}
    if edge_weight is not None:
        inputs["edge_weight"] = edge_weight
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        pooler = get_pooler(name, **options)
        # Positions are the first two features.
        inputs |= {key: x[:, :2] for key in getattr(pooler.selector, "needs", ()) if key != "x"}
        if steps and name in pooler_map and pooler_map.entry(name).traits.get("loss"):
            _train(pooler, inputs, steps)
        with torch.no_grad():
            out = pooler.eval()(**inputs)
    s = out.so.s.to_dense() if out.so.s.is_sparse else out.so.s
    s = s.reshape(-1, s.size(-1))[: x.size(0)]
    found = out.edge_index
    if found.layout == torch.strided and found.is_floating_point():
        coarse = found.reshape(found.shape[-2:])
    else:
        weight = torch.ones(found.size(1)) if out.edge_weight is None else out.edge_weight.reshape(-1)
        coarse = torch.zeros(s.size(1), s.size(1)).index_put_((found[0], found[1]), weight, accumulate=True)
    return s.numpy(), coarse.numpy()


def _train(pooler: Any, inputs: dict[str, Any], steps: int) -> None:
    """Minimize the sum of the losses of the pooler."""
    import torch

    optimizer = torch.optim.Adam(pooler.parameters(), lr=0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        sum(pooler.train()(**inputs).get_loss_value()).backward()
        optimizer.step()


def _draw(
    cell: Any,
    name: str,
    edge_index: LongArray,
    s: npt.NDArray[Any],
    coarse: npt.NDArray[Any],
    places: FloatArray,
) -> None:
    pictures = pooled_pictures(edge_index, s, coarse, places, name)
    left, middle, right = cell.subplots(1, 3, width_ratios=[1.0, 0.42, 1.0])
    draw_picture(left, pictures[0], room=_ROOM, widest=_NODE)
    middle.imshow(np.abs(s), aspect="auto", cmap="Blues", interpolation="nearest", vmin=0)
    middle.set_xticks([])
    middle.set_yticks([])
    for spine in middle.spines.values():
        spine.set_linewidth(0.5)
    if len(pictures) > 1:
        draw_picture(right, pictures[1], pictures[0], room=_ROOM, widest=_NODE)
    else:
        right.set_axis_off()
    title = cell.suptitle(
        inert_text(f"{name}: {s.shape[0]} → {s.shape[1]}"), fontsize=7, color=INK, fontweight="bold"
    )
    title.set_parse_math(False)
