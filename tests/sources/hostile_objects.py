"""Catalogue of damaged and hostile files of torch and PyG: processed files, pickles, raw archives."""

import os
import pickle
import struct
import zipfile
from io import BytesIO

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch_geometric.data import Data

from tests.sources.hostile_files import RANDOM, case, content

CYCLE = torch.tensor([[0, 1, 2], [1, 2, 0]])


class Code:
    """Object that sets an environment variable when it is unpickled."""

    def __reduce__(self):
        return os.putenv, ("TGP_CODE_RAN", "1")


def torch_bytes(value, **options):
    buffer = BytesIO()
    torch.save(value, buffer, **options)
    return buffer.getvalue()


def processed(**cases):
    """Register ``.pt`` files of given objects."""
    for name, value in cases.items():

        def write(folder, value=value):
            torch.save(value() if callable(value) else value, folder / "g.pt")
            return folder / "g.pt"

        case(f"pt {name.replace('_', ' ')}")(write)


def repacked(data, method):
    """Return a file of torch whose members are compressed or renamed."""
    buffer = BytesIO()
    with zipfile.ZipFile(BytesIO(data)) as old, zipfile.ZipFile(buffer, "w", method) as new:
        for member in old.namelist():
            new.writestr(member, old.read(member))
    return buffer.getvalue()


def without(data, part):
    buffer = BytesIO()
    with zipfile.ZipFile(BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        for member in old.namelist():
            if part not in member:
                new.writestr(member, old.read(member))
    return buffer.getvalue()


def graph(**values):
    return Data(**{"edge_index": CYCLE, "num_nodes": 3, **values})


SLICES = {"edge_index": torch.tensor([0, 2, 3]), "x": torch.tensor([0, 1, 3])}
JOINED = {"edge_index": torch.tensor([[0, 0, 1], [0, 0, 0]]), "x": torch.ones(3, 2)}

content(
    ".pt",
    empty=b"",
    random=RANDOM,
    text="hello",
    zip_magic_only=b"PK\x03\x04" + RANDOM,
    truncated=torch_bytes([graph()])[:-200],
    without_pickle=without(torch_bytes([graph()]), "data.pkl"),
    without_tensors=without(torch_bytes([graph()]), "data/0"),
    compressed=repacked(torch_bytes([graph(x=torch.zeros(3, 10**6))]), zipfile.ZIP_DEFLATED),
    zip_of_nothing=b"PK\x05\x06" + bytes(18),
    pickle_of_code=pickle.dumps(Code()),
    pickle_truncated=pickle.dumps([1, 2, 3], 2)[:-4],
    old_format_truncated=torch_bytes([graph()], _use_new_zipfile_serialization=False)[:-30],
)
processed(
    code=[Code()],
    number=3,
    numbers=[1, 2, 3],
    nothing=None,
    empty_list=[],
    tensor=torch.ones(3),
    dict_of_numbers={"a": 1},
    tuple_of_numbers=(1, 2),
    pair_of_dicts=({}, {}),
    numbers_as_keys=({1: 2}, {1: 2}),
    slices_of_text=(JOINED, {"edge_index": "abc", "x": "abc"}),
    slices_too_long=(JOINED, {**SLICES, "x": torch.tensor([0, 1, 30])}),
    slices_decrease=(JOINED, {**SLICES, "edge_index": torch.tensor([0, 3, 1])}),
    slices_negative=(JOINED, {**SLICES, "x": torch.tensor([-5, 1, 3])}),
    slices_float=(JOINED, {**SLICES, "x": torch.tensor([0.5, 1.5, 3.0])}),
    slices_empty=(JOINED, {**SLICES, "x": torch.zeros(0, dtype=torch.long)}),
    slices_of_two_lengths=(JOINED, {**SLICES, "x": torch.tensor([0, 1, 2, 3])}),
    slices_2d=(JOINED, {**SLICES, "x": torch.tensor([[0, 1], [2, 3]])}),
    slices_none=(JOINED, {"edge_index": None, "x": None}),
    tensor_repeated_10_to_12=lambda: [graph(x=torch.ones(1).expand(3, 10**12))],
    tensor_repeated_2_GB=lambda: [graph(x=torch.ones(1).expand(3, 10**9))],
    ids_repeated=lambda: [graph(edge_index=torch.zeros(2, 1, dtype=torch.long).expand(2, 10**11))],
    one_graph_many_times=lambda: [graph(x=torch.ones(3, 10**5))] * 10**5,
    ids_beyond=[graph(edge_index=CYCLE + 5)],
    ids_negative=[graph(edge_index=CYCLE - 1)],
    ids_float=[graph(edge_index=CYCLE.float())],
    ids_flat=[graph(edge_index=CYCLE[0])],
    ids_none=[graph(edge_index=None)],
    ids_2_to_62=[Data(edge_index=CYCLE + 2**62)],
    num_nodes_10_to_12=[graph(num_nodes=10**12)],
    num_nodes_2_to_80=[graph(num_nodes=2**80)],
    num_nodes_negative=[graph(num_nodes=-3)],
    num_nodes_text=[graph(num_nodes="three")],
    num_nodes_float=[graph(num_nodes=float("nan"))],
    sparse_attribute=[graph(x=torch.eye(3).to_sparse())],
    meta_attribute=[graph(x=torch.ones(3, device="meta"))],
    attributes_of_one_graph=[graph(x=torch.ones(3)), graph()],
    types_differ=[graph(x=torch.ones(3)), graph(x=3)],
    name_with_escape=[graph(**{"\x1b[31m": torch.ones(3)})],
    weight_nan=[graph(edge_weight=torch.full((3,), float("nan")))],
    weight_short=[graph(edge_weight=torch.ones(2))],
)


@case("pt nested 5000 deep")
def _(folder):
    data = b"\x80\x02" + b"]" * 5000 + b"a" * 4999 + b"."
    template = torch_bytes([])
    buffer = BytesIO()
    with zipfile.ZipFile(BytesIO(template)) as old, zipfile.ZipFile(buffer, "w") as new:
        for member in old.namelist():
            new.writestr(member, data if member.endswith("data.pkl") else old.read(member))
    (folder / "g.pt").write_bytes(buffer.getvalue())
    return folder / "g.pt"


# ------------------------------------------------------------------------------------------- pickles of PyG classes


def planetoid(**cases):
    """Register the eight raw files of Cora or CiteSeer with one of them replaced."""
    for name, (dataset, part, data) in cases.items():

        def write(folder, dataset=dataset, part=part, data=data):
            raw = folder / "Planetoid" / dataset / "raw"
            raw.mkdir(parents=True)
            x, y = csr_matrix(np.eye(600, 3)), np.eye(600, 2)
            good = {"x": x[:4], "tx": x[:4], "allx": x, "y": y[:4], "ty": y[:4], "ally": y}
            good["graph"] = {i: [(i + 1) % 604] for i in range(604)}
            for key, value in good.items():
                (raw / f"ind.{dataset.lower()}.{key}").write_bytes(pickle.dumps(value, 2))
            (raw / f"ind.{dataset.lower()}.test.index").write_text("600\n601\n602\n603\n")
            path = raw / f"ind.{dataset.lower()}.{part}"
            if data is not None:
                path.unlink()
                data(path) if callable(data) else path.write_bytes(data)
            return f"Planetoid/{dataset}", folder

        case(f"Planetoid {name.replace('_', ' ')}")(write)


def broken_matrix(**values):
    matrix = csr_matrix(np.eye(4, 3))
    vars(matrix).update(values)
    return pickle.dumps(matrix, 2)


ARRAY = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n"

planetoid(
    code=("Cora", "x", pickle.dumps(Code(), 2)),
    random=("Cora", "x", RANDOM),
    empty=("Cora", "allx", b""),
    truncated=("Cora", "graph", pickle.dumps({0: [1]}, 2)[:-3]),
    number=("Cora", "x", pickle.dumps(3)),
    index_2_to_31=("Cora", "x", b"\x80\x02]r\xff\xff\xff\x7f."),
    text_index_10_to_9=("Cora", "x", b"]p1000000000\n."),
    bytes_10_to_12=("Cora", "x", b"\x80\x04\x8e" + struct.pack("<Q", 10**12) + b"."),
    bytearray_4_GB=("Cora", "x", b"\x80\x05\x96" + struct.pack("<Q", 1 << 32) + b"."),
    frame_2_to_60=("Cora", "x", b"\x80\x04\x95" + struct.pack("<Q", 1 << 60) + b"]."),
    array_80_GB=("Cora", "x", b"cnumpy\nndarray\n((I10000000000\nttR."),
    array_4_GB_by_reconstruct=("Cora", "x", ARRAY + b"(I4000000000\ntVb\ntR."),
    matrix_indices_beyond=("Cora", "x", broken_matrix(indices=np.full(3, 10**6, np.int32))),
    matrix_indices_negative=("Cora", "allx", broken_matrix(indices=np.full(3, -(10**6), np.int32))),
    matrix_offsets_beyond=("Cora", "x", broken_matrix(indptr=np.array([0, 10**6, 1, 2, 3], np.int32))),
    matrix_shape_huge=("Cora", "x", broken_matrix(_shape=(4, 10**12))),
    matrix_shape_20_GB=("Cora", "x", broken_matrix(_shape=(4, 6 * 10**8))),
    matrix_of_lists=("Cora", "x", broken_matrix(indices=[0, 1, 2])),
    test_index_10_to_7=("CiteSeer", "test.index", b"600\n10000000\n"),
    test_index_text=("Cora", "test.index", b"four\n"),
    fifo=("Cora", "graph", os.mkfifo),
)

# ------------------------------------------------------------------------------------------- other raw files


def raw_file(name, dataset, *parts):
    """Register one raw file ``parts[:-1]`` with the content ``parts[-1]``."""

    def write(folder):
        path = folder.joinpath(*parts[:-1])
        path.parent.mkdir(parents=True)
        data = parts[-1]
        data(path) if callable(data) else path.write_bytes(data)
        return dataset, folder

    case(f"raw {name}")(write)


def citation(**values):
    given = {"data": np.ones(2), "indices": np.array([0, 1]), "indptr": np.array([0, 1, 2])}
    arrays = {f"{part}_{key}": value for part in ("attr", "adj") for key, value in given.items()}
    arrays |= {"attr_shape": np.array([2, 2]), "adj_shape": np.array([2, 2]), "labels": np.array([0, 1])}
    buffer = BytesIO()
    np.savez(buffer, **{**arrays, **values})
    return buffer.getvalue()


DBLP = ("CitationFull/DBLP", "CitationFull", "dblp", "raw", "dblp.npz")
raw_file("matrix indices beyond", *DBLP, citation(attr_indices=np.array([0, 10**7])))
raw_file("matrix indices negative", *DBLP, citation(adj_indices=np.array([0, -(10**7)])))
raw_file("matrix offsets beyond", *DBLP, citation(adj_indptr=np.array([0, 10**7, 2])))
raw_file("matrix of 8 TB", *DBLP, citation(attr_shape=np.array([2, 10**12])))
raw_file("matrix of 9 GB", *DBLP, citation(attr_shape=np.array([2, 6 * 10**8])))
raw_file("archive without labels", *DBLP, citation()[:-300])
raw_file("archive of objects", *DBLP, citation(labels=np.array([Code(), 1], object)))
raw_file("archive random", *DBLP, RANDOM)
raw_file("archive FIFO", *DBLP, os.mkfifo)

WIKI = ("EXPWL1", "EXPWL1Dataset", "raw", "EXPWL1.pkl")
raw_file("list of numbers", *WIKI, pickle.dumps([1, 2]))
raw_file("list of code", *WIKI, pickle.dumps([Code()]))
raw_file("graph without storage", *WIKI, b"\x80\x02]ctorch_geometric.data.data\nData\n)\x81a.")
raw_file(
    "class attribute",
    *WIKI,
    b"\x80\x02ctorch_geometric.data.data\nData\nN}X\x09\x00\x00\x00num_nodesK\x05s\x86b.",
)
raw_file(
    "tensor repeated",
    *WIKI,
    pickle.dumps([Data(edge_index=CYCLE, x=torch.ones(1).expand(3, 10**10), num_nodes=3)]),
)
raw_file(
    "text copied",
    *WIKI,
    b"\x80\x02]q\x00X"
    + struct.pack("<I", 10**5)
    + b"a" * 10**5
    + b"q\x01"
    + b"0("
    + b"c_codecs\nencode\nh\x01\x85R" * 60_000
    + b"l.",
)

GSET = ("G1", "GsetDataset", "raw", "G1")
raw_file("Gset of 10^12 nodes", *GSET, b"1000000000000 1\n1 2 1\n")
raw_file("Gset of 10^8 nodes", *GSET, b"100000000 1\n1 2 1\n")
raw_file("Gset binary", *GSET, RANDOM)
raw_file("Gset infinite weight", *GSET, b"2 1\n1 2 inf\n")

BENCH = ("GraphClassificationBench", "GraphClassificationBench", "raw", "easy_small.npz")
raw_file("bench random", *BENCH, RANDOM)
raw_file("bench without splits", *BENCH, citation())
