"""Open what ``--dataset`` names: a table of graphs, where it came from, and its blocks."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tgp.errors import DatasetError, InputError, ParameterError
from tgp.ragged import BlockCSR, Field, GraphTable
from tgp.sources import table_transforms as transforms
from tgp.sources.builtin import BUILTIN, DEFAULT_DATASET, make_builtin
from tgp.sources.names import KnownDataset, default_root, family_folders, find_raw, nearest_names, resolve
from tgp.values import parse_call, parse_value

if TYPE_CHECKING:
    from torch_geometric.data import Data

__all__ = ["Source", "load_graphs", "open_source", "slice_table", "table_block", "weight_type"]


@dataclass(frozen=True, eq=False)
class Source:
    """Graphs to coarsen.

    Args:
        table: every attribute of every graph.
        description: where they came from, without places on this machine; goes into the manifest.
    """

    table: GraphTable
    description: dict[str, Any]


def open_source(
    dataset: str = DEFAULT_DATASET,
    root: str | Path | None = None,
    *,
    limit: int | None = None,
    exclude: Collection[str] = (),
    undirected: bool = False,
    largest_component: bool = False,
    add_degree: bool = False,
) -> Source:
    """Open a dataset by any name that ``tgp coarsen --dataset`` accepts, and transform its graphs.

    Args:
        dataset: A built-in set, a known name, a path or ``module:callable``, each with optional ``:key=value``.
        root: Directory of the datasets; default ``$TGP_DATA`` or ``./data``.
        limit: Number of graphs to keep, from the first.
        exclude: Attributes to leave out.
        undirected: Add the missing reverse edges.
        largest_component: Keep the largest connected component of each graph.
        add_degree: Append the node degree to the features.

    Raises:
        DatasetError: If the dataset is missing, cannot be read, or contains no graphs.
    """
    table, description = _open(dataset, default_root() if root is None else Path(root))
    if limit is not None and limit < table.num_graphs:
        table = table.take(np.arange(limit))
        description["limit"] = limit
    if table.num_graphs == 0:
        raise DatasetError(f"dataset {dataset!r} holds no graphs")
    if "edge_index" not in table.fields:
        raise DatasetError(
            f"the graphs of {dataset!r} need an 'edge_index', got {', '.join(table.fields) or 'nothing'}"
        )
    if exclude:
        table = transforms.exclude(table, exclude)
        description["exclude"] = sorted(exclude)
    for name, wanted, transform in (
        ("undirected", undirected, transforms.make_undirected),
        ("largest_component", largest_component, transforms.keep_largest_component),
        ("add_degree", add_degree, transforms.add_degree),
    ):
        if wanted:
            table = transform(table)
            description[name] = True
    return Source(table, description)


def load_graphs(dataset: str = DEFAULT_DATASET, root: str | Path | None = None, **options: Any) -> list[Data]:
    """Load the graphs of a dataset as PyG objects.

    Args:
        dataset: Name of the dataset, see :func:`open_source`.
        root: Directory of the datasets, see :func:`open_source`.
        **options: Other arguments of :func:`open_source`.

    Raises:
        DatasetError: If the dataset is missing, cannot be read, or contains no graphs.

    Examples:
        >>> [graph.num_nodes for graph in load_graphs("er:num_graphs=2:num_nodes=9")]
        [9, 9]
    """
    from tgp.data.convert import table_to_data

    return table_to_data(open_source(dataset, root, **options).table)


def table_block(table: GraphTable) -> BlockCSR:
    """The adjacency of the graphs; weights come from ``edge_weight``, never from ``edge_attr``."""
    edges = table.fields.get("edge_index")
    if edges is None:
        raise DatasetError(f"graphs need an 'edge_index', got {', '.join(table.fields) or 'nothing'}")
    weight = table.fields.get("edge_weight")
    if weight is not None and not np.array_equal(weight.ptr, edges.ptr):
        raise DatasetError("'edge_weight' must hold one value per edge of every graph")
    try:
        return BlockCSR.from_local_edges(
            edges.values, edges.ptr, None if weight is None else weight.values, node_ptr=table.node_ptr
        )
    except InputError as error:
        raise DatasetError(str(error)) from error


def weight_type(table: GraphTable) -> type[np.floating[Any]]:
    """Type of coarse weights: double for graphs with double weights, as the online layers have it, else single."""
    weight = table.fields.get("edge_weight")
    return np.float64 if weight is not None and weight.values.dtype == np.float64 else np.float32


def slice_table(table: GraphTable, low: int, high: int, names: Collection[str] | None = None) -> GraphTable:
    """Graphs ``low:high`` with all or some of their attributes, as views."""
    fields = {}
    for name, entry in table.fields.items():
        if names is None or name in names:
            first, last = int(entry.ptr[low]), int(entry.ptr[high])
            values = entry.values[..., first:last] if entry.axis else entry.values[first:last]
            ptr = entry.ptr[low : high + 1] - first
            fields[name] = Field(name, values, ptr, entry.axis, entry.form, entry.shifted)
    return GraphTable(table.node_ptr[low : high + 1] - table.node_ptr[low], fields)


def _open(spec: str, root: Path) -> tuple[GraphTable, dict[str, Any]]:
    if os.path.exists(spec) and (os.sep in spec or "." in spec):
        return _open_path(Path(spec), {})
    name = spec.partition(":")[0]
    if name.lower() in BUILTIN:
        table, values = make_builtin(spec)
        return table, {"source": "builtin", **values}
    target = spec.partition(":")[2]
    if target and "=" not in target.partition(":")[0]:
        return _open_callable(spec)
    known = resolve(spec)
    if known is not None:
        return _open_known(known, root)
    path, params = parse_call(spec)
    if Path(path).exists():
        return _open_path(Path(path), params)
    raise _unknown(path)


def _unknown(name: str) -> DatasetError:
    guess = nearest_names(name) + [b for b in BUILTIN if b.startswith(name[:2].lower())]
    near = f" Did you mean {' or '.join(repr(g) for g in guess[:3])}?" if guess else ""
    kind = (
        "no file or folder"
        if os.sep in name or "." in name
        else "neither a known dataset nor a file or folder"
    )
    return DatasetError(f"{name!r} is {kind}.{near}", hint="'tgp datasets' lists the known names")


def _open_known(known: KnownDataset, root: Path) -> tuple[GraphTable, dict[str, Any]]:
    description: dict[str, Any] = {"source": known.family.name, "name": known.name}
    description.update({key: parse_value(text) for key, text in known.params.items()})
    if known.family.name == "TUDataset":
        return _open_tu(known, root), description
    return _open_class(known, root), description


def _open_class(known: KnownDataset, root: Path) -> GraphTable:
    """Through the dataset's class; all splits, told apart, unless one was chosen."""
    from tgp.sources import splits as _splits
    from tgp.sources.pyg import open_pyg, published_split

    if known.family.name in ("OGB-G", "OGB-N"):
        dataset = open_pyg(known, root)
        table, ids = _convert(dataset), published_split(dataset, known.label)
        if known.family.name == "OGB-N":
            return _splits.mark_nodes(table, ids)
        split = np.full(table.num_graphs, -1)
        for number, name in enumerate(_splits.SPLITS):
            split[ids[name]] = number
        return _splits.mark_graphs(table, split)
    parts = [_convert(open_pyg(part, root)) for part in known.parts()]
    return parts[0] if len(parts) == 1 else _splits.join_splits(parts)


def _open_tu(known: KnownDataset, root: Path) -> GraphTable:
    from tgp.sources.tu import download_tu, read_tu

    options: dict[str, bool] = {}
    for key, text in known.params.items():
        value = parse_value(text)
        if key not in ("use_node_attr", "use_edge_attr") or not isinstance(value, bool):
            raise ParameterError(
                f"TUDataset takes use_node_attr and use_edge_attr, each true or false, got {key}={text}",
                field=key,
            )
        options[key] = value
    base = find_raw(known, root)
    if base is None:
        base = family_folders(known, root)[0]
        download_tu(known.name, base / known.raw_folder())
    return read_tu(base / known.raw_folder(), known.name, **options)


def _open_path(path: Path, params: dict[str, str]) -> tuple[GraphTable, dict[str, Any]]:
    from tgp.sources.local_files import is_processed_file, open_local

    description = {"source": "local", "name": path.resolve().name, **params}
    if is_processed_file(path):
        from tgp.sources.processed import load_processed

        return _convert(load_processed(path)), description
    return open_local(path, params), description


def _open_callable(spec: str) -> tuple[GraphTable, dict[str, Any]]:
    """``module:callable[:key=value...]``; modules of the working directory count."""
    module, _, rest = spec.partition(":")
    attribute, params = parse_call(rest)
    added = os.getcwd()
    sys.path.insert(0, added)
    try:
        target = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise DatasetError(f"{spec!r} cannot be imported: {error}") from error
        raise _unknown(module) from None
    except (ImportError, AttributeError) as error:
        raise DatasetError(f"{spec!r} cannot be imported: {error}") from error
    finally:
        sys.path.remove(added)
    found = target(**{key: parse_value(text) for key, text in params.items()}) if callable(target) else target
    table = found if isinstance(found, GraphTable) else _convert(found)
    return table, {"source": "callable", "name": spec}


def _convert(graphs: Any) -> GraphTable:
    """PyG graphs as a table; needs torch."""
    from tgp.data.convert import graphs_to_table

    return graphs_to_table(graphs)
