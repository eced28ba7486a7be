"""Decode bytes into changes of a valid store: the input format of the store fuzzer.

Every sequence of bytes is a list of changes: of JSON values, arrays, attributes, declarations of fields, counts, and raw
bytes. Checksums, sizes, fingerprints and records are right again afterwards, so that the changes reach the code behind
them. Replaying an input needs neither the fuzzer nor random numbers.
"""

import contextlib
import functools
import json
import shutil
from pathlib import Path

import h5py
import numpy as np

from tests.store.mutation_stores import BASES, ESCAPES, Forge, Raw, replace_array, set_attribute
from tests.store.mutations import ARRAY_OPS, COMBINATIONS, MISSING, set_path

MOST_EDITS = 4
INTEGERS = (0, 1, -1, 2, 3, 127, 128, 255, 256, 2**15, 2**16, 2**31 - 1, 2**31, 2**32, 2**34, 2**53, 2**61, 2**62 - 1,
            2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**70)  # fmt: skip
TEXTS = ("", "x", "graphs", "node", "edge", "graph", "own", "hard", "onehot", "soft", "rows", "stacked", "int", "float",
         "bool", "str", "int64", "uint64", "float16", "float32", "float64", "complex128", "fast", "small", "cluster",
         "edge_weight", "theta", "weight", "representative", "../x", "\ud800", ESCAPES, "=1", "0/cut", "a" * 5000)  # fmt: skip
OTHERS = (MISSING, None, True, False, [], {}, 0.5, Raw("1e400"), Raw("NaN"), [0], [[]], {"a": 1})
DTYPES = (
    "|u1",
    "|i1",
    "<u2",
    "<i2",
    "<u4",
    "<i4",
    "<u8",
    "<i8",
    "<f2",
    "<f4",
    "<f8",
    ">i4",
    "?",
    "<c8",
    "S3",
)


class Cursor:
    """Reader of numbers and choices from bytes. It returns zeros after the end."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def __bool__(self):
        return self.at < len(self.data)

    def number(self, size=1):
        """Return an unsigned integer of ``size`` bytes."""
        piece = self.data[self.at : self.at + size]
        self.at += size
        return int.from_bytes(piece, "little")

    def choice(self, items):
        """Return one item of a sequence."""
        return items[self.number(1 if len(items) <= 256 else 2) % len(items)]

    def integer(self):
        """Return an interesting or arbitrary integer."""
        kind = self.number()
        if kind < 160:
            return INTEGERS[kind % len(INTEGERS)]
        return self.number(1 if kind < 220 else 8)

    def value(self):
        """Return a JSON value."""
        kind = self.number() % 4
        if kind == 0:
            return self.integer()
        if kind == 1:
            return self.choice(TEXTS)
        if kind == 2:
            return self.choice(OTHERS)
        return [self.integer() for _ in range(self.number() % 5)]


def _paths(value, prefix=()):
    """Yield the path of every value of a JSON document."""
    if prefix:
        yield prefix
    if isinstance(value, dict):
        for key in sorted(value):
            if key not in ("checksum", "sha256", "ends"):
                yield from _paths(value[key], (*prefix, key))
    elif isinstance(value, list):
        for position in range(min(len(value), 8)):
            yield from _paths(value[position], (*prefix, position))


def _edit_json(cursor, values):
    paths = list(_paths(values))
    if not paths:
        return
    path, kind = cursor.choice(paths), cursor.number() % 8
    with contextlib.suppress(KeyError, IndexError, TypeError):
        if kind == 0:  # copy another value
            other = functools.reduce(lambda inner, key: inner[key], cursor.choice(paths), values)
            set_path(values, path, json.loads(json.dumps(other)))
        elif kind == 1:  # an additional key
            target = functools.reduce(lambda inner, key: inner[key], path[:-1], values)
            key, value = cursor.choice(TEXTS), cursor.value()
            if isinstance(target, dict) and value is not MISSING:
                target[key] = value
        else:
            set_path(values, path, cursor.value())


def _edit_manifest(cursor, forge):
    _edit_json(cursor, forge.manifest)


def _names(file):
    found = []
    file.visit(found.append)
    return sorted(found)


@functools.cache
def _shards(path):
    return sorted(file.name for file in Path(path).glob("shard-*.h5"))


def _open(cursor, forge):
    _, name, _ = cursor.choice(_shards(str(forge.path))).split(".")
    unit = cursor.number() % forge.units
    return forge.shard(name, unit)


def _edit_array(cursor, forge):
    with _open(cursor, forge) as file:
        paths = [name for name in _names(file) if isinstance(file[name], h5py.Dataset)]
        path, kind = cursor.choice(paths), cursor.number() % 6
        values = file[path][()] if file[path].shape is not None else np.zeros(1)
        options = {}
        if kind == 0:
            values = values.astype(cursor.choice(DTYPES))
        elif kind == 1:
            shape = [cursor.number() % 12 for _ in range(cursor.number() % 4)]
            values = np.resize(values, shape) if values.size else np.zeros(shape, values.dtype)
        elif kind == 2 and values.size:
            number = cursor.integer() % 2**64
            values = np.array(values)
            place = cursor.number(2) % values.size
            values.reshape(-1)[place] = np.array(number, np.uint64).astype(values.dtype)
        elif kind == 3 and values.size and values.dtype.kind in "iu":
            values = values.astype("<u8")
            values.reshape(-1)[cursor.number(2) % values.size] = cursor.integer() % 2**64
        elif kind == 4:
            del file[path]
            return
        else:
            changed = ARRAY_OPS[cursor.choice(sorted(ARRAY_OPS))](values, path)
            values, options = changed if isinstance(changed, tuple) else (changed, {})
        replace_array(file, path, values, **options)


def _edit_attribute(cursor, forge):
    with _open(cursor, forge) as file:
        target = file[cursor.choice(["/", *_names(file)])]
        keys = sorted(target.attrs) or ["dtype"]
        key, value = cursor.choice([*keys, "extra"]), cursor.value()
        if value is MISSING or value is None:
            target.attrs.pop(key, None)
        elif isinstance(value, bool | float) or not isinstance(value, int | str):
            target.attrs[key] = np.arange(3)
        elif isinstance(value, int):
            set_attribute(target, key, (value + 2**63) % 2**64 - 2**63)
        else:
            set_attribute(target, key, value)


def _edit_field(cursor, forge):
    """Change a field in the manifest and in the attributes of all shards."""
    info = cursor.choice(forge.manifest["fields"])
    key = cursor.choice(sorted(COMBINATIONS))
    value = cursor.choice(COMBINATIONS[key])
    info[key] = value
    if key != "tail":
        attribute, shown = ("ptr", value[0]) if key == "ptrs" else (key, value)
        for _, file in forge.each("graphs"):
            set_attribute(
                file[f"fields/{info['name']}"], attribute, int(shown) if isinstance(shown, bool) else shown
            )


def _edit_count(cursor, forge):
    """Change the last offset of one or all shards, and the total in the manifest."""
    choices = [("graphs", "node_ptr", "nodes", 0), ("graphs", "edge_ptr", "edges", 0)]
    for entry in forge.manifest["hierarchies"]:
        for level in range(len(entry["levels"])):
            choices.append((entry["name"], f"levels/{level}/super_ptr", "nodes", level))
            choices.append((entry["name"], f"levels/{level}/edge_ptr", "edges", level))
    part, path, key, level = cursor.choice(choices)
    value, only = cursor.integer() % 2**64, cursor.number()
    for unit, file in forge.each(part):
        if path in file and (only % 3 or unit == 0):
            ptr = file[path][()].astype("<u8")
            ptr[-1] = value
            replace_array(file, path, ptr)
            forge.owner(part)["shards"][unit][key][level] = value


def _edit_bytes(cursor, forge):
    file = forge.path / cursor.choice(_shards(str(forge.path)))
    data = bytearray(file.read_bytes())
    for _ in range(1 + cursor.number() % 8):
        data[cursor.number(3) % len(data)] = cursor.number()
    file.write_bytes(data)


EDITS = (_edit_manifest, _edit_array, _edit_attribute, _edit_field, _edit_count, _edit_bytes, _edit_array,
         _edit_manifest)  # fmt: skip


def apply_input(data, bases, target):
    """Make a changed copy of a base store.

    Args:
        data: Bytes of the input.
        bases: Directory of the base stores.
        target: Directory of the copy, which is replaced.

    Returns:
        Name of the base store.
    """
    cursor = Cursor(data)
    base = cursor.choice(BASES)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(bases / base, target)
    forge = Forge(target)
    record = None
    for _ in range(MOST_EDITS):
        if not cursor:
            break
        number = cursor.number() % (len(EDITS) + 1)
        if number == len(EDITS):
            record = cursor
            break
        with contextlib.suppress(Exception):  # a change that does not apply to what is left of the store
            EDITS[number](cursor, forge)
    forge.save()
    if record is not None:
        names = sorted(file.name for file in (target / "records").glob("*.json"))
        with contextlib.suppress(Exception):
            forge.record(record.choice(names), lambda values: _edit_json(record, values))
        if record.number() % 2:
            (target / "manifest.json").unlink()
    return base


def describe(data, bases, target):
    """Return the differences of the JSON files of an input from its base store, for people."""
    base = apply_input(data, bases, target)
    changed = []
    for file in sorted((bases / base).rglob("*")):
        other = target / file.relative_to(bases / base)
        if file.is_file() and (not other.exists() or other.read_bytes() != file.read_bytes()):
            changed.append(str(file.relative_to(bases / base)))
    return f"{base}: {', '.join(changed)}"


__all__ = ["Cursor", "apply_input", "describe"]
