"""Catalogue of damaged and hostile input files, without torch: archives of arrays, text, XML, HDF5.

Each function writes one input below a folder and returns the value of ``--dataset``, or a pair of it and ``--root``.
"""

import gzip
import lzma
import os
import socket
import struct
import zipfile
import zlib
from io import BytesIO

import h5py
import numpy as np

CASES = {}
EDGES = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])


def case(name):
    """Register a function of the catalogue."""

    def register(function):
        assert name not in CASES
        CASES[name] = function
        return function

    return register


def content(suffix, **files):
    """Register files of constant content."""
    for name, data in files.items():

        def write(folder, data=data):
            path = folder / f"g{suffix}"
            path.write_bytes(data.encode() if isinstance(data, str) else data)
            return path

        case(f"{suffix[1:]} {name.replace('_', ' ')}")(write)


def arrays(**cases):
    """Register ``.npz`` files of given arrays. ``None`` removes ``edge_index``."""
    for name, values in cases.items():

        def write(folder, values=values):
            given = {"edge_index": EDGES, **values}
            path = folder / "g.npz"
            np.savez(path, **{key: np.asarray(v) for key, v in given.items() if v is not None})
            return path

        case(f"npz {name.replace('_', ' ')}")(write)


# ------------------------------------------------------------------------------------------- values of arrays

MANY = {"node_ptr": [0, 2, 3], "edge_ptr": [0, 2, 4]}
CSR = {
    "edge_index": None,
    "format": b"csr",
    "indptr": [0, 1, 2],
    "indices": [1, 0],
    "data": [1.0, 2.0],
    "shape": [2, 2],
}

arrays(
    no_edges={"edge_index": None, "x": np.eye(3)},
    edge_float={"edge_index": EDGES + 0.5},
    edge_nan={"edge_index": np.full((2, 2), np.nan)},
    edge_three_rows={"edge_index": np.zeros((3, 4), int)},
    edge_flat={"edge_index": np.zeros(4, int)},
    edge_uint64={"edge_index": EDGES.astype(np.uint64) + 2**63},
    edge_negative={"edge_index": EDGES - 1},
    edge_beyond_nodes={"num_nodes": [2]},
    edge_beyond_int64={"edge_index": np.full((2, 2), 2**63 - 1)},
    edge_id_10_to_12={"edge_index": np.full((2, 2), 10**12)},
    edge_text={"edge_index": np.array([["a"], ["b"]])},
    num_nodes_negative={"num_nodes": [-3]},
    num_nodes_float={"num_nodes": [3.5]},
    num_nodes_nan={"num_nodes": [np.nan]},
    num_nodes_empty={"num_nodes": np.zeros(0, int)},
    num_nodes_2_to_62={"num_nodes": [2**62]},
    num_nodes_10_to_11={"num_nodes": [10**11]},
    num_nodes_sum_wraps={"num_nodes": [2**62, 2**62, 2**62, 2**62]},
    one_kind_of_offsets={"node_ptr": [0, 3]},
    offsets_decrease={**MANY, "node_ptr": [0, 5, 3]},
    offsets_start_at_one={**MANY, "node_ptr": [1, 2, 3]},
    offsets_float={**MANY, "node_ptr": [0.0, 2.0, 3.0]},
    offsets_uint64={**MANY, "node_ptr": np.array([0, 2**63 + 5, 2**63 + 9], np.uint64)},
    offsets_2_to_62={**MANY, "node_ptr": [0, 2, 2**62]},
    offsets_10_to_11={**MANY, "node_ptr": [0, 2, 10**11]},
    offsets_flat_table={**MANY, "node_ptr": [[0, 2, 3]]},
    offsets_empty={**MANY, "node_ptr": np.zeros(0, int)},
    offsets_of_other_length={**MANY, "edge_ptr": [0, 1, 2, 4]},
    offsets_short_of_edges={**MANY, "edge_ptr": [0, 1, 2]},
    offsets_wrap={**MANY, "edge_ptr": [0, 2**63 - 1, -(2**63)]},
    offsets_of_no_graphs={"edge_index": np.zeros((2, 0), int), "node_ptr": [0], "edge_ptr": [0]},
    own_offsets_wrong={**MANY, "word": np.arange(4), "word_ptr": [0, 9, 2]},
    rows_fit_nothing={**MANY, "x": np.zeros((7, 2))},
    weight_nan={"edge_weight": [1, np.nan, 1, 1]},
    weight_infinite={"edge_weight": [1, np.inf, 1, 1]},
    weight_short={"edge_weight": [1.0, 2.0]},
    weight_complex={"edge_weight": np.ones(4, complex)},
    weight_table={"edge_weight": np.ones((4, 2))},
    strings={"name": np.array(["a", "b"])},
    dates={"time": np.array(["2020-01-01"], "datetime64[D]")},
    raw_bytes={"raw": np.zeros(4, "V8")},
    records={"table": np.zeros(4, [("a", "i4"), ("b", "f8")])},
    name_escape={"\x1b[31mred": np.arange(4)},
    name_newline={"a\nb": np.arange(4)},
    name_too_long={"n" * 5000: np.arange(4)},
    name_surrogate={"bidi\u202e": np.arange(4)},
    csr_offsets_decrease={**CSR, "indptr": [0, 2, 1]},
    csr_offsets_beyond={**CSR, "indptr": [0, 1, 9]},
    csr_offsets_negative={**CSR, "indptr": [0, -5, 2]},
    csr_offsets_empty={**CSR, "indptr": np.zeros(0, int)},
    csr_indices_beyond={**CSR, "indices": [1, 7]},
    csr_indices_negative={**CSR, "indices": [1, -7]},
    csr_indices_float={**CSR, "indices": [1.0, 0.5]},
    csr_shape_negative={**CSR, "shape": [-2, 2]},
    csr_shape_of_three={**CSR, "shape": [2, 2, 2]},
    csr_shape_empty={**CSR, "shape": np.zeros(0, int)},
    csr_shape_huge={**CSR, "shape": [2, 2**62]},
    csr_shape_float={**CSR, "shape": [2.0, np.inf]},
    csr_format_unknown={**CSR, "format": b"bsr"},
    csr_format_twice={**CSR, "format": [b"csr", b"csr"]},
    csr_data_short={**CSR, "data": [1.0]},
)

# ------------------------------------------------------------------------------------------- broken archives


def npy(shape, dtype="<i8", data=b"", version=b"\x01\x00", header=None):
    """Return an array file whose header may lie."""
    text = header or f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    size = struct.pack("<H" if version == b"\x01\x00" else "<I", len(text) + 1)
    return b"\x93NUMPY" + version + size + text.encode() + b"\n" + data


def zeros_deflated(count):
    """Return a deflate stream of ``count`` MB of zeros, made of equal blocks, in little time."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return first * count + packer.flush()


def archive(*members):
    """Return a zip file of ``(name, method, stored data, declared size, flags)``, without any check."""
    body, directory = b"", b""
    for name, method, data, size, flags in members:
        crc = 0 if method else zlib.crc32(data)
        common = struct.pack(
            "<HHHHHIIIHH", 20, flags, method, 0, 0, crc, len(data), min(size, 2**32 - 2), len(name), 0
        )
        directory += b"PK\x01\x02" + struct.pack("<H", 20) + common
        directory += struct.pack("<HHHII", 0, 0, 0, 0, len(body)) + name.encode()
        body += b"PK\x03\x04" + common + name.encode() + data
    end = struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(directory), len(body), 0)
    return body + directory + b"PK\x05\x06" + end


def saved(compressed=False, **values):
    buffer = BytesIO()
    (np.savez_compressed if compressed else np.savez)(buffer, **{"edge_index": EDGES, **values})
    return buffer.getvalue()


def flipped(data, position):
    return data[:position] + bytes([data[position] ^ 0x55]) + data[position + 1 :]


def packed(method):
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file:
        file.writestr("edge_index.npy", npy((2, 2), data=bytes(32)))
    return buffer.getvalue()


def stored(**members):
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, data in members.items():
            file.writestr(name.replace("__", "."), data)
    return buffer.getvalue()


GOOD = npy((2, 2), data=bytes(32))
RANDOM = np.random.default_rng(0).bytes(4000)

content(
    ".npz",
    empty=b"",
    random=RANDOM,
    text="hello",
    zip_magic_only=b"PK\x03\x04" + RANDOM,
    truncated=saved()[:-40],
    cut_in_half=saved()[: len(saved()) // 2],
    wrong_checksum=flipped(saved(), saved().index(b"NUMPY") + 140),
    wrong_deflate=flipped(saved(True, x=np.arange(900)), 200),
    encrypted=archive(("edge_index.npy", 0, GOOD, len(GOOD), 1)),
    packed_lzma=packed(zipfile.ZIP_LZMA),
    packed_bzip2=packed(zipfile.ZIP_BZIP2),
    packed_unknown=archive(("edge_index.npy", 99, GOOD, len(GOOD), 0)),
    declared_larger_than_stored=archive(("edge_index.npy", 0, GOOD, 2**31, 0)),
    bomb_of_zeros=archive(("x.npy", 8, zeros_deflated(3500), 3500 << 20, 0)),
    bomb_of_a_header=archive(("x.npy", 8, zeros_deflated(3500), 2**32 - 2, 0)),
    header_10_to_12=stored(edge_index__npy=npy((2, 10**12), data=bytes(32))),
    header_3_GB=stored(edge_index__npy=npy((2, 2 * 10**8), data=bytes(32))),
    header_negative=stored(edge_index__npy=npy((-1,), data=bytes(32))),
    header_wraps=stored(edge_index__npy=npy((2**62, 8), data=b"")),
    header_empty_but_wide=stored(edge_index__npy=GOOD, x__npy=npy((0, 2**60), data=b"")),
    header_no_item_size=stored(edge_index__npy=GOOD, x__npy=npy((10**12,), "|S0", b"")),
    header_float_shape=stored(edge_index__npy=npy((2.0, 1.0), data=bytes(32))),
    header_is_code=stored(edge_index__npy=npy((), header="__import__('os').getcwd()")),
    header_nested=stored(edge_index__npy=npy((), header="(" * 9000)),
    header_4_GB=stored(edge_index__npy=b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}"),
    header_unknown_version=stored(edge_index__npy=npy((2, 2), data=bytes(32), version=b"\x09\x00")),
    header_truncated=stored(edge_index__npy=GOOD[:20]),
    data_short=stored(edge_index__npy=GOOD[:-8]),
    data_long=stored(edge_index__npy=GOOD + bytes(8)),
    no_array=stored(edge_index__npy=b"hello"),
    two_arrays_of_one_name=archive(
        ("edge_index.npy", 0, GOOD, len(GOOD), 0), ("edge_index.npy", 0, GOOD, len(GOOD), 0)
    ),
    too_many_arrays=archive(*((f"a{i}.npy", 0, b"", 0, 0) for i in range(20_000))),
)


@case("npz of Python objects")
def _(folder):
    np.savez(folder / "g.npz", edge_index=EDGES, x=np.array([{"a": 1}], object))
    return folder / "g.npz"


# ------------------------------------------------------------------------------------------- text


def gz_of(data):
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + data + bytes(8)


content(
    ".txt",
    id_above_int64="0 99999999999999999999\n",
    id_2_to_63="0 9223372036854775808\n",
    id_of_5000_digits="0 " + "9" * 5000 + "\n",
    id_negative_first="0 1\n-1 2\n",
    id_negative_second="0 1\n1 -2\n",
    id_float="0 1.5\n",
    id_float_first="1.5 0\n",
    id_nan="nan 1\n0 1\n",
    id_exponent="1e3 4\n",
    four_words="0 1 2 3\n",
    one_word="0\n",
    weights_on_some_lines="0 1 2.0\n1 2\n",
    weight_of_letters="0 1 heavy\n",
    weight_nan="0 1 nan\n",
    weight_above_float="0 1 1e400\n",
    weight_above_float32="0 1 1e300\n",
    empty="",
    comments_only="# nothing\n% here\n",
    latin1=b"0 1\n1 2 \xe9\n",
    utf16="0 1\n1 2\n".encode("utf-16"),
    nul_bytes=b"0 1\0\n",
    binary=RANDOM,
    one_long_line=b"1" * 30_000_000,
    long_line_of_ids=b"0 1\n" + b"1 " * 20_000_000,
)
content(
    ".txt.gz",
    random=RANDOM,
    empty=b"",
    magic_only=b"\x1f\x8b" + RANDOM,
    truncated=gzip.compress(b"0 1\n" * 9999)[:-20],
    wrong_checksum=flipped(gzip.compress(b"0 1\n" * 99), -8 % len(gzip.compress(b"0 1\n" * 99))),
    wrong_data=flipped(gzip.compress(RANDOM.hex().encode()), 1500),
    bomb_of_zeros=gz_of(zeros_deflated(3500)),
)
content(
    ".csv.xz",
    random=RANDOM,
    empty=b"",
    truncated=lzma.compress(b"0 1\n" * 9999)[:-20],
    wrong_data=flipped(lzma.compress(RANDOM), 1500),
    trailing_garbage=lzma.compress(b"0 1\n" * 99) + b"garbage",
    bomb_of_lines=lzma.compress(b"0 1\n" * 500_000) * 40,
    dictionary_of_4_GB=(lambda data: data[:1] + b"\xff\xff\xff\xff" + data[5:])(
        lzma.compress(b"0 1\n", lzma.FORMAT_ALONE)
    ),
)


@case("gz bomb of lines")
def _(folder):
    block = b"0 1\n" * (1 << 21)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    (folder / "g.edges.gz").write_bytes(gz_of(data * 10 + packer.flush()))
    return folder / "g.edges.gz"


# ------------------------------------------------------------------------------------------- GraphML


def graphml(body, head="", keys=""):
    return f'<?xml version="1.0"?>{head}<graphml>{keys}{body}</graphml>'


def key(kind, name="v", target="node"):
    return f'<key id="k" for="{target}" attr.name="{name}" attr.type="{kind}"/>'


def node(value):
    return f'<graph><node id="a"><data key="k">{value}</data></node></graph>'


PAIR = '<graph><node id="a"/><node id="b"/>{}</graph>'
EDGE = '<edge source="a" target="b"><data key="k">{}</data></edge>'
LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10 if i else "ha"}">' for i in range(10))

content(
    ".graphml",
    empty="",
    random=RANDOM,
    text="hello",
    truncated=graphml(PAIR)[:40],
    other_root="<svg><graph/></svg>",
    no_graph="<graphml/>",
    nested_50000=graphml("<graph>" + "<node id='a'><graph>" * 50_000),
    nested_and_closed=graphml("<graph>" * 50_000 + "</graph>" * 50_000),
    entities=graphml(node("&l9;"), f"<!DOCTYPE graphml [{LAUGHS}]>", key("string")),
    external_entity=graphml(node("&x;"), '<!DOCTYPE graphml [<!ENTITY x SYSTEM "/etc/passwd">]>', key("int")),
    parameter_entity=graphml(node("1"), '<!DOCTYPE graphml [<!ENTITY % x SYSTEM "/etc/passwd"> %x;]>'),
    unknown_entity=graphml(node("&nothing;")),
    unknown_encoding='<?xml version="1.0" encoding="klingon"?><graphml/>',
    wrong_encoding=graphml(node("\xe9")).encode("latin1"),
    letters_in_a_node=graphml(node("abc"), keys=key("double")),
    letters_in_a_weight=graphml(PAIR.format(EDGE.format("heavy")), keys=key("double", "weight", "edge")),
    weight_nan=graphml(PAIR.format(EDGE.format("nan")), keys=key("double", "weight", "edge")),
    weight_1e400=graphml(PAIR.format(EDGE.format("1e400")), keys=key("double", "weight", "edge")),
    integer_above_int64=graphml(node("9" * 20), keys=key("long")),
    integer_nan=graphml(node("nan"), keys=key("int")),
    integer_1_5=graphml(node("1.5"), keys=key("int")),
    boolean_maybe=graphml(node("maybe"), keys=key("boolean")),
    attribute_named_edge_index=graphml(node("1"), keys=key("int", "edge_index")),
    attribute_named_num_nodes=graphml(node("1000000000000"), keys=key("long", "num_nodes")),
    node_twice=graphml('<graph><node id="a"/><node id="a"/></graph>'),
    node_without_id=graphml("<graph><node/><node/></graph>"),
    edge_to_nowhere=graphml(PAIR.format('<edge source="a" target="z"/>')),
    edge_without_ends=graphml(PAIR.format("<edge/>")),
)

# ------------------------------------------------------------------------------------------- HDF5


def hdf5(name):
    def register(function):
        def write(folder):
            with h5py.File(folder / "g.h5", "w") as file:
                function(file)
            return folder / "g.h5"

        return case(f"h5 {name}")(write)

    return register


content(".h5", empty=b"", random=RANDOM, magic_only=b"\x89HDF\r\n\x1a\n" + RANDOM)


@case("h5 truncated")
def _(folder):
    with h5py.File(folder / "full.h5", "w") as file:
        file["edge_index"] = EDGES
    (folder / "g.h5").write_bytes((folder / "full.h5").read_bytes()[:900])
    return folder / "g.h5"


@hdf5("bomb of many arrays")
def _(file):
    chunk = zlib.compress(bytes(1 << 20), 9)
    for number in range(16):
        data = file.create_dataset(f"a{number}", (512 << 20,), "u1", chunks=(1 << 20,), compression="gzip")
        for position in range(512):
            data.id.write_direct_chunk((position << 20,), chunk)


hdf5("external link")(lambda file: file.update(edge_index=h5py.ExternalLink("/etc/passwd", "/x")))
hdf5("soft link")(lambda file: file.update(edge_index=h5py.SoftLink("/nowhere")))
hdf5("text")(lambda file: file.create_dataset("edge_index", data=["a", "b"]))
hdf5("records")(lambda file: file.create_dataset("edge_index", data=np.zeros(2, [("a", "i4")])))
hdf5("unwritten contiguous")(lambda file: file.create_dataset("edge_index", (2, 2**40), "i8"))
hdf5("unwritten chunks")(lambda file: file.create_dataset("edge_index", (2, 2**40), "i8", chunks=(2, 1024)))
hdf5("only groups")(lambda file: file.create_group("edge_index"))
hdf5("no arrays")(lambda file: None)
hdf5("other arrays")(lambda file: file.create_dataset("y", data=np.arange(3)))
hdf5("float ids")(lambda file: file.create_dataset("edge_index", data=EDGES + 0.5))

# ------------------------------------------------------------------------------------------- TU collection

TU = {"A": "1, 2\n2, 1\n", "graph_indicator": "1\n1\n", "graph_labels": "1\n"}


def tu(**cases):
    for name, parts in cases.items():

        def write(folder, parts=parts):
            raw = folder / "TUDataset" / "Mine" / "raw"
            raw.mkdir(parents=True)
            for part, data in {**TU, **parts}.items():
                path = raw / f"Mine_{part}.txt"
                if callable(data):
                    data(path)
                elif data is not None:
                    path.write_bytes(data.encode() if isinstance(data, str) else data)
            return "TUDataset/Mine", folder

        case(f"TU {name.replace('_', ' ')}")(write)


NUMBERS = "".join(f"{i}\n" for i in range(200_000))

tu(
    graph_id_10_to_9={"graph_indicator": "1\n1000000000\n", "A": "1,1\n"},
    graph_id_int64={"graph_indicator": f"1\n{2**63 - 1}\n", "A": "1,1\n"},
    graph_ids_wrap={"graph_indicator": f"1\n{2**63 - 1}\n{-(2**63)}\n", "A": "1,1\n"},
    graph_ids_decrease={"graph_indicator": "1\n2\n1\n"},
    graph_ids_from_2={"graph_indicator": "2\n2\n"},
    graph_ids_empty={"graph_indicator": ""},
    graph_ids_float={"graph_indicator": "1.0\n1.5\n"},
    graph_ids_above_int64={"graph_indicator": "1\n99999999999999999999\n"},
    node_id_0={"A": "0, 1\n"},
    node_id_beyond={"A": "1, 3\n"},
    node_id_smallest={"A": f"{-(2**63)}, 1\n"},
    node_id_above_int64={"A": "1, 99999999999999999999\n"},
    node_id_float={"A": "1, 1.5\n"},
    node_id_nan={"A": "1, nan\n"},
    edges_of_three_columns={"A": "1, 2, 3\n"},
    edges_of_mixed_columns={"A": "1, 2\n1\n"},
    edges_binary={"A": RANDOM},
    edges_folder={"A": lambda path: path.mkdir()},
    edges_fifo={"A": os.mkfifo},
    labels_span_10_to_9={"node_labels": "0\n1000000000\n"},
    labels_span_int64={"node_labels": f"{-(2**63)}\n{2**63 - 1}\n"},
    labels_200000={
        "node_labels": NUMBERS,
        "graph_indicator": "1\n" * 200_000,
    },
    labels_too_few={"node_labels": "1\n"},
    labels_text={"node_labels": "a\nb\n"},
    edge_labels_200000={"edge_labels": "0\n200000000\n"},
    attributes_text={"graph_attributes": "much\n"},
    targets_too_many={"graph_labels": "1\n2\n3\n"},
    targets_fifo={"graph_labels": os.mkfifo},
)

# ------------------------------------------------------------------------------------------- kinds of paths

SUFFIXES = (".npz", ".txt", ".txt.gz", ".graphml", ".h5", ".pt")


def special(kind, suffix, make):
    def write(folder):
        path = folder / f"g{suffix}"
        make(path)
        return path

    case(f"{kind} {suffix[1:]}")(write)


def bind_socket(path):
    socket.socket(socket.AF_UNIX).bind(str(path))


for suffix in SUFFIXES:
    special("FIFO", suffix, os.mkfifo)
    special("device", suffix, lambda path: path.symlink_to("/dev/zero"))
    special("link to nothing", suffix, lambda path: path.symlink_to("missing"))
    special("folder named", suffix, lambda path: path.mkdir())
special("link loop", ".npz", lambda path: path.symlink_to(path.name))
special("socket", ".npz", bind_socket)
special("unknown kind", ".docx", lambda path: path.write_bytes(RANDOM))


def folder_case(name):
    def register(function):
        def write(folder):
            (folder / "many").mkdir()
            (folder / "many" / "a.txt").write_text("0 1\n")
            function(folder / "many")
            return folder / "many"

        return case(f"folder {name}")(write)

    return register


folder_case("with a FIFO")(lambda path: os.mkfifo(path / "b.txt"))
folder_case("with two kinds")(lambda path: (path / "b.graphml").write_text(graphml(PAIR.format(""))))
folder_case("with labels as FIFO")(lambda path: os.mkfifo(path / "labels.csv"))
folder_case("with labels in latin1")(lambda path: (path / "labels.csv").write_bytes(b"a,1\n\xe9,2\n"))
folder_case("with labels above int64")(lambda path: (path / "labels.csv").write_text("a," + "9" * 20))
folder_case("with labels of 5000 digits")(lambda path: (path / "labels.csv").write_text("a," + "9" * 5000))
folder_case("with superscript labels")(lambda path: (path / "labels.csv").write_text("b,1\na,\u00b2\n"))
folder_case("with an empty manifest")(lambda path: (path / "manifest.json").write_text(""))


@case("name with a path")
def _(folder):
    return "TUDataset/../../outside", folder
