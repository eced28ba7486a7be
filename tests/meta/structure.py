"""Measure the structure of the code: ``python -m tests.meta.structure [--walks]``.

Prints the number of modules and lines, repeated file names, types that stand for a level, modules with a single
importer, and the files and functions that three typical calls pass through. The figures are in
``docs/architecture.md``. It measures the ``tgp`` package that Python imports.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path

import tgp

PACKAGE = Path(tgp.__file__).parent


def modules() -> dict[str, Path]:
    """Return the modules of the package by dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = ("tgp", *path.relative_to(PACKAGE).with_suffix("").parts)
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def importers() -> dict[str, set[str]]:
    """Return, for each module, the modules of the package that import it."""
    known = modules()
    found: dict[str, set[str]] = {name: set() for name in known}
    for name, path in known.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                targets = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            else:
                continue
            for target in targets:
                if target in known and target != name and known[name].name != "__init__.py":
                    found[target].add(name)
    return found


def count_docstring_openings() -> int:
    """Return the number of docstrings that begin with What, Where, How, Whether or Told."""
    count = 0
    for path in modules().values():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node) or ""
                count += bool(re.match(r"(What|Where|How|Whether|Told)\b", text))
    return count


def code_lines(source: str) -> int:
    """Return the number of lines without blank lines, comments and docstrings."""
    skipped = {number for number, line in enumerate(source.splitlines(), 1) if not line.split("#")[0].strip()}
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            skipped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(source.splitlines()) - len(skipped)


def measure() -> list[tuple[str, int]]:
    """Return the figures that need no run of the code."""
    known = modules()
    stems = Counter(path.stem for path in known.values() if path.stem != "__init__")
    levels = {
        node.name
        for path in known.values()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and "Level" in node.name
    }
    lines = sum(len(path.read_text().splitlines()) for path in known.values())
    single = [
        name for name, who in importers().items() if len(who) == 1 and known[name].name != "__init__.py"
    ]
    offsets = sum(len(re.findall(r"def _?offsets\(", path.read_text())) for path in known.values())
    return [
        ("modules", len(known)),
        ("lines", lines),
        ("lines of code", sum(code_lines(path.read_text()) for path in known.values())),
        ("file names that occur more than once", sum(count > 1 for count in stems.values())),
        ("classes with 'Level' in their name", len(levels)),
        ("modules with one importer", len(single)),
        ("definitions of offsets()", offsets),
        ("docstrings that begin with What/Where/How/Whether/Told", count_docstring_openings()),
    ]


class Walk:
    """Record the files and functions of the package that are called inside a ``with`` block."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, str]] = set()

    def __enter__(self) -> Walk:
        threading.setprofile(self._record)
        sys.setprofile(self._record)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]

    def _record(self, frame, event, arg) -> None:  # type: ignore[no-untyped-def]
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)) and code.co_name != "<module>":
            self.functions.add(
                (code.co_filename, code.co_qualname if hasattr(code, "co_qualname") else code.co_name)
            )

    def __str__(self) -> str:
        return f"{len({file for file, _ in self.functions})} files, {len(self.functions)} functions"


def walks() -> list[tuple[str, str]]:
    """Return the files and functions that three typical calls pass through, after a first call has warmed up."""
    import torch

    from tgp.build import CoarsenConfig, coarsen_dataset
    from tgp.data import PoolDataLoader, PooledDataset
    from tgp.poolers import get_pooler

    rows = []
    with tempfile.TemporaryDirectory() as folder:

        def build(name: str) -> Path:
            out = Path(folder) / name
            coarsen_dataset(
                CoarsenConfig("molecules:num_graphs=188", out=out, poolers=("ndp,eigen:k=4",), workers=1)
            )
            return out

        build("first")
        with Walk() as walk:
            out = build("second")
        rows.append(("tgp coarsen ndp,eigen:k=4", str(walk)))
        loader = PoolDataLoader(PooledDataset(out), batch_size=32, shuffle=True)
        batches = iter(loader)
        next(batches)
        with Walk() as walk:
            next(batches)
        rows.append(("one batch, warm", str(walk)))
    x, edges = torch.rand(60, 8), torch.randint(0, 20, (2, 200))
    edges = torch.cat([edges, edges + 20, edges + 40], dim=1)
    batch = torch.arange(3).repeat_interleave(20)
    for alias in ("mincut", "mincut_u"):
        pooler = get_pooler(alias, in_channels=8, k=4)
        pooler(x=x, adj=edges, batch=batch)
        with Walk() as walk:
            pooler(x=x, adj=edges, batch=batch)
        rows.append((f"{alias}, forward", str(walk)))
    return rows


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Measure the structure of the code.")
    parser.add_argument(
        "--walks", action="store_true", help="also run three calls and count what they pass through"
    )
    for name, value in [*measure(), *(walks() if parser.parse_args().walks else [])]:
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
