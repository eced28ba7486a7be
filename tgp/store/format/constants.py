"""The store's specification in code: names, version, types, limits.

``docs/fileformat.md`` is the same specification in words. A change here that an older reader would
misread needs a new :data:`VERSION`.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from tgp.errors import InputError

__all__ = [
    "FORMAT",
    "GRAPHS",
    "MANIFEST",
    "RECORDS",
    "VERSION",
    "check_hierarchy_name",
    "encode_name",
    "is_part_file",
    "part_file",
    "part_of_file",
    "record_file",
    "spec_file",
]

FORMAT = "tgp-store"
VERSION = 1
MANIFEST = "manifest.json"
RECORDS = "records"
GRAPHS = "graphs"
"""The part that holds the input graphs; every other part is a hierarchy."""

PROFILES = ("fast", "small")
LIBVER = ("v108", "v108")
"""Fixed, so that one input gives one sequence of bytes; readable by any HDF5 since 1.8 (2008)."""

ALIGNMENT = 64
"""Every array of the fast profile starts at a multiple of a cache line."""

GZIP_LEVEL = 4
CHUNK_BYTES = 1 << 18
END_BYTES = 4096
"""Bytes at either end of a file that are digested when it is opened."""

MAX_MANIFEST_BYTES = 64 << 20
MAX_JSON_DEPTH = 32
MAX_OBJECTS = 8192
"""Datasets and groups in one file: a few dozen are usual."""

MAX_ATTRIBUTE_BYTES = 4096
MAX_NDIM = 16
MAX_GROUP_DEPTH = 3
MAX_RATIO = 1100
"""Decoded over stored bytes. Deflate cannot exceed 1032, so more than this is a lie."""

MAX_DECODED_BYTES = 8 << 30
"""Largest array of the small profile; a unit that needs more must be cut."""

MAX_REASON_BYTES = 2000

STORED_DTYPES = frozenset(
    ["|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f2", "<f4", "<f8"],
)
ORIGINAL_DTYPES = frozenset(
    [
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    ]
)
FORMS = ("rows", "stacked", "int", "float", "bool", "str")
KINDS = ("hard", "onehot", "soft")
PTRS = ("node", "edge", "graph", "own")
"""Which offsets cut a field: those of nodes, of edges, one row per graph, or its own."""

LEVEL_ARRAYS = ("edge_weight", "cluster", "weight", "soft", "theta", "representative")
"""Arrays a level may have, next to ``super_ptr``, ``edge_ptr`` and ``edge_index`` it always has."""

_HIERARCHY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+=-]{0,79}")
_PART_FILE = re.compile(r"shard-[0-9]{5,9}\.[A-Za-z0-9][A-Za-z0-9_+=-]{0,79}\.h5")
_OWN_FILE = re.compile(r"(?:shard-[0-9]{5,9}|spec)\.([A-Za-z0-9][A-Za-z0-9_+=-]{0,79})\.(?:h5|json)")
_RESERVED = frozenset({GRAPHS, "spec", "con", "prn", "aux", "nul"})


def check_hierarchy_name(name: str) -> str:
    """Return ``name`` if it can name a hierarchy (it becomes part of file names)."""
    if not isinstance(name, str) or not _HIERARCHY.fullmatch(name) or name.lower() in _RESERVED:
        raise InputError(
            f"a hierarchy is named by letters, digits, '_', '-', '+', '=' (at most 80, the first a letter or "
            f"digit, not one of {', '.join(sorted(_RESERVED))}), got {name!r}",
            field="name",
        )
    return name


def part_file(unit: int, part: str) -> str:
    """File name of one part of one unit."""
    return f"shard-{unit:05d}.{part}.h5"


def is_part_file(name: str) -> bool:
    """Whether ``name`` is a shard's file name and nothing else (no folder, no ``..``)."""
    return _PART_FILE.fullmatch(name) is not None


def part_of_file(name: str) -> str | None:
    """The part that a shard, completion record or specification belongs to; ``None`` for a foreign file."""
    if name == spec_file(None):
        return GRAPHS
    found = _OWN_FILE.fullmatch(name)
    return None if found is None else found[1]


def record_file(unit: int, part: str) -> str:
    """Name of a completion record inside :data:`RECORDS`."""
    return f"shard-{unit:05d}.{part}.json"


def spec_file(hierarchy: str | None) -> str:
    """Name of the specification of the graphs (``None``) or of a hierarchy inside :data:`RECORDS`."""
    return "spec.json" if hierarchy is None else f"spec.{hierarchy}.json"


def encode_name(name: str) -> str:
    """An attribute name as an HDF5 link name: percent-encoded UTF-8, so ``/`` and ``.`` are harmless."""
    return quote(name, safe="").replace(".", "%2E")
