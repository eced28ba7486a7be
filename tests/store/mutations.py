"""Catalogue of semantic mutations of stores. Checksums, sizes, fingerprints and records are right again afterwards.

The tables in this module are applied to every array, attribute and JSON value of the base stores. Mutations of
:mod:`tests.store.mutations_named` are written by hand: they change several places so that these agree.
"""

import copy
import functools
import json
from collections.abc import Callable
from dataclasses import dataclass

import h5py
import numpy as np

from tests.store.mutation_stores import ESCAPES, MARKUP, Forge, Raw, replace_array, set_attribute

__all__ = ["Mutation", "catalogue"]


@dataclass(frozen=True)
class Mutation:
    """Change of a base store.

    Args:
        name: Unique name.
        base: Name of the base store.
        apply: Function that changes a :class:`Forge`. It may return a function to call after ``save``.
        tags: Points of the review that it tests.
        unsound: True if verification must report it, even if every reader finds valid data.
    """

    name: str
    base: str
    apply: Callable
    tags: tuple = ()
    unsound: bool = False


# Arrays ---------------------------------------------------------------------------------------------------

WIDER = {"u1": "<u2", "u2": "<u4", "u4": "<u8", "u8": "<u4", "i1": "<i2", "i2": "<i4", "i4": "<i8", "i8": "<i4",
         "f2": "<f4", "f4": "<f8", "f8": "<f4"}  # fmt: skip


def _with(values, position, value):
    changed = values.copy()
    changed.reshape(-1)[position] = value
    return changed


def _limit(values, name):
    info = np.iinfo(values.dtype) if values.dtype.kind in "iu" else np.finfo(values.dtype)
    return getattr(info, name)


def _row_axis(path):
    return -1 if path.endswith(("edge_index", "_index", "own_last")) else 0


def _resized(values, path, extra):
    axis = _row_axis(path)
    rows = np.arange(values.shape[axis] + extra).clip(0, values.shape[axis] - 1)
    return np.take(values, rows, axis=axis)


ARRAY_OPS = {
    # name: function of values and path, which returns the new values or (values, options)
    "wider": lambda v, p: v.astype(WIDER[v.dtype.str[1:]]),
    "narrow": lambda v, p: v.astype(
        "<f2" if v.dtype.kind == "f" else "|i1" if v.dtype.kind == "i" else "|u1"
    ),
    "kind": lambda v, p: v.astype("<f4" if v.dtype.kind in "iu" else "<i8"),
    "sign": lambda v, p: v.view(v.dtype.str.translate(str.maketrans("ui", "iu"))),
    "big-endian": lambda v, p: v.astype(v.dtype.newbyteorder(">")),
    "enum": lambda v, p: v != 0,
    "compound": lambda v, p: v.astype(np.complex64),
    "strings": lambda v, p: np.full(v.shape, b"text"),
    "more-axes": lambda v, p: v[..., None],
    "scalar": lambda v, p: v.reshape(-1)[0],
    "flat": lambda v, p: v.reshape(-1),
    "transposed": lambda v, p: np.ascontiguousarray(v.T),
    "empty": lambda v, p: np.take(v, np.arange(0), axis=_row_axis(p)),
    "short": lambda v, p: _resized(v, p, -1),
    "long": lambda v, p: _resized(v, p, 1),
    "first-max": lambda v, p: _with(v, 0, _limit(v, "max")),
    "last-max": lambda v, p: _with(v, -1, _limit(v, "max")),
    "first-min": lambda v, p: _with(v, 0, _limit(v, "min")),
    "negative": lambda v, p: _with(v.astype("<i8"), 0, -2),
    "wraps": lambda v, p: _with(v.astype("<u8"), -1, 2**64 - 1),
    "uint64": lambda v, p: v.astype("<u8"),
    "huge": lambda v, p: _with(v.astype("<i8"), -1, 2**62 - 1),
    "nan": lambda v, p: _with(v, 0, np.nan),
    "inf": lambda v, p: _with(v, -1, np.inf),
    "chunked": lambda v, p: (v, {"chunks": True}),
    "gzip": lambda v, p: (v, {"chunks": True, "compression": "gzip", "shuffle": True, "fletcher32": True}),
    "lzf": lambda v, p: (v, {"chunks": True, "compression": "lzf"}),
    "contiguous": lambda v, p: (v, {}),
    "resizable": lambda v, p: (v, {"chunks": True, "maxshape": (None,) * v.ndim}),
    "compact": lambda v, p: (v, {"compact": True}),
    "unwritten": lambda v, p: ((v.shape, v.dtype), {"chunks": v.shape, "compression": "gzip"}),
    "reversed": lambda v, p: v[::-1],
    "plus-one": lambda v, p: v + 1,
    "not-to-the-end": lambda v, p: _with(v, -1, v[-1] - 1),
    "decreasing": lambda v, p: _with(_with(v, 1, v[2]), 2, v[1]),
    "all-in-the-first": lambda v, p: _with(np.full_like(v, v[-1]), 0, 0),
    "all-in-the-last": lambda v, p: _with(np.zeros_like(v), -1, v[-1]),
}
LAYOUT = ("chunked", "gzip", "lzf", "resizable", "compact", "unwritten")
TYPES = ("wider", "narrow", "kind", "sign", "big-endian", "enum", "compound", "strings")
SHAPES = ("more-axes", "scalar", "empty", "short", "long")
IDS = ("first-max", "last-max", "negative", "uint64", "wraps", "huge")
OFFSETS = (
    *IDS,
    "reversed",
    "plus-one",
    "not-to-the-end",
    "decreasing",
    "all-in-the-first",
    "all-in-the-last",
)
REALS = ("nan", "inf", "first-max", "first-min")
GONE = ("missing", "group", "null", "soft-link")

ARRAYS = [
    # base, part, unit, path, operations
    ("cli", "graphs", 1, "node_ptr", (*TYPES, *SHAPES, *OFFSETS, *LAYOUT, *GONE)),
    ("cli", "graphs", 1, "edge_ptr", (*TYPES, *SHAPES, *OFFSETS, *GONE)),
    ("cli", "graphs", 0, "fields/edge_index", (*TYPES, *SHAPES, *IDS, *LAYOUT, *GONE, "flat", "transposed")),
    ("cli", "graphs", 2, "fields/x", (*TYPES, *SHAPES, *REALS, *LAYOUT, *GONE, "flat", "transposed")),
    ("cli", "graphs", 1, "fields/y", (*TYPES, *SHAPES, "negative", "wraps", "huge", *GONE)),
    ("cli", "h", 1, "node_ptr", ("wider", "kind", "short", "long", "huge", "plus-one", "missing", "all-in-the-first")),
    ("cli", "h", 0, "levels/0/super_ptr", (*TYPES, *SHAPES, *OFFSETS, *GONE)),
    ("cli", "h", 2, "levels/1/super_ptr", ("wider", "kind", "short", "long", *OFFSETS, "missing")),
    ("cli", "h", 1, "levels/0/edge_ptr", ("wider", "kind", "short", "long", *OFFSETS, "missing")),
    ("cli", "h", 1, "levels/1/edge_index", (*TYPES, *SHAPES, *IDS, *LAYOUT, *GONE, "transposed")),
    ("cli", "h", 1, "levels/0/edge_weight", (*TYPES, *SHAPES, *REALS, "missing", "null")),
    ("cli", "h", 1, "levels/0/cluster", (*TYPES, *SHAPES, *IDS, *LAYOUT, *GONE)),
    ("cli", "h", 1, "levels/1/cluster", ("wider", "kind", "short", *IDS, "missing")),
    ("cli", "h", 0, "levels/1/weight", (*TYPES, *SHAPES, *REALS, "missing")),
    ("cli", "h", 0, "levels/0/representative", (*TYPES, *SHAPES, *IDS, "missing", "first-min")),
    ("cli", "h", 1, "metrics/0/cut", (*TYPES, *SHAPES, *REALS, *GONE, "unwritten")),
    ("cli", "h", 1, "metrics/1/dropped", ("wider", "kind", *SHAPES, *IDS, "missing", "strings")),
    ("small", "graphs", 0, "node_ptr", ("contiguous", "wider", "unwritten", "compact", "huge", "resizable")),
    ("small", "graphs", 1, "fields/x", ("contiguous", "wider", "unwritten", "compact", "lzf", "nan", "resizable")),
    ("small", "h", 1, "levels/0/cluster", ("contiguous", "wider", "unwritten", "compact", "lzf", "wraps")),
    ("small", "h", 0, "levels/1/edge_index", ("contiguous", "wider", "unwritten", "compact", "lzf", "huge")),
    ("soft", "h", 0, "levels/0/theta", (*TYPES, *SHAPES, "nan", "missing", "transposed")),
    ("soft", "h", 1, "levels/0/weight", ("wider", "narrow", "kind", *SHAPES, "nan", "missing")),
    ("soft", "h", 0, "levels/0/cluster", ("wider", "kind", *SHAPES, *IDS, "missing")),
    ("soft", "h", 0, "levels/1/soft", (*TYPES, *SHAPES, "nan", "missing", "transposed")),
    ("soft", "h", 1, "levels/0/super_ptr", ("all-in-the-first", "all-in-the-last", "huge", "decreasing")),
    ("soft", "h", 0, "failures/graph", ("wider", "kind", *SHAPES, *IDS, *GONE)),
    ("soft", "h", 0, "failures/level", ("wider", "kind", *SHAPES, *IDS, *GONE)),
    ("soft", "h", 0, "failures/reason", (*TYPES, *SHAPES, "first-max", *GONE)),
    ("soft", "h", 1, "failures/reason_ptr", ("kind", *SHAPES, "huge", "wraps", "plus-one", *GONE)),
    ("soft", "h", 0, "metrics/1/flags", (*TYPES, *SHAPES, "first-max")),
    ("soft", "h", 0, "metrics/2/pairs", (*TYPES, *SHAPES, "transposed")),
    ("soft", "h", 0, "metrics/2/total", ("wider", "kind", "more-axes", "missing")),
    ("lean", "graphs", 0, "node_ptr", ("wider", "kind", "short", "huge", "all-in-the-first", "missing")),
    ("divided", "graphs.r0001", 0, "fields/edge_index", (*TYPES, *SHAPES, *IDS, *LAYOUT, *GONE, "flat", "transposed", "reversed")),
    ("divided", "graphs.r0000", 0, "fields/x", (*TYPES, *SHAPES, *REALS, *LAYOUT, *GONE, "flat", "transposed")),
    ("divided", "graphs.r0001", 0, "fields/train_mask", ("first-max", "wider", "missing", "short")),
    ("divided", "h", 0, "levels/0/edge_ptr", ("kind", "short", *IDS, "plus-one", "not-to-the-end", "missing")),
    ("divided", "h.r0000", 0, "levels/0/edge_index", (*TYPES, *SHAPES, *IDS, *LAYOUT, *GONE, "transposed", "plus-one")),
    ("divided", "h.r0001", 0, "levels/0/cluster", (*TYPES, *SHAPES, *IDS, *LAYOUT, *GONE, "reversed")),
    ("divided", "h.r0001", 0, "levels/0/representative", ("wider", "short", *IDS, "missing", "reversed")),
    ("divided", "h.r0001", 0, "levels/0/fields/pos", (*TYPES, *SHAPES, *REALS, "missing")),
    ("divided", "h.r0000", 0, "levels/0/fields/edge_attr", ("wider", "short", "long", "missing")),
]  # fmt: skip
FIELD_OPS = ("wider", "narrow", "kind", "sign", "more-axes", "short", "first-max", "negative")


def _change_array(name, part, unit, path, forge):
    with forge.shard(part, unit) as file:
        if name == "missing":
            del file[path]
        elif name == "group":
            del file[path]
            file.create_group(path)
        elif name == "null":
            replace_array(file, path, h5py.Empty("<f4"))
        elif name == "soft-link":
            file.move(path, "elsewhere")
            file[path] = h5py.SoftLink("/elsewhere")
        else:
            changed = ARRAY_OPS[name](file[path][()], path)
            values, options = changed if isinstance(changed, tuple) else (changed, {})
            replace_array(file, path, values, **options)


def _array_mutations(base, part, unit, path, names, tags=()):
    for name in names:
        apply = functools.partial(_change_array, name, part, unit, path)
        yield Mutation(f"array/{base}/{part}/{path}/{name}", base, apply, tags)


def _field_mutations(bases):
    """Yield mutations of the values and offsets of every field of the base store ``fields``."""
    with h5py.File(bases / "fields" / "shard-00000.graphs.h5") as file:
        kinds = {name: file["fields"][name].dtype for name in file["fields"]}
        own = list(file["ptr"])
    for name, dtype in kinds.items():
        skipped = {"u": ("first-min",), "i": (), "f": ("negative", "sign", "first-max")}[dtype.kind]
        names = [op for op in FIELD_OPS if op not in skipped and (op != "narrow" or dtype.itemsize > 1)]
        tags = ("S1",) if "complex" in name or "bool" in name else ()
        yield from _array_mutations("fields", "graphs", 0, f"fields/{name}", names, tags)
    for name in own:
        names = ("kind", "short", "long", "huge", "decreasing", "all-in-the-first")
        yield from _array_mutations("fields", "graphs", 1, f"ptr/{name}", names)


# Attributes -----------------------------------------------------------------------------------------------

ATTRIBUTES = [
    # base, part, path of the object, attribute
    *(("cli", "graphs", "/", key) for key in ("format", "version", "profile", "part", "unit", "num_graphs")),
    *(("cli", "h", "/", key) for key in ("first_graph", "num_levels", "part", "num_graphs")),
    *(("cli", "graphs", "fields/x", key) for key in ("dtype", "axis", "form", "shifted", "ptr")),
    ("cli", "graphs", "node_ptr", "dtype"),
    ("cli", "h", "levels/0", "method"),
    ("cli", "h", "levels/0", "kind"),
    ("cli", "h", "levels/0/cluster", "dtype"),
    ("cli", "h", "levels/0/edge_weight", "dtype"),
    ("cli", "h", "metrics/0/cut", "dtype"),
    ("soft", "h", "levels/0/theta", "dtype"),
    ("soft", "h", "failures/reason", "dtype"),
    ("soft", "h", "metrics/1/flags", "dtype"),
]
PIECE_ATTRIBUTES = [
    *(
        ("graphs.r0000", "/", key)
        for key in ("format", "profile", "part", "unit", "piece", "level", "rows_low", "edges_high")
    ),
    *(("graphs.r0001", "fields/x", key) for key in ("dtype", "axis", "ptr")),
    *(("h.r0001", "levels/0/cluster", "dtype"), ("h.r0001", "/", "nodes_low")),
]
"""File, object and attribute of the base store ``divided``."""


def _array_attribute(target, key):
    target.attrs[key] = np.arange(3)


def _variable_attribute(target, key):
    target.attrs[key] = "text of variable length"


def _float_attribute(target, key):
    target.attrs.create(key, 1.5, dtype="<f8")


def _renamed_attribute(target, key):
    target.attrs[f"{key}_"] = target.attrs[key]
    del target.attrs[key]


ATTRIBUTE_OPS = {
    "missing": lambda target, key: target.attrs.__delitem__(key),
    "text": lambda target, key: set_attribute(target, key, "other"),
    "number": lambda target, key: set_attribute(target, key, 3),
    "negative": lambda target, key: set_attribute(target, key, -1),
    "largest": lambda target, key: set_attribute(target, key, 2**63 - 1),
    "long": lambda target, key: set_attribute(target, key, "x" * 5000),
    "escapes": lambda target, key: set_attribute(target, key, ESCAPES),
    "list": _array_attribute,
    "variable": _variable_attribute,
    "float": _float_attribute,
    "renamed": _renamed_attribute,
}
DTYPES = (
    "bool",
    "int8",
    "uint64",
    "float16",
    "complex128",
    "S1000000000",
    "O",
    "f4,f4",
    "object",
    "<M8[s]",
    "",
)


def _change_attribute(name, part, path, key, forge):
    for unit, file in forge.each(part):
        if unit == 1:
            ATTRIBUTE_OPS[name](file[path], key)


def _change_piece_attribute(name, part, path, key, forge):
    with forge.shard(part) as file:
        ATTRIBUTE_OPS[name](file[path], key)


def _declare(value, part, path, forge):
    for _, file in forge.each(part):
        set_attribute(file[path], "dtype", value)


def _attribute_mutations():
    for base, part, path, key in ATTRIBUTES:
        for name in ATTRIBUTE_OPS:
            tags = ("S4",) if name == "escapes" else ()
            apply = functools.partial(_change_attribute, name, part, path, key)
            yield Mutation(f"attribute/{base}/{part}/{path.strip('/')}@{key}/{name}", base, apply, tags)
    for part, path, key in PIECE_ATTRIBUTES:
        for name in ATTRIBUTE_OPS:
            tags = ("S4",) if name == "escapes" else ()
            apply = functools.partial(_change_piece_attribute, name, part, path, key)
            yield Mutation(f"attribute/divided/{part}/{path.strip('/')}@{key}/{name}", "divided", apply, tags)
    for base, path in (("cli", "metrics/0/cut"), ("soft", "metrics/1/flags"), ("soft", "metrics/2/total")):
        for value in DTYPES:
            tags = ("S5",) if value.startswith("S1") else ("S7",)
            apply = functools.partial(_declare, value, "h", path)
            yield Mutation(f"attribute/{base}/h/{path}@dtype={value}", base, apply, tags)


# JSON -----------------------------------------------------------------------------------------------------

MISSING = object()
DEEP = functools.reduce(lambda inner, _: [inner], range(40), 1)
JSON_VALUES = {
    # kind of the present value: new values
    int: {
        "missing": MISSING, "true": True, "text": "7", "negative": -1, "half": 0.5, "zero": 0, "2^53": 2**53,
        "2^62-1": 2**62 - 1, "2^63": 2**63, "2^70": 2**70, "1e400": Raw("1e400"), "digits": Raw("9" * 5000),
    },
    str: {
        "missing": MISSING, "number": 7, "empty": "", "surrogate": "\ud800", "escapes": ESCAPES,
        "markup": MARKUP, "formula": "=1+1", "path": "../../evil", "long": "x" * 100_000,
    },
    bool: {"missing": MISSING, "number": 1, "flipped": "flip"},
    list: {
        "missing": MISSING, "object": {}, "empty": [], "twice": "twice", "nulls": [None, None],
        "long": [0] * 200_000, "deep": DEEP,
    },
    dict: {"missing": MISSING, "null": None, "list": [], "empty": {}, "deep": {"a": DEEP}},
    type(None): {"number": 3, "2^61": 2**61, "text": "float32", "list": []},
    float: {"missing": MISSING, "null": None, "1e400": Raw("1e400"), "text": "0.5"},
}  # fmt: skip
SKIPPED_KEYS = ("checksum", "sha256", "ends")


def _paths(value, prefix=()):
    """Yield the path and value of every JSON value. Of a list, only the first item is visited, and the last one of numbers."""
    if prefix:
        yield prefix, value
    if isinstance(value, dict):
        for key in sorted(value):
            if key not in SKIPPED_KEYS:
                yield from _paths(value[key], (*prefix, key))
    elif isinstance(value, list) and value:
        for position in {0, len(value) - 1} if isinstance(value[0], int) else {0}:
            yield from _paths(value[position], (*prefix, position))


def set_path(document, path, value):
    """Set or remove a value in nested JSON objects."""
    target = functools.reduce(lambda inner, key: inner[key], path[:-1], document)
    if value is MISSING:
        del target[path[-1]]
    elif isinstance(value, str) and value == "twice":
        target[path[-1]] = target[path[-1]] * 2
    elif isinstance(value, str) and value == "flip":
        target[path[-1]] = not target[path[-1]]
    else:
        target[path[-1]] = copy.deepcopy(value)


def _json_tags(name):
    points = {"1e400": "S7", "surrogate": "S7", "escapes": "S4", "formula": "S9", "path": "S9", "2^61": "S7"}
    return tuple(point for key, point in points.items() if name == key)


def _change_manifest(path, value, forge: Forge):
    set_path(forge.manifest, path, value)


def _change_record(file, path, value, lost, forge: Forge):
    def after():
        forge.record(file, lambda values: set_path(values, path, value))
        if lost:
            (forge.path / "manifest.json").unlink()

    return after


def _manifest_mutations(bases):
    for base, skipped in (
        ("cli", ("count_edges", "degree_norm", "score_heuristic", "order_k")),
        ("soft", ("fields", "schedule", "shards", "bounds", "dataset")),
        ("divided", ("fields", "schedule", "dataset", "levels", "hierarchies")),
    ):
        manifest = json.loads((bases / base / "manifest.json").read_bytes())
        for path, value in _paths(manifest):
            if any(key in skipped for key in path) or (base == "soft" and "hierarchies" not in path):
                continue
            for name, new in JSON_VALUES[type(value)].items():
                where = ".".join(str(key) for key in path)
                apply = functools.partial(_change_manifest, path, new)
                yield Mutation(f"manifest/{base}/{where}/{name}", base, apply, _json_tags(name))


def _record_mutations(bases):
    names = ("spec.json", "spec.h.json", "shard-00000.graphs.json", "shard-00001.h.json")
    files = [*(("cli", name) for name in names), ("divided", "shard-00000.h.r0001.json")]
    kept = ("missing", "2^63", "1e400", "surrogate", "escapes", "object", "long", "deep")
    for base, file in files:
        values = json.loads((bases / base / "records" / file).read_bytes())
        for path, value in _paths(values):
            if len(path) > 3 or "metrics" in path[:-1] or "params" in path[:-1]:
                continue
            for name, new in JSON_VALUES[type(value)].items():
                if name in kept and not (file.startswith("shard") and name == "deep"):
                    where = ".".join(str(key) for key in path)
                    apply = functools.partial(_change_record, file, path, new, file.startswith("spec"))
                    tags = _json_tags(name)
                    yield Mutation(f"record/{file.removesuffix('.json')}/{where}/{name}", base, apply, tags)


# Fields: form, type, tail, axis, shifted and offsets against each other ---------------------------------------

COMBINATIONS = {
    "form": ("stacked", "int", "float", "bool", "str", "rows", "json"),
    "encoding": ("json", "xml", ""),
    "dtype": ("bool", "int8", "uint64", "float16", "float64", "complex64", "complex128", "int64"),
    "tail": ([], [1], [0], [2**61], [2**31, 2**31], [3], [1] * 40),
    "axis": (-1, 0),
    "shifted": (True, False),
    "ptrs": (["own"], ["graph", "own"], ["edge", "own"], ["node", "own"], ["own", "node"], ["node", "node"]),
}


def _change_field(name, key, value, forge: Forge):
    """Change the declaration of a field in the manifest, and the attributes of its array in all shards."""
    info = next(info for info in forge.manifest["fields"] if info["name"] == name)
    info[key] = value
    if key != "tail":
        attribute, shown = ("ptr", value[0]) if key == "ptrs" else (key, value)
        for _, file in forge.each("graphs"):
            set_attribute(file[f"fields/{name}"], attribute, int(shown) if isinstance(shown, bool) else shown)


def _combination_mutations(bases):
    fields = {f["name"]: f for f in json.loads((bases / "fields" / "manifest.json").read_bytes())["fields"]}
    for name in ("x", "edge_index", "y", "g_str", "g_json", "g_int", "n_complex128", "own_last"):
        for key, values in COMBINATIONS.items():
            for value in values:
                if fields[name].get(key) != value:
                    shown = str(value).replace(" ", "") if len(str(value)) < 40 else f"{len(value)}-axes"
                    tags = ("S7",) if name == "edge_index" or key == "form" else ()
                    apply = functools.partial(_change_field, name, key, value)
                    yield Mutation(f"field/{name}/{key}={shown}", "fields", apply, tags)


def catalogue(bases):
    """Return all mutations.

    Args:
        bases: Directory of the base stores.
    """
    from tests.store.mutations_named import named_mutations

    found = [*named_mutations()]
    for entry in ARRAYS:
        found += _array_mutations(*entry)
    found += [*_field_mutations(bases), *_attribute_mutations(), *_combination_mutations(bases)]
    found += [*_manifest_mutations(bases), *_record_mutations(bases)]
    names = [m.name for m in found]
    assert len(set(names)) == len(names), [n for n in names if names.count(n) > 1]
    return found
