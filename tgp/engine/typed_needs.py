"""Attributes of nodes that methods need, for heterogeneous graphs: one array for the nodes of all types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError
from tgp.ragged import GraphTable
from tgp.ragged.node_attributes import NodeAttributes, RowArray, check_node_values
from tgp.ragged.types import NODE_TYPE, TypedNodes, TypeTable

__all__ = ["join_values", "typed_attributes"]

Ids = npt.NDArray[np.int64]


def join_values(
    name: str,
    parts: Sequence[npt.NDArray[Any]],
    ptrs: Sequence[Ids],
    types: Sequence[str],
    node_type: Ids,
    method: str,
) -> RowArray:
    """Return an attribute for the nodes of all types. Types with fewer columns get columns of zeros.

    Args:
        name: Name of the attribute.
        parts: Values of the nodes of each type.
        ptrs: ``[B + 1]`` offsets of the nodes of each type.
        types: Names of the types.
        node_type: ``[N]`` type of each node.
        method: Method that needs the attribute, for messages.

    Raises:
        InputError: If the values of a type have a wrong type or shape, or a number is not finite.

    Examples:
        >>> parts = [np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([5.0])]
        >>> join_values("x", parts, [np.array([0, 2]), np.array([0, 1])], ["a", "b"], np.array([0, 1, 0]), "fps").tolist()
        [[1.0, 2.0], [5.0, 0.0], [3.0, 4.0]]
    """
    checked = []
    for kind, part, ptr in zip(types, parts, ptrs, strict=True):
        try:
            checked.append(check_node_values(name, part, ptr, method))
        except InputError as error:
            raise InputError(f"node type {kind!r}: {error}", field=name) from error
    width = max((part.shape[1] for part in checked), default=1)
    dtype = np.result_type(*checked) if checked else np.dtype(np.float64)
    found: RowArray = np.zeros((len(node_type), width), dtype)
    for number, part in enumerate(checked):
        found[np.flatnonzero(node_type == number), : part.shape[1]] = part
    return found


def typed_attributes(table: GraphTable, types: TypeTable, needs: Mapping[str, str]) -> NodeAttributes | None:
    """Return the attributes that methods need for the nodes of all types of a table.

    Args:
        table: Heterogeneous graphs, see :mod:`tgp.ragged.types`.
        types: Names of the types and relations.
        needs: Names of attributes, each with the method that needs it.

    Raises:
        InputError: If a type does not have an attribute, or if its values are not valid.
    """
    if not needs:
        return None
    nodes = TypedNodes(table.fields[NODE_TYPE].values, table.node_ptr, len(types.nodes))
    found = {}
    for name, method in needs.items():
        parts = []
        for number, kind in enumerate(types.nodes):
            field = table.fields.get(types.node_field(number, name))
            if (
                field is None
                or (field.form, field.axis) != ("rows", 0)
                or not np.array_equal(field.ptr, nodes.ptrs[number])
            ):
                got = "none" if field is None else "another shape"
                raise InputError(
                    f"{method} needs the node attribute {name!r}: expected a tensor with one row for each node on every node "
                    f"type, got {got} on {kind!r}",
                    field=name,
                    hint=f"add {name!r} to the nodes of type {kind!r}, or use a method that does not need it",
                )
            parts.append(field.values)
        found[name] = join_values(name, parts, nodes.ptrs, types.nodes, nodes.node_type, method)
    return NodeAttributes(found)
