"""Refuse to read graphs that need more memory than this process may use, before it is killed for that."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tgp.errors import InputError
from tgp.input_limits import physical_memory
from tgp.store.read.reader import StoreReader

__all__ = ["check_graphs", "check_memory", "graph_bytes", "has_large_graph"]

_MOST_GROWTH = 16
"""Largest expected number of bytes in memory for each stored byte before compression: numbers are stored in small types."""

_ITEM = {"cluster": 8, "weight": 4, "representative": 8}
"""Bytes of an element of some arrays of a level in memory."""


def has_large_graph(reader: StoreReader) -> bool:
    """Return True if a shard could be too large for the memory. This reads the manifest only.

    Args:
        reader: Reader of the store.
    """
    shards = [shard for part in reader.manifest.shards.values() for shard in part]
    return max((_MOST_GROWTH * sum(shard.bytes) for shard in shards), default=0) > physical_memory()


def graph_bytes(
    reader: StoreReader,
    graph: int,
    hierarchy: str | None = None,
    levels: Sequence[int] = (),
    fields: Collection[str] | None = None,
) -> int:
    """Return the size of the arrays of one graph in memory, without arrays that have offsets of their own.

    Args:
        reader: Reader of the store.
        graph: Graph id.
        hierarchy: Name of the hierarchy; needed for levels.
        levels: Levels, from 1.
        fields: Attributes of the input graph; all if ``None``.
    """
    nodes, edges = (int(part[graph]) for part in reader.sizes())
    counts = {"node": nodes, "edge": edges, "graph": 1}
    chosen = reader.fields if fields is None else fields
    total = sum(reader.fields[name].row_bytes * counts.get(reader.fields[name].ptr, 0) for name in chosen)
    for level in levels:
        info = reader.level_info(str(hierarchy), level - 1)
        finer = int(reader.sizes(hierarchy, level - 1)[0][graph])
        nodes, edges = (int(part[graph]) for part in reader.sizes(hierarchy, level))
        widths = {**_ITEM, "soft": 4 * (info.width or 0), "theta": 4 * (info.modes or 0)}
        total += 16 * edges + (
            edges * (8 if info.weight_dtype == "float64" else 4) if info.weight_dtype else 0
        )
        total += sum(
            widths.get(name, 0) * (nodes if name == "representative" else finer) for name in info.arrays
        )
        counts = {"node": nodes, "edge": edges}
        total += sum(field.row_bytes * counts.get(field.ptr, 0) for field in info.fields)
    return total


def check_memory(need: int, what: str, hint: str) -> None:
    """Raise ``InputError`` if arrays need more memory than the machine or the control group of the process has.

    Args:
        need: Number of bytes.
        what: What needs them, as the start of the message.
        hint: What to do instead.

    Raises:
        InputError: If there is not enough memory.
    """
    memory = physical_memory()
    if need > memory:
        raise InputError(
            f"{what} needs at least {need / 1e9:.1f} GB of memory: expected at most {memory / 1e9:.1f} GB, which this process may use",
            field="memory",
            hint=hint,
        )


def check_graphs(
    reader: StoreReader,
    ids: Iterable[int],
    hierarchy: str | None,
    levels: Sequence[int],
    fields: Collection[str] | None,
    hint: str,
) -> None:
    """Raise ``InputError`` if some graphs do not fit in memory together, see :func:`check_memory`."""
    graphs = [int(i) for i in ids]
    need = sum(graph_bytes(reader, graph, hierarchy, levels, fields) for graph in graphs)
    if reader.manifest.spec.shard_edges is not None:
        # Arrays in several files are joined before they are converted.
        sizes = reader.num_bytes(str(hierarchy)) if levels else ()
        need += sum(sizes[level - 1] for level in levels) + (sum(reader.num_bytes()) if fields is None else 0)
    what = f"graph {graphs[0]}" if len(graphs) == 1 else f"a batch of {len(graphs)} graphs"
    check_memory(need, f"{what}{' with its levels' * bool(levels)}", hint)
