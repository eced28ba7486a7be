"""An extension of griffe: docstrings are written for ``help()``, with roles and directives; pages want Markdown."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import griffe

sys.path.insert(0, str(Path(__file__).parent))  # mkdocs loads this file by its path, not as part of a package

from formulas import to_mathml

_ROLE = re.compile(r":(?:py:)?(?:class|func|meth|mod|data|attr|obj|exc):`([^`]+)`")
_MATH = re.compile(r":math:`([^`]+)`")
_LINK = re.compile(r"`+\"?([^`<]+?)\"?\s*<([^>`]+)>`+_+")
_FORMULA = re.compile(r"^( *)\.\. math::[ ]*(.*)\n((?:\1[ ]+.*\n?|[ ]*\n)*)", flags=re.M)
_DOUBLE = re.compile(r"(?<!`)``([^`]+)``(?!`)")


_JOINT = re.compile(r"^( +)((?:\w+,\s+)+\w+):\s((?:.*\n?)(?:\1 +.*\n?)*)", flags=re.M)
_TABLE = re.compile(r"^( *)=+(?:  +=+)+\n(.*?)^\1=+(?:  +=+)+$", flags=re.M | re.S)
_SPACE = re.compile(r"\s*\\q?quad\s*")


def _homes() -> dict[str, str]:
    """Names as packages export them, and where they are defined, which is where pages show them."""
    root = Path(__file__).resolve().parents[2]
    found = {}
    for path in (root / "tgp").rglob("*.py"):
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        for name in re.findall(r"^(?:class|def) ([A-Za-z]\w*)", path.read_text(), flags=re.M):
            found[f"{module.rpartition('.')[0]}.{name}"] = f"{module}.{name}"
    return found


_HOMES = _homes()


def _target(match: re.Match[str]) -> str:
    """Code, linked to the page that shows it if there is one."""
    path = match[1].removeprefix("~")
    shown = path.rpartition(".")[2] if match[1].startswith("~") else path
    if "." not in path:
        return f"`{shown}`"
    return f'<autoref optional identifier="{_HOMES.get(path, path)}"><code>{shown}</code></autoref>'


def _formula(match: re.Match[str]) -> str:
    """A line of its own that may be broken where the formula has wide spaces."""
    body = " ".join((match[3].strip() or match[2]).split())
    parts = " ".join(to_mathml(part) for part in _SPACE.split(body) if part)
    return f'{match[1]}<p class="formula">{parts}</p>\n\n'


def _table(match: re.Match[str]) -> str:
    """A simple table: its columns start where the marks of its first line start."""
    rule = match[0].partition("\n")[0]
    starts = [m.start() for m in re.finditer(r"=+", rule)]
    ends = [*starts[1:], None]
    rows = [[line[a:b].strip() for a, b in zip(starts, ends, strict=True)] for line in match[2].splitlines()]
    if any(set("".join(row)) == {"="} for row in rows):
        raise ValueError(f"a table with a heading or a block of rows: {match[0]}")
    lines = [["name", "meaning"], ["---"] * len(starts), *rows]
    return "\n".join(match[1] + f"| {' | '.join(row)} |" for row in lines)


def _entries(match: re.Match[str]) -> str:
    """One entry for each of several parameters that a docstring explains together."""
    text = " ".join(match[3].split())
    return "".join(f"{match[1]}{name}: {text}\n" for name in re.split(r",\s+", match[2]))


def to_markdown(text: str) -> str:
    """Roles become links, links Markdown links, formulas MathML; joint parameters get an entry each."""
    text = _JOINT.sub(_entries, text)
    text = _TABLE.sub(_table, text)
    text = _FORMULA.sub(_formula, text)
    text = _ROLE.sub(_target, text)
    # In a span: at the start of a line Markdown takes <math> for a block and would end the paragraph.
    text = _MATH.sub(lambda m: f"<span>{to_mathml(m[1])}</span>", text)
    text = _LINK.sub(lambda m: f"[{' '.join(m[1].split())}]({m[2]})", text)
    return _DOUBLE.sub(r"`\1`", text)


class Docstrings(griffe.Extension):
    """Rewrites every docstring before it is parsed."""

    def on_instance(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)
