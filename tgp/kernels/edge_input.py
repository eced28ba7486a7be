"""Convert edge lists that are read piece by piece: parse lines, number nodes again, and make both directions."""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import count_bits, hash_u64, kernel
from tgp.kernels.array_types import ByteArray, FloatArray, PtrArray, WordArray

__all__ = ["count_entries", "mark_ids", "mirror_edges", "parse_edges", "rank_ids", "symmetry_sum"]

_U = np.uint64
_ONE, _SIX, _LAST, _S32 = np.uint64(1), np.uint64(6), np.uint64(63), np.uint64(32)

_NEWLINE, _RETURN, _TAB, _BLANK, _COMMA, _SEMICOLON, _ZERO = 10, 13, 9, 32, 44, 59, 48
_HASH, _PERCENT, _POINT, _PLUS, _MINUS = 35, 37, 46, 43, 45
_LOWER_A, _LOWER_C, _LOWER_E, _LOWER_P, _UPPER_E = 97, 99, 101, 112, 69
_LARGEST = 10**18 - 1
"""Largest number that is read. One more digit fits in 64 bits."""

_EXACT, _MAX_POWER = 2**53, 22
"""Whole numbers and powers of ten up to these are exact in float64, so that one division or product of them is rounded correctly."""


@kernel(inner=True)
def _skip_separators(text: ByteArray, i: int) -> int:
    """Return the position of the next character that is not a separator of words."""
    while i < text.shape[0] and (text[i] in (_BLANK, _COMMA, _TAB, _SEMICOLON, _RETURN)):
        i += 1
    return i


@kernel(inner=True)
def _skip_digits(text: ByteArray, i: int) -> int:
    """Return the position of the next character that is not a digit."""
    while i < text.shape[0] and _ZERO <= text[i] <= _ZERO + 9:
        i += 1
    return i


@kernel(inner=True)
def _read_digits(text: ByteArray, low: int, high: int, value: int) -> int:
    """Append the digits ``low..high`` to a number; return -1 if it has too many of them."""
    for i in range(low, high):
        value = 10 * value + (np.int64(text[i]) - _ZERO)
        if value > _LARGEST:
            return -1
    return value


@kernel(inner=True)
def _read_decimal(text: ByteArray, i: int, out: FloatArray, slot: int) -> int:
    """Read a number such as 12, 0.5 or 3e-2 that is exactly the quotient or product of two exact numbers.

    Args:
        text: Text.
        i: Position of the number.
        out: The number is written to ``out[slot]``.
        slot: Position in ``out``.

    Returns:
        Position after the number, or -1 if it has another form.
    """
    end = _skip_digits(text, i)
    value = _read_digits(text, i, end, 0)
    digits, power = end - i, 0
    if end < text.shape[0] and text[end] == _POINT:
        first = end + 1
        end = _skip_digits(text, first)
        value = -1 if value < 0 else _read_digits(text, first, end, value)
        digits, power = digits + end - first, first - end
    if digits == 0 or value < 0 or value > _EXACT:
        return -1
    if end < text.shape[0] and text[end] in (_LOWER_E, _UPPER_E):
        minus = end + 1 < text.shape[0] and text[end + 1] == _MINUS
        plus = end + 1 < text.shape[0] and text[end + 1] == _PLUS
        first = end + 1 + (1 if minus or plus else 0)
        end = _skip_digits(text, first)
        if not 0 < end - first <= 3:
            return -1
        exponent = _read_digits(text, first, end, 0)
        power += -exponent if minus else exponent
    if not -_MAX_POWER <= power <= _MAX_POWER:
        return -1
    factor = 1.0
    for _ in range(abs(power)):
        factor *= 10.0
    out[slot] = value / factor if power < 0 else value * factor
    return end


@kernel
def parse_edges(text: ByteArray, ids: PtrArray, weights: FloatArray, counts: PtrArray) -> bool:
    """Read lines ``u v`` or ``u v weight``, with the common forms of numbers and comments.

    Args:
        text: Whole lines, encoded in ASCII.
        ids: Output, two numbers for each line. It has room for one number for each two bytes of the text.
        weights: Output, one number for each line that has a weight.
        counts: Output ``[2]``, number of lines with an edge and of weights.

    Returns:
        False if a line has another form, which :func:`tgp.sources.edge_text.parse_edge_text` may read.
    """
    i, count, num_weights = 0, 0, 0
    while True:
        while i < text.shape[0] and text[i] in (_NEWLINE, _BLANK, _TAB, _RETURN):
            i += 1
        if i == text.shape[0]:
            break
        if text[i] in (_HASH, _PERCENT, _LOWER_C, _LOWER_P):
            while i < text.shape[0] and text[i] != _NEWLINE:
                i += 1
            continue
        if text[i] in (_LOWER_A, _LOWER_E) and i + 1 < text.shape[0] and text[i + 1] == _BLANK:
            i = _skip_separators(text, i + 1)
        for side in range(2):
            end = _skip_digits(text, i)
            value = _read_digits(text, i, end, 0)
            following = _skip_separators(text, end)
            if end == i or value < 0 or (side == 0 and following == end):
                return False
            ids[2 * count + side] = value
            i = following
        if i < text.shape[0] and text[i] != _NEWLINE:
            if i == end:
                return False
            i = _read_decimal(text, i, weights, num_weights)
            if i < 0:
                return False
            num_weights += 1
            i = _skip_separators(text, i)
            if i < text.shape[0] and text[i] != _NEWLINE:
                return False
        count += 1
    counts[0], counts[1] = count, num_weights
    return True


@kernel
def mark_ids(ids: PtrArray, bits: WordArray) -> None:
    """Set the bit of each id."""
    for i in range(ids.shape[0]):
        place = _U(ids[i])
        bits[place >> _SIX] |= _ONE << (place & _LAST)


@kernel
def rank_ids(bits: WordArray, before: PtrArray, ids: PtrArray) -> None:
    """Replace each id by the number of smaller ids whose bit is set.

    Args:
        bits: One bit for each id.
        before: Number of bits that are set before each word.
        ids: Ids, overwritten.
    """
    for i in range(ids.shape[0]):
        place = _U(ids[i])
        word = place >> _SIX
        ids[i] = before[word] + np.int64(count_bits(bits[word] & ((_ONE << (place & _LAST)) - _ONE)))


@kernel
def symmetry_sum(ids: PtrArray, bits: WordArray, weighted: bool, salt: int) -> int:
    """Return a sum of hashes of edges.

    The sum over all edges is 0 if each edge is listed as often as its reverse edge with the same weight. For any other list it is 0 with a
    probability of about 2^-63. Self loops do not count.

    Args:
        ids: Two ends of each edge.
        bits: Bits of the weights, not read if ``weighted`` is false.
        weighted: True if there are weights.
        salt: Random number, which keeps a file from being made so that the sum is 0.
    """
    total, key = _U(0), _U(salt)
    for i in range(ids.shape[0] >> 1):
        u, v = ids[2 * i], ids[2 * i + 1]
        if u == v:
            continue
        low, high = (u, v) if u < v else (v, u)
        z = hash_u64(key, _U(low), _U(high), bits[i] if weighted else _U(0))
        total += z if u < v else _U(0) - z
    result: int = total
    return result


@kernel
def count_entries(ids: PtrArray, mirror: bool, sizes: PtrArray) -> None:
    """Add the number of entries of each row to ``sizes`` ``[N]``.

    Args:
        ids: Two ends of each edge. A self loop counts once.
        mirror: Count each edge for both ends, not only for the first one.
        sizes: Output.
    """
    for i in range(ids.shape[0] >> 1):
        u, v = ids[2 * i], ids[2 * i + 1]
        sizes[u] += 1
        if mirror and u != v:
            sizes[v] += 1


@kernel
def mirror_edges(
    ids: PtrArray, weight: FloatArray, weighted: bool, mirror: bool, keys: WordArray, values: FloatArray
) -> int:
    """Write each edge, in both directions if it is no self loop; return the number of entries.

    Args:
        ids: Two ends of each edge.
        weight: Weight of each edge, not read if ``weighted`` is false.
        weighted: True if there are weights.
        mirror: Write both directions.
        keys, values: Output, ``row << 32 | column`` and weights, with room for two entries for each edge.
    """
    slot = 0
    for i in range(ids.shape[0] >> 1):
        u, v = _U(ids[2 * i]), _U(ids[2 * i + 1])
        keys[slot] = (u << _S32) | v
        if weighted:
            values[slot] = weight[i]
        slot += 1
        if mirror and u != v:
            keys[slot] = (v << _S32) | u
            if weighted:
                values[slot] = weight[i]
            slot += 1
    return slot
