"""Terminal output at 60, 80 and 120 columns, compared with the recorded screens by its layout, not by its sentences.

``python -m tests.cli.screens`` records the screens again.
"""

import re
import sys
import tempfile
from pathlib import Path

import pytest

from tests.cli.screens import FOLDER, SCREENS, WIDTHS, make_folder, show, written_lines

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudoterminal")

LABEL = re.compile(r"\s*(Error|Hint|Warning|Next|In Python|Usage|Try)\b")
SECTION = re.compile(r"([A-Z][a-z]+(?: [a-z]+)?)(?:  +\S|$)")
PROGRESS = re.compile(r"\S (compiling kernel \d+ of \d+|coarsening [\d,]+ of [\d,]+ graphs)")


@pytest.fixture(scope="module")
def folder():
    """Folder with a short name, because a long path is a word that does not fit a narrow terminal."""
    with tempfile.TemporaryDirectory(prefix="tgp") as name:
        make_folder(Path(name))
        yield Path(name)


def layout(lines):
    """Return the parts of a screen in order: labels, sections, kinds of progress, and the first heading of each table."""
    found = []
    for i, line in enumerate(lines):
        label, progress = LABEL.match(line) or SECTION.match(line), PROGRESS.match(line)
        if label:
            found.append(label[1])
        elif progress:
            found.append(progress[1].split()[0])
        elif "──" in line and line.strip(" ─") == "" and i:
            found.append(f"table {lines[i - 1].split()[0] if lines[i - 1].split() else ''}")
    return [part for part, before in zip(found, [None, *found], strict=False) if part != before]


def cases():
    for name, wanted in SCREENS.items():
        for columns in WIDTHS:
            # One width of the quick commands is enough for every change.
            marks = [pytest.mark.slow] if wanted.slow or columns != 80 else []
            marks += [pytest.mark.full] if wanted.slow and columns != 80 else []
            yield pytest.param(name, columns, marks=marks, id=f"{name}-{columns}")


@pytest.mark.parametrize(("name", "columns"), list(cases()))
def test_screens_keep_their_layout(name, columns, folder):
    status, written, lines = show(name, columns, folder)
    assert status == SCREENS[name].status, lines
    for line in written:  # the terminal breaks a longer line inside a word
        assert len(line) <= columns or len(line.split()) == 1, line
    recorded = (FOLDER / f"{name}-{columns}.txt").read_text().splitlines()
    assert layout(lines[1:]) == layout(recorded[1:]) != []
    if SCREENS[name].frame:
        assert any(SCREENS[name].frame in line for line in lines[1:3])


def test_every_screen_is_recorded_at_every_width():
    names = {f"{name}-{columns}.txt" for name in SCREENS for columns in WIDTHS}
    assert {path.name for path in FOLDER.iterdir()} == names
    for path in FOLDER.iterdir():
        lines = path.read_text().splitlines()
        columns = int(path.stem.rpartition("-")[2])
        assert all(len(line) <= columns for line in lines[1:]), path.name
        assert "/tmp" not in path.read_text()


def test_lines_are_read_as_a_terminal_shows_them():
    assert written_lines("one\r\n\x1b[2Ktwo\rthree\x1b[0m\n") == ["one", "three", ""]
    assert layout(
        ["Error: a", "  b", "Hint: c", "Good for  all", " x  y ", " ── ── ", "⠋ compiling kernel 1 of 7, 0 s"]
    ) == [
        "Error",
        "Hint",
        "Good for",
        "table x",
        "compiling",
    ]
