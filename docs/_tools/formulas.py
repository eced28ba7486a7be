"""Conversion of formulas in docstrings to MathML, which browsers show without a script.

Knows the part of LaTeX that the docstrings use; a command it does not know is an error, so that no page shows raw code.
"""

from __future__ import annotations

import re
from html import escape

_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\s+|.", flags=re.S)
_LETTERS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ϵ", "eta": "η", "theta": "θ", "lambda": "λ", "Lambda": "Λ",
    "mu": "μ", "pi": "π", "Pi": "Π", "rho": "ρ", "sigma": "σ", "omega": "ω", "Gamma": "Γ", "Theta": "Θ",
}  # fmt: skip
_OPERATORS = {
    "top": "⊤", "odot": "⊙", "in": "∈", "cup": "∪", "approx": "≈", "neq": "≠", "ne": "≠", "le": "≤", "ge": "≥", "iff": "⟺", "arg": "arg",
    "cap": "∩", "subseteq": "⊆", "pm": "±", "dots": "…", "|": "‖",
}  # fmt: skip
_LARGE = {"sum": "∑", "prod": "∏", "max": "max", "min": "min"}  # limits are shown below and above
_SPACES = {",": 0.17, ";": 0.28, "quad": 1.0, "qquad": 2.0}
_SCRIPT = {"L": "ℒ"}
_FENCES = {"left", "right", "big", "Big"}


def to_mathml(latex: str) -> str:
    """Return a LaTeX formula as MathML.

    Raises:
        ValueError: If a command is unknown or braces are not balanced.
    """
    return f"<math>{_Parser(latex).parse()}</math>"


class _Parser:
    def __init__(self, latex: str) -> None:
        self.latex = latex
        self.tokens = _TOKEN.findall(latex)[::-1]  # the next one is at the end

    def parse(self) -> str:
        text = self._row()
        if self.tokens:
            raise ValueError(f"a brace too many in {self.latex!r}")
        return text

    def _peek(self) -> str:
        while self.tokens and self.tokens[-1].isspace():
            self.tokens.pop()
        return self.tokens[-1] if self.tokens else ""

    def _next(self) -> str:
        if not self._peek():
            raise ValueError(f"something is missing at the end of {self.latex!r}")
        return self.tokens.pop()

    def _row(self) -> str:
        parts = []
        while self._peek() not in {"", "}"}:
            parts.append(self._scripted())
        return f"<mrow>{''.join(parts)}</mrow>"

    def _group(self) -> str:
        """Return the next argument: the content of braces, or a single token."""
        if self._peek() != "{":
            return self._atom()
        self.tokens.pop()
        row = self._row()
        if self._next() != "}":
            raise ValueError(f"a brace is missing in {self.latex!r}")
        return row

    def _words(self) -> str:
        """Return the next argument as text, including its spaces."""
        if self._peek() != "{":
            return self._next()
        self.tokens.pop()
        words = ""
        while (token := self.tokens.pop() if self.tokens else "}") != "}":
            words += token
        return words

    def _scripted(self) -> str:
        large = self._peek().removeprefix("\\") in _LARGE
        base = self._number() if self._peek().isdigit() else self._group()
        below = above = ""
        while self._peek() in {"_", "^", "'"}:
            mark = self._next()
            if mark == "_":
                below = self._group()
            else:
                above += '<mo style="font-size:1.2em">′</mo>' if mark == "'" else self._group()
        kinds = ("munder", "mover", "munderover") if large else ("msub", "msup", "msubsup")
        if below and above:
            return f"<{kinds[2]}>{base}{below}<mrow>{above}</mrow></{kinds[2]}>"
        if below:
            return f"<{kinds[0]}>{base}{below}</{kinds[0]}>"
        return f"<{kinds[1]}>{base}<mrow>{above}</mrow></{kinds[1]}>" if above else base

    def _number(self) -> str:
        digits = ""
        while self.tokens and self.tokens[-1].isdigit():
            digits += self.tokens.pop()
        return f"<mn>{digits}</mn>"

    def _atom(self) -> str:
        token = self._next()
        if token.startswith("\\"):
            return self._command(token[1:])
        if token.isalpha():
            return f"<mi>{token}</mi>"
        if token.isdigit():
            return f"<mn>{token}</mn>"  # of "\frac12" each argument takes one digit
        tight = ' lspace="0" rspace="0"' if token in "|:" else ""
        return f'<mo stretchy="false"{tight}>{escape({"-": "−"}.get(token, token))}</mo>'

    def _command(self, name: str) -> str:
        if name in _LETTERS:
            return f"<mi>{_LETTERS[name]}</mi>"
        if name in _OPERATORS:
            return f'<mo stretchy="false">{_OPERATORS[name]}</mo>'
        if name in _LARGE:
            return f'<mo movablelimits="true">{_LARGE[name]}</mo>'
        if name in _SPACES:
            return f'<mspace width="{_SPACES[name]}em"></mspace>'
        if name in _FENCES:
            fence = self._next().removeprefix("\\")
            return f"<mo>{_OPERATORS.get(fence, fence)}</mo>"
        if name == "frac":
            return f"<mfrac>{self._group()}{self._group()}</mfrac>"
        if name == "sqrt":
            return f"<msqrt>{self._group()}</msqrt>"
        if name == "bar":
            return f"<mover>{self._group()}<mo>¯</mo></mover>"
        if name == "mathbf":
            return f'<mi mathvariant="normal" style="font-weight:bold">{self._words()}</mi>'
        if name == "mathcal" and (letter := self._words()) in _SCRIPT:
            return f"<mi>{_SCRIPT[letter]}</mi>"
        if name == "log":
            return "<mi>log</mi>"
        if name in {"mathrm", "text"}:
            return f"<mtext>{escape(self._words())}</mtext>"
        raise ValueError(f"docs/_tools/formulas.py does not know \\{name} in {self.latex!r}")
