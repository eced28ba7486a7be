"""Arrays of a foreign HDF5 file, after the same checks that a shard passes."""

from __future__ import annotations

import os
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from tgp.errors import StoreDamagedError
from tgp.store.io.guard import inspect_file

__all__ = ["read_arrays"]


def read_arrays(path: str | os.PathLike[str]) -> dict[str, npt.NDArray[Any]]:
    """All arrays at the top of a file, by name. Links, external data and objects are refused.

    Raises:
        StoreDamagedError: the file is not sound HDF5 or holds something else than plain arrays.
    """
    with open(path, "rb") as raw:
        size = os.fstat(raw.fileno()).st_size
        try:
            with h5py.File(raw, "r") as file:
                found = inspect_file(file, str(path), size).arrays
                return {name[1:]: np.asarray(file[name]) for name in found if name.count("/") == 1}
        except (RuntimeError, ValueError, OSError) as error:
            if isinstance(error, StoreDamagedError):
                raise
            raise StoreDamagedError(
                f"{path} is not a sound HDF5 file: {error}", path=os.fspath(path)
            ) from error
