r"""Cells of a regular grid in space: all nodes of a cell become one supernode.

A node at position :math:`\mathbf{p}_i` belongs to the cell with the coordinates

.. math::
    \mathbf{c}_i = \mathrm{floor}(\mathbf{p}_i / s)

for the edge length :math:`s` of the cells, as in
`"Dynamic Edge-Conditioned Filters in Convolutional Neural Networks on Graphs" <https://arxiv.org/abs/1704.02901>`_ (CVPR 2017). The edges between two cells are contracted to one edge. Edges have no effect on the supernodes.

Good for:
    Point clouds, meshes and maps whose nodes have positions of even importance: ``voxel:size=0.1``. The size of the supernodes in
    space is known. Levels with growing cells: ``voxel:size=0.1,voxel:size=0.2``.

Avoid when:
    Supernodes should be connected, or their number matters: nodes that are close in space can be far from each other in
    the graph, and the number of cells depends on the positions. Graphs have no positions.

Complexity:
    ``O(N + E)`` time and memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tgp.engine.contraction import ConnectParams, contract
from tgp.engine.level_method import (
    GraphSizes,
    LevelBound,
    LevelEstimate,
    LevelMethod,
    RandomKey,
    linear_bound,
)
from tgp.engine.parameter_checks import check_positive
from tgp.engine.threads import run_over_ranges
from tgp.errors import GraphError
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.offsets import find_run, offsets

__all__ = ["METHOD", "VoxelParams"]


@dataclass(frozen=True)
class VoxelParams(ConnectParams):
    """Parameters of the grid. The coarse graph has those of :class:`~tgp.engine.contraction.ConnectParams`.

    Args:
        size: edge length of the cells, in the units of the positions. One corner of the grid is the origin.
    """

    size: float = 0.1

    def __post_init__(self) -> None:
        check_positive("size", self.size)
        super().__post_init__()


def assign(block: BlockCSR, params: VoxelParams, key: RandomKey) -> Assignment:
    """Merge the nodes of each cell.

    Args:
        block: the graphs, with the attribute ``pos``.
        params: parameters of the method.
        key: not used.

    Returns:
        A hard assignment. Supernodes are numbered by their smallest node.

    Raises:
        GraphError: if a position divided by the size is not a finite number.
    """
    from tgp.kernels import points as kernels

    with np.errstate(over="ignore"):
        cells = np.floor(block.node_values("pos").astype(np.float64) / params.size)
    finite = np.isfinite(cells).all(axis=1)
    if not finite.all():
        node = int(np.argmin(finite))
        graph = find_run(block.node_ptr, node)
        raise GraphError(
            f"voxel: a position is too large for the size: expected finite coordinates of cells, got a position of "
            f"{np.abs(block.node_values('pos')[node]).max():g} and size={params.size:g}",
            graph=graph,
            hint="choose larger cells",
        )
    cells += 0.0  # -0 becomes 0: equal cells have equal bits
    bits = np.ascontiguousarray(cells).view(np.int64)
    cluster, counts = np.empty(block.num_nodes, np.int32), np.zeros(block.num_graphs, np.int64)

    def number(first: int, last: int) -> None:
        kernels.number_cells(bits, block.node_ptr, first, last, cluster, counts)

    run_over_ranges(number, block.node_ptr)
    super_ptr = offsets(counts)
    cluster += np.repeat(super_ptr[:-1], np.diff(block.node_ptr)).astype(np.int32)
    return Assignment("hard", super_ptr, cluster)


def bound(sizes: GraphSizes, params: VoxelParams) -> LevelBound:
    """Bound time and memory for positions in space. Every node can have a cell of its own."""
    return linear_bound(sizes, 200.0, 120.0)


METHOD = LevelMethod(
    "voxel",
    VoxelParams,
    assign,
    contract,
    estimate=LevelEstimate(0.5, 0.6, scratch=80.0),
    bound=bound,
    contracts=True,
    joins_components=True,
    revision=3,
    needs=("pos",),
)
