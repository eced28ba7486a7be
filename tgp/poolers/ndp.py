"""NDP: node decimation pooling."""

from __future__ import annotations

from tgp.connect.kron_conn import KronConnect
from tgp.engine.kron_reduction import ThresholdRule
from tgp.engine.methods.ndp import CutRule
from tgp.select.ndp_select import NDPSelect
from tgp.src.level import LevelPooling
from tgp.utils.typing import LiftType, ReduceType, SinvType

__all__ = ["NDPPooling"]


class NDPPooling(LevelPooling):
    r"""Node decimation pooling from `"Hierarchical Representation Learning in Graph Neural Networks with Node Decimation
    Pooling" <https://arxiv.org/abs/1910.11436>`_.

    About half of the nodes, one side of a large cut, are kept with their features. The kept nodes are connected by Kron
    reduction of the Laplacian,

    .. math::
        \mathbf{L}' = \mathbf{L}_{PP} - \mathbf{L}_{PQ} \mathbf{L}_{QQ}^{-1} \mathbf{L}_{QP},

    with the kept nodes :math:`P` and the dropped nodes :math:`Q`. See :class:`~tgp.select.NDPSelect` and
    :class:`~tgp.connect.KronConnect`.

    A negative weight stands for dissimilarity. The cut puts its two nodes on the same side, and the Laplacian is the
    signed one, with the degrees :math:`\sum_j |a_{ij}|`. Signs are multiplied along the paths that the reduction replaces: two
    nodes with a common opponent become similar. A matrix with such degrees is never singular.

    Good for:
        Supernodes that are nodes of the input graph, about half of them, with their own features. Kron reduction keeps
        the resistances between them, so the coarse graph is close to the graph in its spectrum.

    Avoid when:
        The graph has hubs or many edges: Kron reduction connects the neighbours of dropped nodes, so the coarse graph
        can have more edges than the graph. All features matter: those of dropped nodes are lost.

    Complexity:
        About 40 passes over nodes and edges for the cut. The reduction is near-linear on grids, meshes and road
        networks, and limited to a fixed work per edge on other graphs, for weights of any sign. Graphs of more than
        1,000 nodes that have more than a sixteenth of all possible edges are reduced by a full matrix.

    Args:
        lift, s_inv_op, lift_red_op: see :class:`~tgp.src.level.LevelPooling`.
        cached: reuse the result as long as the input graph does not change.
        sparse_threshold: remove edges with a weight ``|w| <= sparse_threshold`` from the pooled graph.
        seed: see :class:`~tgp.select.NDPSelect`.
        threshold: unit of ``sparse_threshold``. ``absolute``: 1. ``relative``: the largest ``|w|`` of the graph before pooling,
            so that the pooled edges do not depend on the unit of the weights. ``auto``: 1 if the largest ``|w|`` is between
            0.1 and 1,000, otherwise the largest ``|w|``.
        cut: rule of the cut: ``spectral`` or ``flip``, see :class:`~tgp.select.NDPSelect`.
    """

    def __init__(
        self,
        lift: LiftType = "precomputed",
        s_inv_op: SinvType = "transpose",
        lift_red_op: ReduceType = "sum",
        cached: bool = False,
        *,
        sparse_threshold: float = 1e-2,
        seed: int = 0,
        threshold: ThresholdRule = "auto",
        cut: CutRule = "spectral",
    ) -> None:
        super().__init__(
            "ndp",
            {"sparse_threshold": sparse_threshold, "threshold": threshold, "cut": cut},
            selector=NDPSelect(s_inv_op, seed, cut),
            connector=KronConnect(sparse_threshold, threshold),
            lift=lift,
            lift_red_op=lift_red_op,
            cached=cached,
        )
