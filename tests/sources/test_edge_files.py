"""Edges of one graph read piece by piece: kinds of files, positions, damaged files, and the same files in memory."""

import errno
import gzip
import importlib
import lzma

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tgp.errors import DatasetError, MissingPackageError
from tgp.kernels import edge_input
from tgp.sources.edge_files import open_edges
from tgp.sources.edge_text import parse_edge_text
from tgp.sources.local_files import open_local

NUM_NODES, NUM_EDGES = 40, 200


def make_edges():
    edges = np.random.default_rng(0).integers(0, NUM_NODES, (NUM_EDGES, 2))
    edges[:NUM_NODES, 0] = np.arange(NUM_NODES)
    return edges, np.random.default_rng(1).integers(1, 9, NUM_EDGES) / 4


def to_text(edges, weight=None, separator=" ", prefix=""):
    rows = [edges.tolist()] if weight is None else [edges.tolist(), weight.tolist()]
    lines = (prefix + separator.join(map(str, (*row[0], *row[1:]))) for row in zip(*rows, strict=True))
    return "".join(f"{line}\n" for line in lines)


def write_parquet(path, edges, weight, names=("source", "target", "weight"), **options):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = [edges[:, 0], edges[:, 1].astype(np.int32), *([] if weight is None else [weight])]
    table = arrow.table(dict(zip(names, columns, strict=False)))
    parquet.write_table(table, path, row_group_size=options.pop("row_group_size", 37), **options)


def write_file(folder, kind, edges, weight=None):
    """Write edges to a file or folder of some kind and return its path."""
    text = to_text(edges, weight)
    path = folder / kind
    if kind == "a.csv":
        path.write_text("\ufeffsource,target\n" + to_text(edges, weight, ","))
    elif kind == "semicolons.csv":
        path.write_text("source;target\r\n" + to_text(edges, weight, ";").replace("\n", "\r\n"))
    elif kind == "a.gr":
        path.write_text(f"c roads\np sp {NUM_NODES} {NUM_EDGES}\n{to_text(edges, weight, prefix='a ')}")
    elif kind in ("a.txt.gz", "a.txt.xz"):
        path.write_bytes((gzip if kind.endswith("gz") else lzma).compress(text.encode()))
    elif kind == "a.npy":
        np.save(path, edges)
    elif kind == "a.npz":
        arrays = {} if weight is None else {"edge_weight": weight}
        np.savez_compressed(path, edge_index=edges.T, num_nodes=NUM_NODES, **arrays)
    elif kind == "a.parquet":
        write_parquet(path, edges, weight)
    elif kind == "ogb":
        (path / "raw").mkdir(parents=True)
        (path / "raw" / "edge.csv.gz").write_bytes(gzip.compress(to_text(edges, None, ",").encode()))
        (path / "raw" / "num-node-list.csv.gz").write_bytes(gzip.compress(f"{NUM_NODES}\n".encode()))
    elif kind == "ogb binary":
        (path / "raw").mkdir(parents=True)
        np.savez(path / "raw" / "data.npz", edge_index=edges.T, num_nodes_list=np.array([NUM_NODES]))
    else:
        path.write_text(text)
    return path


WEIGHTED = ["a.edges", "a.csv", "semicolons.csv", "a.gr", "a.txt.gz", "a.txt.xz", "a.npz", "a.parquet"]
KINDS = [*WEIGHTED, "a.npy", "ogb", "ogb binary"]


def join(pieces):
    weights = [piece.weight for piece in pieces if piece.weight is not None]
    return np.concatenate([piece.edges for piece in pieces]), np.concatenate(weights) if weights else None


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_of_any_size_and_from_any_position_give_the_edges(tmp_path, kind):
    edges, weight = make_edges()
    weight = weight if kind in WEIGHTED else None
    reader = open_edges(write_file(tmp_path, kind, edges, weight))
    for size in (1, 7, 37, 64, 10**6):
        pieces = list(reader.read(size))
        found, weights = join(pieces)
        assert np.array_equal(found, edges)
        assert (weights is None) if weight is None else np.array_equal(weights, weight)
        if not reader.needs_copy:  # positions are edge numbers
            assert [len(piece.edges) for piece in pieces[:-1]] == [size] * (len(pieces) - 1)
            assert [piece.position for piece in pieces] == np.cumsum([len(p.edges) for p in pieces]).tolist()
        for number in {0, len(pieces) // 2, len(pieces) - 2} - {-1, len(pieces) - 1}:
            rest, _ = join(list(reader.read(size, pieces[number].position)))
            before, _ = join(pieces[: number + 1])
            assert np.array_equal(rest, edges[len(before) :]), (size, number)


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_are_known_or_estimated_before_all_is_read(tmp_path, kind):
    edges, _ = make_edges()
    reader = open_edges(write_file(tmp_path, kind, edges))
    num_edges, num_nodes = reader.estimate_edges()
    assert abs(num_edges - NUM_EDGES) < 20 and num_nodes == NUM_NODES
    assert reader.count_nodes() in (None, NUM_NODES)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_names_work_in_memory(tmp_path, kind):
    edges, weight = make_edges()
    table = open_local(write_file(tmp_path, kind, edges, weight if kind in WEIGHTED else None))
    index = table.fields["edge_index"].values.T
    assert table.num_nodes == NUM_NODES
    if kind == "a.npz":  # an array with the edges of PyG, which are not mirrored in memory
        assert np.array_equal(index, edges)
        return
    loops = edges[:, 0] == edges[:, 1]
    assert np.array_equal(index, np.concatenate([edges, edges[~loops][:, ::-1]]))
    if kind in WEIGHTED:
        expected = np.concatenate([weight, weight[~loops]])
        assert np.array_equal(table.fields["edge_weight"].values, expected)


@pytest.mark.parametrize("kind", ["a.npy", "a.parquet", "ogb binary"])
def test_arrays_with_both_directions_are_not_mirrored_in_memory(tmp_path, kind):
    edges, weight = make_edges()
    both = np.concatenate([edges, edges[:, ::-1]])
    path = write_file(tmp_path, kind, both, np.tile(weight, 2) if kind == "a.parquet" else None)
    assert np.array_equal(open_local(path).fields["edge_index"].values.T, both)
    if kind != "ogb binary":
        assert open_local(path, {"directed": "true"}).fields["edge_index"].values.shape == (2, 2 * NUM_EDGES)


def test_ids_of_a_table_with_holes_are_kept_in_memory(tmp_path):
    write_parquet(tmp_path / "a.parquet", np.array([[7, 90], [90, 3]]), None)
    table = open_local(tmp_path / "a.parquet")
    assert table.fields["node_id"].values.tolist() == [3, 7, 90]
    assert table.fields["edge_index"].values.T.tolist() == [[1, 2], [2, 0], [2, 1], [0, 2]]


def test_a_folder_of_graphs_leaves_arrays_out(tmp_path):
    """A ``.npy`` file beside graphs can hold anything."""
    (tmp_path / "a.txt").write_text("0 1\n")
    np.save(tmp_path / "features.npy", np.eye(3))
    assert open_local(tmp_path).num_graphs == 1


_WORDS = ["0", "1", "23", "0.5", "1e-3", ".5", "7.", "-1", "nan", "1e400", "0.12345678901234567", "9" * 20]
_WORDS += [
    "#",
    "%",
    "a ",
    "e ",
    "c ",
    "p ",
    "x",
    "\n",
    "\n",
    " ",
    " ",
    ",",
    ";",
    "\t",
    "\r",
    "+3",
    "1_0",
    "\ufeff",
]


@settings(deadline=None, max_examples=300)
@given(st.lists(st.sampled_from(_WORDS), max_size=14))
def test_the_kernel_reads_text_like_the_reference(words):
    text = "".join(words)
    try:
        expected = [found.tolist() for found in parse_edge_text("x", text)]
    except DatasetError:
        expected = None
    data = text.encode()
    ids, weights, counts = (
        np.empty(len(data) // 2 + 2, np.int64),
        np.empty(len(data) // 4 + 2),
        np.zeros(2, int),
    )
    if edge_input.parse_edges(np.frombuffer(bytearray(data), np.int8), ids, weights, counts):
        assert [ids[: 2 * counts[0]].tolist(), weights[: counts[1]].tolist()] == expected


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**53) | st.integers(0, 10**18 - 1), st.integers(-22, 22), st.integers(0, 12))
@example(332835236816165395, -10, 0)  # rounded twice without the limit of exact numbers
def test_decimal_weights_are_rounded_like_float(mantissa, power, point):
    digits = str(mantissa).rjust(point + 1, "0")
    number = f"{digits[: len(digits) - point]}.{digits[len(digits) - point :]}e{power}"
    data, weights, counts = f"1 2 {number}\n".encode(), np.empty(9), np.zeros(2, int)
    if edge_input.parse_edges(np.frombuffer(bytearray(data), np.int8), np.empty(9, int), weights, counts):
        assert weights[0] == float(number)
    else:
        assert mantissa > 2**53 or not -22 <= power - point <= 22


def test_common_text_is_read_by_the_kernel(tmp_path, monkeypatch):
    """Otherwise every line is parsed in Python, which takes ten times as long."""
    edges, weight = make_edges()
    monkeypatch.setattr("tgp.sources.edge_text.parse_edge_text", None)
    for kind in ("a.edges", "a.gr", "a.txt.gz"):
        assert np.array_equal(
            join(list(open_edges(write_file(tmp_path, kind, edges, weight)).read(64)))[1], weight
        )


def test_an_error_names_the_line_of_the_file(tmp_path):
    (tmp_path / "a.txt").write_text("0 1\n" * 500 + "5 x\n")
    with pytest.raises(DatasetError, match=r"a\.txt, line 501: .* got '5 x'"):
        list(open_edges(tmp_path / "a.txt").read(10))


@pytest.mark.parametrize("line", ["\0\0\0 2", "source target", "x1 2", '"1","2"'])
@pytest.mark.parametrize("size", [4, 10**6])
def test_a_damaged_line_after_the_first_edge_is_not_taken_for_a_heading(tmp_path, line, size):
    path = tmp_path / "a.txt"
    path.write_text("source target\n# x\n" + "0 1\n" * 30 + f"# {'x' * 200}\n\n,,\n// comment\n{line}\n1 2\n")
    with pytest.raises(DatasetError, match=r"a\.txt, line 37: expected 'u v'"):
        list(open_edges(path).read(size))
    with pytest.raises(DatasetError, match=r"a\.txt, line 37: expected 'u v'"):
        open_local(path)
    path.write_text(path.read_text().replace(f"{line}\n", ""))
    assert len(join(list(open_edges(path).read(size)))[0]) == 31
    assert open_local(path).num_nodes == 3


def test_a_file_of_roads_with_less_edges_than_declared_is_truncated(tmp_path):
    edges, weight = make_edges()
    path = write_file(tmp_path, "a.gr", edges, weight)
    reader = open_edges(path)
    reader.check_complete(NUM_EDGES)
    path.write_text(path.read_text().rpartition("a ")[0])
    with pytest.raises(DatasetError, match="is truncated: expected 200 edges as in its line 'p sp', got 199"):
        reader.check_complete(NUM_EDGES - 1)
    with pytest.raises(DatasetError, match="is truncated: expected 200 edges as in its line 'p sp', got 199"):
        open_local(path)


@pytest.mark.parametrize("kind", ["a.txt.gz", "a.txt.xz", "a.npy", "a.npz", "a.parquet", "ogb"])
def test_a_truncated_file_is_an_error_at_any_length(tmp_path, kind):
    edges, _ = make_edges()
    path = write_file(tmp_path, kind, edges)
    file = path / "raw" / "edge.csv.gz" if kind == "ogb" else path
    data = file.read_bytes()
    for length in (1, len(data) // 3, len(data) // 2, len(data) - 9, len(data) - 1):
        file.write_bytes(data[:length])
        with pytest.raises(DatasetError, match=r"cannot be read|truncated"):
            list(open_edges(path).read(50))


def test_a_file_without_permission_is_not_called_truncated(tmp_path, monkeypatch):
    path = write_file(tmp_path, "a.txt", make_edges()[0])

    def refuse(self, *arguments):
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(type(path), "open", refuse)
    with pytest.raises(DatasetError, match="cannot be read: Permission denied") as caught:
        list(open_edges(path).read(50))
    assert caught.value.hint is None


def test_columns_of_parquet_files(tmp_path):
    edges, weight = make_edges()
    path = tmp_path / "a.parquet"
    for names in (("SRC", "Dst", "edge_weight"), ("x", "y", "z")):
        write_parquet(path, edges, weight, names)
        found, weights = join(list(open_edges(path).read(64)))
        assert np.array_equal(found, edges) and np.array_equal(weights, weight)
    write_parquet(path, edges, weight, ("src", "dst", "time"))  # not a weight
    assert join(list(open_edges(path).read(64)))[1] is None
    write_parquet(path, edges.astype(float), None)
    with pytest.raises(DatasetError, match="'source' must hold integers, got double"):
        open_edges(path)


def test_tables_that_are_not_lists_of_edges_are_refused(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    for columns, text in (
        ({"a": [1], "b": [1], "c": [1], "d": [1]}, "columns that are known"),
        ({"src": [None, 1], "dst": [0, 1]}, "got null"),
        ({"src": [0, 1], "dst": [0, 1], "weight": [None, 1.0]}, "got nan"),
        ({"src": [0], "dst": ["b"]}, "'dst' must hold integers, got string"),
        ({"src": [0], "dst": [1], "weight": ["b"]}, "'weight' must hold numbers, got string"),
        ({"src": np.array([2**63], np.uint64), "dst": [1]}, "2\\^63"),
    ):
        parquet.write_table(arrow.table(columns), path)
        with pytest.raises(DatasetError, match=text):
            list(open_edges(path).read(9))


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    found = importlib.import_module

    def import_module(name, *arguments):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return found(name, *arguments)

    monkeypatch.setattr(importlib, "import_module", import_module)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(MissingPackageError, match="pyarrow") as caught:
        open_edges(tmp_path / "a.parquet")
    assert caught.value.hint == "pip install 'tgp-coarsen[arrow]'"


def test_folders_with_several_graphs_are_refused(tmp_path):
    edges, _ = make_edges()
    path = write_file(tmp_path, "ogb", edges)
    (path / "raw" / "num-node-list.csv.gz").write_bytes(gzip.compress(b"20\n20\n"))
    with pytest.raises(DatasetError, match="one number in num-node-list"):
        open_edges(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetError, match="is a folder"):
        open_edges(tmp_path / "empty")
