"""Small modules, small functions: caps that keep the code readable."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(p for folder in ("tgp", "tgp_cli") for p in (ROOT / folder).rglob("*.py"))
MAX_MODULE = 400
MAX_FUNCTION = 60
MAX_KERNEL = 120


def functions(tree: ast.AST):
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def code_lines(node: ast.FunctionDef) -> int:
    """Lines of a function without its docstring."""
    lines = node.end_lineno - node.lineno + 1
    first = node.body[0]
    if (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    ):
        lines -= first.end_lineno - first.lineno + 1
    return lines


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_module_and_function_sizes(path):
    text = path.read_text()
    assert len(text.splitlines()) <= MAX_MODULE
    cap = MAX_KERNEL if "kernels" in path.parts else MAX_FUNCTION
    long = {f.name: code_lines(f) for f in functions(ast.parse(text)) if code_lines(f) > cap}
    assert not long, f"functions over {cap} lines"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_module_says_what_it_is_for(path):
    assert ast.get_docstring(ast.parse(path.read_text())), "a module needs a docstring"
