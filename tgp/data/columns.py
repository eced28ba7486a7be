"""Convert the values of one attribute on many graphs to a :class:`~tgp.ragged.Field` and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.data import Data

from tgp.data.attribute_checks import check_edge_shapes, sparse_error
from tgp.data.collate import is_nested
from tgp.data.pooled_data import JoinedValues
from tgp.errors import DatasetError, warn_user
from tgp.ragged import Field
from tgp.ragged.fields import FieldForm
from tgp.ragged.offsets import offsets
from tgp.store.format.strict_json import dump_value, load_value

__all__ = [
    "AttributeProblems",
    "AttributeWarning",
    "LeftOutError",
    "check_presence",
    "field_from_slices",
    "field_of_values",
    "is_joined_last",
    "is_shifted",
    "number_field",
    "values_by_graph",
]

_NUMBERS: dict[type, tuple[FieldForm, type]] = {
    bool: ("bool", np.bool_),
    int: ("int", np.int64),
    float: ("float", np.float64),
}
_NEEDED = ("edge_index", "num_nodes")
"""Attributes that a graph cannot do without."""

_PLAIN = (str, int, float, bool, list, tuple, dict, type(None))
"""Types of values that JSON can represent."""


class LeftOutError(DatasetError):
    """An attribute cannot be stored, but no data of a model is lost without it."""


class AttributeWarning(UserWarning):
    """Attributes of graphs were left out."""


class AttributeProblems:
    """Problems of attributes, reported together.

    An attribute that may hold data of a model (tensors, numbers) must not be lost without notice, so it is an error. Other
    attributes are left out with a warning.
    """

    def __init__(self) -> None:
        self._errors: dict[str, DatasetError] = {}
        self._left_out: dict[str, str] = {}

    @contextmanager
    def collect(self, key: str) -> Iterator[None]:
        """Record the problem of an attribute instead of raising it."""
        try:
            yield
        except LeftOutError as error:
            self._left_out[key] = str(error)
        except DatasetError as error:
            self._errors[key] = error

    def report(self) -> None:
        """Raise one error that names all attributes, or warn once.

        Raises:
            DatasetError: If an attribute with data cannot be stored.
        """
        if self._errors:
            names = sorted(self._errors)
            reasons = "; ".join(str(self._errors[name]) for name in names)
            count = f"{len(names)} attributes cannot be stored: " if len(names) > 1 else ""
            more = sorted(self._left_out)
            shown = f"; {', '.join(map(repr, more))} would be left out" if more else ""
            raise DatasetError(f"{count}{reasons}{shown}", hint=self._hint(names))
        if self._left_out:
            reasons = "; ".join(self._left_out[name] for name in sorted(self._left_out))
            shown = ", ".join(map(repr, sorted(self._left_out)))
            warn_user(
                f"attributes were left out, because a store cannot hold them: {shown}. Reasons: {reasons}",
                AttributeWarning,
            )

    def _hint(self, names: Sequence[str]) -> str:
        """Return what can be done about the attributes. Edges cannot be left out."""
        own = [error.hint for error in self._errors.values() if error.hint]
        spare = [name for name in names if name not in _NEEDED]
        if not spare:
            return "; ".join(dict.fromkeys(own)) or "set tensors of one type on all graphs"
        leave = (
            f"leave {'them' if len(spare) > 1 else 'it'} out with exclude={spare} (on the command line: "
            f"{' '.join(f'--exclude {name}' for name in spare)}; in graphs_to_table: exclude_keys), "
            "or set tensors of one type on all graphs"
        )
        return "; ".join(dict.fromkeys([*own, leave]))


def check_presence(key: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Check that all graphs have an attribute.

    Args:
        key: Name of the attribute.
        rows: Attributes of each graph.

    Raises:
        DatasetError: If a graph does not have it. :class:`LeftOutError` if its values are neither tensors nor numbers.
    """
    have = next(i for i, row in enumerate(rows) if key in row)
    lack = next((i for i, row in enumerate(rows) if key not in row), None)
    if lack is None:
        return
    message = f"attribute {key!r} must exist on every graph: graph {have} has it, graph {lack} does not"
    is_data = any(_is_number(row[key]) or _has_arrays(row[key]) for row in rows if key in row)
    raise (DatasetError if is_data else LeftOutError)(message)


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, np.generic))


def _has_arrays(value: Any) -> bool:
    """Return True for arrays and tensors, also sparse ones of other packages, and for lists that contain them."""
    if isinstance(value, (list, tuple, Mapping)):
        return any(map(_has_arrays, value.values() if isinstance(value, Mapping) else value))
    return isinstance(value, Tensor) or hasattr(value, "shape") or hasattr(value, "sizes")


def is_shifted(name: str) -> bool:
    """Return True if PyG shifts an attribute of this name by the number of preceding nodes.

    Examples:
        >>> is_shifted("edge_index"), is_shifted("edge_attr")
        (True, False)
    """
    return is_joined_last(name) and "batch" not in name


def is_joined_last(name: str) -> bool:
    """Return True if PyG joins an attribute of this name along its last axis.

    Examples:
        >>> is_joined_last("edge_index"), is_joined_last("edge_attr")
        (True, False)
    """
    return "index" in name or name == "face"


def values_by_graph(field: Field) -> list[Any]:
    """Return the value of each graph."""
    if field.form in ("str", "json"):
        raw = field.values.tobytes()
        texts = [raw[low:high] for low, high in pairwise(field.ptr.tolist())]
        return [load_value(text) if field.form == "json" else text.decode() for text in texts]
    if field.form in ("int", "float", "bool"):
        return list(field.values.tolist())
    tensor = torch.from_numpy(field.values)
    if field.form == "stacked":
        return list(tensor.unbind(0))
    return list(tensor.split(np.diff(field.ptr).tolist(), dim=field.axis))


def field_of_values(key: str, values: Sequence[Any], owners: Sequence[Data] | None) -> Field:
    """Return the field of an attribute from its value on every graph.

    Tensors and numbers become arrays, strings become text. Other plain values, such as lists and dictionaries, and values
    of several plain types become JSON texts.

    Args:
        key: Name of the attribute.
        values: Value of each graph.
        owners: Graphs whose classes have their own rules for batches; ``None`` for the rules of ``Data``.

    Raises:
        DatasetError: If the values cannot be stored. :class:`LeftOutError` if no data of a model is lost without them.
    """
    if key == "num_nodes":
        return number_field(key, [int(n) for n in values], int)
    if key == "edge_index":
        check_edge_shapes(values)
    kinds = {type(value) for value in values}
    if all(issubclass(kind, Tensor) for kind in kinds):
        return _tensor_field(key, values, owners)
    if any(issubclass(kind, Tensor) for kind in kinds):
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise DatasetError(f"attribute {key!r} must have one type on all graphs, got {names}")
    values = [_without_numpy(value) for value in values]
    kinds = {type(value) for value in values}
    if kinds <= set(_NUMBERS):
        widest = next(kind for kind in (float, int, bool) if kind in kinds)
        try:
            return number_field(key, values, widest)
        except OverflowError:  # more than 64 bits
            return _json_field(key, values)
    if kinds != {str}:
        return _json_field(key, values)
    try:
        return _text_field(key, [value.encode() for value in values], "str")
    except UnicodeEncodeError as error:
        raise LeftOutError(f"attribute {key!r} holds text that is not valid Unicode") from error


def _without_numpy(value: Any) -> Any:
    """Return a value with plain numbers instead of those of numpy, also inside lists and dictionaries."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) is dict:
        return {key: _without_numpy(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return [_without_numpy(item) for item in value]
    return value


def _text_field(key: str, texts: Sequence[bytes], form: FieldForm) -> Field:
    ptr = offsets([len(text) for text in texts])
    return Field(key, np.frombuffer(b"".join(texts), np.uint8), ptr, 0, form)


def _json_field(key: str, values: Sequence[Any]) -> Field:
    """Return a field of JSON texts."""
    texts = []
    for graph, value in enumerate(values):
        if is_nested(value):
            raise LeftOutError(
                f"attribute {key!r} holds graphs or assignments, such as levels of a hierarchy"
            )
        if _has_arrays(value):
            raise _unsupported(key, type(value), DatasetError)
        if not isinstance(value, _PLAIN):
            raise _unsupported(key, type(value), LeftOutError)
        try:
            texts.append(dump_value(value))
        except ValueError as error:
            raise LeftOutError(f"attribute {key!r} of graph {graph} holds {error}") from error
    return _text_field(key, texts, "json")


def _unsupported(key: str, kind: type, error: type[DatasetError]) -> DatasetError:
    return error(
        f"attribute {key!r} must be a tensor, number, string, or a list or dictionary of numbers and strings, "
        f"got {kind.__name__}"
    )


def number_field(key: str, values: Sequence[Any], kind: type) -> Field:
    """Return the field of numbers.

    Args:
        key: Name of the attribute.
        values: Number of each graph.
        kind: ``int``, ``float`` or ``bool``.

    Raises:
        OverflowError: If an integer needs more than 64 bits.
    """
    form, dtype = _NUMBERS[kind]
    shifted = kind is int and is_shifted(key)
    return Field(key, np.asarray(values, dtype=dtype), np.arange(len(values) + 1), 0, form, shifted)


def field_from_slices(key: str, value: Any, slices: Any) -> Field:
    """Return the field of an attribute from the joined values and offsets of an ``InMemoryDataset``.

    Args:
        key: Name of the attribute.
        value: Joined values.
        slices: Offsets of the graphs.

    Raises:
        DatasetError: If the values cannot be stored; see :func:`field_of_values`.
    """
    if isinstance(value, Tensor):
        if key == "edge_index":
            check_edge_shapes(
                [value[..., slices[0] : slices[1]] if value.dim() and len(slices) > 1 else value]
            )
        array = _to_numpy(key, value)
        axis = -1 if is_joined_last(key) else 0
        ptr = np.ascontiguousarray(torch.as_tensor(slices).cpu().numpy(), dtype=np.int64)
        if ptr[0] or ptr[-1] != array.shape[axis]:
            array = array[ptr[0] : ptr[-1]] if axis == 0 else array[..., ptr[0] : ptr[-1]]
            ptr = ptr - ptr[0]
        return Field(key, array, ptr, axis, "rows", is_shifted(key))
    if isinstance(value, (list, tuple)) and isinstance(slices, Tensor):
        return field_of_values(key, value, None)
    if isinstance(value, Mapping) and isinstance(slices, Mapping):
        return _json_field(key, _split_mapping(key, value, slices))
    raise _unsupported(key, type(value), LeftOutError if isinstance(value, JoinedValues) else DatasetError)


def _split_mapping(key: str, value: Mapping[str, Any], slices: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the dictionary of each graph. PyG joins the numbers under each key to a tensor."""
    columns: dict[str, Any] = {}
    for name, items in value.items():
        if isinstance(items, Mapping):
            columns[name] = _split_mapping(key, items, slices[name])
        elif isinstance(items, Tensor):
            if items.dim() != 1 or len(items) != len(slices[name]) - 1:
                raise _unsupported(key, Tensor, DatasetError)
            columns[name] = items.tolist()
        else:
            columns[name] = items
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _tensor_field(key: str, values: Sequence[Tensor], owners: Sequence[Data] | None) -> Field:
    axis = (-1 if is_joined_last(key) else 0) if owners is None else owners[0].__cat_dim__(key, values[0])
    first = values[0]
    if first.is_sparse or first.layout != torch.strided or isinstance(axis, tuple):
        raise sparse_error(key)
    if len({v.dtype for v in values}) > 1:
        names = ", ".join(sorted(str(d) for d in {v.dtype for v in values}))
        raise DatasetError(f"attribute {key!r} must have one dtype on all graphs, got {names}")
    stacked = axis is None or first.dim() == 0
    shapes = {_tail(v.shape, None if stacked else axis) for v in values}
    if len(shapes) > 1:
        raise DatasetError(
            f"attribute {key!r} must have one shape per row on all graphs, got {sorted(shapes)}"
        )
    shifted = is_shifted(key) if owners is None else _inc_is_num_nodes(key, values, owners)
    if stacked:
        array = _to_numpy(key, torch.stack([_plain(v) for v in values]))
        return Field(key, array, np.arange(len(values) + 1), 0, "stacked", shifted)
    if axis not in (0, -1):
        if axis != first.dim() - 1:
            raise DatasetError(
                f"attribute {key!r} must be joined along its first or last axis, got axis {axis}"
            )
        axis = -1
    array = _to_numpy(key, torch.cat([_plain(v) for v in values], dim=axis))
    return Field(key, array, offsets([v.shape[axis] for v in values]), axis, "rows", shifted)


def _tail(shape: Sequence[int], axis: int | None) -> tuple[int, ...]:
    """Return a shape without the axis along which graphs are joined."""
    return tuple(shape) if axis is None else (*shape[:axis], *(shape[axis + 1 :] if axis != -1 else ()))


def _inc_is_num_nodes(key: str, values: Sequence[Tensor], owners: Sequence[Data]) -> bool:
    """Return True if graphs of a class with its own ``__inc__`` shift the attribute by the number of nodes."""
    steps = [graph.__inc__(key, value) for graph, value in zip(owners, values, strict=True)]
    if "batch" in key or all(isinstance(s, int) and s == 0 for s in steps):
        return False
    if all(isinstance(s, int) and s == g.num_nodes for s, g in zip(steps, owners, strict=True)):
        return True
    raise DatasetError(
        f"attribute {key!r} must be shifted in a batch by 0 or by num_nodes, got {steps[0]} from {type(owners[0]).__name__}.__inc__",
    )


def _plain(value: Tensor) -> Tensor:
    """Convert a tensor subclass (``EdgeIndex``) to a plain tensor."""
    return value if type(value) is Tensor else value.as_subclass(Tensor)


def _to_numpy(key: str, value: Tensor) -> npt.NDArray[Any]:
    if value.layout != torch.strided:
        raise sparse_error(key)
    try:
        return np.ascontiguousarray(_plain(value).detach().cpu().numpy())
    except TypeError as error:
        raise DatasetError(
            f"attribute {key!r} must have a dtype that numpy supports, got {value.dtype}",
            hint=f"convert it: data.{key} = data.{key}.float()",
        ) from error
