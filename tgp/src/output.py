"""``PoolingOutput``: the result of a pooler."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from tgp.display import repr_html
from tgp.errors import UnknownNameError
from tgp.select.base_select import SelectOutput

if TYPE_CHECKING:
    from torch_geometric.data import Data

__all__ = ["PoolingOutput"]


class _UnknownLoss(UnknownNameError, KeyError):
    """Unknown name of a loss. Also a ``KeyError``, as for any dictionary."""

    __str__ = Exception.__str__


@dataclass(eq=False)
class PoolingOutput:
    """Pooled graph, its assignment, and its auxiliary losses.

    Args:
        x: Pooled features.
        edge_index: Pooled connectivity: edge list, sparse matrix, or dense ``[B, K, K]``.
        edge_weight: Weights of an edge list.
        batch: Graph ids of the supernodes.
        so: Assignment of nodes to supernodes.
        loss: Auxiliary losses by name.
        edge_attr: Attributes of the pooled edges: ``[E', ...]``, or ``[B, K, K, ...]`` for a dense connectivity. ``None`` if
            none were given, or if no input edges belong to the pooled edges (Kron reduction).
    """

    x: Tensor | None = None
    edge_index: Any = None
    edge_weight: Tensor | None = None
    batch: Tensor | None = None
    so: SelectOutput | None = None
    loss: dict[str, Tensor] | None = None
    edge_attr: Tensor | None = None

    _repr_html_ = repr_html

    @property
    def mask(self) -> Tensor | None:
        """Mask ``[B, K]`` of the non-empty supernodes of a dense assignment; ``None`` for a sparse one."""
        return None if self.so is None else self.so.out_mask

    @property
    def has_loss(self) -> bool:
        """True if there is at least one auxiliary loss."""
        return isinstance(self.loss, dict) and len(self.loss) > 0

    def get_loss_value(self, name: str | None = None) -> Any:
        """Return an auxiliary loss.

        Args:
            name: Name of the loss; all of them if ``None``.

        Returns:
            The loss, the list of all losses, or ``0`` if the pooler has none.

        Raises:
            UnknownNameError: If there are other losses, but none of this name. Also a ``KeyError``.
        """
        if self.loss is None or not self.has_loss:
            return 0
        if name is None:
            return list(self.loss.values())
        if name not in self.loss:
            raise _UnknownLoss("loss", name, self.loss)
        return self.loss[name]

    def as_data(self) -> Data:
        """Return the pooled graph as PyG ``Data``, without losses."""
        from torch_geometric.data import Data

        fields = {
            "x": self.x,
            "edge_index": self.edge_index,
            "edge_weight": self.edge_weight,
            "batch": self.batch,
            "mask": self.mask,
            "so": self.so,
            "edge_attr": self.edge_attr,
        }
        data = Data(**{name: value for name, value in fields.items() if value is not None})
        data.num_nodes = self._num_nodes()
        return data

    def _num_nodes(self) -> int | None:
        if self.batch is not None:
            return self.batch.numel()
        if self.x is not None:
            return self.x.size(-2)
        return None if self.so is None else self.so.num_supernodes

    def __iter__(self) -> Iterator[Any]:
        yield from (self.x, self.edge_index, self.edge_weight, self.batch, self.mask, self.so, self.loss)

    def __repr__(self) -> str:
        so = None if self.so is None else [self.so.num_nodes, self.so.num_supernodes]
        fields = {
            "x": self.x,
            "edge_index": self.edge_index,
            "edge_weight": self.edge_weight,
            "batch": self.batch,
            "mask": self.mask,
            **({} if self.edge_attr is None else {"edge_attr": self.edge_attr}),
        }
        shown = [f"so={so}", *(f"{name}={_shape(value)}" for name, value in fields.items())]
        loss = list(self.loss) if self.loss else None
        return f"PoolingOutput({', '.join(shown)}, loss={loss})"


def _shape(value: Any) -> list[int] | None:
    if value is None:
        return None
    return list(value.shape) if isinstance(value, Tensor) else list(value.sizes())
