"""Convert Python objects to tables of graphs: PyG graphs and datasets, networkx graphs, scipy matrices."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tgp.errors import DatasetError
from tgp.ragged import GraphTable
from tgp.sources.tables import join_tables, table_from_arrays

if TYPE_CHECKING:
    from torch_geometric.data import Data

__all__ = ["FORMS", "collect_graphs", "object_name", "objects_to_table"]

FORMS = "a PyG dataset, Data or HeteroData objects, networkx graphs or scipy matrices (one, a list or a generator)"
"""Description of the supported objects for error messages."""


def collect_graphs(graphs: Any) -> Any:
    """Read all items of an iterable. This runs the code of generators and of datasets.

    Args:
        graphs: One graph, a dataset, or any iterable of graphs.

    Returns:
        A list of graphs (of a batch, its graphs); or the argument itself, if its graphs are read without running code
        of the user.

    Raises:
        DatasetError: If the object is neither a graph nor a collection of graphs.
    """
    if isinstance(graphs, GraphTable) or _is_stored(graphs):
        return graphs
    if _kind(graphs) is not None:
        return _single_graphs([graphs])
    is_text = isinstance(graphs, (str, bytes, Mapping, np.ndarray))
    # PyTorch's datasets can have no __iter__. Python then counts up until __getitem__ raises IndexError.
    if is_text or not (isinstance(graphs, Iterable) or hasattr(graphs, "__getitem__")) or _is_tensor(graphs):
        raise _unsupported(graphs)
    return _single_graphs(graphs)


def _single_graphs(graphs: Iterable[Any]) -> list[Any]:
    """Return the graphs. A batch, for example of a loader, is replaced by its graphs."""
    found = list(graphs)
    if not any(hasattr(graph, "to_data_list") for graph in found):
        return found
    return [
        single
        for graph in found
        for single in (graph.to_data_list() if hasattr(graph, "to_data_list") else [graph])
    ]


def objects_to_table(graphs: Any, unwanted: set[str] | None = None) -> GraphTable:
    """Convert graphs of any supported type to a table.

    Args:
        graphs: See :data:`FORMS`. A table is returned as it is.
        unwanted: Attributes of PyG graphs to leave out. They are not converted, so they may be of any type. Names that
            were left out are removed from the set.

    Raises:
        DatasetError: If the objects are not graphs, are of different types, or have attributes that cannot be stored.
    """
    found = collect_graphs(graphs)
    if isinstance(found, GraphTable):
        return found
    if not isinstance(found, list):
        return _pyg_table(found, unwanted)
    if not found:
        raise DatasetError(f"there are no graphs: expected {FORMS}, got an empty {type(graphs).__name__}")
    kinds = {_kind(graph) for graph in found}
    if len(kinds) > 1 or None in kinds:
        first = _kind(found[0])
        odd = next(i for i, graph in enumerate(found) if _kind(graph) in (None, *(kinds - {first})))
        raise _unsupported(found[odd], f" at position {odd}")
    (kind,) = kinds
    if kind == "scipy":
        tables = [(f"matrix {i}", _matrix_table(matrix, i)) for i, matrix in enumerate(found)]
        return join_tables(_with_equal_fields(tables))
    if kind == "networkx":
        found = [_from_networkx(graph, i) for i, graph in enumerate(found)]
    return _pyg_table(found, unwanted)


def object_name(graphs: Any) -> str:
    """Return a name for the graphs of an object, which the store records.

    Args:
        graphs: Object that was given by the user.
    """
    name = getattr(graphs, "name", None)
    return name if isinstance(name, str) and name else type(graphs).__name__


def _pyg_table(graphs: Any, unwanted: set[str] | None) -> GraphTable:
    from tgp.data.convert import graphs_to_table

    if not unwanted:
        return graphs_to_table(graphs)
    first = graphs[0] if isinstance(graphs, list) else graphs._data
    skipped = (unwanted & set(first.keys())) - {"edge_index"}
    unwanted -= skipped
    return graphs_to_table(graphs, exclude_keys=skipped)


# -- types of objects. Modules that the program has not imported cannot have made the object. ----------------------


def _is_stored(graphs: Any) -> bool:
    """Return True for an ``InMemoryDataset`` whose tensors can be converted without calling code of its class."""
    module = sys.modules.get("torch_geometric.data")
    if module is None or not isinstance(graphs, module.InMemoryDataset):
        return False
    return graphs.transform is None and type(graphs).get is module.InMemoryDataset.get


def _kind(value: Any) -> str | None:
    """Return the library of a graph, or ``None`` if the object is not a graph."""
    pyg, networkx = sys.modules.get("torch_geometric.data.data"), sys.modules.get("networkx")
    if pyg is not None and isinstance(value, pyg.BaseData):
        return "pyg"
    if networkx is not None and isinstance(value, networkx.Graph):
        return "networkx"
    scipy = sys.modules.get("scipy.sparse")
    return "scipy" if scipy is not None and scipy.issparse(value) else None


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _unsupported(value: Any, where: str = "") -> DatasetError:
    hint = "wrap a dense adjacency matrix: scipy.sparse.csr_array(matrix)"
    is_matrix = isinstance(value, np.ndarray) or _is_tensor(value)
    return DatasetError(
        f"the graphs cannot be read: expected {FORMS}, all of one type, got {type(value).__name__}{where}",
        hint=hint if is_matrix else None,
    )


# -- conversions ---------------------------------------------------------------------------------------------------


def _matrix_table(matrix: Any, position: int) -> GraphTable:
    rows, columns = matrix.shape
    if rows != columns:
        raise DatasetError(
            f"matrix {position} is not an adjacency matrix: expected as many rows as columns, "
            f"got {rows} x {columns}"
        )
    csr = matrix.tocsr()
    arrays = {"indptr": csr.indptr, "indices": csr.indices, "data": csr.data}
    return table_from_arrays(arrays, f"matrix {position}")


def _with_equal_fields(tables: list[tuple[str, GraphTable]]) -> list[tuple[str, GraphTable]]:
    """Add weights of 1 to matrices that hold only ones, if other matrices have weights."""
    weighted = [t.fields["edge_weight"].values.dtype for _, t in tables if "edge_weight" in t.fields]
    if not weighted or len(weighted) == len(tables):
        return tables
    dtype = np.result_type(*weighted)

    def with_weights(name: str, table: GraphTable) -> GraphTable:
        if "edge_weight" in table.fields:
            return table
        ones = np.ones(int(table.fields["edge_index"].ptr[-1]), dtype)
        return table_from_arrays({"edge_weight": ones}, name, base=table)

    return [(name, with_weights(name, table)) for name, table in tables]


def _from_networkx(graph: Any, position: int) -> Data:
    """Convert a networkx graph as PyG does. The edge attribute ``weight`` becomes ``edge_weight``."""
    from torch_geometric.utils import from_networkx

    try:
        data = from_networkx(graph)
    except (ValueError, TypeError, KeyError) as error:
        raise DatasetError(
            f"networkx graph {position} cannot be converted: {error}",
            hint="all nodes need the same attributes, and all edges need the same attributes",
        ) from error
    if "weight" in data and "edge_weight" not in data:
        data.edge_weight = data.weight
        del data.weight
    return data
