"""Array structures of the engine: many graphs as one block, and what coarsening makes of them."""

from tgp.ragged.block import BlockCSR
from tgp.ragged.fields import Field, GraphTable
from tgp.ragged.hierarchy import Assignment, EdgeList, Hierarchy, Level

__all__ = ["Assignment", "BlockCSR", "EdgeList", "Field", "GraphTable", "Hierarchy", "Level"]
