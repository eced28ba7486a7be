"""Graclus pooling."""

from __future__ import annotations

from tgp.engine.contraction import ConnectParams
from tgp.select.graclus_select import GraclusSelect
from tgp.src.level import LevelPooling
from tgp.utils.signature import base_kwargs
from tgp.utils.typing import ConnectionType, LiftType, ReduceType, SinvType

__all__ = ["GraclusPooling"]


class GraclusPooling(LevelPooling):
    r"""Graclus pooling from `"Weighted Graph Cuts without Eigenvectors: A Multilevel Approach"
    <https://ieeexplore.ieee.org/document/4302760>`_: the matching of the coarsening phase.

    The nodes are visited in turn. Each free node is merged with the free neighbour of largest edge weight,

    .. math::
        j = \arg\max_{j \,\text{free}} \mathbf{A}_{ij}, \quad \mathbf{x}'_{ij} = \mathbf{x}_i + \mathbf{x}_j,

    so clusters have one or two nodes and :math:`N / 2 \le K \le N`. The matching depends only on the graph and the seed.

    With ``two_hop``, nodes that found no free neighbour are matched with each other if they have a common neighbour. A node that
    is still alone joins the cluster of a neighbour. Clusters then have at most four nodes, and :math:`K \le N / 2` in a connected
    graph with at least two nodes. Members of a cluster can be two hops apart.

    Without weights, all edges of the first level are equal. The coarse graphs stay unweighted, so that later levels cannot see
    which supernodes are connected by many edges. With ``match_on="counts"``, they match on the number of edges of the input graph
    between two supernodes, and still store unweighted graphs. The counts are passed through the levels of one schedule; a layer
    in a model sees one level, where all counts are 1.

    Good for:
        Levels that shrink by a half, quickly: many small graphs, road networks, grids, meshes, and graphs of millions
        of nodes. Clusters are pairs of neighbours, so a connected graph stays connected. For more than one level use
        ``match_on="counts"``: it cuts 1.4 to 2.8 times fewer edges of graphs with structure. For graphs with hubs, such as
        social networks, use ``two_hop=True``: levels shrink by a half there, too.

    Avoid when:
        The graph has hubs and ``two_hop`` is not set: the leaves of a hub find no free neighbour, and later levels hardly
        shrink. You need an exact number of supernodes. Weights are negative: such edges are never matched.

    Complexity:
        ``O(N + E)`` time and memory.

    Args:
        lift, s_inv_op, lift_red_op: see :class:`~tgp.src.level.LevelPooling`.
        connect_red_op, remove_self_loops, degree_norm, edge_weight_norm, count_edges: see
            :class:`~tgp.engine.contraction.ConnectParams`.
        cached: reuse the result as long as the input graph does not change.
        order, seed, two_hop: see :class:`~tgp.select.GraclusSelect`.
        match_on: what makes an edge heavy: its ``weights``, or ``counts``, the number of input edges that it stands for. With
            ``counts``, weights have no effect on the matching.

    Examples:
        >>> import torch
        >>> pooler = GraclusPooling(order="index")
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> out = pooler(x=torch.ones(4, 1), adj=path)
        >>> out.so.cluster.tolist(), out.edge_index.tolist()
        ([0, 0, 1, 1], [[0, 1], [1, 0]])
    """

    def __init__(
        self,
        lift: LiftType = "precomputed",
        s_inv_op: SinvType = "transpose",
        connect_red_op: ConnectionType = "sum",
        lift_red_op: ReduceType = "sum",
        cached: bool = False,
        remove_self_loops: bool = True,
        degree_norm: bool = False,
        edge_weight_norm: bool = False,
        *,
        count_edges: bool = False,
        order: str = "random",
        seed: int = 0,
        two_hop: bool = False,
        match_on: str = "weights",
    ) -> None:
        super().__init__(
            "graclus",
            {
                "order": order,
                "two_hop": two_hop,
                "match_on": match_on,
                **base_kwargs(ConnectParams, locals()),
            },
            selector=GraclusSelect(s_inv_op, order, seed, two_hop=two_hop, match_on=match_on),
            lift=lift,
            lift_red_op=lift_red_op,
            cached=cached,
        )
