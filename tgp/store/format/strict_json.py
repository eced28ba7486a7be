"""Parse JSON from untrusted files, with a check of the type of every value that is read.

The files of a store contain a checksum of their own content, see :func:`seal`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

from tgp.errors import StoreDamagedError, StoreVersionError
from tgp.store.format import constants as fmt

__all__ = [
    "Document",
    "canonical",
    "canonical_bytes",
    "check_depth",
    "dump_value",
    "load_value",
    "parse",
    "seal",
    "unseal",
]


def canonical(value: Any) -> bytes:
    """Return the canonical serialization of a JSON value: sorted keys, no spaces, ASCII.

    Args:
        value: Value that JSON can represent.

    Examples:
        >>> canonical({"b": [1, 2], "a": None})
        b'{"a":null,"b":[1,2]}'
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    ).encode()


def check_depth(value: Any, limit: int = fmt.MAX_JSON_DEPTH) -> bool:
    """Return True if at most ``limit`` lists and objects are nested in ``value``."""
    layer = [value]
    for _ in range(limit + 1):
        layer = [
            inner
            for outer in layer
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not layer:
            return True
    return False


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _reject_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _parse_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value


def _load(data: bytes) -> Any:
    """Parse JSON text strictly: no duplicate keys, no infinite numbers, no lone surrogates, a limited number of values."""
    # Every value but the first of a list or object follows a comma. Commas and brackets in strings only raise the count.
    count = data.count(b",") + data.count(b"[") + data.count(b"{")
    if count > fmt.MAX_JSON_VALUES:
        raise ValueError(f"expected at most {fmt.MAX_JSON_VALUES} values, got {count}")
    value = json.loads(
        data.decode("utf-8"),
        object_pairs_hook=_reject_duplicates,
        parse_constant=_reject_constant,
        parse_float=_parse_float,
    )
    if b"\\ud" in data.lower():
        json.dumps(value, ensure_ascii=False).encode()  # fails if a surrogate has no partner
    return value


def dump_value(value: Any) -> bytes:
    """Return the JSON text of an attribute of one graph, which :func:`load_value` reads.

    Args:
        value: Strings, numbers, booleans and ``None``, also in lists, tuples and dictionaries. Tuples become lists.

    Raises:
        ValueError: If JSON cannot represent the value exactly, or if it is too large or nested too deep. The message
            says why.
    """
    _check_exact(value)
    try:
        data = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError("text that is not valid Unicode") from error
    try:
        load_value(data)
    except ValueError as error:
        raise ValueError(f"too large for a JSON text: {error}") from error
    return data


def _check_exact(value: Any, depth: int = 0) -> None:
    """Check that a value comes back from JSON as it is, apart from tuples."""
    if depth > fmt.MAX_JSON_DEPTH:
        raise ValueError(f"more than {fmt.MAX_JSON_DEPTH} nested lists and dictionaries")
    if isinstance(value, dict):
        if not all(type(key) is str for key in value):
            raise ValueError("a dictionary with keys that are not strings")
        for item in value.values():
            _check_exact(item, depth + 1)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _check_exact(item, depth + 1)
    elif type(value) is float and not math.isfinite(value):
        raise ValueError("a number that is infinite or not a number")
    elif value is not None and type(value) not in (str, int, float, bool):
        raise ValueError(f"a value of type {type(value).__name__}")


def load_value(data: bytes) -> Any:
    """Parse the JSON text of an attribute of one graph.

    Args:
        data: UTF-8 text.

    Raises:
        ValueError: If it is not strict JSON (see :func:`parse`), or larger or deeper than the format allows.
    """
    if len(data) > fmt.MAX_JSON_TEXT:
        raise ValueError(f"expected at most {fmt.MAX_JSON_TEXT} bytes, got {len(data)}")
    try:
        value = _load(data)
    except RecursionError as error:
        raise ValueError(f"expected at most {fmt.MAX_JSON_DEPTH} nested values") from error
    if not check_depth(value):
        raise ValueError(f"expected at most {fmt.MAX_JSON_DEPTH} nested values")
    return value


def parse(data: bytes, name: str) -> Document:
    """Parse the content of a file that holds one JSON object.

    Args:
        data: Content of the file.
        name: Name of the file, for messages.

    Returns:
        The object.

    Raises:
        StoreDamagedError: If the content is not one JSON object without duplicate keys, NaN or deep nesting, or if it
            has too many values.
    """
    try:
        value = _load(data)
    except (ValueError, RecursionError) as error:
        raise StoreDamagedError(f"{name} is not valid JSON: {error}", path=name, item=name) from error
    if not isinstance(value, dict) or not check_depth(value):
        raise StoreDamagedError(
            f"{name} must hold one JSON object nested at most {fmt.MAX_JSON_DEPTH} deep", path=name, item=name
        )
    return Document(value, name)


class Document:
    """JSON object from an untrusted file. Each method returns the value of a key after a check of its type.

    Args:
        values: Content of the object.
        name: Name of the file and position in it, for messages.
    """

    def __init__(self, values: Mapping[str, Any], name: str) -> None:
        self.values = values
        self.name = name

    def fail(self, key: str, expected: str) -> StoreDamagedError:
        """Return the error for a value that is not ``expected``."""
        got = repr(self.values.get(key))
        shown = got if len(got) <= 80 else got[:77] + "..."
        return StoreDamagedError(
            f"{self.name}: {key!r} must be {expected}, got {shown}", path=self.name, item=key
        )

    def integer(self, key: str, low: int = 0, high: int = fmt.MAX_COUNT) -> int:
        """Return an integer in ``[low, high]``."""
        value = self.values.get(key)
        if type(value) is not int or not low <= value <= high:
            raise self.fail(key, f"an integer in [{low}, {high}]")
        return value

    def boolean(self, key: str) -> bool:
        """Return ``true`` or ``false``."""
        value = self.values.get(key)
        if not isinstance(value, bool):
            raise self.fail(key, "true or false")
        return value

    def text(self, key: str) -> str:
        """Return a string of limited length."""
        value = self.values.get(key)
        if not isinstance(value, str) or len(value) > fmt.MAX_NAME:
            raise self.fail(key, f"a string of at most {fmt.MAX_NAME} characters")
        return value

    def choice(self, key: str, valid: tuple[str, ...] | frozenset[str]) -> str:
        """Return a string that is one of ``valid``."""
        value = self.values.get(key)
        if not isinstance(value, str) or value not in valid:
            raise self.fail(key, f"one of {', '.join(sorted(valid))}")
        return value

    def digest(self, key: str) -> str:
        """Return a SHA-256 in lower-case hexadecimal digits."""
        value = self.values.get(key)
        if not isinstance(value, str) or len(value) != 64 or not set(value) <= set("0123456789abcdef"):
            raise self.fail(key, "64 hexadecimal digits")
        return value

    def optional_integer(self, key: str, high: int) -> int | None:
        """Return an integer in ``[0, high]`` or ``None`` for ``null``. The key must exist."""
        return None if self.values.get(key, 0) is None else self.integer(key, high=high)

    def optional_choice(self, key: str, valid: tuple[str, ...] | frozenset[str]) -> str | None:
        """Return a string that is one of ``valid``, or ``None`` for ``null``. The key must exist."""
        return None if self.values.get(key, "") is None else self.choice(key, valid)

    def integers(self, key: str) -> tuple[int, ...]:
        """Return a list of integers in ``[0, 2^53]``."""
        value = self.values.get(key)
        if not isinstance(value, list) or not all(type(v) is int and 0 <= v <= fmt.MAX_COUNT for v in value):
            raise self.fail(key, f"a list of integers in [0, {fmt.MAX_COUNT}]")
        return tuple(value)

    def texts(self, key: str, valid: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Return a list of strings, each one of ``valid`` if that is given."""
        value = self.values.get(key)
        if (
            not isinstance(value, list)
            or not all(
                isinstance(v, str) and len(v) <= fmt.MAX_NAME and (not valid or v in valid) for v in value
            )
            or len(set(value)) != len(value)
        ):
            raise self.fail(
                key, "a list of different strings" + (f" from {', '.join(valid)}" if valid else "")
            )
        return tuple(value)

    def mapping(self, key: str) -> dict[str, Any]:
        """Return an object of any content."""
        value = self.values.get(key)
        if not isinstance(value, dict):
            raise self.fail(key, "an object")
        return value

    def documents(self, key: str) -> list[Document]:
        """Return a list of objects."""
        value = self.values.get(key)
        if not isinstance(value, list) or not all(isinstance(v, dict) for v in value):
            raise self.fail(key, "a list of objects")
        return [Document(v, f"{self.name}: {key}[{i}]") for i, v in enumerate(value)]


_SEAL = "checksum"


def seal(values: dict[str, Any]) -> bytes:
    """Serialize a JSON object with the format, the version and a checksum of its content.

    Args:
        values: Content of the object.

    Returns:
        Content of the file, indented for people.
    """
    body = {"format": fmt.FORMAT, "version": fmt.VERSION, **values}
    body[_SEAL] = hashlib.sha256(canonical(body)).hexdigest()
    return (json.dumps(body, sort_keys=True, indent=1, ensure_ascii=True, allow_nan=False) + "\n").encode()


def unseal(data: bytes, name: str) -> Document:
    """Parse a file that :func:`seal` made.

    Args:
        data: Content of the file.
        name: Name of the file, for messages.

    Returns:
        The JSON object.

    Raises:
        StoreDamagedError: If the content is not valid or does not match its checksum.
        StoreVersionError: If the file has another format version.
    """
    document = parse(data, name)
    if document.text("format") != fmt.FORMAT:
        raise document.fail("format", repr(fmt.FORMAT))
    version = document.integer("version", low=1)
    if version != fmt.VERSION:
        raise StoreVersionError(
            f"{name} has format version {version}, this version of tgp reads version {fmt.VERSION}",
            path=name,
            hint="Install a newer tgp, or build the store again with this one."
            if version > fmt.VERSION
            else None,
        )
    body = {key: value for key, value in document.values.items() if key != _SEAL}
    if document.digest(_SEAL) != hashlib.sha256(canonical(body)).hexdigest():
        raise StoreDamagedError(
            f"{name} was altered: its content does not match its checksum", path=name, item=name
        )
    return document


def canonical_bytes(document: Document) -> bytes:
    """Return the canonical serialization of a file that :func:`unseal` parsed.

    A file with other bytes was edited by another program, even if it parses to the same content.
    """
    return seal({key: value for key, value in document.values.items() if key != _SEAL})
