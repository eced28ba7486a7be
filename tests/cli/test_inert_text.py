"""Functions of ``tgp.text`` that escape text for terminals, CSV files and file names."""

import csv
import io
import unicodedata
from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tgp.text import csv_cell, file_name, inert_text, unique_names

ANY = st.text(st.characters(exclude_categories=()), max_size=40)
CONTROLS = st.text(
    st.sampled_from("\x00\x07\x08\t\n\r\x1b\x7f\x9b\u200b\u202e\u2028\ud800=+-@,;\"'%/\\:. aÄ图"), max_size=12
)


@pytest.mark.parametrize("code", [*range(0x20), *range(0x7F, 0xA0)])
def test_all_control_characters_are_escaped(code):
    assert inert_text(chr(code)).isprintable() and inert_text(chr(code)) != chr(code)
    kept = chr(code) in "\t\n"
    assert (inert_text(chr(code), lines=True) == chr(code)) is kept


@pytest.mark.parametrize(
    "character",
    [
        *"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c",  # direction
        *"\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e\u2028\u2029\ufff9",  # zero width, separators
        *"\U000e0001\U000e0041\ud800\udfff",
    ],
    ids=ascii,
)
def test_invisible_characters_are_escaped(character):
    assert inert_text(f"a{character}b") == f"a{ascii(character)[1:-1]}b"
    assert inert_text(character, mark="?") == "?" == inert_text(character, mark="?", lines=True)


@pytest.mark.parametrize(
    "text", ["größe", "图神经网络", "граф", "γράφος", "グラフ", "גרף", "رسم", "é", "𝔾", "🙂", "a b", "\\x1b"]
)
def test_printable_text_stays(text):
    assert inert_text(text) == text


@given(ANY | CONTROLS)
def test_escaped_text_is_inert_and_stays_so(text):
    once = inert_text(text)
    assert inert_text(once) == once and len(once.splitlines()) <= 1
    once.encode()
    assert not {unicodedata.category(c) for c in once} & {"Cc", "Cs", "Zl", "Zp"}
    several = inert_text(text, lines=True)
    assert inert_text(several, lines=True) == several and several.count("\n") == text.count("\n")


@given(
    st.lists(ANY | CONTROLS | st.floats() | st.integers() | st.none() | st.booleans(), min_size=1, max_size=4)
)
@example(["=1+1", "\t=1", "+1", "-1-1", "@SUM", "＝1", " =1", "a;=1"])
def test_cells_are_read_back_as_one_row_without_formulas(values):
    text = ",".join(map(csv_cell, values))
    row = next(csv.reader(io.StringIO(text)), [""])
    assert len(row) == len(values) or values in ([None], [""])
    for value, cell in zip(values, row, strict=False):
        assert inert_text(cell) == cell
        if isinstance(value, str) and cell.lstrip()[:1] in ("=", "+", "-", "@", "＝", "＋", "－", "＠"):
            float(cell)
        elif not isinstance(value, str) and value is not None:
            assert cell == str(value)


@given(ANY | CONTROLS)
@example("../../evil")
@example("CON")
@example("a" * 1000)
def test_file_names_are_one_safe_component(name):
    found = file_name(name)
    assert inert_text(found) == found and 0 < len(found.encode()) <= 120
    assert PurePosixPath(found).parts == PureWindowsPath(found).parts == (found,)
    assert not PureWindowsPath(found).is_reserved() and not found.startswith(("-", "."))
    assert not found.endswith((".", " ")) and not set(found) & set('/\\:*?"<>|')


@given(st.sets(ANY | CONTROLS, max_size=8))
def test_different_names_give_different_files(names):
    assert len({file_name(name) for name in names}) == len(names)


@given(st.lists(st.sampled_from(["a", "a_ptr", "a_ptr_ptr", "b", "b~2", "c", "c~2", "c~3"]), unique=True))
def test_unique_names(names):
    found = unique_names(names, lambda name: name.replace("c", "b"), reserved=["a"], suffixes=["", "_ptr"])
    results = [value + suffix for value in found.values() for suffix in ("", "_ptr")]
    assert len(set(results)) == len(results) and "a" not in results and [*found] == names
