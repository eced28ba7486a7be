"""Node decimation (NDP)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tgp.engine.methods.ndp import CutRule
from tgp.errors import InputError
from tgp.select.base_select import Select as Select
from tgp.select.base_select import SelectOutput
from tgp.select.level_select import LevelSelect
from tgp.utils.ops.connectivity import connectivity_to_edge_index as connectivity_to_edge_index
from tgp.utils.typing import SinvType

__all__ = ["NDPSelect"]


class NDPSelect(LevelSelect):
    r"""Selector that keeps one side of a large cut, from `"Hierarchical Representation Learning in Graph Neural Networks
    with Node Decimation Pooling" <https://arxiv.org/abs/1910.11436>`_.

    In every connected component, the signs of the top eigenvector of :math:`I - D^{-1/2} A D^{-1/2}` divide the nodes
    into two sides. The side that contains the node of largest degree is kept, and each of its nodes becomes a
    supernode. The other side is dropped. Isolated nodes are kept. The result depends on the graph; it also depends on
    the seed if the largest eigenvalue repeats.

    Args:
        s_inv_op: ``transpose`` or ``inverse``.
        seed: seed of the start vector of the eigenvector iteration.
        cut: rule of the cut. ``spectral``: signs of the eigenvector. ``flip``: signs of a rough eigenvector after 16 steps, then
            single nodes change sides while this increases the weight of the cut. This is faster for large graphs.
    """

    def __init__(self, s_inv_op: SinvType = "transpose", seed: int = 0, cut: CutRule = "spectral") -> None:
        super().__init__("ndp", {"cut": cut}, seed=seed, s_inv_op=s_inv_op)

    def forward(  # type: ignore[override]
        self,
        edge_index: Any = None,
        edge_weight: Tensor | None = None,
        *,
        batch: Tensor | None = None,
        num_nodes: int | None = None,
        x: Tensor | None = None,
        **kwargs: Any,
    ) -> SelectOutput:
        """Cut every graph.

        Args:
            edge_index, edge_weight, batch, num_nodes, x: see :meth:`~tgp.select.LevelSelect.forward`.
            **kwargs: further arguments of that method.
        """
        so = super().forward(x, edge_index, edge_weight, batch=batch, num_nodes=num_nodes, **kwargs)
        so._decimated = True
        return so

    @staticmethod
    def eval_cut(total_volume: float, L: Any, z: Any) -> float:
        r"""Return the share of the edge weight between the two sides of a cut: :math:`z^\top L z / (2 \, vol)`.

        Args:
            total_volume: sum of all stored weights, both directions of every edge.
            L: ``[N, N]`` Laplacian ``D - A``: array, scipy matrix or tensor.
            z: ``[N]`` or ``[N, 1]`` with entries 1 and -1, the side of each node.

        Returns:
            A number in ``[0, 1]`` for positive weights; 0 for a graph without edge weight.
        """
        if isinstance(L, Tensor):
            column = torch.as_tensor(z, dtype=L.dtype, device=L.device).reshape(-1, 1)
            form = float((column * (L @ column)).sum())
        else:
            sides = np.asarray(z, dtype=np.float64).reshape(-1)
            form = float(sides @ (L @ sides))
        volume = float(total_volume)
        return form / (2.0 * volume) if volume > 0 else 0.0

    @staticmethod
    def sign_partition(vec_or_size: Any, *, seed: int = 0) -> Any:
        """Return the signs of a vector, or a random cut.

        Args:
            vec_or_size: a vector, or the number of nodes of a random cut.
            seed: seed of the random cut.

        Returns:
            For a vector: 1 where an entry is not negative and -1 elsewhere, in the shape and type of the vector. For a
            number: a vector in which node 0 has 1, node 1 has -1, and the other nodes have a random side.
        """
        if isinstance(vec_or_size, Tensor):
            return torch.where(vec_or_size >= 0, 1.0, -1.0).to(vec_or_size.dtype)
        if isinstance(vec_or_size, bool) or not isinstance(vec_or_size, (int, np.integer)):
            return np.where(np.asarray(vec_or_size) >= 0, 1.0, -1.0)
        if vec_or_size < 0:
            raise InputError(
                f"the number of nodes must not be negative, got {vec_or_size}", field="vec_or_size"
            )
        from tgp.engine.methods.ndp import random_cut

        return random_cut(int(vec_or_size), seed)
