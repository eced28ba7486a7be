"""Open a dataset by any name that ``--dataset`` accepts."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tgp.errors import DatasetError, ParameterError
from tgp.input_limits import READ_ERRORS, describe, input_budget
from tgp.ragged import GraphTable
from tgp.sources import table_transforms
from tgp.sources.builtin import BUILTIN, DEFAULT_DATASET, make_builtin
from tgp.sources.callables import open_callable, python_file_error
from tgp.sources.families import SPLITS
from tgp.sources.names import (
    KnownDataset,
    default_root,
    family_folders,
    find_raw,
    is_callable,
    is_path,
    nearest_names,
    resolve,
)
from tgp.sources.objects import object_name, objects_to_table
from tgp.sources.tables import check_table, join_splits, mark_graphs, mark_nodes
from tgp.values import parse_call, parse_value

if TYPE_CHECKING:
    from torch_geometric.data import Data

__all__ = ["Source", "load_graphs", "open_source"]


@dataclass(frozen=True, eq=False)
class Source:
    """Graphs to coarsen.

    Args:
        table: All attributes of all graphs.
        description: Origin of the graphs for the manifest. It contains no paths of this machine.
    """

    table: GraphTable
    description: dict[str, Any]


def open_source(
    dataset: Any = DEFAULT_DATASET,
    root: str | Path | None = None,
    *,
    limit: int | None = None,
    exclude: Collection[str] = (),
    undirected: bool = False,
    largest_component: bool = False,
    add_degree: bool = False,
    max_input: int | None = None,
) -> Source:
    """Open a dataset by any name that ``tgp coarsen --dataset`` accepts, or graphs in memory, and transform the graphs.

    Args:
        dataset: A built-in set, a known name, a path, ``module:callable`` or ``file.py:callable``, each with optional
            ``:key=value``; or an object: a PyG dataset, ``Data`` objects, networkx graphs or scipy matrices.
        root: Directory of the datasets; default ``$TGP_DATA`` or ``./data``.
        limit: Number of graphs to keep, from the first.
        exclude: Attributes to leave out.
        undirected: Add the missing reverse edges.
        largest_component: Keep the largest connected component of each graph.
        add_degree: Append the node degree to the features.
        max_input: Limit in bytes of the memory that the content of the files may need. The default is 4 GB or 100
            times the size of the files, whichever is more, and at most the memory of the machine.

    Raises:
        DatasetError: If the dataset is missing, cannot be read, is larger than the limit, or contains no graphs.

    Examples:
        >>> open_source("er:num_graphs=4").table.num_graphs
        4
    """
    unwanted = set(exclude)  # the conversion of PyG graphs removes the names that it skips
    if isinstance(dataset, (str, os.PathLike)):
        dataset = os.fspath(dataset)
        with input_budget(max_input):
            table, description = _open(dataset, default_root() if root is None else Path(root), unwanted)
    else:
        table = objects_to_table(dataset, unwanted)
        dataset = object_name(dataset)
        description = {"source": "object", "name": dataset}
    if limit is not None and limit < table.num_graphs:
        table = table.take(np.arange(limit))
        description["limit"] = limit
    if table.num_graphs == 0:
        raise DatasetError(f"dataset {dataset!r} holds no graphs")
    if "edge_index" not in table.fields:
        raise DatasetError(
            f"the graphs of {dataset!r} need an 'edge_index', got {', '.join(table.fields) or 'nothing'}",
            hint="for graphs without edges: data.edge_index = torch.empty(2, 0, dtype=torch.long); for points: "
            "torch_geometric.transforms.KNNGraph",
        )
    if exclude:
        table = table_transforms.exclude(table, unwanted)
        description["exclude"] = sorted(exclude)
    _check_weights(table, dataset)
    for name, wanted, transform in (
        ("undirected", undirected, table_transforms.make_undirected),
        ("largest_component", largest_component, table_transforms.keep_largest_component),
        ("add_degree", add_degree, table_transforms.add_degree),
    ):
        if wanted:
            if table.types is not None:
                raise DatasetError(
                    f"{name} is not possible for heterogeneous graphs: expected graphs with one type of nodes, got HeteroData",
                    hint="transform the graphs before: torch_geometric.transforms.ToUndirected()(data)",
                )
            table = transform(table)
            description[name] = True
    return Source(table, description)


def _check_weights(table: GraphTable, dataset: str) -> None:
    """Check that edge weights are finite. No pooler accepts others."""
    field = table.fields.get("edge_weight")
    if field is None or field.values.dtype.kind not in "fc" or np.isfinite(field.values).all():
        return
    wrong = np.flatnonzero(~np.isfinite(field.values.reshape(len(field.values), -1)).all(axis=1))
    graphs = np.searchsorted(field.ptr, wrong, side="right") - 1
    first, edge = int(graphs[0]), int(wrong[0] - field.ptr[graphs[0]])
    count = "1 edge weight is" if len(wrong) == 1 else f"{len(wrong):,} edge weights are"
    raise DatasetError(
        f"{dataset!r}: {count} not finite, in {len(np.unique(graphs)):,} of {table.num_graphs:,} graphs: expected finite "
        f"numbers, got {field.values[wrong[0]].ravel()[0]} at edge {edge} of graph {first}",
        hint="remove these edges or replace their weights, or leave all weights out with --exclude edge_weight",
    )


def load_graphs(dataset: Any = DEFAULT_DATASET, root: str | Path | None = None, **options: Any) -> list[Data]:
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


def _open(spec: str, root: Path, unwanted: set[str]) -> tuple[GraphTable, dict[str, Any]]:
    if is_path(spec):
        return _open_path(Path(spec), {}, unwanted)
    if spec.partition(":")[0].lower() in BUILTIN:
        table, values = make_builtin(spec)
        return table, {"source": "builtin", **values}
    if is_callable(spec):
        return open_callable(spec, unwanted), {"source": "callable", "name": spec}
    known = resolve(spec)
    if known is not None:
        return _open_known(known, root, unwanted)
    path, params = parse_call(spec)
    if Path(path).exists():
        return _open_path(Path(path), params, unwanted)
    raise _unknown_dataset(path)


def _unknown_dataset(name: str) -> DatasetError:
    similar = nearest_names(name) + [b for b in BUILTIN if b.startswith(name[:2].lower())]
    guess = f" Did you mean {' or '.join(repr(g) for g in similar[:3])}?" if similar else ""
    is_path = os.sep in name or "." in name
    kind = "no file or folder" if is_path else "neither a known dataset nor a file or folder"
    module, _, function = name.rpartition(".")
    file = Path(module.replace(".", os.sep) + ".py")
    if module and function.isidentifier() and file.is_file():
        hint = f"a function is written {file}:{function}"
    else:
        hint = "'tgp datasets' lists the known names"
    return DatasetError(f"{name!r} is {kind}.{guess}", hint=hint)


def _open_known(known: KnownDataset, root: Path, unwanted: set[str]) -> tuple[GraphTable, dict[str, Any]]:
    description: dict[str, Any] = {"source": known.family.name, "name": known.name}
    description.update({key: parse_value(text) for key, text in known.params.items()})
    if known.family.name == "TUDataset":
        table = _open_tu(known, root)
    else:
        table = _open_class(known, root, unwanted)
    with input_budget() as budget:
        return check_table(table, known.label, budget), description


def _open_class(known: KnownDataset, root: Path, unwanted: set[str]) -> GraphTable:
    """Open a dataset through its class. All splits are joined, unless ``known`` chooses one."""
    from tgp.sources.pyg import open_pyg, published_split

    if known.family.name in ("OGB-G", "OGB-N"):
        dataset = open_pyg(known, root)
        table, ids = _convert(dataset, known.label, unwanted), published_split(dataset, known.label)
        if known.family.name == "OGB-N":
            return mark_nodes(table, ids)
        split = np.full(table.num_graphs, -1)
        for number, name in enumerate(SPLITS):
            split[ids[name]] = number
        return mark_graphs(table, split)
    names = set(unwanted)
    parts = []
    for part in known.parts():
        unwanted |= names  # every part skips the same attributes
        parts.append(_convert(open_pyg(part, root), known.label, unwanted))
    return parts[0] if len(parts) == 1 else join_splits(parts)


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


def _open_path(path: Path, params: dict[str, str], unwanted: set[str]) -> tuple[GraphTable, dict[str, Any]]:
    from tgp.sources.local_files import is_processed_file, open_local

    if path.suffix == ".py" and path.is_file():
        raise python_file_error(path)
    description = {"source": "local", "name": path.resolve().name, **params}
    with input_budget() as budget:
        if is_processed_file(path):
            from tgp.sources.pyg import load_processed

            table = _convert(load_processed(path), str(path), unwanted)
        else:
            table = open_local(path, params)
        return check_table(table, str(path), budget), description


def _convert(graphs: Any, where: str, unwanted: set[str]) -> GraphTable:
    """Convert PyG graphs from a file to a table. Their tensors and offsets may not fit together."""
    try:
        return objects_to_table(graphs, unwanted).validate()
    except DatasetError as error:
        raise DatasetError(f"{where}: {error}", hint=error.hint) from error
    except READ_ERRORS as error:
        raise DatasetError(f"{where} holds graphs that cannot be read: {describe(error)}") from error
