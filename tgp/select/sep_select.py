"""Structural-entropy coding trees (SEP)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tgp.engine.level_method import RandomKey
from tgp.engine.methods.sep import Cut, assign_levels
from tgp.select.base_select import Select as Select
from tgp.select.base_select import SelectOutput
from tgp.select.level_select import LevelSelect, to_select_output
from tgp.utils.blocks import pooled_batch, to_block
from tgp.utils.checks import check_levels
from tgp.utils.ops.connectivity import check_connectivity
from tgp.utils.ops.connectivity import connectivity_to_edge_index as connectivity_to_edge_index
from tgp.utils.tracing import opaque
from tgp.utils.typing import SinvType

__all__ = ["SEPSelect"]


class SEPSelect(LevelSelect):
    r"""Selector of clusters with small structural entropy, from `"Structural Entropy Guided Graph Hierarchical Pooling"
    <https://proceedings.mlr.press/v162/wu22b.html>`_.

    A call computes one level from a coding tree of height 2. :meth:`multi_level_select` computes several levels from
    one higher tree. Its first level usually has more clusters than the level of a call.

    Args:
        s_inv_op: ``transpose`` or ``inverse``.
        cut: ``greedy`` or ``optimal``, see :class:`~tgp.engine.methods.sep.SEPParams`.
    """

    def __init__(self, s_inv_op: SinvType = "transpose", *, cut: Cut = "greedy") -> None:
        super().__init__("sep", {"cut": cut}, s_inv_op=s_inv_op)

    @opaque
    def multi_level_select(
        self,
        edge_index: Any = None,
        edge_weight: Tensor | None = None,
        *,
        batch: Tensor | None = None,
        num_nodes: int | None = None,
        levels: int = 1,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> list[SelectOutput]:
        """Return the assignments of several levels. Each level assigns the supernodes of the previous one.

        Args:
            edge_index, batch, num_nodes, batch_size: see :meth:`~tgp.select.LevelSelect.forward`.
            edge_weight: ``[E]`` or ``[E, 1]``; must not be negative.
            levels: number of levels.
            **kwargs: ignored.

        Raises:
            InputError: if there is no connectivity, or ``levels`` is less than 1.
        """
        check_connectivity(edge_index, "this selection")
        check_levels(levels)
        source = to_block(edge_index, edge_weight, batch, num_nodes, batch_size)
        outputs = []
        for assignment in assign_levels(source.block, self.spec.params, RandomKey(self.seed), levels):
            outputs.append(to_select_output(assignment, source, self.s_inv_op, batch, batch_size))
            batch = None if batch is None else pooled_batch(assignment, source)
            # The nodes of the next level are the supernodes of this one, numbered graph by graph.
            source = source.pooled(source.block)
        return outputs
