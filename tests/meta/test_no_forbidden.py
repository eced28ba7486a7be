"""No compiled torch extensions, no pickles, no private Click, no sizes of tensors as conditions."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(p for folder in ("tgp", "tgp_cli") for p in (ROOT / folder).rglob("*.py"))
EXTENSIONS = {"torch_scatter", "torch_cluster", "torch_sparse", "pyg_lib", "sklearn", "click"}
ALLOWED = {"tgp/imports.py": {"torch_sparse", "torch_cluster", "torch_scatter"}}


def imported(tree: ast.AST) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_no_compiled_extension(path):
    allowed = ALLOWED.get(str(path.relative_to(ROOT)), set())
    assert not (imported(ast.parse(path.read_text())) & EXTENSIONS) - allowed


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_never_unpickles(path):
    if str(path.relative_to(ROOT)) == "tgp/sources/no_code.py":
        return  # puts a harmless reader in place of the function, so it has to name it
    text = path.read_text()
    for forbidden in ("pickle.load", "allow_pickle=True", "weights_only=False"):
        assert forbidden not in text


MODEL_HALF = ("connect", "lift", "mp", "poolers", "reduce", "select", "src", "utils")


def operands(node: ast.expr) -> list[ast.expr]:
    """Return the operands of ``and`` and ``or``, or the expression itself."""
    return [one for part in node.values for one in operands(part)] if isinstance(node, ast.BoolOp) else [node]


def truth_values(tree: ast.AST) -> list[ast.expr]:
    """Return the expressions of which only the truth value is used."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            found += operands(node.test)
        elif isinstance(node, ast.BoolOp):
            found += node.values[:-1]
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            found += operands(node.operand)
    return found


def is_size(node: ast.expr) -> bool:
    """Return True for ``x.numel()``, ``x.size(0)`` and ``x.shape[0]``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ("numel", "size")
    return isinstance(node, ast.Subscript) and getattr(node.value, "attr", None) == "shape"


def test_sizes_of_tensors_are_compared():
    """torch 2.6 compiles ``if x.numel()`` again for every size, but ``if x.numel() > 0`` once."""
    found = []
    for path in MODULES:
        if path.relative_to(ROOT).parts[:1] == ("tgp",) and path.relative_to(ROOT).parts[1] in MODEL_HALF:
            nodes = truth_values(ast.parse(path.read_text()))
            found += [f"{path.relative_to(ROOT)}:{node.lineno}" for node in nodes if is_size(node)]
    assert found == []
