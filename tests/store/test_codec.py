"""Stored arrays have the smallest type, and are restored to equal values."""

import numpy as np
import pytest

from tgp.errors import InputError
from tgp.store.format.codec import _chunk, narrow, restore


@pytest.mark.parametrize(
    "values, stored",
    [
        ([], "u1"),
        ([0, 255], "u1"),
        ([0, 256], "u2"),
        ([-1, 127], "i1"),
        ([-1, 128], "i2"),
        ([-129], "i2"),
        ([65535], "u2"),
        ([65536], "u4"),
        ([-(2**31)], "i4"),
        ([2**32], "u8"),
        ([-(2**63), 2**63 - 1], "i8"),
    ],
)
def test_integers_get_the_smallest_type(values, stored):
    array = np.array(values, np.int64)
    assert narrow(array).dtype == np.dtype(stored)
    np.testing.assert_array_equal(restore(narrow(array), "int64"), array)


@pytest.mark.parametrize(
    "dtype", ["bool", "uint64", "float16", "float64", "complex64", "complex128", ">i8", ">f4"]
)
def test_other_types_are_restored(dtype):
    array = np.array([0, 1, 1, 0, 1, 0]).reshape(3, 2).astype(dtype)[::-1]  # not contiguous
    back = restore(narrow(array), array.dtype.newbyteorder("=").name)
    assert back.dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(back, array)
    assert narrow(array).flags.c_contiguous


@pytest.mark.parametrize(
    "array", [np.array(["a"]), np.array([None]), np.zeros(2, "M8[s]"), np.zeros(2, "i4,i4")]
)
def test_unsupported_types_are_refused(array):
    with pytest.raises(InputError, match="y: arrays of type"):
        narrow(array, "y")


def test_chunks_have_a_bounded_size():
    assert _chunk((2, 10_000_000), 4) == (2, 32768)
    assert _chunk((10_000_000, 7), 4) == (9362, 7)
    assert _chunk((5,), 8) == (5,)
    assert _chunk((3, 1 << 20), 8) == (3, 10922)
    assert _chunk((4, 1 << 22, 1 << 10), 8)[1] == 8
