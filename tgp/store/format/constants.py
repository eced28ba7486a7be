"""Constants of the store format: names, version, types and limits.

``docs/fileformat.md`` describes the format. A change that an older reader would misread needs a new :data:`VERSION`.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from tgp.errors import InputError

__all__ = [
    "FORMAT",
    "GRAPHS",
    "MANIFEST",
    "MINOR",
    "RECORDS",
    "VERSION",
    "check_hierarchy_name",
    "encode_name",
    "is_level_field",
    "is_part_file",
    "is_piece_file",
    "max_decoded",
    "max_rows",
    "part_file",
    "part_of_file",
    "piece_file",
    "record_file",
    "spec_file",
]

FORMAT = "tgp-store"
VERSION = 1
MINOR = 5
"""Minor version: 1 adds the revision of the engine and the choice of quality figures to hierarchies, 2 adds fields of JSON
texts, 3 adds fields of levels, 4 adds edge maps of levels, and types of nodes and relations, 5 adds graphs that are divided
over several files."""

MANIFEST = "manifest.json"
RECORDS = "records"
GRAPHS = "graphs"
"""Name of the part that holds the input graphs. Every other part is a hierarchy."""

PROFILES = ("fast", "small")
LIBVER = ("v108", "v108")
"""File format of HDF5 1.8 (2008). It is fixed, so that the same input always gives the same bytes."""

ALIGNMENT = 64
"""Alignment of each array of the fast profile, in bytes: one cache line."""

GZIP_LEVEL = 4
CHUNK_BYTES = 1 << 18
"""Approximate size of a chunk of the small profile."""

END_BYTES = 4096
"""Bytes at the start and at the end of a file that are digested when it is opened."""

MAX_MANIFEST_BYTES = 64 << 20
MAX_JSON_DEPTH = 32
MAX_JSON_VALUES = 2_000_000
"""Largest number of values in one JSON file. The manifest of 50,000 units with one hierarchy of three levels has fewer."""

MAX_UNITS = 100_000
MAX_PIECES = 10_000
"""Largest number of files over which one part of one unit is divided."""

MAX_LEVELS = 1000
MAX_METRICS = 10_000
MAX_NAME = 1024
"""Largest length of a name: of a field in its encoded form, of a method, of a metric."""

MAX_COUNT = 2**53
"""Largest number of graphs, nodes, edges or bytes, also of a sum of them. Sums of a few such numbers fit in 64 bits."""

MAX_WIDTH = 2**20
"""Largest number of columns of a dense assignment, and of modes."""

MAX_ROW_BYTES = 2**36
"""Largest size of one row of a field."""

MAX_OBJECTS = 8192
"""Largest number of datasets and groups in one file. A few dozen are usual."""

MAX_ATTRIBUTES = 32
"""Largest number of attributes of one dataset or group. Seven are usual."""

MAX_ATTRIBUTE_BYTES = 4096
MAX_NDIM = 16
MAX_GROUP_DEPTH = 3
MAX_RATIO = 1100
"""Largest ratio of decoded to stored bytes. Deflate cannot exceed 1032, so a larger declared ratio is wrong."""

MAX_CHUNK_BYTES = 64 << 20
MAX_DECODED_BYTES = 8 << 30
"""Largest size of all compressed arrays of one file, see :func:`max_decoded`. A unit that needs more must be split."""

FREE_ROWS, ROWS_PER_BYTE = 2**20, 64
"""Limit of rows that no array stores, such as empty supernodes: a fixed number, plus a number per stored byte."""

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
WEIGHT_DTYPES = ("float16", "float32", "float64")
"""Types of the edge weights of a level."""

FORMS = ("rows", "stacked", "int", "float", "bool", "str")
"""Forms that files name. A field of form ``json`` has the form ``str`` and the encoding ``json`` in files."""

ENCODINGS = ("json",)
MAX_JSON_TEXT = 1 << 20
"""Largest size in bytes of the JSON text of one graph in a field."""

TYPE_GRAPHS = ("auto", "same", "project")
"""Edges of heterogeneous graphs that methods see."""

KINDS = ("hard", "onehot", "soft")
PTRS = ("node", "edge", "graph", "own")
"""Kinds of offsets that cut a field into graphs: those of nodes, of edges, one row per graph, or its own offsets."""

LEVEL_ARRAYS = ("edge_weight", "cluster", "weight", "soft", "theta", "representative")
"""Optional arrays of a level. ``super_ptr``, ``edge_ptr`` and ``edge_index`` are always present."""

LEVEL_KEYS = frozenset(
    ["edge_index", "edge_weight", "batch", "ptr", "mask", "so", "num_nodes", "pooled_data"]
)
"""Attributes of a pooled graph that do not come from a field of its level."""

_HIERARCHY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+=-]{0,79}")
_PART = r"[A-Za-z0-9][A-Za-z0-9_+=-]{0,79}"
_PART_FILE = re.compile(rf"shard-[0-9]{{5,9}}\.{_PART}(?:\.r[0-9]{{4}})?\.h5")
_OWN_FILE = re.compile(rf"(?:shard-[0-9]{{5,9}}\.({_PART})(?:\.r[0-9]{{4}})?|spec\.({_PART}))\.(?:h5|json)")
_RESERVED = frozenset({GRAPHS, "spec", "con", "prn", "aux", "nul"})


def check_hierarchy_name(name: str) -> str:
    """Check that a name is valid for a hierarchy. It becomes part of file names.

    Args:
        name: Name of a hierarchy.

    Returns:
        The name.

    Raises:
        InputError: If the name is not valid.
    """
    if not isinstance(name, str) or not _HIERARCHY.fullmatch(name) or name.lower() in _RESERVED:
        raise InputError(
            f"wrong name of a hierarchy: expected at most 80 letters, digits, '_', '-', '+' or '=', the first one a "
            f"letter or digit, and none of the words {', '.join(sorted(_RESERVED))}, got {name!r}",
            field="name",
        )
    return name


def max_rows(stored_bytes: int) -> int:
    """Return the largest number of rows that a file may declare without storing them.

    Nodes of graphs without node attributes and empty supernodes of a dense assignment are such rows. Readers allocate
    memory for them, so their number must be related to the size of the file.

    Args:
        stored_bytes: Size of all arrays of the file.
    """
    return FREE_ROWS + ROWS_PER_BYTE * stored_bytes


def max_decoded(file_size: int) -> int:
    """Return the largest size of all compressed arrays of a file: 2 GiB, more if the file is large, at most 8 GiB.

    Args:
        file_size: Size of the file in bytes.
    """
    return min(MAX_DECODED_BYTES, max(MAX_DECODED_BYTES // 4, 64 * file_size))


EDGE_MAP = "edge_map"
"""Field of a level with the coarse edge of each edge of the graph before."""


def is_level_field(name: str) -> bool:
    """Return True if a field of a level may have this name.

    Other names belong to parts of a pooled graph, or PyG would count their values through a batch.

    Examples:
        >>> is_level_field("pos"), is_level_field("so"), is_level_field("root_index")
        (True, False, False)
    """
    return name not in LEVEL_KEYS and name != "face" and not ("index" in name or "batch" in name)


def part_file(unit: int, part: str) -> str:
    """Return the file name of one part of one unit.

    Examples:
        >>> part_file(3, "ndp")
        'shard-00003.ndp.h5'
    """
    return f"shard-{unit:05d}.{part}.h5"


def piece_file(unit: int, part: str, number: int) -> str:
    """Return the file name of one piece of a divided part.

    Examples:
        >>> piece_file(0, "hem", 1)
        'shard-00000.hem.r0001.h5'
    """
    return f"shard-{unit:05d}.{part}.r{number:04d}.h5"


def is_part_file(name: str) -> bool:
    """Return True if ``name`` is the file name of a shard or of a piece of one, without any directory."""
    return _PART_FILE.fullmatch(name) is not None


def is_piece_file(name: str) -> bool:
    """Return True if ``name`` is the file name of a piece of a divided part, without any directory."""
    return is_part_file(name) and name.count(".") == 3


def part_of_file(name: str) -> str | None:
    """Return the part to which a shard, a piece, a completion record or a specification belongs, ``None`` for other files."""
    if name == spec_file(None):
        return GRAPHS
    found = _OWN_FILE.fullmatch(name)
    return None if found is None else found[1] or found[2]


def record_file(unit: int, part: str, piece: int | None = None) -> str:
    """Return the name of the completion record of a part, or of one of its pieces, inside :data:`RECORDS`."""
    file = part_file(unit, part) if piece is None else piece_file(unit, part, piece)
    return file.removesuffix("h5") + "json"


def spec_file(hierarchy: str | None) -> str:
    """Return the name of the specification of the graphs (``None``) or of a hierarchy inside :data:`RECORDS`."""
    return "spec.json" if hierarchy is None else f"spec.{hierarchy}.json"


def encode_name(name: str) -> str:
    """Return the HDF5 link name for the name of an attribute: percent-encoded UTF-8 without ``/`` and ``.``.

    Examples:
        >>> encode_name("a/b.c")
        'a%2Fb%2Ec'
    """
    return quote(name, safe="").replace(".", "%2E")
