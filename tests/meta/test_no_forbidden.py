"""No compiled torch extensions, no pickles, no private Click."""

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
