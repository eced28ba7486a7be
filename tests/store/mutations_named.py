"""Mutations that change several places of a store so that these agree with each other."""

import functools
import json
import zlib

import h5py
import numpy as np

from tests.store.mutation_stores import ESCAPES, MARKUP, Forge, bomb, replace_array, seal, set_attribute
from tests.store.mutations import Mutation

NAMED = []


def mutation(name, base, *tags):
    """Add a function to the catalogue."""

    def register(function):
        NAMED.append(Mutation(f"named/{name}", base, function, tags, unsound="unsound" in tags))
        return function

    return register


def named_mutations():
    """Return all mutations of this module."""
    return list(NAMED)


def add_field(
    forge: Forge, name, values, *, dtype=None, tail=(), ptr="node", form="rows", axis=0, shifted=False
):
    """Add a field to all shards. ``values`` is a function of unit and number of nodes and graphs."""
    from tests.store.mutation_oracle import link_name

    ptrs = ["own"] if ptr == "own" else [ptr, "own"]
    info = {"name": name, "dtype": dtype, "tail": list(tail), "axis": axis, "form": form, "shifted": shifted}
    forge.manifest["fields"] = sorted(
        [*forge.manifest["fields"], info | {"ptrs": ptrs}], key=lambda field: field["name"]
    )
    for unit, file in forge.each("graphs"):
        graphs = len(file["node_ptr"]) - 1
        array = values(unit, int(file["node_ptr"][-1]), graphs)
        path = f"fields/{link_name(name)}"
        file.create_dataset(path, data=array)
        for key, value in (
            ("dtype", dtype),
            ("axis", axis),
            ("form", form),
            ("shifted", int(shifted)),
            ("ptr", ptr),
        ):
            set_attribute(file[path], key, value)


# S1: wrong width of a declared type -------------------------------------------------------------------------


def _misdeclared(width, stored, declared, forge):
    shape = (2,) if declared.startswith("complex") else ()
    add_field(
        forge,
        "z",
        lambda unit, nodes, graphs: np.ones((nodes, width, *shape), stored),
        dtype=declared,
        tail=(width,),
    )


for _width in (1, 128, 40_000):
    mutation(f"S1/complex128-as-f2-width-{_width}", "cli", "S1", "S8", "unsound")(
        functools.partial(_misdeclared, _width, "<f2", "complex128")
    )
for _stored, _declared in (
    ("<f4", "complex128"), ("<f8", "complex64"), ("<u8", "bool"), ("<u2", "bool"), ("<f2", "float64"),
    ("<f8", "float16"), ("|u1", "float32"), ("<f2", "complex64"), ("<u8", "uint8"), ("<i8", "int8"),
):  # fmt: skip
    mutation(f"S1/{_declared}-as-{_stored[1:]}", "cli", "S1", "S8")(
        functools.partial(_misdeclared, 64, _stored, _declared)
    )


@mutation("S1/bool-bytes-of-255", "fields", "S1", "S8", "unsound")
def _bool_bytes(forge):
    for _, file in forge.each("graphs"):
        file["fields/own_bool"][:] = 255
        file["fields/train_mask"][:] = 2


# S2: sums that wrap -------------------------------------------------------------------------------------------


def _last_offset(forge, path, value, key, level, part="h", units=None):
    """Let the last graph of each shard have a huge number of rows."""
    for unit, file in forge.each(part):
        if units is None or unit in units:
            values = file[path][()].astype("<u8")
            values[-1] = value
            replace_array(file, path, values)
            forge.owner(part)["shards"][unit][key][level] = value


for _value, _name in (
    (2**62 - 1, "2^62-1"),
    (2**61, "2^61"),
    (2**53, "2^53"),
    (2**34, "2^34"),
    (2**31, "2^31"),
):
    mutation(f"S2/super_ptr-{_name}-in-all-shards", "cli", "S2", "S3")(
        lambda forge, value=_value: _last_offset(forge, "levels/1/super_ptr", value, "nodes", 1)
    )


def _bad_representatives(forge):
    """Make the last level hard without representatives, so that nothing stores one value per supernode."""
    forge.hierarchy["levels"][-1]["arrays"] = ["edge_weight", "cluster", "weight"]
    for _, file in forge.each("h"):
        del file["levels/1/representative"]


for _value, _name in ((2**62 - 1, "2^62-1"), (2**61, "2^61"), (2**34, "2^34"), (2**28, "2^28")):

    @mutation(f"S2/supernodes-without-representatives-{_name}", "cli", "S2", "S3")
    def _unsupported(forge, value=_value):
        _bad_representatives(forge)
        _last_offset(forge, "levels/1/super_ptr", value, "nodes", 1)

    @mutation(f"S3/supernodes-in-one-shard-{_name}", "cli", "S2", "S3")
    def _unsupported_in_one(forge, value=_value):
        _bad_representatives(forge)
        _last_offset(forge, "levels/1/super_ptr", value, "nodes", 1, units=(1,))

    @mutation(f"S3/graph-level-fields-only-{_name}", "lean", "S2", "S3")
    def _many_nodes(forge, value=_value):
        _last_offset(forge, "node_ptr", value, "nodes", 0, "graphs")

    @mutation(f"S3/edges-without-arrays-{_name}", "cli", "S2", "S3")
    def _many_edges(forge, value=_value):
        _last_offset(forge, "edge_ptr", value, "edges", 0, "graphs")

    @mutation(f"S3/soft-supernodes-{_name}", "soft", "S2", "S3", "S7")
    def _wide(forge, value=_value):
        forge.hierarchy["levels"][0]["width"] = value
        for unit, file in forge.each("h"):
            counts = np.diff(file["levels/0/super_ptr"][()].astype(np.int64))
            ptr = np.concatenate([[0], np.cumsum(np.where(counts > 0, value, 0).astype(np.uint64))])
            replace_array(file, "levels/0/super_ptr", ptr.astype("<u8"))
            forge.hierarchy["shards"][unit]["nodes"][0] = int(ptr[-1]) % 2**64


@mutation("S3/supernodes-one-more-than-nodes", "cli", "S3")
def _one_more(forge):
    _bad_representatives(forge)
    for unit, file in forge.each("h"):
        values = file["levels/1/super_ptr"][()].astype("<u8")
        values[-1] += 100
        replace_array(file, "levels/1/super_ptr", values)
        forge.hierarchy["shards"][unit]["nodes"][1] = int(values[-1])


@mutation("S3/empty-field-row-of-own-offsets", "fields", "S3")
def _empty_rows(forge):
    """Give a field rows of zero bytes, so that any number of them fits."""
    info = next(info for info in forge.manifest["fields"] if info["name"] == "own_rows")
    info["tail"] = [0]
    for _, file in forge.each("graphs"):
        replace_array(file, "fields/own_rows", ((2**40, 0), "<f8"))
        ptr = file["ptr/own_rows"][()].astype("<u8")
        ptr[-1] = 2**40
        replace_array(file, "ptr/own_rows", ptr)


@mutation("S3/totals-above-2^63", "cli", "S3")
def _totals(forge):
    for shard in forge.hierarchy["shards"]:
        shard["bytes"] = [2**62 - 1] * 2
    for shard in forge.manifest["shards"]:
        shard["bytes"] = [2**62 - 1]


@mutation("S3/counts-without-shards", "cli", "S3")
def _counts(forge):
    for shard in forge.hierarchy["shards"]:
        shard["nodes"] = [2**61] * 2
        shard["edges"] = [2**61] * 2


@mutation("S3/num_graphs-2^53", "lean", "S3")
def _many_graphs(forge):
    forge.manifest["bounds"][-1] = forge.manifest["num_graphs"] = 2**53


@mutation("S3/num_graphs-2^33", "cli", "S3")
def _many_graphs_of_levels(forge):
    forge.manifest["bounds"][-1] = forge.manifest["num_graphs"] = 2**33
    for part in ("graphs", "h"):
        with forge.shard(part, 3) as file:
            set_attribute(file["/"], "num_graphs", 2**33 - 6)


# S4: escape sequences -----------------------------------------------------------------------------------------


@mutation("S4/dataset-name", "cli", "S4")
def _dataset_name(forge):
    forge.manifest["dataset"]["name"] = ESCAPES


@mutation("S4/dataset-keys", "cli", "S4")
def _dataset_keys(forge):
    forge.manifest["dataset"] = {ESCAPES: ESCAPES, "name": MARKUP, "seed": [ESCAPES, {ESCAPES: 1}]}


def _set_method(forge, text):
    for level in forge.hierarchy["levels"]:
        level["method"] = text
    for entry in forge.hierarchy["schedule"]:
        entry["method"] = text
    for _, file in forge.each("h"):
        for number in range(len(forge.hierarchy["levels"])):
            set_attribute(file[f"levels/{number}"], "method", text)


def _rename_field(forge, text, old="x"):
    from tests.store.mutation_oracle import link_name

    for info in forge.manifest["fields"]:
        if info["name"] == old:
            info["name"] = text
    forge.manifest["fields"].sort(key=lambda info: info["name"].encode("utf-8", "surrogatepass"))
    link = link_name(text)
    for _, file in forge.each("graphs"):
        if text:
            file.move(f"fields/{old}", f"fields/{link}")


def _package(forge, text):
    for entry in forge.hierarchy["schedule"]:
        entry["package"] = {"name": text, "version": text}


def _params(forge, text):
    for entry in forge.hierarchy["schedule"]:
        entry["params"] = {text: text, "k": [text, {text: text}]}


def _metric(forge, text):
    from tests.store.mutation_oracle import link_name

    forge.hierarchy["metrics"] = sorted(
        [m for m in forge.hierarchy["metrics"] if m != "0/cut"] + [f"0/{text}"]
    )
    for _, file in forge.each("h"):
        if text:
            file.move("metrics/0/cut", f"metrics/0/{link_name(text)}")


def _schedule_levels(forge, text):
    for entry in forge.hierarchy["schedule"]:
        entry["levels"] = [{"method": text, "params": {text: text}}]


TEXTS = {
    "escapes": ESCAPES, "markup": MARKUP, "formula": "=1+1", "at": "@SUM(1)", "quotes": "a'b\"c,d;e|f",
    "newline": "a\nFAKE", "bidi": "a\u202eb\u2067", "nul": "a\x00b", "parent": "../../evil", "slash": "/etc/x",
    "file": "file", "arr_0": "arr_0", "dunder": "__class__", "keys": "keys", "batch": "batch", "long": "x" * 3000,
    "num_nodes": "num_nodes", "pooled_data": "pooled_data", "ptr": "ptr", "empty": "", "dot": ".", "node_ptr": "node_ptr",
    "backslash": "a\\b", "drive": "C:evil", "separator": "a\u2028b", "dict": "items", "npy": "x.npy", "private": "_store",
    "edge_ptr": "edge_ptr", "update": "update", "pos": "pos", "train_mask": "train_mask",
}  # fmt: skip
PLACES = {"method": _set_method, "field": _rename_field, "package": _package, "params": _params, "metric": _metric,
          "schedule-levels": _schedule_levels}  # fmt: skip
for _key, _text in TEXTS.items():
    _plain = ("escapes", "markup", "formula", "newline", "bidi", "nul", "empty", "long")
    for _place, _function in PLACES.items():
        if _place == "field" or _key in _plain:
            _tags = (
                ("S9",)
                if _key in ("formula", "at", "parent", "slash", "file", "npy", "backslash")
                else ("S4",)
            )
            mutation(f"name/{_place}-{_key}", "cli", *_tags)(functools.partial(_function, text=_text))


@mutation("S4/failure-reasons", "soft", "S4")
def _reasons(forge):
    data = np.frombuffer((ESCAPES + MARKUP).encode(), np.uint8)
    for unit, file in forge.each("h"):
        count = forge.hierarchy["shards"][unit]["failures"]
        replace_array(file, "failures/reason", np.tile(data, count))
        replace_array(file, "failures/reason_ptr", (np.arange(count + 1) * len(data)).astype("<u2"))


@mutation("S4/failure-reasons-of-one-megabyte", "soft", "S4", "S5")
def _long_reasons(forge):
    for unit, file in forge.each("h"):
        count = forge.hierarchy["shards"][unit]["failures"]
        replace_array(file, "failures/reason", np.full(count << 20, 65, np.uint8))
        replace_array(file, "failures/reason_ptr", (np.arange(count + 1) << 20).astype("<u4"))


@mutation("S4/array-names", "cli", "S4")
def _array_names(forge):
    with forge.shard("h", 0) as file:
        file.create_dataset("levels/0/\x1b]0;pwn\x07", data=np.full(3, b"text"))


@mutation("S4/attribute-names", "cli", "S4")
def _attribute_names(forge):
    with forge.shard("graphs", 0) as file:
        file["fields/x"].attrs[ESCAPES.replace("\x00", "")] = 1.5


# S5: hangs and bombs --------------------------------------------------------------------------------------------


def _attributes_on(path, count, part, forge):
    with forge.shard(part, 0) as file:
        target = file[path].id
        scalar, kind = h5py.h5s.create(h5py.h5s.SCALAR), h5py.h5t.STD_I64LE
        for number in range(count):
            h5py.h5a.create(target, f"a{number}".encode(), kind, scalar).write(np.array(number))


for _path, _part in (("/", "graphs"), ("fields/x", "graphs"), ("levels/0", "h"), ("metrics", "h")):
    mutation(f"S5/30000-attributes-on-{_path}", "cli", "S5")(
        functools.partial(_attributes_on, _path, 30_000, _part)
    )


@mutation("S5/8000-groups", "cli", "S5")
def _groups(forge):
    with forge.shard("graphs", 0) as file:
        for number in range(8000):
            file.create_group(f"extra/{number}")


@mutation("S5/8000-arrays-with-attributes", "cli", "S5")
def _many_arrays(forge):
    with forge.shard("h", 0) as file:
        for number in range(4000):
            file.create_dataset(f"metrics/0/m{number}", data=np.zeros(1, "u1"))
            set_attribute(file[f"metrics/0/m{number}"], "dtype", "uint8")


@mutation("S5/group-loop", "cli", "S5")
def _loop(forge):
    with forge.shard("graphs", 0) as file:
        file["fields/loop"] = file["fields"]


def _manifest_text(make):
    def apply(forge):
        return lambda: (forge.path / "manifest.json").write_bytes(make(forge))

    return apply


def _lists(forge):
    values = json.loads((forge.path / "manifest.json").read_bytes())
    marker = seal(values | {"extra": "@lists@"}).decode()
    return marker.replace('"@lists@"', "[" + ",".join(["[]"] * 20_000_000) + "]").encode()


mutation("S5/manifest-of-60-MB-of-lists", "cli", "S5")(_manifest_text(_lists))
mutation("S5/manifest-of-60-MB-of-objects", "cli", "S5")(
    _manifest_text(lambda forge: b'{"a": [' + b",".join([b"{}"] * 20_000_000) + b"]}")
)
mutation("S5/manifest-of-60-MB-of-numbers", "cli", "S5")(
    _manifest_text(
        lambda forge: (
            b'{"format":"tgp-store","version":1,"bounds": [' + b",".join([b"1"] * 30_000_000) + b"]}"
        )
    )
)
mutation("S5/manifest-of-60-MB-of-digits", "cli", "S5")(
    _manifest_text(lambda forge: b'{"a": ' + b"9" * (60 << 20) + b"}")
)
mutation("S5/manifest-of-60-MB-of-text", "cli", "S5")(
    _manifest_text(lambda forge: b'{"a": "' + b"x" * (60 << 20) + b'"}')
)
mutation("S5/manifest-of-keys", "cli", "S5")(
    _manifest_text(lambda forge: json.dumps({str(n): 0 for n in range(3_000_000)}).encode())
)
mutation("S5/manifest-of-brackets", "cli", "S5")(_manifest_text(lambda forge: b"[" * (10 << 20)))
mutation("S5/manifest-with-a-byte-order-mark", "cli", "S5")(
    _manifest_text(lambda forge: b"\xef\xbb\xbf" + (forge.path / "manifest.json").read_bytes())
)
mutation("S5/manifest-in-utf-16", "cli", "S5")(
    _manifest_text(lambda forge: (forge.path / "manifest.json").read_text().encode("utf-16"))
)


def _many_units(count, lost, forge):
    def after():
        def edit(values):
            values["bounds"] = [*range(count), values["num_graphs"] + count]
            values["num_graphs"] += count

        forge.record("spec.json", edit)
        if lost:
            (forge.path / "manifest.json").unlink()

    return after


mutation("S5/200000-units-in-spec", "cli", "S5")(functools.partial(_many_units, 200_000, True))
mutation("S5/200000-units-in-spec-beside-manifest", "cli", "S5")(
    functools.partial(_many_units, 200_000, False)
)
mutation("S5/3000000-units-in-spec", "cli", "S5")(functools.partial(_many_units, 3_000_000, True))


def _empty_units(count, forge):
    """Claim many units without graphs at the end of the store."""
    manifest = forge.manifest
    manifest["bounds"] += [manifest["num_graphs"]] * count
    for owner in (manifest, forge.hierarchy):
        last = owner["shards"][-1]
        part = last["file"].split(".")[1]
        owner["shards"] += [
            last | {"file": f"shard-{unit:05d}.{part}.h5"} for unit in range(forge.units, forge.units + count)
        ]


mutation("S5/100000-empty-units", "cli", "S5")(functools.partial(_empty_units, 100_000))


def _bomb_metric(rows, forge):
    with forge.shard("h", 0) as file:
        bomb(file, "metrics/0/cut", (rows,), "<f8")


mutation("S5/bomb-metric-1-GB", "small", "S5")(
    lambda forge: _bomb_any(forge, "h", next(f"metrics/{m}" for m in forge.hierarchy["metrics"]), 1 << 27)
)


def _bomb_any(forge, part, path, rows):
    with forge.shard(part, 0) as file:
        bomb(file, path, (rows,), "<f8")


@mutation("S5/bomb-failures", "soft", "S5")
def _bomb_reason(forge):
    with forge.shard("h", 0) as file:
        bomb(file, "failures/reason", (2 << 30,), "u1")
        ptr = file["failures/reason_ptr"][()].astype("<u8")
        ptr[-1] = 2 << 30
        replace_array(file, "failures/reason_ptr", ptr)


def _bomb_nodes(base_rows, width, arrays, forge):
    """Give the last graph of a shard millions of nodes with features of zeros, compressed 1000 times."""
    with forge.shard("graphs", 0) as file:
        ptr = file["node_ptr"][()].astype("<u8")
        ptr[-1] = base_rows
        replace_array(file, "node_ptr", ptr, chunks=True, compression="gzip", shuffle=True, fletcher32=True)
        bomb(file, "fields/x", (base_rows, 4), "<f4")
        forge.manifest["shards"][0]["nodes"] = [base_rows]
    with forge.shard("h", 0) as file:
        replace_array(file, "node_ptr", ptr, chunks=True, compression="gzip", shuffle=True, fletcher32=True)
        bomb(file, "levels/0/cluster", (base_rows,), "|i1")


mutation("S5/bomb-features-of-2-GB", "small", "S5")(functools.partial(_bomb_nodes, 1 << 27, 4, 1))
mutation("S5/bomb-features-of-4-GB", "small", "S5")(functools.partial(_bomb_nodes, 1 << 28, 4, 1))


@mutation("S5/bomb-own-field", "small", "S5")
def _bomb_unused(forge):
    with forge.shard("graphs", 0) as file:
        file.create_dataset("fields/unused", data=np.zeros(4))
        bomb(file, "fields/unused", (1 << 28,), "<f8")


@mutation("S5/many-bombs", "small", "S5")
def _many_bombs(forge):
    for number in range(12):
        add_field(
            forge,
            f"z{number}",
            lambda unit, nodes, graphs: np.zeros((nodes, 1)),
            dtype="float64",
            tail=(1 << 18,),
        )
    for _, file in forge.each("graphs"):
        rows = int(file["node_ptr"][-1])
        for number in range(12):
            bomb(file, f"fields/z{number}", (rows, 1 << 18), "<f8")


@mutation("S5/chunk-larger-than-its-array", "small", "S5")
def _large_chunk(forge):
    packer = zlib.compressobj()
    packed = b"".join([*(packer.compress(bytes(1 << 20)) for _ in range(512)), packer.flush()])
    with forge.shard("graphs", 0) as file:
        rows = file["fields/y"].shape[0]
        replace_array(
            file, "fields/y", ((rows,), "u1"), maxshape=(None,), chunks=(1 << 29,), compression="gzip"
        )
        file["fields/y"].id.write_direct_chunk((0,), packed)


@mutation("S5/chunk-that-decodes-to-more", "small", "S5")
def _fat_chunk(forge):
    """Store a chunk whose deflate stream is much longer than the chunk."""
    with forge.shard("graphs", 0) as file:
        rows = file["fields/y"].shape[0]
        replace_array(file, "fields/y", ((rows,), "u1"), chunks=(rows,), compression="gzip")
        file["fields/y"].id.write_direct_chunk((0,), zlib.compress(bytes(1 << 29), 1))


@mutation("S5/chunk-that-decodes-to-less", "small", "S5")
def _thin_chunk(forge):
    with forge.shard("graphs", 0) as file:
        rows = file["fields/x"].shape
        replace_array(file, "fields/x", (rows, "<f4"), chunks=rows, compression="gzip")
        file["fields/x"].id.write_direct_chunk((0, 0), zlib.compress(bytes(8)))


@mutation("S5/chunk-that-is-not-deflate", "small", "S5")
def _wrong_chunk(forge):
    with forge.shard("h", 0) as file:
        shape = file["levels/0/cluster"].shape
        replace_array(file, "levels/0/cluster", (shape, "|i1"), chunks=shape, compression="gzip")
        file["levels/0/cluster"].id.write_direct_chunk((0,), bytes(range(200)))


# S7: declarations of levels and metrics ------------------------------------------------------------------------


def _level(forge, level, changes, attributes=()):
    forge.hierarchy["levels"][level].update(changes)
    for _, file in forge.each("h"):
        for key, value in attributes:
            set_attribute(file[f"levels/{level}"], key, value)


LEVELS = {
    "weight_dtype-int64": ("cli", 0, {"weight_dtype": "int64"}),
    "weight_dtype-bool": ("cli", 0, {"weight_dtype": "bool"}),
    "weight_dtype-complex": ("cli", 0, {"weight_dtype": "complex64"}),
    "weight_dtype-float16": ("cli", 0, {"weight_dtype": "float16"}),
    "weight_dtype-float64": ("cli", 0, {"weight_dtype": "float64"}),
    "weight_dtype-null": ("cli", 0, {"weight_dtype": None}),
    "no-edge_weight": ("cli", 0, {"arrays": ["cluster", "representative"]}),
    "no-edge_weight-but-dtype": (
        "cli",
        0,
        {"arrays": ["cluster", "representative"], "weight_dtype": "float32"},
    ),
    "no-cluster": ("cli", 0, {"arrays": ["edge_weight", "representative"]}),
    "arrays-twice": ("cli", 0, {"arrays": ["cluster", "cluster", "edge_weight", "representative"]}),
    "arrays-order": ("cli", 0, {"arrays": ["representative", "cluster", "edge_weight"]}),
    "arrays-not-stored": (
        "cli",
        0,
        {"arrays": ["edge_weight", "cluster", "soft", "theta"], "width": 3, "modes": 2},
    ),
    "width-of-hard": ("cli", 0, {"width": 3}),
    "width-2^61-of-hard": ("cli", 0, {"width": 2**61}),
    "modes-of-hard": ("cli", 0, {"modes": 2**61}),
    "kind-soft": ("cli", 0, {"kind": "soft", "width": 3}),
    "kind-onehot": ("cli", 0, {"kind": "onehot", "width": 3}),
    "width-2^61": ("soft", 1, {"width": 2**61}),
    "width-0": ("soft", 1, {"width": 0}),
    "width-null": ("soft", 1, {"width": None}),
    "width-4": ("soft", 1, {"width": 4}),
    "modes-2^61": ("soft", 0, {"modes": 2**61}),
    "modes-0": ("soft", 0, {"modes": 0}),
    "modes-null": ("soft", 0, {"modes": None}),
    "soft-as-hard": ("soft", 1, {"kind": "hard", "width": None}),
    "soft-with-cluster": ("soft", 1, {"arrays": ["edge_weight", "cluster", "soft"]}),
    "onehot-as-hard": ("soft", 0, {"kind": "hard", "width": None}),
    "no-soft": ("soft", 1, {"arrays": ["edge_weight"]}),
    "no-theta": ("soft", 0, {"arrays": ["edge_weight", "cluster", "weight"]}),
}
for _name, (_base, _number, _changes) in LEVELS.items():

    @mutation(f"S7/level-{_name}", _base, "S7")
    def _declared(forge, number=_number, changes=_changes):
        kind = [("kind", changes["kind"])] if "kind" in changes else []
        _level(forge, number, changes, kind)


METRICS = {
    "twice": lambda names: [*names, names[0]],
    "unknown": lambda names: [*names, "0/zzz"],
    "level-9": lambda names: [*names, "9/cut"],
    "level-negative": lambda names: [*names, "-1/cut"],
    "level-text": lambda names: [*names, "x/cut"],
    "level-digit": lambda names: [*names, "\u0661/cut"],
    "no-slash": lambda names: [*names, "cut"],
    "no-name": lambda names: [*names, "0/"],
    "parent": lambda names: [*names, "0/../../node_ptr"],
    "group": lambda names: [*names, "0"],
    "zeros": lambda names: [*names, "00/cut"],
    "none": lambda names: [],
    "100000": lambda names: [*names, *(f"0/m{n}" for n in range(100_000))],
    "same-100000": lambda names: [*names, *(["0/cut"] * 100_000)],
}
for _name, _edit in METRICS.items():
    for _base in ("cli", "soft"):

        @mutation(f"S7/metrics-{_name}-{_base}", _base, "S7")
        def _listed(forge, edit=_edit):
            forge.hierarchy["metrics"] = edit(forge.hierarchy["metrics"])


for _name in (
    "components",
    "empty",
    "largest",
    "modularity",
    "entropy",
    "cut",
    "isolated",
    "symmetric",
    "weight_kept",
):
    for _what, _values in {
        "text": np.full(3, 65, "u1"), "pairs": np.zeros((3, 4)), "scalar": np.float64(2), "nan": np.full(3, np.nan),
        "huge": np.full(3, 2**62), "tensor": np.zeros((3, 1, 1, 1)), "none": np.zeros((3, 0)),
    }.items():  # fmt: skip

        @mutation(f"S7/metric-{_name}-{_what}", "cli", "S7")
        def _shaped(forge, name=_name, values=_values):
            for _, file in forge.each("h"):
                replace_array(file, f"metrics/0/{name}", values)
                set_attribute(file[f"metrics/0/{name}"], "dtype", np.asarray(values).dtype.name)


@mutation("S7/failures-scalar-reason", "soft", "S7")
def _scalar_reason(forge):
    for _, file in forge.each("h"):
        replace_array(file, "failures/reason", np.uint8(65))


@mutation("S7/failures-not-utf8", "soft", "S7")
def _reason_bytes(forge):
    for _, file in forge.each("h"):
        file["failures/reason"][:] = 255


for _count in (0, 1, 3, 2**31, 2**62):

    @mutation(f"S7/failures-count-{_count}", "soft", "S7")
    def _failure_count(forge, count=_count):
        forge.hierarchy["shards"][0]["failures"] = count


@mutation("S7/failures-claimed", "cli", "S7")
def _claimed(forge):
    forge.hierarchy["shards"][0]["failures"] = 2


@mutation("S7/failures-of-other-graphs", "soft", "S7")
def _other_graphs(forge):
    for _, file in forge.each("h"):
        replace_array(file, "failures/graph", np.full(file["failures/graph"].shape, 2**40, "<u8"))


@mutation("S7/text-not-utf8", "fields", "S7")
def _text_bytes(forge):
    for _, file in forge.each("graphs"):
        file["fields/g_str"][:] = 255


BAD_JSON = {
    "nan": b"[NaN]",
    "infinity": b"-Infinity",
    "large-number": b"[1e999]",
    "duplicate-key": b'{"a":1,"a":2}',
    "deep": b"[" * 5_000 + b"]" * 5_000,
    "depth-34": b"[" * 35 + b"]" * 35,
    "surrogate": b'"\\ud800"',
    "not-utf8": b'"\xff"',
    "many-digits": b"9" * 5_000,
    "large": b'"' + b"a" * (1 << 20) + b'"',
    "trailing": b"[] []",
    "empty": b"",
}


def _set_json(text, forge):
    for _, file in forge.each("graphs"):
        count = len(file["node_ptr"]) - 1
        replace_array(file, "fields/g_json", np.frombuffer(text * count, "u1"))
        replace_array(file, "ptr/g_json", (np.arange(count + 1) * len(text)).astype("<u4"))


for _name, _text in BAD_JSON.items():
    mutation(f"S7/json-{_name}", "fields", "S7")(functools.partial(_set_json, _text))


@mutation("S7/field-name-surrogate", "cli", "S7")
def _surrogate(forge):
    forge.manifest["fields"][0]["name"] = "\ud800"


@mutation("S7/edge_index-tail-3", "cli", "S7")
def _three_rows(forge):
    forge.manifest["fields"][0]["tail"] = [3]
    for _, file in forge.each("graphs"):
        values = file["fields/edge_index"][()]
        replace_array(file, "fields/edge_index", np.concatenate([values, values[:1]]))


@mutation("S7/edge_index-tail-empty", "cli", "S7")
def _one_row(forge):
    forge.manifest["fields"][0]["tail"] = []
    for _, file in forge.each("graphs"):
        replace_array(file, "fields/edge_index", file["fields/edge_index"][0])


@mutation("S7/edge_index-complex", "cli", "S7")
def _complex_edges(forge):
    forge.manifest["fields"][0].update(dtype="complex64", shifted=False)
    for _, file in forge.each("graphs"):
        values = file["fields/edge_index"][()]
        replace_array(file, "fields/edge_index", np.stack([values, values], axis=-1).astype("<f4"))
        for key, value in (("dtype", "complex64"), ("shifted", 0)):
            set_attribute(file["fields/edge_index"], key, value)


@mutation("S7/edge_index-float", "cli", "S7")
def _float_edges(forge):
    forge.manifest["fields"][0].update(dtype="float32", shifted=False)
    for _, file in forge.each("graphs"):
        replace_array(file, "fields/edge_index", file["fields/edge_index"][()].astype("<f4"))
        for key, value in (("dtype", "float32"), ("shifted", 0)):
            set_attribute(file["fields/edge_index"], key, value)


@mutation("S7/edge_index-first-axis", "cli", "S7")
def _transposed_edges(forge):
    forge.manifest["fields"][0]["axis"] = 0
    for _, file in forge.each("graphs"):
        replace_array(file, "fields/edge_index", np.ascontiguousarray(file["fields/edge_index"][()].T))
        set_attribute(file["fields/edge_index"], "axis", 0)


@mutation("S7/edge_index-not-shifted", "cli", "S7")
def _plain_edges(forge):
    forge.manifest["fields"][0]["shifted"] = False
    for _, file in forge.each("graphs"):
        set_attribute(file["fields/edge_index"], "shifted", 0)
        file["fields/edge_index"][0, 0] = 200


@mutation("S7/edge_index-own-offsets", "cli", "S7")
def _own_edges(forge):
    forge.manifest["fields"][0]["ptrs"] = ["own"]
    for _, file in forge.each("graphs"):
        set_attribute(file["fields/edge_index"], "ptr", "own")
        rows = file["fields/edge_index"].shape[1]
        graphs = len(file["node_ptr"]) - 1
        file.create_dataset("ptr/edge_index", data=np.linspace(0, rows, graphs + 1).astype("<u2"))


@mutation("S7/x-of-other-rank", "cli", "S7")
def _deep_features(forge):
    forge.manifest["fields"][1]["tail"] = [2, 2]
    for _, file in forge.each("graphs"):
        replace_array(file, "fields/x", file["fields/x"][()].reshape(-1, 2, 2))


@mutation("S7/x-of-strings", "cli", "S7")
def _text_features(forge):
    forge.manifest["fields"][1].update(dtype="uint8", tail=[], form="str")
    for _, file in forge.each("graphs"):
        replace_array(file, "fields/x", np.full(int(file["node_ptr"][-1]), 65, "u1"))
        for key, value in (("dtype", "uint8"), ("form", "str")):
            set_attribute(file["fields/x"], key, value)


@mutation("S7/y-of-strings", "cli", "S7")
def _text_labels(forge):
    forge.manifest["fields"][2].update(dtype="uint8", form="str")
    for _, file in forge.each("graphs"):
        replace_array(file, "fields/y", np.full(len(file["node_ptr"]) - 1, 65, "u1"))
        for key, value in (("dtype", "uint8"), ("form", "str")):
            set_attribute(file["fields/y"], key, value)


@mutation("S7/edge_weight-of-pairs", "fields", "S7")
def _pair_weights(forge):
    for info in forge.manifest["fields"]:
        if info["name"] == "edge_weight":
            info["tail"] = [2]
    for _, file in forge.each("graphs"):
        values = file["fields/edge_weight"][()]
        replace_array(file, "fields/edge_weight", np.stack([values, values], axis=1))


@mutation("S7/edge_weight-complex", "fields", "S7")
def _complex_weights(forge):
    for info in forge.manifest["fields"]:
        if info["name"] == "edge_weight":
            info["dtype"] = "complex64"
    for _, file in forge.each("graphs"):
        values = file["fields/edge_weight"][()]
        replace_array(file, "fields/edge_weight", np.stack([values, values], axis=1))
        set_attribute(file["fields/edge_weight"], "dtype", "complex64")


@mutation("S7/edge_weight-not-finite", "fields", "S7")
def _infinite_weights(forge):
    for _, file in forge.each("graphs"):
        file["fields/edge_weight"][:] = np.inf


@mutation("S7/edge_weight-largest", "fields", "S7")
def _large_weights(forge):
    for _, file in forge.each("graphs"):
        file["fields/edge_weight"][:] = 3e38


for _dtype in ("uint16", "uint32", "uint64", "float16", "int8"):

    @mutation(f"S7/graph-label-{_dtype}", "lean", "S7")
    def _label(forge, dtype=_dtype):
        forge.manifest["fields"][0]["dtype"] = dtype
        for _, file in forge.each("graphs"):
            values = file["fields/y"][()]
            replace_array(file, "fields/y", values.astype("<f2") if dtype == "float16" else values)
            set_attribute(file["fields/y"], "dtype", dtype)


@mutation("S7/no-fields", "lean", "S7")
def _no_fields(forge):
    forge.manifest["fields"] = []


@mutation("S7/no-graphs", "lean", "S7")
def _no_graphs(forge):
    forge.manifest["bounds"], forge.manifest["num_graphs"] = [0, 0, 0], 0
    for shard in forge.manifest["shards"]:
        shard["nodes"] = shard["edges"] = [0]
    for _, file in forge.each("graphs"):
        replace_array(file, "node_ptr", np.zeros(1, "u1"))
        replace_array(file, "fields/y", np.zeros(0, "u1"))
        for key in ("num_graphs", "first_graph"):
            set_attribute(file["/"], key, 0)


@mutation("S7/graphs-without-nodes", "lean", "S7")
def _no_nodes(forge):
    for shard in forge.manifest["shards"]:
        shard["nodes"] = [0]
    for _, file in forge.each("graphs"):
        replace_array(file, "node_ptr", np.zeros(4, "u1"))


# S8: what verification accepts -------------------------------------------------------------------------------------


@mutation("S8/one-unit-without-level-weights", "cli", "S8", "unsound")
def _no_weights(forge):
    with forge.shard("h", 1) as file:
        del file["levels/1/edge_weight"]


@mutation("S8/all-units-without-level-weights", "cli", "S8", "unsound")
def _no_weights_at_all(forge):
    for _, file in forge.each("h"):
        del file["levels/1/edge_weight"]


@mutation("S8/weights-of-ones", "cli", "S8", "unsound")
def _ones(forge):
    for _, file in forge.each("h"):
        file["levels/1/edge_weight"][:] = 1


@mutation("S8/assignment-weights-missing", "cli", "S8")
def _no_assignment_weights(forge):
    with forge.shard("h", 2) as file:
        del file["levels/1/weight"]


@mutation("S8/empty-supernodes-in-last-level", "cli", "S8", "unsound")
def _zero_clusters(forge):
    for _, file in forge.each("h"):
        file["levels/1/cluster"][:] = 0


@mutation("S8/cluster-minus-one", "cli", "S8", "unsound")
def _dropped(forge):
    for _, file in forge.each("h"):
        replace_array(file, "levels/1/cluster", np.full(file["levels/1/cluster"].shape, -1, "|i1"))


# S9: export ------------------------------------------------------------------------------------------------------


for _name in (
    "../../evil",
    "file",
    "a/b",
    "allow_pickle",
    "args",
    "kwds",
    "node_ptr",
    "x_ptr",
    "graphs.npz",
    "C:\\x",
):

    @mutation(f"S9/field-{_name}", "cli", "S9")
    def _exported(forge, name=_name):
        add_field(forge, name, lambda unit, nodes, graphs: np.zeros(nodes, "<f4"), dtype="float32")


# Files that are swapped or share their content ---------------------------------------------------------------------


@mutation("files/shards-swapped", "cli")
def _swapped(forge):
    first, second = (forge.path / f"shard-0000{unit}.graphs.h5" for unit in (0, 1))
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)


@mutation("files/hierarchy-as-graphs", "cli")
def _mixed(forge):
    (forge.path / "shard-00000.graphs.h5").write_bytes((forge.path / "shard-00000.h.h5").read_bytes())


@mutation("files/empty-shard", "cli")
def _empty_file(forge):
    (forge.path / "shard-00000.h.h5").write_bytes(b"")


@mutation("files/text-shard", "cli")
def _text_file(forge):
    (forge.path / "shard-00001.graphs.h5").write_text(ESCAPES * 1000)


@mutation("files/user-block", "cli")
def _user_block(forge):
    file = forge.path / "shard-00001.graphs.h5"
    file.write_bytes(bytes(512) + file.read_bytes())


@mutation("files/truncated", "cli")
def _truncated(forge):
    file = forge.path / "shard-00001.h.h5"
    file.write_bytes(file.read_bytes()[:-2000])


@mutation("files/arrays-share-their-bytes", "cli")
def _shared(forge):
    with forge.shard("h", 0) as file:
        del file["levels/1/super_ptr"]
        file["levels/1/super_ptr"] = file["levels/0/super_ptr"]


@mutation("files/records-removed", "cli")
def _no_records(forge):
    for file in (forge.path / "records").glob("*.json"):
        file.unlink()


@mutation("files/two-hierarchies-of-one-name", "cli")
def _same_name(forge):
    forge.manifest["hierarchies"].append(dict(forge.hierarchy))


@mutation("files/no-hierarchies", "cli")
def _no_hierarchies(forge):
    forge.manifest["hierarchies"] = []


# Attributes of levels ---------------------------------------------------------------------------------------


def _level_field(forge, name, level=0):
    return next(info for info in forge.hierarchy["levels"][level]["fields"] if info["name"] == name)


def _level_values(forge, name, edit, units=(0, 1)):
    """Replace the values of an attribute of the first level."""
    for unit, file in forge.each("h"):
        if unit in units:
            path = f"levels/0/fields/{name}"
            replace_array(file, path, edit(file[path][()]))


for _name, _stored in (
    ("train_mask", "<u8"), ("train_mask", "<u2"), ("z", "<f2"), ("z", "<f8"), ("pos", "<f2"), ("pos", "<u4"),
    ("half", "<f8"), ("short", "<i8"), ("y", "<f4"), ("title", "<u2"), ("num_members", "|i1"),
):  # fmt: skip
    mutation(f"level-field/{_name}-as-{_stored[1:]}", "carried", "S1", "S8")(
        lambda forge, name=_name, stored=_stored: _level_values(forge, name, lambda v: v.astype(stored))
    )
for _name, _rows in (("pos", -1), ("pos", 1), ("edge_attr", 1), ("no_columns", 5), ("train_mask", -1)):
    mutation(f"level-field/{_name}-rows-{_rows}", "carried", "S3")(
        lambda forge, name=_name, rows=_rows: _level_values(
            forge, name, lambda v: np.zeros((len(v) + rows, *v.shape[1:]), v.dtype)
        )
    )


@mutation("level-field/bool-bytes-of-255", "carried", "S1", "S8", "unsound")
def _level_flags(forge):
    _level_values(forge, "train_mask", lambda v: np.full_like(v, 255))


@mutation("level-field/numbers-above-int16", "carried", "S1", "unsound")
def _level_numbers(forge):
    _level_values(forge, "short", lambda v: np.full(v.shape, 2**15, "<u2"))


@mutation("level-field/text-is-not-json", "carried", "S4", "unsound")
def _level_text(forge):
    _level_values(forge, "title", lambda v: np.full_like(v, ord("[")))


@mutation("level-field/text-of-escapes", "carried", "S4")
def _level_escapes(forge):
    for _, file in forge.each("h"):
        text = np.frombuffer(json.dumps([ESCAPES, MARKUP]).encode(), np.uint8)
        graphs = len(file["levels/0/ptr/title"]) - 1
        replace_array(file, "levels/0/fields/title", np.tile(text, graphs))
        replace_array(file, "levels/0/ptr/title", (np.arange(graphs + 1) * len(text)).astype("<u2"))


for _value in (0, 2**15, 2**62):

    @mutation(f"level-field/text-offset-{_value}", "carried", "S2")
    def _level_offsets(forge, value=_value):
        for _, file in forge.each("h"):
            ptr = file["levels/0/ptr/title"][()].astype("<u8")
            ptr[1] = value
            replace_array(file, "levels/0/ptr/title", ptr)


@mutation("level-field/empty-rows", "carried", "S3")
def _level_empty_rows(forge):
    _level_field(forge, "pos")["tail"] = [2**20, 0]
    _level_values(forge, "pos", lambda v: ((2**40, 2**20, 0), "<f4"))


@mutation("level-field/large-rows", "carried", "S3")
def _level_large_rows(forge):
    _level_field(forge, "pos")["tail"] = [2**30]


@mutation("level-field/missing-in-one-unit", "carried", "S8")
def _level_missing(forge):
    with forge.shard("h", 1) as file:
        del file["levels/0/fields/pos"]


@mutation("level-field/missing-in-the-manifest", "carried", "S8")
def _level_hidden(forge):
    forge.hierarchy["levels"][0]["fields"] = forge.hierarchy["levels"][0]["fields"][:3]


for _key, _given in (
    ("ptr", "edge"), ("ptr", "own"), ("ptr", "graph"), ("form", "str"), ("axis", -1), ("shifted", 1), ("dtype", "float64"),
):  # fmt: skip

    @mutation(f"level-field/attribute-{_key}-{_given}", "carried", "S7")
    def _level_attribute(forge, key=_key, given=_given):
        for _, file in forge.each("h"):
            set_attribute(file["levels/0/fields/pos"], key, given)


for _key, _given in (
    ("ptrs", ["edge"]), ("ptrs", ["own"]), ("ptrs", []), ("form", "stacked"), ("axis", -1), ("shifted", True),
    ("dtype", "object"), ("dtype", "bool"), ("encoding", "json"), ("tail", []), ("tail", [3] * 15), ("tail", "3"),
):  # fmt: skip

    @mutation(f"level-field/manifest-{_key}-{_given}", "carried", "S7")
    def _level_entry(forge, key=_key, given=_given):
        _level_field(forge, "pos")[key] = given


@mutation("level-field/10000-fields", "carried", "S5")
def _many_level_fields(forge):
    info = _level_field(forge, "pos")
    forge.hierarchy["levels"][0]["fields"] = [info | {"name": f"f{number}"} for number in range(10_000)]


def _rename_level_field(forge, text):
    from tests.store.mutation_oracle import link_name

    for number in range(2):
        _level_field(forge, "pos", number)["name"] = text
        fields = forge.hierarchy["levels"][number]["fields"]
        fields.sort(key=lambda info: info["name"].encode("utf-8", "surrogatepass"))
    for _, file in forge.each("h"):
        for number in range(2):
            fields = file[f"levels/{number}/fields"]
            if text and link_name(text) not in fields:
                fields.move("pos", link_name(text))


def _rename_rules(forge, text):
    forge.hierarchy["carry"] = text


for _key, _text in (TEXTS | {"so": "so", "mask": "mask", "index": "root_index", "y": "y"}).items():
    mutation(f"level-field/name-{_key}", "carried", "S4", "S9")(
        functools.partial(_rename_level_field, text=_text)
    )
    if _key in ("escapes", "markup", "formula", "newline", "bidi", "nul", "empty", "long"):
        mutation(f"level-field/rules-{_key}", "carried", "S4")(functools.partial(_rename_rules, text=_text))


def _random_bytes(seed, part, count, forge):
    """Change random bytes of a shard."""
    rng = np.random.default_rng(seed)
    file = forge.path / f"shard-00000.{part}.h5"
    data = bytearray(file.read_bytes())
    for position in rng.integers(0, len(data), count):
        data[position] = int(rng.integers(256))
    file.write_bytes(data)


for _seed in range(12):
    for _part in ("graphs", "h"):
        for _base in ("cli", "small"):
            mutation(f"files/random-bytes-{_part}-{_base}-{_seed}", _base)(
                functools.partial(_random_bytes, _seed, _part, 1 + 5 * (_seed % 4))
            )


# Divided graphs: pieces that are swapped, missing, foreign, or overlap --------------------------------------------


def _pieces(forge, part="graphs"):
    return forge.owner(part)["shards"][0]["pieces"]


def _file(forge, part, number):
    return forge.path / f"shard-00000.{part}.r{number:04d}.h5"


@mutation("divided/swapped-files", "divided", "unsound")
def _swapped_files(forge):
    first, second = (_file(forge, "graphs", number) for number in (0, 1))
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)


@mutation("divided/swapped-ranges", "divided", "unsound")
def _swapped_ranges(forge):
    first, second = _pieces(forge)[:2]
    for key in ("rows", "edges"):
        first[key], second[key] = second[key], first[key]


@mutation("divided/overlap", "divided", "unsound")
def _overlap(forge):
    _pieces(forge)[1]["edges"][0] -= 1
    _pieces(forge)[1]["rows"][0] -= 1


@mutation("divided/gap", "divided", "unsound")
def _gap(forge):
    _pieces(forge)[0]["edges"][1] -= 1


@mutation("divided/last-piece-missing", "divided", "unsound")
def _last_missing(forge):
    _pieces(forge).pop()


@mutation("divided/first-piece-missing", "divided", "unsound")
def _first_missing(forge):
    _pieces(forge, "h").pop(0)


@mutation("divided/no-pieces", "divided", "unsound")
def _no_pieces(forge):
    del forge.manifest["shards"][0]["pieces"]


@mutation("divided/no-shard-edges", "divided", "unsound")
def _no_shard_edges(forge):
    del forge.manifest["shard_edges"]


@mutation("divided/piece-listed-twice", "divided", "unsound")
def _twice(forge):
    _pieces(forge).append(dict(_pieces(forge)[-1]))


@mutation("divided/piece-of-another-level", "divided", "unsound")
def _other_level(forge):
    _pieces(forge, "h")[-1]["level"] += 1


@mutation("divided/file-missing", "divided", "unsound")
def _file_missing(forge):
    return _file(forge, "h", 1).unlink


@mutation("divided/extra-file", "divided", "unsound")
def _extra_file(forge):
    number = len(_pieces(forge))
    _file(forge, "graphs", number).write_bytes(_file(forge, "graphs", 0).read_bytes())


@mutation("divided/array-also-in-the-part", "divided", "unsound")
def _also_in_part(forge):
    with forge.shard("graphs") as file, forge.shard("graphs.r0000") as piece:
        piece.copy("fields/x", file["fields"])


@mutation("divided/more-arrays-in-one-piece", "divided", "unsound")
def _more_arrays(forge):
    with forge.shard("graphs.r0001") as piece:
        piece["fields/other"] = np.zeros(3)


@mutation("divided/offsets-in-pieces", "divided", "unsound")
def _offsets_in_pieces(forge):
    for number in range(len(_pieces(forge))):
        with forge.shard(f"graphs.r{number:04d}") as piece:
            piece["node_ptr"] = np.zeros(3, np.uint8)


@mutation("divided/a-million-pieces", "divided", "unsound")
def _million(forge):
    entry = forge.manifest["shards"][0]
    entry["pieces"] = [entry["pieces"][0]] * 100_000


@mutation("divided/edges-of-another-piece", "divided", "unsound")
def _edges_of_another_piece(forge):
    """Move the sources of a piece to rows of the next one; all ids exist."""
    high = _pieces(forge)[0]["rows"][1]
    with forge.shard("graphs.r0000") as piece:
        piece["fields/edge_index"][0, -1] = high


@mutation("divided/wrong-supernode", "divided", "unsound")
def _wrong_supernode(forge):
    with forge.shard("h.r0001") as piece:
        piece["levels/0/cluster"][0] = 0


@mutation("divided/wrong-coarse-edge", "divided", "unsound")
def _wrong_coarse_edge(forge):
    with forge.shard("h.r0000") as piece:
        index = piece["levels/0/edge_index"]
        free = (
            set(range(int(index[1].max()) + 1))
            - set(index[1][index[0] == index[0, -1]])
            - {int(index[0, -1])}
        )
        index[1, -1] = max(free)
