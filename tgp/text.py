"""Make text from files, servers and other packages inert before it leaves the program.

A name in a store may contain the escape sequences of a terminal, marks that change the direction of text, line breaks,
the formula of a spreadsheet or the path of another folder. Functions of this module escape such characters for the place
to which the text goes. Everything else stays as it is, in any script.

Backslashes are not escaped, so escaping twice gives the same text as escaping once. The escaped text is for people; it
cannot be decoded without doubt.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable

__all__ = ["csv_cell", "file_name", "inert_text", "unique_names"]

_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 and C1 control characters, without tab and line feed
    "\u00ad\u034f\u061c\u180e"  # soft hyphen, grapheme joiner, Arabic letter mark, Mongolian vowel separator
    "\u200b-\u200f\u202a-\u202e"  # zero-width characters, marks and embeddings of direction
    "\u2028\u2029"  # line and paragraph separator
    "\u2060-\u206f\ufeff\ufff9-\ufffb"  # invisible operators, isolates, byte order mark, annotations
    "\ufffe\uffff\ud800-\udfff"  # not characters: invalid in XML, cannot be encoded
    "\U000e0000-\U000e007f"  # tags
)
_IN_LINE = re.compile(f"[\t\n{_HIDDEN}]")
_IN_LINES = re.compile(f"[{_HIDDEN}]")
_SHORT = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}

_NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf|nan)", re.ASCII)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of a cell that spreadsheets may read as a formula, also in full width."""

_SEPARATORS = re.compile(r"[\",;|'\s]")
"""Characters for which a cell is quoted. Spreadsheets of some languages separate cells by semicolons."""

_UNSAFE_IN_FILE = re.compile(f'[%/\\\\:*?"<>|\t\n{_HIDDEN}]')
_DEVICES = re.compile(
    r"(?:con|prn|aux|nul|clock\$|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(?:\..*)?", re.IGNORECASE
)
_MAX_FILE_NAME = 120
"""Length in bytes of the longest file name. File systems allow 255; suffixes are appended."""


def inert_text(value: object, *, lines: bool = False, mark: str | None = None) -> str:
    r"""Return text in which control characters and invisible characters are escaped.

    Args:
        value: text, or an object that is converted to text.
        lines: keep line feeds and tabs. By default they are escaped, because a name with a line feed could imitate the
            next message.
        mark: character that replaces each of them; ``None`` writes escapes.

    Returns:
        The text with escapes such as ``\x1b``, ``\n`` or ``\u202e``.

    Examples:
        >>> print(inert_text("a\x1b[31m\nb\u202e"), inert_text("größe 图"))
        a\x1b[31m\nb\u202e größe 图
    """
    text = value if type(value) is str else str(value)
    return (_IN_LINES if lines else _IN_LINE).sub(_escape if mark is None else mark, text)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    if code < 0x100:
        return _SHORT.get(character) or f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def csv_cell(value: object) -> str:
    """Return a value as a cell of a CSV file that no spreadsheet reads as a formula.

    Args:
        value: number, text or ``None``. ``None`` is an empty cell.

    Returns:
        The cell, with quotes where it needs them. Text that starts like a formula gets an apostrophe in front. Numbers, and
        text that is written like a number, stay numbers.

    Examples:
        >>> [csv_cell(value) for value in (-1.5, "-1.5", None, "ndp", "=1+1", "a,b")]
        ['-1.5', '-1.5', '', 'ndp', '"\\'=1+1"', '"a,b"']
    """
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return str(value)
    raw = str(value)
    text = inert_text(raw)
    if raw.lstrip().startswith(_FORMULA) or raw.startswith(_FORMULA):
        if _NUMBER.fullmatch(raw):
            return raw
        text = f"'{text}"
    return '"' + text.replace('"', '""') + '"' if _SEPARATORS.search(text) else text


def file_name(name: str) -> str:
    """Return a name for a file or for the member of an archive that stays in its folder on every system.

    Path separators, drive letters, control characters, a dot or a dash at the start, a dot or a space at the end and the
    names of devices are percent-encoded. A long name is cut and ends with a part of its checksum.

    Args:
        name: any text.

    Returns:
        A file name of at most 120 bytes. Different names give different results.

    Examples:
        >>> [file_name(name) for name in ("x", "größe", "../../evil", "C:\\\\x", "", "NUL.txt")]
        ['x', 'größe', '%2E.%2F..%2Fevil', 'C%3A%5Cx', '%', '%4EUL.txt']
    """
    text = _UNSAFE_IN_FILE.sub(lambda found: _percent(found[0]), name) or "%"
    if text[0] in ".-~ " or _DEVICES.fullmatch(text):
        text = _percent(text[0]) + text[1:]
    if text[-1] in ". ":
        text = text[:-1] + _percent(text[-1])
    if len(text.encode()) <= _MAX_FILE_NAME:
        return text
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    head = text.encode()[: _MAX_FILE_NAME - len(digest) - 1].decode(errors="ignore")
    return f"{head}-{digest}"


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def unique_names(
    names: Iterable[str],
    encode: Callable[[str], str],
    *,
    reserved: Collection[str] = (),
    suffixes: Collection[str] = ("",),
) -> dict[str, str]:
    """Encode names so that no two results are equal.

    Args:
        names: names to encode.
        encode: function that encodes one name, such as :func:`file_name`.
        reserved: results that no name may have.
        suffixes: every result is used with each of these suffixes. None of the combinations may be equal to another one.

    Returns:
        Name -> result. A result that is already taken gets a number: ``~2``, ``~3``, ...

    Examples:
        >>> unique_names(["a", "a_ptr", "node"], str, reserved=["node"], suffixes=["", "_ptr"])
        {'a': 'a', 'a_ptr': 'a_ptr~2', 'node': 'node~2'}
    """
    taken = set(reserved)
    found: dict[str, str] = {}
    for name in names:
        base = result = encode(name)
        number = 1
        while not taken.isdisjoint(result + suffix for suffix in suffixes):
            number += 1
            result = f"{base}~{number}"
        taken.update(result + suffix for suffix in suffixes)
        found[name] = result
    return found
