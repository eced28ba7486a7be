"""Every code block of the README and the documentation runs as it stands, in the order of its page.

One namespace and one empty folder per page. Comments in front of a block say more:

    <!-- not run: reason -->     the block needs something that no test machine has
    <!-- dry run: reason -->     its ``tgp coarsen`` commands get ``--dry-run``
    <!-- saved as name.py -->    the block is written to a file instead of being run
    <!-- run first: tgp ... -->  a command that the reader has already run
"""

import os
import re
import shlex
import sys
import types
from dataclasses import dataclass
from importlib.metadata import metadata
from itertools import pairwise
from pathlib import Path

import pytest

from tgp_cli.main import run

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    p.relative_to(ROOT).as_posix()
    for p in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if "changes" not in p.parts
)
ELSEWHERE = {"docs/guide/clusters.md": "test_clusters.py"}
"""Pages whose programs need stand-ins for other machines."""

SHELL = {"bash", "console"}
PLAIN = {"text", "toml", "json", "mermaid", "bibtex"}
FENCE = re.compile(
    r"(?:^<!-- (?P<note>[^>]*?) -->\n+)?^```(?P<language>\w*)\n(?P<code>.*?)^```$", flags=re.M | re.S
)
FIRST = re.compile(r"^<!-- run first: (.*?) -->$", flags=re.M)
NAME = "tgp-coarsen"
EXTRAS = set(metadata(NAME).get_all("Provides-Extra"))


@dataclass(frozen=True)
class Block:
    """A code block and where it stands."""

    page: str
    line: int
    language: str
    code: str
    note: str

    def __str__(self):
        return f"{self.page}:{self.line}"


def blocks(page):
    text = (ROOT / page).read_text()
    found = [(m.start(), "run first", m[1]) for m in FIRST.finditer(text)]
    found += [(m.start("language"), m, None) for m in FENCE.finditer(text)]
    for start, what, command in sorted(found, key=lambda item: item[0]):
        line = text.count("\n", 0, start) + 1
        if command is not None:
            yield Block(page, line, "bash", f"{command}\n", "")
        else:
            yield Block(page, line, what["language"], what["code"], what["note"] or "")


def commands(block):
    """Commands of a shell block: words, without comments and shown output."""
    text = block.code.replace("\\\n", " ")
    for line in text.splitlines():
        if block.language == "console":
            if not line.startswith("$ "):
                continue
            line = line[2:]
        words = shlex.split(os.path.expandvars(line), comments=True)
        if words:
            yield words


def check_tgp(words, block, capsys):
    assert not {"|", "&&", ">", ";"} & set(words), f"{block}: one command per line"
    if block.note.startswith("dry run: ") and words[1] == "coarsen":
        words = [*words, "--dry-run"]
    # Status 1 means findings, which is what these two options look for.
    allowed = {0, 1} if {"--diff", "--fail-if"} & set(words) else {0}
    status = run(words[1:])
    out, err = capsys.readouterr()
    assert status in allowed, f"{block}: {shlex.join(words)} ended with {status}\n{out}\n{err}"


def check_make(words, block):
    makefile = (ROOT / "Makefile").read_text()
    for target in (word for word in words[1:] if "=" not in word):
        assert f"\n{target}:" in makefile, f"{block}: no target {target}"


def check_pip(words, block):
    assert words[:2] == ["pip", "install"], f"{block}: {words}"
    for option, word in pairwise(words[1:]):
        if option == "-c":
            assert (ROOT / word).is_file(), f"{block}: no file {word}"
        if word.startswith("-") or option == "-c":
            continue
        name, _, extras = word.rstrip("]").partition("[")
        assert name in {NAME, "."}, f"{block}: {name}"
        assert set(filter(None, extras.split(","))) <= EXTRAS, f"{block}: {word}"


def check_python(words, block):
    """Scripts of the project that take long: they exist and know the options shown."""
    script = ROOT / words[1]
    assert script.is_file(), f"{block}: no script {words[1]}"
    text = script.read_text()
    for word in words[2:]:
        if word.startswith("--"):
            assert word[2:] in text, f"{block}: {words[1]} has no option {word}"


CHECKS = {"make": check_make, "pip": check_pip, "python": check_python}


def check_shell(block, capsys):
    for words in commands(block):
        if words[0] == "tgp":
            check_tgp(words, block, capsys)
        else:
            assert words[0] in CHECKS, f"{block}: cannot check {words[0]!r}; say why it is not run"
            CHECKS[words[0]](words, block)


@pytest.mark.parametrize("page", [p for p in PAGES if p not in ELSEWHERE])
def test_page(page, desk, monkeypatch, capsys):
    name = "page_" + re.sub(r"\W", "_", page)
    module = types.ModuleType(name)  # a module, so that classes of the page have a home
    monkeypatch.setitem(sys.modules, name, module)
    for block in blocks(page):
        if block.note.startswith("not run: "):
            assert len(block.note) > 15, f"{block}: say why"
            continue
        assert block.language in {"python", *SHELL, *PLAIN}, f"{block}: language {block.language!r}"
        if block.note.startswith("saved as "):
            Path(block.note.removeprefix("saved as ")).write_text(block.code)
        elif block.language == "python":
            # Blank lines in front, so that an error names the line of the page.
            exec(compile("\n" * block.line + block.code, str(ROOT / page), "exec"), module.__dict__)
        elif block.language in SHELL:
            check_shell(block, capsys)


def test_nothing_is_missed():
    """Fences that the pattern does not see, and code set off by spaces, would not run."""
    for page in PAGES:
        text = (ROOT / page).read_text()
        assert len(re.findall(r"^\s*```", text, flags=re.M)) == 2 * len(FENCE.findall(text)), page
        assert re.findall(r"^    (?:tgp|pip|python|make) .*", FENCE.sub("", text), flags=re.M) == [], page


def test_commands_in_sentences_exist():
    """What stands in a sentence is not run, but names commands and options that there are."""
    reference = (ROOT / "docs/reference/commands.md").read_text()
    helps = dict(re.findall(r"^## tgp (\w+)\n(.*?)(?=^## |\Z)", reference, flags=re.M | re.S))
    for page in PAGES:
        for words in re.findall(r"`tgp ([a-z]\w*[^`]*)`", FENCE.sub("", (ROOT / page).read_text())):
            for part in words.split(" | "):
                name = part.split()[0]
                assert name in helps or part.isupper(), f"{page}: tgp {words}"
                unknown = [o for o in re.findall(r"(?<!\S)--[a-z-]+", part) if o not in helps[name]]
                assert not unknown, f"{page}: tgp {words} has {unknown}"


def test_pages_with_a_test_of_their_own():
    for page, test in ELSEWHERE.items():
        assert page in PAGES and Path(page).name in (Path(__file__).parent / test).read_text()


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) < 235
