"""Views of a hierarchy: one graph of all levels, node types per level, distances on all levels, patches with a halo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.utils import cumsum

from tgp.data.level_links import LevelLinks, compose_links, num_nodes_of
from tgp.errors import InputError
from tgp.ragged import BlockCSR
from tgp.ragged.offsets import offsets

__all__ = ["LevelViews"]

_MAX_ENTRIES = 2**31
"""Largest number of entries of a tensor of distances."""

_NOT_COPIED = frozenset(
    {"edge_index", "edge_weight", "batch", "ptr", "num_nodes", "mask", "so", "pooled_data"}
)
"""Attributes that a view makes itself, or that describe another level."""


class LevelViews:
    """Methods of a graph or a batch with levels that return its hierarchy in another form.

    The input graph is level 0. A level that was read without its assignment cannot be linked to the level before.
    """

    def _hierarchy(self) -> list[Data]:
        """Return the input graph and its levels, finest first."""
        raise NotImplementedError

    def support_graph(self) -> Data:
        """Return one graph with the nodes of all levels, the edges of all levels, and edges between the levels.

        A network on this graph sends messages along the hierarchy (Hierarchical Support Graphs). Supernodes without nodes are
        left out.

        Returns:
            A graph with these attributes:

            - ``level``: level of each node, ``node_index``: its number in that level;
            - ``edge_index``, ``edge_type``: 0 inside a level, 1 from a node to its supernode, 2 from a supernode to a node;
            - ``edge_weight``: if a level has weights or a soft assignment; ones elsewhere;
            - ``x``: features of the input graph. A level without ``x`` gets the mean of its nodes;
            - node attributes that all levels have, with equal types and widths;
            - ``batch`` and ``ptr``, if the graph is a batch. The nodes of a graph are consecutive.

        Raises:
            InputError: If a level has no assignment.
        """
        graphs = self._hierarchy()
        links = [LevelLinks.of(graph, number) for number, graph in enumerate(graphs) if number]
        kept = [torch.ones(num_nodes_of(graphs[0]), dtype=torch.bool, device=graphs[0].edge_index.device)]
        for link in links:
            kept.append(link.has_members(kept[-1]))
        counts = [int(mask.sum()) for mask in kept]
        first = offsets(counts)
        place = [torch.cumsum(mask, 0) - 1 + int(start) for mask, start in zip(kept, first, strict=False)]

        edges, types, weights = [], [], []
        weighted = any("edge_weight" in graph for graph in graphs) or any(not link.is_hard for link in links)
        for number, graph in enumerate(graphs):
            edges.append(place[number][graph.edge_index])
            types.append(torch.zeros_like(graph.edge_index[0]))
            weights.append(_edge_weight(graph))
        for number, link in enumerate(links):
            up = torch.stack([place[number][link.node], place[number + 1][link.supernode]])
            up, value = _between_kept(up, link.weight, kept[number][link.node])
            edges += [up, up.flip(0)]
            types += [torch.full_like(up[0], kind) for kind in (1, 2)]
            weights += [value, value]
        view = Data(
            edge_index=torch.cat(edges, dim=1),
            edge_type=torch.cat(types),
            level=torch.cat([torch.full_like(mask.nonzero().flatten(), n) for n, mask in enumerate(kept)]),
            node_index=torch.cat([mask.nonzero().flatten() for mask in kept]),
            num_nodes=sum(counts),
        )
        if weighted:
            view.edge_weight = torch.cat(weights)
        for name, values in _common_attributes(graphs, links):
            view[name] = torch.cat([value[mask] for value, mask in zip(values, kept, strict=True)])
        if graphs[0].get("batch") is not None:
            batch = torch.cat([graph.batch[mask] for graph, mask in zip(graphs, kept, strict=True)])
            _sort_by_graph(view, batch, _num_graphs(graphs[0]))
        return view

    def to_hetero(self) -> HeteroData:
        """Return the levels as node types ``level_0``, ``level_1``, ... of one ``HeteroData``.

        Edge types are ``("level_1", "same", "level_1")`` inside a level, ``("level_0", "up", "level_1")`` from a node to its
        supernode, and ``("level_1", "down", "level_0")``. Weather and mesh models use such graphs. All attributes of nodes
        and edges are kept; ``up`` and ``down`` have ``edge_weight`` if the assignment is soft.

        Raises:
            InputError: If a level has no assignment.
        """
        view = HeteroData()
        graphs = self._hierarchy()
        for number, graph in enumerate(graphs):
            name = f"level_{number}"
            nodes, edges = view[name], view[name, "same", name]
            nodes.num_nodes = num_nodes_of(graph)
            for key, value in graph.items():
                if key in ("batch", "ptr") and graphs[0].get("batch") is not None:
                    nodes[key] = value
                elif key not in _NOT_COPIED and isinstance(value, Tensor):
                    if graph.is_edge_attr(key):
                        edges[key] = value
                    elif graph.is_node_attr(key):
                        nodes[key] = value
            edges.edge_index = graph.edge_index
            if "edge_weight" in graph:
                edges.edge_weight = graph.edge_weight
            if number:
                link, below = LevelLinks.of(graph, number), f"level_{number - 1}"
                up, down = view[below, "up", name], view[name, "down", below]
                up.edge_index = torch.stack([link.node, link.supernode])
                down.edge_index = up.edge_index.flip(0)
                if not link.is_hard:
                    up.edge_weight = down.edge_weight = link.weight
        return view

    def hierarchy_distances(self, max: int, levels: Sequence[int] | None = None) -> Tensor:
        """Return the distances between all nodes of the input graph on all levels.

        The distance of two nodes on a level is the number of edges between their supernodes. A transformer uses it as a bias
        of attention (Hierarchical Distance Structural Encoding). A node of a soft assignment belongs to its strongest
        supernode. The memory is quadratic in the number of nodes.

        Args:
            max: Largest distance. Larger distances are ``max``; pairs without a path, dropped nodes and padding have
                ``max + 1``.
            levels: Levels of the last axis; by default all, from the input graph on.

        Returns:
            ``[N, N, L]`` int16 for one graph, ``[B, N, N, L]`` for a batch, where ``N`` is the size of its largest graph.

        Raises:
            InputError: If an argument is out of range, or if the result would be too large.
        """
        graphs = self._hierarchy()
        chosen = list(range(len(graphs))) if levels is None else [int(level) for level in levels]
        if not 1 <= max < 2**15 - 1:
            raise InputError(f"max is out of range: expected a number in [1, 32766), got {max}", field="max")
        for level in chosen:
            _check_level(level, 0, len(graphs) - 1)
        device, is_batch = graphs[0].edge_index.device, graphs[0].get("batch") is not None
        sizes = np.diff(_node_ptr(graphs[0], is_batch))
        count, width = len(sizes), int(sizes.max(initial=0))
        if count * width**2 * len(chosen) > _MAX_ENTRIES:
            raise InputError(
                f"the distances do not fit: expected at most {_MAX_ENTRIES:,} entries, got {count} x {width} x {width} x "
                f"{len(chosen)}",
                field="levels",
                hint="use smaller batches, or only coarse levels",
            )
        result = torch.full((count, width, width, len(chosen)), max + 1, dtype=torch.int16)
        inside = torch.arange(width) < torch.from_numpy(sizes)[:, None]  # [B, width], False for padding
        for axis, level in enumerate(chosen):
            ptr = _node_ptr(graphs[level], is_batch, count)
            table, first = _distance_table(graphs[level], ptr, max)
            cluster = compose_links(graphs, level).cpu()
            local = torch.where(cluster < 0, -1, cluster - torch.from_numpy(np.repeat(ptr[:-1], sizes)))
            place = torch.full((count, width), -1)
            place[inside] = local
            size, start = (torch.from_numpy(a)[:, None, None] for a in (np.diff(ptr), first[:-1]))
            valid = (place[:, :, None] >= 0) & (place[:, None, :] >= 0)
            index = (start + place[:, :, None] * size + place[:, None, :])[valid]
            result[..., axis][valid] = table[index]
        return (result if is_batch else result[0]).to(device)

    def patches(self, level: int = 1, overlap: int = 0) -> Data:
        """Return the subgraph of each supernode and of the nodes around it, side by side in one graph.

        Args:
            level: Level whose supernodes define the patches. Nodes of a soft assignment belong to their strongest supernode.
            overlap: Number of steps by which each patch grows along the edges (its halo).

        Returns:
            A graph with these attributes:

            - ``node_index``: node of the input graph of each row, ``edge_id``: its edge of each edge;
            - ``patch``: patch of each row, ascending, for readouts such as ``global_mean_pool(x, view.patch)``;
            - ``core``: False for nodes of the halo;
            - ``patch_supernode``: supernode of each patch. Supernodes without nodes have no patch;
            - ``patch_batch``: graph of each patch, for a batch;
            - ``edge_index`` and all attributes of nodes and edges of the input graph.

        Raises:
            InputError: If there is no such level, or ``overlap`` is negative.
        """
        graphs = self._hierarchy()
        _check_level(level, 1, len(graphs) - 1)
        if overlap < 0:
            raise InputError(
                f"overlap must not be negative: expected 0 or more, got {overlap}", field="overlap"
            )
        base = graphs[0]
        number = num_nodes_of(base)
        cluster = compose_links(graphs, level)
        supernodes, patch = cluster[cluster >= 0].unique(return_inverse=True)
        node = (cluster >= 0).nonzero().flatten()
        source, target = base.edge_index
        rows = torch.argsort(source, stable=True)
        row_ptr = cumsum(torch.bincount(source, minlength=number))
        core = (patch * number + node).sort().values
        keys = front = core
        for _ in range(overlap):
            at, entry = _expand(row_ptr, front % number)
            front = (front[at] // number * number + target[rows[entry]]).unique()
            front = front[~_contains(keys, front)]
            keys = torch.cat([keys, front]).sort().values
        at, entry = _expand(row_ptr, keys % number)
        edge = rows[entry]
        ends = keys[at] // number * number + target[edge]
        inside = _contains(keys, ends)
        node_index, edge = keys % number, edge[inside]
        view = Data(
            edge_index=torch.stack([at[inside], torch.searchsorted(keys, ends[inside])]),
            node_index=node_index,
            edge_id=edge,
            patch=keys // number,
            core=_contains(core, keys),
            patch_supernode=supernodes,
            num_nodes=keys.numel(),
        )
        if base.get("batch") is not None:
            view.patch_batch = graphs[level].batch[supernodes]
        for key, value in base.items():
            if isinstance(value, Tensor) and key not in (_NOT_COPIED - {"edge_weight"}):
                if base.is_edge_attr(key):
                    view[key] = value[edge]
                elif base.is_node_attr(key):
                    view[key] = value[node_index]
        return view


def _common_attributes(
    graphs: Sequence[Data], links: Sequence[LevelLinks]
) -> Iterator[tuple[str, list[Tensor]]]:
    """Yield the node attributes that all levels have. ``x`` is averaged on levels that do not have it."""
    for key, value in graphs[0].items():
        if key in _NOT_COPIED or not isinstance(value, Tensor) or not graphs[0].is_node_attr(key):
            continue
        values = [value]
        for graph, link in zip(graphs[1:], links, strict=True):
            found = graph.get(key)
            if found is None and key == "x" and value.is_floating_point():
                found = link.mean(values[-1])
            if not isinstance(found, Tensor) or (found.dtype, found.shape[1:]) != (
                value.dtype,
                value.shape[1:],
            ):
                break
            values.append(found)
        if len(values) == len(graphs):
            yield key, values


def _sort_by_graph(view: Data, batch: Tensor, count: int) -> None:
    """Order the nodes of a view by graph, in place."""
    order = torch.argsort(batch, stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device)
    for key, value in view.items():
        if isinstance(value, Tensor) and key not in ("edge_index", "edge_type", "edge_weight"):
            view[key] = value[order]
    view.edge_index = place[view.edge_index]
    view.batch = batch[order]
    view.ptr = cumsum(torch.bincount(batch, minlength=count))


def _distance_table(
    graph: Data, node_ptr: npt.NDArray[np.int64], limit: int
) -> tuple[Tensor, npt.NDArray[np.int64]]:
    """Return the distances of all pairs of nodes of each graph, row by row, and their offsets."""
    from tgp.kernels.distances import hop_distances

    block = BlockCSR.from_edge_index(graph.edge_index.cpu().numpy(), node_ptr=node_ptr)
    sizes = np.diff(node_ptr)
    first = offsets(sizes * sizes)
    out = np.full(int(first[-1]), limit + 1, np.int16)
    queue = np.empty(int(sizes.max(initial=0)), np.int32)
    hop_distances(block.indptr, block.indices, block.node_ptr, first, limit, queue, out)
    return torch.from_numpy(out), first


def _expand(row_ptr: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the position in ``rows`` and the entry, for all entries of some rows."""
    counts = row_ptr[rows + 1] - row_ptr[rows]
    at = torch.repeat_interleave(counts)
    inside = torch.arange(len(at), device=at.device) - (counts.cumsum(0) - counts)[at]
    return at, row_ptr[rows][at] + inside


def _contains(keys: Tensor, values: Tensor) -> Tensor:
    """Return True for each value that is in the ascending ``keys``."""
    if not keys.numel():
        return torch.zeros_like(values, dtype=torch.bool)
    found = torch.searchsorted(keys, values).clamp(max=keys.numel() - 1)
    return keys[found] == values


def _between_kept(edges: Tensor, weight: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
    return (edges, weight) if bool(kept.all()) else (edges[:, kept], weight[kept])


def _edge_weight(graph: Data) -> Tensor:
    edges: Tensor = graph.edge_index
    weight: Tensor | None = graph.get("edge_weight")
    return torch.ones(edges.size(1), device=edges.device) if weight is None else weight.flatten()


def _num_graphs(graph: Data) -> int:
    """Return the number of graphs of a batch."""
    count = getattr(graph, "num_graphs", None)
    return int(graph.batch.max()) + 1 if count is None else int(count)


def _node_ptr(graph: Data, is_batch: bool, count: int | None = None) -> npt.NDArray[np.int64]:
    """Return the offsets of the nodes of each graph. Levels of a single graph have a ``batch`` of zeros."""
    if not is_batch:
        return np.array([0, num_nodes_of(graph)])
    counts = torch.bincount(graph.batch, minlength=_num_graphs(graph) if count is None else count)
    return offsets(counts.cpu().numpy())


def _check_level(level: int, low: int, high: int) -> None:
    if not low <= level <= high:
        raise InputError(
            f"there is no such level: expected a number in [{low}, {high}], got {level}", field="level"
        )
