"""Formulas of docstrings become MathML."""

import ast
import re
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROLE = re.compile(r":math:`([^`]+)`")
BLOCK = re.compile(r"^\.\. math::[ ]*(.*)\n((?:[ ]+.*\n?|[ ]*\n)*)", flags=re.M)


@pytest.fixture(scope="module")
def to_mathml(tool):
    return tool("formulas").to_mathml


def formulas():
    for path in sorted((ROOT / "tgp").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                text = re.sub(
                    r"^ *(?:>>>|\.\.\.) .*$", "", node.value.value, flags=re.M
                )  # code is kept as it is
                text = textwrap.dedent("    " + text)
                yield from ROLE.findall(text)
                yield from (" ".join(f"{first} {rest}".split()) for first, rest in BLOCK.findall(text))


def test_every_formula_of_the_docstrings(to_mathml):
    found = set(formulas())
    assert len(found) > 60
    for latex in found:
        tree = ElementTree.fromstring(to_mathml(latex))
        assert "\\" not in "".join(tree.itertext()), latex


def drawn(text):
    """The formula as one line: ``a_b`` for scripts, ``a/b`` for fractions."""
    join = {"msub": "_", "msup": "^", "mfrac": "/", "munder": "_", "msubsup": "|", "munderover": "|"}

    def walk(node):
        parts = [walk(child) for child in node]
        return (node.text or "") + join.get(node.tag, "").join(parts)

    return walk(ElementTree.fromstring(text))


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        (r"\mathbf{A}' = \mathbf{S}^\top \mathbf{A} \mathbf{S}", "A^′=S^⊤AS"),
        (r"\frac12\sum_{l<c} v_l", "1/2∑_l<cv_l"),
        (r"\frac{1}{2m}\sqrt{NK}", "1/2mNK"),
        (r"\mathbf{L}_{QQ}^{-1}", "L|QQ|−1"),
        (r"\text{rows of } \mathrm{Tr}", "rows of Tr"),
        (r"\max_j h_j \ge 10", "max_jh_j≥10"),
    ],
)
def test_shapes(to_mathml, latex, expected):
    assert drawn(to_mathml(latex)) == expected


@pytest.mark.parametrize("latex", [r"\foo", r"\mathcal{Q}", "x}", "{x", r"\frac{1}", "x_"])
def test_what_is_not_known_is_refused(to_mathml, latex):
    with pytest.raises(ValueError, match=r"."):
        to_mathml(latex)
