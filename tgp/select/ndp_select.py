"""Node decimation as a selector."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.select.base_select import Select as Select
from tgp.select.base_select import SelectOutput
from tgp.select.level_select import LevelSelect
from tgp.utils.ops.connectivity import connectivity_to_edge_index as connectivity_to_edge_index
from tgp.utils.typing import SinvType

__all__ = ["NDPSelect"]


class NDPSelect(LevelSelect):
    r"""One side of a large cut, from `"Hierarchical Representation Learning in Graph Neural Networks with Node
    Decimation Pooling" <https://arxiv.org/abs/1910.11436>`_.

    In every connected component the signs of the top eigenvector of :math:`I - D^{-1/2} A D^{-1/2}` cut the nodes in
    two. The side of the node of largest degree is kept, each node as a supernode of its own; the other
    side is dropped. Isolated nodes are kept. The result depends on the graph, and where eigenvectors
    leave a choice, on the seed.

    Args:
        s_inv_op: ``transpose`` or ``inverse``.
        seed: seed of the start vector of the eigenvector iteration.
    """

    def __init__(self, s_inv_op: SinvType = "transpose", seed: int = 0) -> None:
        super().__init__("ndp", seed=seed, s_inv_op=s_inv_op)

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
            edge_index: edge list, sparse matrix or ``SparseTensor``.
            edge_weight: ``[E]`` or ``[E, 1]``.
            batch: ``[N]`` graph ids in any order.
            num_nodes: ``N``; default from ``x``, ``batch`` or the connectivity.
            x: read for the number of nodes and the type of real numbers.
            **kwargs: ``batch_size`` and ``level``, see :class:`~tgp.select.LevelSelect`.
        """
        so = super().forward(x, edge_index, edge_weight, batch=batch, num_nodes=num_nodes, **kwargs)
        so._decimated = True
        return so

    @staticmethod
    def eval_cut(total_volume: float, L: Any, z: Any) -> float:
        r"""Share of the edge weight that a cut crosses: :math:`z^\top L z / (2 \, vol)`.

        Args:
            total_volume: sum of all stored weights, both directions of every edge.
            L: ``[N, N]`` Laplacian ``D - A``: array, scipy matrix or tensor.
            z: ``[N]`` or ``[N, 1]`` with entries 1 and -1.

        Returns:
            A number in ``[0, 1]`` for positive weights; 0 for a graph without weight.
        """
        if isinstance(L, Tensor):
            sides = torch.as_tensor(z, dtype=L.dtype, device=L.device).reshape(-1, 1)
            form = float((sides * (L @ sides)).sum())
        else:
            sides = np.asarray(z, dtype=np.float64).reshape(-1)
            form = float(sides @ (L @ sides))
        volume = float(total_volume)
        return form / (2.0 * volume) if volume > 0 else 0.0

    @staticmethod
    def sign_partition(vec_or_size: Any, *, seed: int = 0) -> Any:
        """Sides of a vector, or a random cut.

        Args:
            vec_or_size: a vector: 1 where an entry is not negative, -1 elsewhere, in its shape and kind. A
                number of nodes: node 0 gets 1, node 1 gets -1, each other node either, by hash.
            seed: seed of the random cut.
        """
        if isinstance(vec_or_size, Tensor):
            return torch.where(vec_or_size >= 0, 1.0, -1.0).to(vec_or_size.dtype)
        if isinstance(vec_or_size, bool) or not isinstance(vec_or_size, (int, np.integer)):
            return np.where(np.asarray(vec_or_size) >= 0, 1.0, -1.0)
        if vec_or_size < 0:
            raise InputError(
                f"a number of nodes must not be negative, got {vec_or_size}", field="vec_or_size"
            )
        from tgp.engine.methods.ndp import random_cut

        return random_cut(int(vec_or_size), seed)
