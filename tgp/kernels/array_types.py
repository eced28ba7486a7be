"""Types of the arrays that kernels take and return. Importing this module does not import numba."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["BoolArray", "Float32Array", "FloatArray", "IndexArray", "IntArray", "PtrArray"]

IntArray = npt.NDArray[np.integer[Any]]
"""Array of any integer type."""

PtrArray = npt.NDArray[np.int64]
"""Offsets, such as ``indptr`` and ``node_ptr``; also counts."""

IndexArray = npt.NDArray[np.int32]
"""Node, supernode or row numbers."""

FloatArray = npt.NDArray[np.float64]
Float32Array = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]
