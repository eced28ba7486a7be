"""Check the opcodes of a pickle before it is decoded."""

from __future__ import annotations

import functools

from tgp.errors import DatasetError

__all__ = ["find_end"]

_STOP, _LONG_BINPUT, _PUT = ord("."), ord("r"), ord("p")
_TEXT_NUMBERS = (ord("I"), ord("L"), _PUT, ord("g"))
_LONGS = (0x8A, 0x8B)
_TWO_LINES = (ord("c"), ord("i"))
_MAX_NUMBER = 24
"""Largest number of characters of an integer."""


@functools.lru_cache(maxsize=1)
def _sizes() -> list[int | None]:
    """Return the size of the argument of each opcode, in the code of ``pickletools``; ``None`` for no opcode."""
    import pickletools

    table: list[int | None] = [None] * 256
    for opcode in pickletools.opcodes:
        table[ord(opcode.code)] = 0 if opcode.arg is None else opcode.arg.n
    return table


_PREFIX = {-2: 1, -3: 4, -4: 4, -5: 8}
"""Number of bytes of the length of an argument, by the code of ``pickletools``."""


def find_end(data: bytes, name: str) -> int:
    """Check the opcodes of a pickle and return the position after its end.

    The unpickler allocates what an opcode declares: a string of any length, a table with room for any index. Here a
    length must be inside the file, an index must be below the number of opcodes, and an integer must have 64 bits.

    Args:
        data: Pickle, followed by anything.
        name: Name of the file for error messages.

    Raises:
        DatasetError: If the pickle is truncated or declares more than it holds.
    """
    sizes, position, end, count = _sizes(), 0, len(data), 0
    while position < end:
        opcode = data[position]
        position += 1
        count += 1
        size = sizes[opcode]
        if size is None:
            break
        if size > 0:
            if opcode == _LONG_BINPUT and int.from_bytes(data[position : position + 4], "little") > count:
                raise DatasetError(f"{name} is not a readable object file: an index is larger than the file")
            position += size
        elif size == -1:
            position = _skip_lines(data, position, opcode, count, name)
        elif size < -1:
            width = _PREFIX[size]
            length = int.from_bytes(data[position : position + width], "little")
            if length > end - position or (opcode in _LONGS and length > 8):
                break
            position += width + length
        if opcode == _STOP:
            return position
    raise DatasetError(f"{name} is not a readable object file: it is truncated or damaged")


def _skip_lines(data: bytes, position: int, opcode: int, count: int, name: str) -> int:
    """Return the position after the argument of an opcode that ends with a newline."""
    for _ in range(2 if opcode in _TWO_LINES else 1):
        stop = data.find(b"\n", position)
        line = data[position:stop]
        if stop < 0 or (opcode in _TEXT_NUMBERS and len(line) > _MAX_NUMBER):
            raise DatasetError(f"{name} is not a readable object file: it is truncated or damaged")
        if opcode == _PUT and not (line.isdigit() and int(line) <= count):
            raise DatasetError(f"{name} is not a readable object file: an index is larger than the file")
        position = stop + 1
    return position
