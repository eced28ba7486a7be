"""Random changes of valid input files lead to graphs or to an error of tgp, never to another error."""

import gzip
import lzma
import random
import zipfile

import h5py
import numpy as np
import pytest
from scipy.sparse import csr_matrix, save_npz

from tests.sources.hostile_files import EDGE, PAIR, TU, graphml, key
from tgp import input_limits
from tgp.errors import TgpError
from tgp.sources import open_source

EDGES = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
VALUES = (b"\xff" * 4, bytes(4), b"\xff\xff\xff\x7f", bytes(3) + b"\x80", b"9" * 25, b"-1", b"nan", b"1e999")
NUM_CHANGED = 40
"""Changed copies of each file. 27,000 of them led to no finding."""


def write_npz(path):
    np.savez(path, edge_index=EDGES, x=np.eye(3), edge_weight=np.ones(4))


def write_compressed(path):
    np.savez_compressed(path, edge_index=np.tile(EDGES, 30), node_ptr=[0, 3, 6], edge_ptr=[0, 60, 120])


def write_matrix(path):
    save_npz(path, csr_matrix(np.eye(5)[::-1]))


def write_hdf5(path):
    with h5py.File(path, "w") as file:
        file["edge_index"] = EDGES
        file.create_dataset("x", data=np.eye(3), compression="gzip")


def write_torch(path):
    torch = pytest.importorskip("torch")
    from torch_geometric.data import Data

    graph = Data(edge_index=torch.tensor(EDGES), x=torch.eye(3), name="a")
    torch.save([graph, graph], path)


LINES = b"0 1 2.5\n1 2 3\n" * 20
FILES = {
    "a.npz": write_npz,
    "b.npz": write_compressed,
    "c.npz": write_matrix,
    "d.h5": write_hdf5,
    "e.pt": write_torch,
    "f.txt": lambda path: path.write_bytes(b"# comment\n" + LINES),
    "g.txt.gz": lambda path: path.write_bytes(gzip.compress(LINES)),
    "h.txt.xz": lambda path: path.write_bytes(lzma.compress(LINES)),
    "i.graphml": lambda path: path.write_text(
        graphml(PAIR.format(EDGE.format("2.5")), keys=key("double", "weight", "edge"))
    ),
}


def change(data, rng):
    """Return a copy with some bytes replaced, removed or repeated."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4, 8])):
        place, kind = rng.randrange(len(data) + 1), rng.randrange(5)
        if kind == 0:
            data[place : place + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            data[place : place + rng.choice([1, 2, 4, 8])] = rng.choice(VALUES)
        elif kind == 2:
            del data[place : place + rng.choice([1, 3, 10, 50])]
        elif kind == 3:
            start = rng.randrange(len(data) + 1)
            data[place:place] = data[start : start + rng.choice([1, 4, 16, 64])]
        elif rng.random() < 0.3:
            del data[place:]
    return bytes(data)


def check_changed(dataset, root, path, seed):
    """Open changed copies of a file, after the file itself."""
    open_source(dataset, root).table.to_block()
    data = path.read_bytes()
    rng = random.Random(seed)
    for _ in range(NUM_CHANGED):
        path.write_bytes(change(data, rng))
        try:
            open_source(dataset, root).table.to_block()
        except TgpError as error:
            assert "\n" not in str(error)


@pytest.fixture(autouse=True)
def small_limit(monkeypatch):
    monkeypatch.setattr(input_limits, "MIN_LIMIT", 50 * 10**6)


@pytest.mark.filterwarnings("error::RuntimeWarning", "error::DeprecationWarning:numpy")
@pytest.mark.parametrize("name", FILES)
def test_changed_files(tmp_path, name):
    FILES[name](tmp_path / name)
    check_changed(str(tmp_path / name), None, tmp_path / name, name)


@pytest.mark.parametrize("part", TU)
def test_changed_text_of_the_tu_collection(tmp_path, part):
    raw = tmp_path / "TUDataset" / "Mine" / "raw"
    raw.mkdir(parents=True)
    for name, text in TU.items():
        (raw / f"Mine_{name}.txt").write_text(text)
    check_changed("TUDataset/Mine", tmp_path, raw / f"Mine_{part}.txt", part)


def test_the_total_of_an_archive_is_limited(tmp_path):
    """Each array is below the limit, all of them together are above it."""
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(10**6))
    with zipfile.ZipFile(tmp_path / "a.npz") as old:
        data = old.read("x.npy")
    with zipfile.ZipFile(tmp_path / "b.npz", "w", zipfile.ZIP_DEFLATED) as new:
        for number in range(20):
            new.writestr(f"x{number}.npy", data)
    with pytest.raises(TgpError, match="needs too much memory"):
        open_source(str(tmp_path / "b.npz"))
