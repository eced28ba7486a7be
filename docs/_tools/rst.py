"""Conversion of docstrings with RST roles and directives to Markdown."""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # tests load this file by its path, not as part of a package

from formulas import to_mathml

_ROLE = re.compile(r":(?:py:)?(?:class|func|meth|mod|data|attr|obj|exc):`([^`]+)`")
_MATH = re.compile(r":math:`([^`]+)`")
_LINK = re.compile(r"`+\"?([^`<]+?)\"?\s*<([^>`]+)>`+_+")
_FORMULA = re.compile(r"^( *)\.\. math::[ ]*(.*)\n((?:\1[ ]+.*\n?|[ ]*\n)*)", flags=re.M)
_DOUBLE = re.compile(r"(?<!`)``([^`]+)``(?!`)")


_JOINT = re.compile(r"^( +)((?:\w+,\s+)+\w+):\s((?:.*\n?)(?:\1 +.*\n?)*)", flags=re.M)
_TABLE = re.compile(r"^( *)=+(?:  +=+)+\n(.*?)^\1=+(?:  +=+)+$", flags=re.M | re.S)
_CODE = re.compile(r"^ *(?:>>>|\.\.\.) .*$", flags=re.M)
_SPACE = re.compile(r"\s*\\q?quad\s*")


def _definitions() -> dict[str, str]:
    """Return the full name of each class and function by the name under which its package exports it."""
    root = Path(__file__).resolve().parents[2]
    found = {}
    for path in (root / "tgp").rglob("*.py"):
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        for name in re.findall(r"^(?:class|def) ([A-Za-z]\w*)", path.read_text(), flags=re.M):
            found[f"{module.rpartition('.')[0]}.{name}"] = f"{module}.{name}"
    return found


_DEFINITIONS = _definitions()


def _target(match: re.Match[str]) -> str:
    """Return a name as code, with a link to its entry if there is one."""
    titled = re.fullmatch(r"(.+?)\s*<(.+)>", match[1], flags=re.S)
    if titled:
        return f'<autoref optional identifier="{titled[2]}"><code>{titled[1]}</code></autoref>'
    path = match[1].removeprefix("~")
    shown = path.rpartition(".")[2] if match[1].startswith("~") else path
    if "." not in path:
        return f"`{shown}`"
    return f'<autoref optional identifier="{_DEFINITIONS.get(path, path)}"><code>{shown}</code></autoref>'


def _formula(match: re.Match[str]) -> str:
    """Return a formula as a paragraph that may be broken at wide spaces."""
    body = " ".join((match[3].strip() or match[2]).split())
    parts = " ".join(to_mathml(part) for part in _SPACE.split(body) if part)
    return f'{match[1]}<p class="formula">{parts}</p>\n\n'


def _table(match: re.Match[str]) -> str:
    """Return a simple RST table as a Markdown table. Its first line defines the columns."""
    rule = match[0].partition("\n")[0]
    starts = [m.start() for m in re.finditer(r"=+", rule)]
    ends = [*starts[1:], None]
    rows = [[line[a:b].strip() for a, b in zip(starts, ends, strict=True)] for line in match[2].splitlines()]
    if any(set("".join(row)) == {"="} for row in rows):
        raise ValueError(f"tables with a heading or blocks of rows are not supported: {match[0]}")
    lines = [["name", "meaning"], ["---"] * len(starts), *rows]
    return "\n".join(match[1] + f"| {' | '.join(row)} |" for row in lines)


def _entries(match: re.Match[str]) -> str:
    """Return one entry for each of several parameters that share an entry in a docstring."""
    text = " ".join(match[3].split())
    return "".join(f"{match[1]}{name}: {text}\n" for name in re.split(r",\s+", match[2]))


def to_markdown(text: str) -> str:
    """Convert a docstring to Markdown: roles and links to Markdown links, formulas to MathML. Code of examples is kept."""
    code = _CODE.findall(text)
    text = _CODE.sub("\0", text)
    text = _JOINT.sub(_entries, text)
    text = _TABLE.sub(_table, text)
    text = _FORMULA.sub(_formula, text)
    text = _ROLE.sub(_target, text)
    # Markdown would end the paragraph at a line that starts with <math>, so it is put into a span.
    text = _MATH.sub(lambda m: f"<span>{to_mathml(m[1])}</span>", text)
    text = _LINK.sub(lambda m: f"[{' '.join(m[1].split())}]({m[2]})", text)
    text = _DOUBLE.sub(r"`\1`", text)
    return re.sub("\0", lambda _: code.pop(0), text)
