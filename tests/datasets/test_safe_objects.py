"""The reader of object files returns what pickle returns for arrays, matrices, tensors and containers."""

import collections
import io
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr

from tgp.datasets._safe_objects import find_end, read_stream
from tgp.errors import DatasetError
from tgp.input_limits import input_budget

PLAIN = [
    {"a": [1, -2, 2**62, True, None, 1.5, "text\n", b"bytes"], ("k", 2): {3, 4}},
    [],
    "x" * 70_000,
    list(range(3000)),
]
ARRAYS = [
    *(np.arange(6).astype(kind) for kind in ("?", "i1", "u2", ">i4", "i8", "f2", "f4", ">f8", "c16")),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.array(3.5),
    np.zeros((0, 3), np.float32),
    np.array(["ab", "c"]),
    np.array([b"ab", b"c"]),
    np.array([np.arange(2), np.arange(3), None], object),
]


def read(data, encoding="ASCII"):
    return read_stream(io.BytesIO(data), Path("f.pkl"), encoding)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("value", [*PLAIN, *ARRAYS], ids=lambda v: type(v).__name__)
def test_the_end_of_a_pickle_is_found(value, protocol):
    data = pickle.dumps(value, protocol)
    assert find_end(data, "f") == len(data) == find_end(data + b"rest.", "f")
    with pytest.raises(DatasetError, match="truncated"):
        find_end(data[:-1], "f")


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_arrays(array, protocol):
    data = pickle.dumps(array, protocol)
    found, expected = read(data), pickle.loads(data)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert repr(found.tolist()).replace("Array", "array") == repr(expected.tolist())


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
@pytest.mark.parametrize("protocol", [2, 4])
def test_matrices(kind, protocol):
    matrix = getattr(sparse, f"{kind}_matrix")(np.array([[0, 2.0, 0], [1, 0, 3]]))
    found = read(pickle.dumps(matrix, protocol))
    assert found.toarray().tolist() == found.todense().tolist() == matrix.toarray().tolist()
    assert isinstance(found, type(matrix)) and (found @ np.ones(3)).tolist() == [2, 4]
    assert np.stack(found.nonzero()).tolist() == np.stack(matrix.nonzero()).tolist()


def test_containers_scalars_tensors_and_graphs():
    lists = collections.defaultdict(list, {1: [2]})
    graph = Data(x=torch.ones(2, 3)[:, 1:], edge_index=torch.tensor([[0], [1]]))
    value = [lists, np.float32(1.5), np.int64(3), collections.OrderedDict(a=1), graph]
    found = read(pickle.dumps(value, 2))
    assert found[:4] == value[:4] and found[0][9] == []
    assert torch.equal(found[4].x, graph.x) and isinstance(found[4], Data)


def test_two_pickles_in_one_stream():
    stream = io.BytesIO(pickle.dumps([1], 2) + pickle.dumps([2], 2))
    assert [read_stream(stream, Path("f")) for _ in range(2)] == [[1], [2]]


def test_a_file_cannot_change_classes():
    """The state of a class is a pair. The second part sets attributes, here the attribute ``layout``."""
    before = getattr(DataEdgeAttr, "layout", None)
    data = b"\x80\x02ctorch_geometric.data.data\nDataEdgeAttr\nN}X\x06\x00\x00\x00layoutK\x05s\x86b."
    assert read(data).layout == 5  # a subclass for this file only
    assert getattr(DataEdgeAttr, "layout", None) is before


def test_copies_are_limited():
    row = np.zeros(1000)
    with input_budget(50_000), pytest.raises(DatasetError, match="too much memory"):
        read(pickle.dumps([row.copy() for _ in range(10)], 4))
    with input_budget(100_000):
        assert len(read(pickle.dumps([row.copy() for _ in range(10)], 4))) == 10
