"""Base stores of the mutation catalogue, and the tools with which an attacker changes them.

A :class:`Forge` changes shards and JSON files of a copy of a base store. ``save`` then updates sizes, checksums,
fingerprints and completion records, so that only the changed content can give the attacker away.
"""

import contextlib
import hashlib
import io
import json
import math
import sys
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np

from tests.store.divided_stores import halved, open_writer, sorted_table
from tgp.ragged import Field, GraphTable
from tgp.ragged.offsets import offsets
from tgp.store import FailureRecord, HierarchySpec, StoreSpec, StoreWriter, data_digest
from tgp.store.format.strict_json import Document
from tgp.testing.stores import halving, random_hierarchy, random_level_fields, random_table, write_store

ESCAPES = "\x1b]0;pwn\x07\x1b[2J\x9b31m\u202eevil\u2066\x08\x7f\r\nFAKE line"
"""Control characters, terminal sequences, bidi marks, and a line break that starts a forged line."""

MARKUP = '"><img src=x onerror=pwn()>'
COARSEN = {
    "cli": ["--dataset", "molecules", "--limit", "8", "--pooler", "ndp,kmis", "--name", "h"],
    "small": ["--dataset", "molecules", "--limit", "6", "--pooler", "graclus*2", "--name", "h"],
}
"""Options of ``tgp coarsen`` that make, and continue, a base store."""
_SIZES = {"cli": ["--shard-size", "5kB"], "small": ["--shard-size", "8kB", "--profile", "small"]}


@dataclass(frozen=True)
class Raw:
    """Text that is written into a JSON file as it is, such as ``1e400``."""

    text: str


def coarsen_options(base, path):
    """Return the arguments of the command that makes or continues a base store."""
    return ["coarsen", *COARSEN[base], *_SIZES[base], "--workers", "1", "--out", str(path)]


def canonical(value):
    """Serialize a JSON value as the checksum of a document needs it."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def seal(values):
    """Serialize a document with a checksum of its content. Values of type :class:`Raw` are inserted as text."""
    found = []

    def replace(value):
        if isinstance(value, Raw):
            found.append(value.text)
            return f"@raw{len(found) - 1}@"
        if isinstance(value, dict):
            return {key: replace(inner) for key, inner in value.items()}
        return [replace(inner) for inner in value] if isinstance(value, list) else value

    def text(body, **options):
        written = json.dumps(body, sort_keys=True, ensure_ascii=True, **options)
        for number, raw in enumerate(found):
            written = written.replace(f'"@raw{number}@"', raw)
        return written

    body = replace({key: value for key, value in values.items() if key != "checksum"})
    try:
        parsed = json.loads(text(body))
        body["checksum"] = hashlib.sha256(canonical(parsed)).hexdigest()
    except (ValueError, RecursionError):
        body["checksum"] = "0" * 64  # no checksum is right for text that is not JSON
    return (text(body, indent=1) + "\n").encode()


@dataclass
class Forge:
    """Store that is being changed.

    Args:
        path: Directory of the store.
    """

    path: Path
    manifest: dict = field(default_factory=dict)
    keep_records: bool = False
    keep_fingerprint: bool = False

    def __post_init__(self):
        self.manifest = json.loads((self.path / "manifest.json").read_bytes())
        self._before = json.loads((self.path / "manifest.json").read_bytes())
        self._bytes_before = {file.name: file.read_bytes() for file in self.path.glob("*.h5")}

    @property
    def hierarchy(self):
        """Entry of the first hierarchy in the manifest."""
        return self.manifest["hierarchies"][0]

    @property
    def units(self):
        """Number of shards of the unchanged store."""
        return len(self._before["bounds"]) - 1

    def owner(self, part):
        """Return the JSON object that holds the shards of a part."""
        if part == "graphs":
            return self.manifest
        return next(h for h in self.manifest["hierarchies"] if h["name"] == part)

    @contextlib.contextmanager
    def shard(self, part="graphs", unit=0):
        """Open a shard for changes."""
        with h5py.File(self.path / f"shard-{unit:05d}.{part}.h5", "r+", libver=("v108", "v108")) as file:
            yield file

    def each(self, part="graphs"):
        """Open every shard of a part for changes, one after the other."""
        for unit in range(self.units):
            with self.shard(part, unit) as file:
                yield unit, file

    def save(self):
        """Write the manifest, and update all that follows from the changes."""
        for part in ("graphs", *(h["name"] for h in self._before["hierarchies"])):
            for unit in range(self.units):
                self._update_digests(part, unit)
        spec = self._spec()
        if spec is not None and not self.keep_fingerprint:
            self.manifest["fingerprint"] = spec.fingerprint
        (self.path / "manifest.json").write_bytes(seal(self.manifest))
        if not self.keep_records:
            self._update_records(spec)

    def _update_digests(self, part, unit):
        with contextlib.suppress(Exception):  # the mutation removed or replaced the entry
            entry, old = self.owner(part)["shards"][unit], self._entry_before(part, unit)
            pieces = old.get("pieces", [])
            names = [f"shard-{unit:05d}.{part}.h5", *(piece["file"] for piece in pieces)]
            found = {}
            if any((self.path / name).read_bytes() != self._bytes_before[name] for name in names):
                sizes = [_array_bytes(self.path / name, part, len(old["bytes"])) for name in names]
                found["bytes"] = [sum(level) for level in zip(*sizes, strict=True)] if all(sizes) else None
            self._update_entry(entry, old, self.path / names[0], found)
            for new, piece in zip(entry.get("pieces", []), pieces, strict=False):
                with contextlib.suppress(Exception):
                    self._update_entry(new, piece, self.path / piece["file"], {})

    def _update_entry(self, entry, old, file, found):
        data = file.read_bytes()
        found |= {
            "size": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
            "ends": hashlib.sha256(data[:4096] + data[-4096:]).hexdigest(),
        }
        for key, value in found.items():
            if value is not None and entry.get(key) == old[key]:
                entry[key] = value

    def _entry_before(self, part, unit):
        owner = self._before
        if part != "graphs":
            owner = next(h for h in owner["hierarchies"] if h["name"] == part)
        return owner["shards"][unit]

    def _spec(self):
        """Return the specification that the changed manifest describes, or ``None`` if it describes none."""
        try:
            parsed = json.loads(seal(self.manifest))
            entries = tuple(HierarchySpec.from_json(Document(h, "h")) for h in parsed["hierarchies"])
            return StoreSpec.from_json(Document(parsed, "manifest"), entries)
        except Exception:  # noqa: BLE001 - the library may fail in any way
            return None

    def _update_records(self, spec):
        """Make the completion records and specifications agree with the manifest."""
        for file in sorted((self.path / "records").glob("*.json")):
            values = json.loads(file.read_bytes())
            with contextlib.suppress(Exception):
                if file.name == "spec.json":
                    values |= {key: self.manifest[key] for key in values if key != "checksum"}
                elif file.name.startswith("spec."):
                    entry = self._renamed(values["name"])
                    values |= {key: entry[key] for key in values if key in entry}
                else:
                    self._update_record(values, spec)
            file.write_bytes(seal(values))

    def _renamed(self, part):
        names = [h["name"] for h in self._before["hierarchies"]]
        return self.manifest["hierarchies"][names.index(part)]

    def _update_record(self, values, spec):
        part = values["part"]
        if "piece" in values:
            owner = self.owner(part) if part == "graphs" else self._renamed(part)
            values["piece"] = owner["shards"][values["unit"]]["pieces"][values["number"]]
            values["fingerprint"] = spec.part_fingerprint("graphs" if part == "graphs" else owner["name"])
            return
        owner = self.manifest if part == "graphs" else self._renamed(part)
        before = self._before if part == "graphs" else self._before["hierarchies"][0]
        values["shard"] = owner["shards"][values["unit"]]
        for key in ("fields",) if part == "graphs" else ("levels", "metrics"):
            if owner[key] != before[key]:
                values[key] = owner[key]
        if spec is not None:
            values["fingerprint"] = spec.part_fingerprint("graphs" if part == "graphs" else owner["name"])

    # JSON files -----------------------------------------------------------------------------------

    def record(self, name, edit):
        """Change a file of the records directory and update its checksum. Call it after :meth:`save`."""
        file = self.path / "records" / name
        values = json.loads(file.read_bytes())
        changed = edit(values)
        file.write_bytes(seal(values if changed is None else changed))


def _array_bytes(file, part, levels):
    """Return the bytes of the arrays of a shard, as its entry in the manifest lists them."""
    found = {}

    def add(name, item):
        if isinstance(item, h5py.Dataset):
            found[f"/{name}"] = (
                math.prod(item.shape or ()) * item.dtype.itemsize if item.shape is not None else 0
            )

    try:
        with h5py.File(file, "r") as opened:
            opened.visititems(add)
    except Exception:  # noqa: BLE001 - random bytes
        return None
    prefixes = ["/"] if part == "graphs" else [f"/levels/{number}/" for number in range(levels)]
    return [sum(size for name, size in found.items() if name.startswith(prefix)) for prefix in prefixes]


# Base stores ------------------------------------------------------------------------------------------


def build_base(name, path):
    """Write one of the base stores."""
    {
        "cli": lambda: _run_coarsen("cli", path),
        "small": lambda: _run_coarsen("small", path),
        "soft": lambda: _build_soft(path),
        "fields": lambda: _build_fields(path),
        "lean": lambda: _build_lean(path),
        "carried": lambda: _build_carried(path),
        "divided": lambda: _build_divided(path),
    }[name]()


BASES = ("cli", "small", "soft", "fields", "lean", "carried", "divided")


def _run_coarsen(name, path):
    from tgp_cli.main import run

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
        status = run(coarsen_options(name, path))
    if status:
        sys.exit(f"tgp coarsen failed with status {status}: {errors.getvalue()}")


def _spec(table, bounds, profile="fast", hierarchies=()):
    return StoreSpec({"name": "toy"}, data_digest(table), table.num_graphs, bounds, profile, hierarchies)


def _build_soft(path):
    """Write onehot, soft and hard levels with theta, weights, metrics and failed graphs."""
    table = random_table(8, seed=3, min_nodes=4, max_nodes=9, features=2)
    kinds = ("onehot", "soft", "hard")
    schedule = [{"method": f"any-{kind}", "params": {"k": 3}} for kind in kinds]
    writer = StoreWriter.open(path, _spec(table, (0, 4, 8), hierarchies=(HierarchySpec("h", schedule, 0),)))
    for unit in range(2):
        part = table.take(np.arange(4 * unit, 4 * unit + 4))
        writer.write_graphs(unit, part)
        hierarchy = random_hierarchy(part.node_ptr, kinds, seed=(264, 140)[unit])  # valid ones with failures
        metrics = {
            "0/cut": np.linspace(0, 1, 4),
            "0/nodes": np.diff(part.node_ptr),
            "1/flags": np.array([True, False, True, True]),
            "2/total": np.array(3.5, np.float32),
            "2/pairs": np.ones((4, 2), np.float32),
        }
        failed = np.flatnonzero(np.diff(hierarchy.levels[-1].super_ptr) == 0)
        failures = [FailureRecord(int(g) + 4 * unit, 2, f"graph {g} é") for g in failed]
        failures = failures or [FailureRecord(4 * unit, 0, "made to fail")]
        writer.write_hierarchy(unit, "h", hierarchy, metrics=metrics, failures=failures)
    writer.publish()


def _build_fields(path):
    """Write fields of all types and forms over weighted graphs with a hard hierarchy."""
    plain = random_table(6, seed=5, min_nodes=3, max_nodes=7, features=3, weighted=True)
    fields = dict(plain.fields)
    nodes, count, rng = plain.num_nodes, plain.num_graphs, np.random.default_rng(2)
    own = offsets([0, 2, 1, 3, 0, 2])

    def add(name, values, ptr, **options):
        fields[name] = Field(name, values, ptr, **options)

    for dtype in ("int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64", "float16", "float64"):
        add(f"n_{dtype}", rng.integers(0, 100, (nodes, 2)).astype(dtype), plain.node_ptr)
    add("n_negative", rng.integers(-900, 900, nodes), plain.node_ptr)
    add("n_large", np.full(count, 2**63 + 1, np.uint64), np.arange(count + 1))
    for dtype in ("complex64", "complex128"):
        add(f"n_{dtype}", (rng.random(nodes) + 1j).astype(dtype), plain.node_ptr)
        add(f"e_{dtype}", (rng.random((3, own[-1])) + 2j).astype(dtype), own, axis=-1)
    add("own_rows", rng.random((own[-1], 2)), own)
    add("own_last", rng.integers(0, 9, (2, own[-1])), own, axis=-1)
    add("own_bool", rng.random(own[-1]) < 0.5, own)
    add("root_index", np.zeros(count, np.int64), np.arange(count + 1), shifted=True)
    add("small_index", np.zeros((2, count), np.uint8), np.arange(count + 1), axis=-1, shifted=True)
    add("g_stacked", rng.random((count, 2, 2)).astype(np.float32), np.arange(count + 1), form="stacked")
    add("g_int", np.arange(count), np.arange(count + 1), form="int")
    add("g_float", np.arange(count) / 8, np.arange(count + 1), form="float")
    add("g_bool", np.arange(count) % 2 == 0, np.arange(count + 1), form="bool")
    texts = [f"graph {i} é".encode() for i in range(count)]
    add("g_str", np.frombuffer(b"".join(texts), np.uint8), offsets([len(t) for t in texts]), form="str")
    texts = [b'["a", {"b": %d}]' % i for i in range(count)]
    add("g_json", np.frombuffer(b"".join(texts), np.uint8), offsets([len(t) for t in texts]), form="json")
    table = GraphTable(plain.node_ptr, fields)
    schedule = [{"method": "halve", "params": {"connect_red_op": "sum", "remove_self_loops": True}}] * 2
    spec = _spec(table, (0, 3, 6), hierarchies=(HierarchySpec("h", schedule, 0),))
    write_store(StoreWriter.open(path, spec), table)


def _build_lean(path):
    """Write a store with one label per graph and nothing else."""
    plain = random_table(6, seed=5, min_nodes=3, max_nodes=7)
    table = GraphTable(plain.node_ptr, {"y": plain.fields["y"]})
    write_store(StoreWriter.open(path, _spec(table, (0, 3, 6))), table)


def _build_carried(path):
    """Write a hierarchy whose levels have attributes of all types."""
    table = random_table(6, seed=5, min_nodes=4, max_nodes=9, features=2)
    schedule = [{"method": "halve", "params": {"connect_red_op": "sum", "remove_self_loops": True}}] * 2
    entry = HierarchySpec("h", schedule, 0, 1, False, "auto")
    writer = StoreWriter.open(path, _spec(table, (0, 3, 6), hierarchies=(entry,)))
    for unit in range(2):
        part = table.take(np.arange(3 * unit, 3 * unit + 3))
        writer.write_graphs(unit, part)
        writer.write_hierarchy(unit, "h", random_level_fields(halving(part, 2), seed=unit))
    writer.publish()


def _build_divided(path):
    """Write one graph and its levels in several files."""
    table = sorted_table(5, 24, features=2)
    spec, hierarchy = halved(table, 2)
    writer = open_writer(path, table, spec, 20)
    writer.write_graphs(0, table)
    writer.write_hierarchy(0, "h", hierarchy)
    writer.publish()


# Arrays ---------------------------------------------------------------------------------------------


def replace_array(file, path, values, **options):
    """Replace an array by another one with the same attributes.

    Args:
        file: Open shard.
        path: Path of the array.
        values: New values, or a tuple of shape and type.
        options: Arguments of ``create_dataset``; ``compact=True`` stores it in the object header.
    """
    attributes = {key: file[path].attrs.get_id(key) for key in file[path].attrs}
    saved = {key: (np.asarray(file[path].attrs[key]), found.dtype) for key, found in attributes.items()}
    del file[path]
    if options.pop("compact", False):
        _create_compact(file, path, values)
    elif isinstance(values, tuple):
        file.create_dataset(path, values[0], values[1], **options)
    else:
        file.create_dataset(path, data=values, **options)
    for key, (value, kind) in saved.items():
        set_attribute(file[path], key, value, kind)


def _create_compact(file, path, values):
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_layout(h5py.h5d.COMPACT)
    space = h5py.h5s.create_simple(values.shape)
    kind = h5py.h5t.py_create(values.dtype)
    dataset = h5py.h5d.create(file.id, path.encode(), kind, space, properties)
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(values))


def set_attribute(target, key, value, kind=None):
    """Write an attribute as the store does: a string of fixed length or an int64."""
    if key in target.attrs:
        del target.attrs[key]
    if kind is not None:
        target.attrs.create(key, value, shape=np.shape(value), dtype=kind)
    elif isinstance(value, str | bytes):
        data = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
        kind = h5py.string_dtype("utf-8", max(1, len(data)))
        target.attrs.create(key, np.bytes_(data), shape=(), dtype=kind)
    else:
        target.attrs.create(key, value, shape=(), dtype="<i8")


def bomb(file, path, shape, dtype):
    """Replace an array by compressed zeros of the given shape, of which every chunk is stored."""
    itemsize = np.dtype(dtype).itemsize
    row = math.prod(shape[1:]) * itemsize
    rows = max(1, min(shape[0], (1 << 20) // max(row, 1)))
    import zlib

    replace_array(
        file, path, (shape, dtype), chunks=(rows, *shape[1:]), compression="gzip", compression_opts=9
    )
    packed = zlib.compress(bytes(rows * row), 9)
    for start in range(0, shape[0], rows):
        file[path].id.write_direct_chunk((start, *([0] * (len(shape) - 1))), packed)
