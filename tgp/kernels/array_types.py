"""Types of arrays. Importing this module does not import numba.

Kernels are compiled ahead for the types that their annotations name. Arrays of kernels have one
dimension and are contiguous, unless stated otherwise. ``Array`` and ``LongArray`` are for other modules.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "Array",
    "BoolArray",
    "ByteArray",
    "Float32Array",
    "Float32MatrixArray",
    "FloatArray",
    "IndexArray",
    "IndexMatrixArray",
    "IntArray",
    "LongArray",
    "MatrixArray",
    "PtrArray",
    "PtrMatrixArray",
    "ShortArray",
    "WordArray",
]

Array = npt.NDArray[Any]
"""Array of any type and number of dimensions."""

LongArray = npt.NDArray[np.int64]
"""Array of 64-bit numbers of any number of dimensions: node and graph numbers, edges, counts."""

IntArray = npt.NDArray[np.integer[Any]]
"""Array of any integer type. A kernel with this annotation is compiled when it is called."""

PtrArray = npt.NDArray[np.int64]
"""Offsets, such as ``indptr`` and ``node_ptr``; also counts."""

IndexArray = npt.NDArray[np.int32]
"""Node, supernode or row numbers."""

ByteArray = npt.NDArray[np.int8]
ShortArray = npt.NDArray[np.int16]
FloatArray = npt.NDArray[np.float64]
Float32Array = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]

MatrixArray = npt.NDArray[np.float64]
"""Array of two dimensions, in C order."""

IndexMatrixArray = npt.NDArray[np.int32]
"""Array of two dimensions, in C order."""

PtrMatrixArray = npt.NDArray[np.int64]
"""Array of two dimensions, in C order."""

Float32MatrixArray = npt.NDArray[np.float32]
"""Array of two dimensions, in C order."""

WordArray = npt.NDArray[np.uint64]
"""Sets of bits."""
