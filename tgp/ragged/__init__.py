"""Array structures of the engine: blocks of graphs, their attributes, and hierarchies."""

from tgp.ragged.block import BlockCSR
from tgp.ragged.fields import Field, GraphTable
from tgp.ragged.hierarchy import Assignment, EdgeList, Hierarchy, Level

__all__ = ["Assignment", "BlockCSR", "EdgeList", "Field", "GraphTable", "Hierarchy", "Level"]
