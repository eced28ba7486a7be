"""An extension of griffe: docstrings are written for ``help()``, with roles and directives; pages want Markdown."""

from __future__ import annotations

import re
import textwrap

import griffe

_ROLE = re.compile(r":(?:py:)?(?:class|func|meth|mod|data|attr|obj|exc):`([^`]+)`")
_MATH = re.compile(r":math:`([^`]+)`")
_LINK = re.compile(r"`+\"?([^`<]+?)\"?\s*<([^>`]+)>`+_+")
_FORMULA = re.compile(r"^( *)\.\. math::[ ]*(.*)\n((?:\1[ ]+.*\n?|[ ]*\n)*)", flags=re.M)
_DOUBLE = re.compile(r"(?<!`)``([^`]+)``(?!`)")


def _target(match: re.Match[str]) -> str:
    text = match[1]
    return f"`{text.rpartition('.')[2] if text.startswith('~') else text}`"


def _formula(match: re.Match[str]) -> str:
    body = textwrap.dedent(match[3]).strip() or match[2].strip()
    lines = ["```latex", *body.splitlines(), "```"]
    return "\n".join(match[1] + line for line in lines) + "\n\n"


def to_markdown(text: str) -> str:
    """Roles become code, links Markdown links, displayed formulas code blocks."""
    text = _FORMULA.sub(_formula, text)
    text = _ROLE.sub(_target, text)
    text = _MATH.sub(r"`\1`", text)
    text = _LINK.sub(lambda m: f"[{' '.join(m[1].split())}]({m[2]})", text)
    return _DOUBLE.sub(r"`\1`", text)


class Docstrings(griffe.Extension):
    """Rewrites every docstring before it is parsed."""

    def on_instance(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)
