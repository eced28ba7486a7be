"""Constructors that object files may call: arrays, sparse matrices, tensors, graphs and containers.

They replace the functions whose names are in the files. Each one checks its arguments and charges the memory of its
result. They are created for each file, so a file cannot change them for the next one.
"""

from __future__ import annotations

import collections
import io
import math
import re
from typing import Any

import numpy as np

from tgp.errors import DatasetError
from tgp.input_limits import InputBudget, input_budget

__all__ = ["container_names", "numpy_names", "scipy_names", "torch_names"]

Names = dict[tuple[str, str], Any]

_DTYPE = re.compile(r"[|<>=]?[?biufcSUO][0-9]{0,5}")
_ITEM_BYTES = 64


def _to_bytes(raw: Any) -> bytes:
    """Return raw data. Files of Python 2 contain it as text in latin1."""
    return raw.encode("latin1") if isinstance(raw, str) else bytes(memoryview(raw))


class _Dtype:
    """Type of an array: a number, a fixed-length string, or an object, without fields."""

    def __init__(self, text: Any, align: Any = False, copy: Any = False) -> None:
        name = text.decode("latin1") if isinstance(text, bytes) else text
        if not isinstance(name, str) or not _DTYPE.fullmatch(name):
            raise DatasetError(f"the file contains arrays of type {text!r:.40}: expected numbers")
        self.value = np.dtype(name)

    def __setstate__(self, state: Any) -> None:
        order: Any = state[1].decode("latin1") if isinstance(state[1], bytes) else state[1]
        if order not in ("<", ">", "|", "=") or any(part is not None for part in state[2:5]):
            raise DatasetError("the file contains arrays with fields: expected numbers")
        if order in ("<", ">"):
            self.value = self.value.newbyteorder(order)


def numpy_names(name: str, budget: InputBudget) -> Names:
    """Return the constructors of arrays.

    Args:
        name: Name of the file for error messages.
        budget: Budget of the dataset.
    """

    class Array(np.ndarray[Any, Any]):
        """Array whose state is checked."""

        def __setstate__(self, state: Any) -> None:
            shape, dtype, fortran, raw = state[-4:]
            kind = dtype.value
            if not isinstance(shape, tuple) or any(not isinstance(n, int) or n < 0 for n in shape):
                raise DatasetError(f"{name} contains an array of shape {shape!r:.40}: expected lengths")
            budget.charge(_ITEM_BYTES, name, "an array")
            budget.check(math.prod(max(n, 1) for n in shape) * kind.itemsize, name, "an array")
            count = math.prod(shape)
            if kind.hasobject:
                if not isinstance(raw, list) or len(raw) != count:
                    raise DatasetError(f"{name} contains an array of {count} objects and stores others")
            else:
                raw = _to_bytes(raw)
                if kind.itemsize == 0 or len(raw) != count * kind.itemsize:
                    raise DatasetError(
                        f"{name} contains an array of shape {shape} but stores {len(raw)} bytes"
                    )
                budget.charge(len(raw), name, "an array")
            checked: Any = (1, shape, kind, bool(fortran), raw)
            super().__setstate__(checked)

    array_type = object()

    def reconstruct(kind: Any, shape: Any, dtype: Any) -> Any:
        if kind is not array_type or shape != (0,):  # the state that follows has the real shape
            raise DatasetError(f"{name} contains an array of an unknown class, or without a state")
        return Array((0,), np.int8)

    def scalar(dtype: Any, raw: Any = b"") -> Any:
        data = _to_bytes(raw)
        if dtype.value.hasobject or len(data) != dtype.value.itemsize:
            raise DatasetError(f"{name} contains a number of {len(data)} bytes: expected {dtype.value}")
        return np.frombuffer(data, dtype.value)[0]

    def encode_latin1(text: str, encoding: str = "latin1") -> bytes:
        """Replace ``_codecs.encode``, which old numpy files call to convert text to bytes."""
        if encoding not in ("latin1", "latin-1"):
            raise DatasetError(
                f"the file encodes bytes as {encoding!r}: expected latin1. The file is not read"
            )
        budget.charge(_ITEM_BYTES + len(text), name, "a text")
        return text.encode("latin1")

    def dtype(*args: Any) -> Any:
        return _Dtype(*args)

    names: Names = {("_codecs", "encode"): encode_latin1}
    for module in ("numpy", "numpy.core.multiarray", "numpy._core.multiarray"):
        names[module, "ndarray"] = array_type
        names[module, "dtype"] = dtype
        names[module, "_reconstruct"] = reconstruct
        names[module, "scalar"] = scalar
    return names


def scipy_names(name: str) -> Names:
    """Return classes of sparse matrices that check their indices. The compiled code of scipy does not check them.

    Args:
        name: Name of the file for error messages.
    """
    from scipy import sparse

    names: Names = {}
    for kind in ("csr", "csc", "coo"):
        base = getattr(sparse, f"{kind}_matrix")
        made = type(base)(f"checked_{kind}_matrix", (base,), _matrix_methods(base, kind, name))
        for folder in ("", "_"):
            names[f"scipy.sparse.{folder}{kind}", f"{kind}_matrix"] = made
    return names


def _matrix_methods(base: Any, kind: str, name: str) -> dict[str, Any]:
    def set_state(self: Any, state: dict[str, Any]) -> None:
        shape: Any = state.get("_shape", state.get("shape"))
        data = state["data"]
        if kind == "coo":
            parts: Any = (data, state["coords"] if "coords" in state else (state["row"], state["col"]))
        else:
            parts = (data, state["indices"], state["indptr"])
        flat = (data, *parts[1]) if kind == "coo" else parts
        if any(not isinstance(part, np.ndarray) for part in flat):
            raise DatasetError(f"{name} contains a sparse matrix without arrays")
        if data.dtype.kind not in "biufc" or len(shape) != 2:
            raise DatasetError(f"{name} contains a sparse matrix of {data.dtype}: expected numbers")
        made = base(parts, shape=tuple(int(n) for n in shape))
        if kind != "coo":
            made.check_format(full_check=True)
        vars(self).update(vars(made))

    def to_dense(method_name: str) -> Any:
        original = getattr(base, method_name)

        def method(self: Any, *args: Any, **options: Any) -> Any:
            with input_budget() as budget:
                budget.charge(math.prod(self.shape) * self.dtype.itemsize, name, "a dense matrix")
            return original(self, *args, **options)

        return method

    return {"__setstate__": set_state, "toarray": to_dense("toarray"), "todense": to_dense("todense")}


def torch_names(name: str, budget: InputBudget) -> Names:
    """Return the constructors of tensors and graphs.

    Args:
        name: Name of the file for error messages.
        budget: Budget of the dataset.
    """
    import torch
    from torch_geometric.data.data import Data, DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    def read_storage(data: bytes) -> Any:
        """Replace ``torch.storage._load_from_bytes`` by a reader that runs no code."""
        budget.charge(_ITEM_BYTES + len(data), name, "a tensor")
        return torch.load(io.BytesIO(data), weights_only=True)

    def rebuild_tensor(storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> Any:
        numbers = [offset, *size, *stride]
        if not isinstance(storage, torch.storage.TypedStorage):
            raise DatasetError(f"{name} contains a tensor without numbers: got {type(storage).__name__}")
        if len(size) != len(stride) or any(not isinstance(n, int) or n < 0 for n in numbers):
            raise DatasetError(f"{name} contains a tensor with a wrong shape: expected lengths and strides")
        budget.charge(
            _ITEM_BYTES + math.prod(max(n, 1) for n in size) * storage.dtype.itemsize, name, "a tensor"
        )
        return torch._utils._rebuild_tensor_v2(
            storage, offset, tuple(size), tuple(stride), False, collections.OrderedDict()
        )

    def private(base: Any) -> Any:
        """Return a subclass for this file only, because a file can set attributes of its classes."""
        return type(base)(base.__name__, (base,), {})

    return {
        ("torch._utils", "_rebuild_tensor_v2"): rebuild_tensor,
        ("torch.storage", "_load_from_bytes"): read_storage,
        ("torch_geometric.data.data", "Data"): private(Data),
        ("torch_geometric.data.data", "DataEdgeAttr"): private(DataEdgeAttr),
        ("torch_geometric.data.data", "DataTensorAttr"): private(DataTensorAttr),
        ("torch_geometric.data.storage", "GlobalStorage"): private(GlobalStorage),
    }


def container_names(name: str, budget: InputBudget) -> Names:
    """Return the constructors of containers.

    Args:
        name: Name of the file for error messages.
        budget: Budget of the dataset.
    """

    def checked(kind: Any) -> Any:
        def make(items: Any = ()) -> Any:
            budget.charge(_ITEM_BYTES + 8 * len(items), name, "a container")
            return kind(items)

        return make

    makers = {kind.__name__: checked(kind) for kind in (list, dict, set, tuple)}
    factories = dict(zip(makers.values(), (list, dict, set, tuple), strict=True))

    def default_dict(factory: Any = None) -> Any:
        return collections.defaultdict(None if factory is None else factories[factory])

    def empty_bytes() -> bytes:
        return b""

    names: Names = {
        ("__builtin__", "bytes"): empty_bytes,
        ("collections", "defaultdict"): default_dict,
        ("collections", "OrderedDict"): checked(collections.OrderedDict),
    }
    for module in ("builtins", "__builtin__"):
        names.update({(module, key): make for key, make in makers.items()})
    return names
