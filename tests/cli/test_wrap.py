"""Lines are broken between words on a terminal, and never in a pipe."""

import sys

import pytest

from tests.cli.screens import run_in_terminal, written_lines
from tgp_cli._wrap import wrap_text

SENTENCE = "Level 2 (eigen) hardly shrinks: it keeps 96 % of the nodes (1,504 of 1,564), see pooled/MUTAG-with-a-long-name"


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_words_stay_whole(width):
    lines = wrap_text(SENTENCE, width)
    assert " ".join(" ".join(lines).split()) == SENTENCE
    assert all(len(line) <= width for line in lines)
    assert not any(line.endswith("96") or line.lstrip().startswith("% ") for line in lines)


def test_a_pipe_gets_whole_lines():
    assert wrap_text(SENTENCE, None) == [SENTENCE]


def test_a_long_word_gets_a_line_of_its_own():
    path = "/".join(["folder"] * 20)
    assert wrap_text(f"Error: there is no store at {path} any more", 60) == [
        "Error: there is no store at",
        f"  {path}",
        "  any more",
    ]


def test_commands_to_copy_stay_whole():
    lines = wrap_text("Hint: every unit is written; 'tgp merge pooled/MUTAG' completes it", 40)
    assert lines == ["Hint: every unit is written;", "  'tgp merge pooled/MUTAG' completes it"]
    assert len(wrap_text("'tgp coarsen " + "--pooler ndp " * 9 + "'", 40)) > 1


def test_indents():
    assert wrap_text("  - one two three four five six seven", 24)[1].startswith("    ")
    assert wrap_text("one two three four five six seven", 24, 0)[1][0] != " "
    assert wrap_text("", 24) == [""]


def test_a_very_long_line_is_not_searched_for_breaks():
    text = "x " * 10_000
    assert wrap_text(text, 80) == [text]


@pytest.mark.parametrize("columns", [40, 80])
@pytest.mark.parametrize(
    "words",
    [["inspect", "no/such/store"], ["coarsen", "--pooler"], ["coarsen", "-d", "mutagg"]],
    ids=" ".join,
)
def test_messages_fit_the_terminal(words, columns, tmp_path):
    text = run_in_terminal([sys.executable, "-m", "tgp_cli.main", *words], columns, cwd=tmp_path)
    lines = written_lines(text)
    assert any(lines) and all(len(line) <= columns for line in lines), lines
