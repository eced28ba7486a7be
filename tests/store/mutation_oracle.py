"""Slow and obvious reader of a store, with plain h5py and numpy, that decides which data is correct.

:class:`NoData` means that the store holds no valid data at the requested place. A reader must then raise an error.
"""

import functools
import json
import math
import zlib
from itertools import pairwise
from urllib.parse import quote

import h5py
import numpy as np

MOST_BYTES = 64 << 20
"""Size above which the oracle reads no array. No base store has one that large."""


class NoData(Exception):
    """Place of a store that holds no valid data."""


def need(condition, why):
    """Raise :class:`NoData` unless the condition holds."""
    if not condition:
        raise NoData(why)


def link_name(name):
    """Return the HDF5 name of a field."""
    return quote(name, safe="").replace(".", "%2E")


def converted(stored, dtype):
    """Return stored numbers in their declared type, which must represent each of them exactly."""
    if dtype == "bool":
        need(bool(np.isin(stored, (0, 1)).all()), "bytes that are not bool")
        return stored.astype(bool)
    if dtype.startswith("complex"):
        need(stored.ndim and stored.shape[-1] == 2, "complex numbers need an axis of two")
        parts = converted(stored, f"float{4 * np.dtype(dtype).itemsize}")
        return parts[..., 0] + 1j * parts[..., 1].astype(parts.dtype)
    with np.errstate(all="ignore"):
        values = stored.astype(dtype)
    if stored.dtype.kind in "iu" and values.dtype.kind in "iu":
        need(
            [int(v) for v in values.reshape(-1)] == [int(v) for v in stored.reshape(-1)],
            "numbers out of range",
        )
    else:
        need(values.dtype.kind == "f" and stored.dtype.kind == "f", "other kind of number")
        need(np.array_equal(values.astype(np.float64), stored.astype(np.float64), equal_nan=True), "rounded")
    return values


def check_chunks(dataset, name):
    """Check that every compressed chunk decodes to its size. libhdf5 returns memory of the process for missing bytes."""
    if dataset.compression != "gzip" or not dataset.size:
        return
    size = math.prod(dataset.chunks) * dataset.dtype.itemsize
    for number in range(dataset.id.get_num_chunks()):
        mask, data = dataset.id.read_direct_chunk(dataset.id.get_chunk_info(number).chunk_offset)
        if mask:
            continue  # libhdf5 skips filters that the mask names
        if dataset.fletcher32:
            data = data[:-4]
        try:
            length = len(zlib.decompressobj().decompress(data, size + 1))
        except zlib.error as error:
            raise NoData(f"{name} has a chunk that is not deflate") from error
        need(length == size, f"{name} has a chunk of {length} bytes instead of {size}")


def json_value(text, size):
    """Return the value of a JSON text, which must be strict, small and flat enough."""
    need(size <= 1 << 20, "a JSON text is too large")

    def once(pairs):
        need(len({key for key, _ in pairs}) == len(pairs), "a key occurs twice")
        return dict(pairs)

    def refuse(constant):
        raise NoData(f"{constant} is not JSON")

    try:
        value = json.loads(text, object_pairs_hook=once, parse_constant=refuse)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise NoData("not JSON") from error

    def depth(item):
        inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else None
        return 0 if inner is None else 1 + max(map(depth, inner), default=0)

    need(depth(value) <= 33, "nested too deep")
    return value


class Oracle:
    """Content of a store.

    Args:
        path: Directory of the store.
    """

    def __init__(self, path):
        self.path = path
        self.manifest = json.loads((path / "manifest.json").read_bytes())
        self.bounds = self.manifest["bounds"]
        self.fields = {info["name"]: info for info in self.manifest["fields"]}
        for name in ("array", "field", "level", "level_field"):
            setattr(self, name, functools.cache(getattr(self, name)))  # freed together with the object

    def array(self, unit, part, name):
        """Return an array as it is stored and its attributes, or ``None`` if there is none."""
        found = self._array(f"shard-{unit:05d}.{part}.h5", name)
        owner = self.manifest
        if part != "graphs":
            owner = next(h for h in owner["hierarchies"] if h["name"] == part)
        pieces = [
            (piece, self._array(piece["file"], name)) for piece in owner["shards"][unit].get("pieces", ())
        ]
        pieces = [(piece, array) for piece, array in pieces if array is not None]
        if not pieces:
            return found
        need(found is None, f"{name} is in several places")
        is_edges = name.endswith("edge_index")
        for piece, (values, attributes) in pieces:
            need(values.dtype == pieces[0][1][0].dtype and attributes == pieces[0][1][1], "pieces differ")
            rows = values.shape[-1 if is_edges else 0] if values.ndim else -1
            need(
                any(rows == piece[key][1] - piece[key][0] for key in ("rows", "edges", "nodes")),
                "rows differ",
            )
        need(
            len({values.shape[:1] if is_edges else values.shape[1:] for _, (values, _) in pieces}) == 1,
            "axes differ",
        )
        joined = np.concatenate([values for _, (values, _) in pieces], axis=-1 if is_edges else 0)
        return joined, pieces[0][1][1]

    def _array(self, file, name):
        with h5py.File(self.path / file, "r") as file:
            if name not in file:
                return None
            found = file[name]
            need(isinstance(found, h5py.Dataset) and found.shape is not None, f"{name} is no array")
            need(found.size * found.dtype.itemsize <= MOST_BYTES, f"{name} is too large")
            need(found.dtype.kind in "iuf", f"{name} holds no numbers")
            check_chunks(found, name)
            return np.asarray(found[()]), {k: _text(v) for k, v in found.attrs.items()}

    def stored(self, unit, part, name):
        """Return an array that must exist."""
        found = self.array(unit, part, name)
        need(found is not None, f"{name} is missing")
        return found[0]

    def offsets(self, unit, part, name, total=None):
        """Return offsets that must be valid."""
        ptr = self.stored(unit, part, name)
        count = self.bounds[unit + 1] - self.bounds[unit]
        need(ptr.dtype.kind in "iu" and ptr.shape == (count + 1,), f"{name} is no list of offsets")
        values = [int(v) for v in ptr]
        need(values[0] == 0 and all(a <= b for a, b in pairwise(values)), f"{name} does not ascend from 0")
        need(total is None or values[-1] == total, f"{name} does not end at {total}")
        return values

    def locate(self, graph):
        """Return the unit of a graph and its row there."""
        unit = next(u for u, (a, b) in enumerate(pairwise(self.bounds)) if a <= graph < b)
        return unit, graph - self.bounds[unit]

    def field(self, graph, name):
        """Return a field of one graph: an array with its row axis, or the text of a string."""
        info = self.fields[name]
        unit, row = self.locate(graph)
        link = link_name(name)
        stored = self.stored(unit, "graphs", f"fields/{link}")
        attributes = self.array(unit, "graphs", f"fields/{link}")[1]
        kind = attributes.get("ptr")
        axis = 0 if info["axis"] == 0 else len(info["tail"])
        is_complex = info["dtype"].startswith("complex")
        shape = list(stored.shape[:-1] if is_complex else stored.shape)
        need(len(shape) == len(info["tail"]) + 1, "wrong number of axes")
        rows = shape.pop(axis)
        need(shape == info["tail"] and (not is_complex or stored.shape[-1] == 2), "wrong shape")
        node_ptr = self.offsets(unit, "graphs", "node_ptr")
        if kind == "graph":
            ptr = list(range(len(node_ptr)))
            need(rows == len(node_ptr) - 1, "rows do not fit")
        else:
            where = {"node": "node_ptr", "edge": "edge_ptr", "own": f"ptr/{link}"}[kind]
            ptr = self.offsets(unit, "graphs", where, rows)
        part = np.take(stored, np.arange(ptr[row], ptr[row + 1]), axis=axis)
        values = converted(part, info["dtype"])
        if info["shifted"]:
            size = node_ptr[row + 1] - node_ptr[row]
            need(all(0 <= int(v) < size for v in values.reshape(-1)), "id outside its graph")
        if info["form"] == "str":
            need(values.dtype == np.uint8 and values.ndim == 1, "text must be bytes")
            try:
                text = values.tobytes().decode()
            except UnicodeDecodeError as error:
                raise NoData("text is not UTF-8") from error
            return json_value(text, len(values)) if "encoding" in info else text
        need(info["form"] == "rows" or ptr[row + 1] - ptr[row] == 1, "one value per graph")
        need(info["form"] in ("rows", "stacked") or not info["tail"], "plain numbers have no axes")
        return values

    def num_nodes(self, graph):
        """Return the number of nodes of a graph."""
        unit, row = self.locate(graph)
        ptr = self.offsets(unit, "graphs", "node_ptr")
        return ptr[row + 1] - ptr[row]

    def level(self, graph, hierarchy, number, only=None):
        """Return the arrays of one level of one graph, or one of them beside the edges, and the number of supernodes."""
        entry = next(h for h in self.manifest["hierarchies"] if h["name"] == hierarchy)
        info = entry["levels"][number]
        unit, row = self.locate(graph)
        stored = functools.partial(self.array, unit, hierarchy)
        ptr = functools.partial(self.offsets, unit, hierarchy)
        nodes = self.offsets(unit, "graphs", "node_ptr")
        need(nodes == ptr("node_ptr"), "node_ptr differs from the graphs")
        for before in range(number):
            nodes = ptr(f"levels/{before}/super_ptr")
        base = f"levels/{number}"
        supers, edges = ptr(f"{base}/super_ptr"), ptr(f"{base}/edge_ptr")
        size, count = nodes[row + 1] - nodes[row], supers[row + 1] - supers[row]
        need(info["kind"] == "hard" or count in (0, info["width"]), "wrong number of supernodes")
        need(info["kind"] != "hard" or count <= size, "more supernodes than nodes")
        tails = {"soft": [info["width"]], "theta": [info["modes"]]}
        found = {"edge_index": _ids(stored(f"{base}/edge_index"), edges, row, 0, count, [2])}
        for name in info["arrays"]:
            if only not in (None, name):
                continue
            cut = {"edge_weight": edges, "representative": supers}.get(name, nodes)
            array = stored(f"{base}/{name}")
            if name in ("cluster", "representative"):
                low, high = (-1, count) if name == "cluster" else (0, size)
                absent = array is None and not supers[-1]
                rows = cut[row + 1] - cut[row]
                found[name] = np.full(rows, -1) if absent else _ids(array, cut, row, low, high, [])
                continue
            dtype = info["weight_dtype"] if name == "edge_weight" else "float32"
            tail = tails.get(name, [])
            if array is None:
                need(name in ("edge_weight", "weight") or not supers[-1], f"{name} is missing")
                fill = 1 if name in ("edge_weight", "weight") else 0
                found[name] = np.full((cut[row + 1] - cut[row], *tail), fill, dtype)
                continue
            need(list(array[0].shape) == [cut[-1], *tail], f"{name} has a wrong shape")
            found[name] = converted(array[0][cut[row] : cut[row + 1]], dtype)
        return found, count

    def level_field(self, graph, hierarchy, number, name):
        """Return an attribute of a level of one graph: an array, or the value of a JSON text."""
        entry = next(h for h in self.manifest["hierarchies"] if h["name"] == hierarchy)
        info = next(f for f in entry["levels"][number]["fields"] if f["name"] == name)
        unit, row = self.locate(graph)
        base, link = f"levels/{number}", link_name(name)
        kind = "own" if "encoding" in info else info["ptrs"][0]
        where = {"node": "super_ptr", "edge": "edge_ptr", "own": f"ptr/{link}"}[kind]
        stored = self.array(unit, hierarchy, f"{base}/fields/{link}")
        ptr = self.offsets(unit, hierarchy, f"{base}/{where}")
        if stored is None:
            need(not self.offsets(unit, hierarchy, f"{base}/super_ptr")[-1] and not ptr[-1], "missing")
            return np.zeros((0, *info["tail"]), info["dtype"])
        complex_axis = [2] if info["dtype"].startswith("complex") else []
        need(list(stored[0].shape) == [ptr[-1], *info["tail"], *complex_axis], f"{name} has a wrong shape")
        values = converted(stored[0][ptr[row] : ptr[row + 1]], info["dtype"])
        if "encoding" not in info:
            return values
        try:
            return json_value(values.tobytes().decode(), len(values))
        except UnicodeDecodeError as error:
            raise NoData("text is not UTF-8") from error

    def level_names(self, hierarchy, number):
        """Return the names of the attributes of a level."""
        entry = next(h for h in self.manifest["hierarchies"] if h["name"] == hierarchy)
        return [info["name"] for info in entry["levels"][number].get("fields", [])]

    def metrics(self, hierarchy, number):
        """Return the metrics of a level."""
        entry = next(h for h in self.manifest["hierarchies"] if h["name"] == hierarchy)
        found = {}
        for key in entry["metrics"]:
            level, name = key.split("/", 1)
            if int(level) == number:
                pieces = []
                for unit in range(len(self.bounds) - 1):
                    path = f"metrics/{level}/{link_name(name)}"
                    stored = self.stored(unit, hierarchy, path)
                    dtype = self.array(unit, hierarchy, path)[1].get("dtype")
                    need(isinstance(dtype, str) and np.dtype(dtype).kind in "biufc", "unknown type")
                    pieces.append(np.atleast_1d(converted(stored, dtype)))
                found[name] = np.concatenate(pieces)
        return found

    def failures(self, hierarchy):
        """Return graph, level and reason of every failure."""
        entry = next(h for h in self.manifest["hierarchies"] if h["name"] == hierarchy)
        found = []
        for unit, shard in enumerate(entry["shards"]):
            if shard["failures"]:
                graphs, levels = (self.stored(unit, hierarchy, f"failures/{n}") for n in ("graph", "level"))
                need(graphs.shape == levels.shape == (shard["failures"],), "wrong number of failures")
                need(graphs.dtype.kind in "iu" and levels.dtype.kind in "iu", "failures hold no integers")
                text = self.stored(unit, hierarchy, "failures/reason")
                need(text.ndim == 1 and text.dtype == np.uint8, "reasons are no bytes")
                ptr = [int(v) for v in self.stored(unit, hierarchy, "failures/reason_ptr")]
                need(len(ptr) == len(graphs) + 1 and sorted(ptr) == ptr, "reasons are not cut")
                need(ptr[0] == 0 and ptr[-1] == len(text), "reasons are not cut")
                for i, (graph, level) in enumerate(zip(graphs, levels, strict=True)):
                    need(self.bounds[unit] <= graph < self.bounds[unit + 1], "failure of another unit")
                    need(0 <= level < len(entry["levels"]), "failure at no level")
                    reason = text[ptr[i] : ptr[i + 1]].tobytes().decode("utf-8", "replace")
                    found.append((int(graph), int(level), reason))
        return found


def _ids(array, ptr, row, low, high, tail):
    need(array is not None, "ids are missing")
    stored = array[0]
    need(stored.dtype.kind in "iu" and list(stored.shape) == [*tail, ptr[-1]], "ids have a wrong shape")
    part = stored[..., ptr[row] : ptr[row + 1]]
    need(all(low <= int(v) < high for v in part.reshape(-1)), "id outside its graph")
    return part.astype(np.int64)


def _text(value):
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
