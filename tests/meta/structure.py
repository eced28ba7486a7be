"""Measure the structure of the code: ``python -m tests.meta.structure [--walks] [--list]``.

Prints the number of modules and lines, repeated file names, modules with a single importer, the share of functions with
types, and the files and functions that four typical calls pass through. ``--list`` names them. The figures are in
``docs/architecture.md``. It measures the ``tgp`` package that Python imports.
"""

from __future__ import annotations

import argparse
import ast
import os
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FrameType

import tgp

PACKAGE = Path(tgp.__file__).parent


@cache
def modules() -> dict[str, Path]:
    """Return the modules of the package by dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = ("tgp", *path.relative_to(PACKAGE).with_suffix("").parts)
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


@cache
def parse(name: str) -> ast.Module:
    """Return the syntax tree of a module of the package."""
    return ast.parse(modules()[name].read_text())


def importers() -> dict[str, set[str]]:
    """Return, for each module, the modules of the package that import it. Exports of an ``__init__`` do not count."""
    known = modules()
    found: dict[str, set[str]] = {name: set() for name in known}
    for name, path in known.items():
        if path.name == "__init__.py":
            continue
        for node in ast.walk(parse(name)):
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                targets = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            else:
                continue
            for target in targets:
                if target in known and target != name:
                    found[target].add(name)
    return found


def single_importers() -> dict[str, str]:
    """Return the modules that exactly one other module imports, and that module."""
    return {
        name: next(iter(who))
        for name, who in importers().items()
        if len(who) == 1 and modules()[name].name != "__init__.py"
    }


def repeated_names() -> dict[str, list[str]]:
    """Return the file names that occur more than once, with their modules."""
    places = defaultdict(list)
    for name, path in modules().items():
        places[path.name].append(name)
    return {name: found for name, found in places.items() if len(found) > 1 and name != "__init__.py"}


def code_lines(name: str) -> int:
    """Return the number of lines of a module without blank lines, comments and docstrings."""
    lines = modules()[name].read_text().splitlines()
    skipped = {number for number, line in enumerate(lines, 1) if not line.split("#")[0].strip()}
    for node in ast.walk(parse(name)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            skipped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines) - len(skipped)


def functions() -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions and methods of the package."""
    for name in modules():
        for node in ast.walk(parse(name)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node


def is_typed(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True if all arguments of a function and its result have types."""
    given = function.args
    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    untyped = [
        a for a in arguments if a is not None and a.annotation is None and a.arg not in ("self", "cls")
    ]
    return function.returns is not None and not untyped


def measure() -> list[tuple[str, int | str]]:
    """Return the figures that need no run of the code."""
    known = modules()
    typed = Counter(is_typed(function) for function in functions())
    return [
        ("modules", len(known)),
        ("lines", sum(len(path.read_text().splitlines()) for path in known.values())),
        ("lines of code", sum(map(code_lines, known))),
        ("modules with one importer", len(single_importers())),
        ("file names that occur more than once", len(repeated_names())),
        ("functions with types", f"{typed[True] / typed.total():.1%} of {typed.total()}"),
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

    def _record(self, frame: FrameType, event: str, arg: object) -> None:
        code = frame.f_code
        # Comprehensions and lambdas are parts of a function. Only some Python versions run comprehensions as calls.
        if event == "call" and code.co_filename.startswith(str(PACKAGE)) and not code.co_name.startswith("<"):
            name = code.co_qualname if hasattr(code, "co_qualname") else code.co_name
            self.functions.add((str(Path(code.co_filename).relative_to(PACKAGE)), name))

    def __str__(self) -> str:
        return f"{len({file for file, _ in self.functions})} files, {len(self.functions)} functions"


def walks() -> list[tuple[str, Walk]]:
    """Return what four typical calls pass through, after a first call of each has loaded modules and kernels.

    The dataset is MUTAG if ``TGP_TEST_DATA`` names the directory of the datasets.
    """
    import torch

    from tgp.build import CoarsenConfig, coarsen_dataset
    from tgp.data import PoolDataLoader, PooledDataset
    from tgp.poolers import get_pooler

    data = os.environ.get("TGP_TEST_DATA")
    dataset = {"dataset": "MUTAG", "root": data} if data else {"dataset": "molecules:num_graphs=188"}
    rows = []
    with tempfile.TemporaryDirectory() as folder:

        def build(name: str) -> Path:
            out = Path(folder) / name
            coarsen_dataset(CoarsenConfig(out=out, poolers=("ndp,eigen:k=4",), workers=1, **dataset))
            return out

        build("first")
        with Walk() as walk:
            out = build("second")
        rows.append((f"tgp coarsen -p ndp,eigen:k=4 -d {dataset['dataset']}", walk))
        loader = PoolDataLoader(PooledDataset(out), batch_size=32, shuffle=True)
        batches = iter(loader)
        next(batches)
        with Walk() as walk:
            next(batches)
        rows.append(("one batch, warm", walk))
    x, edges = torch.rand(60, 8), torch.randint(0, 20, (2, 200))
    edges = torch.cat([edges, edges + 20, edges + 40], dim=1)
    batch = torch.arange(3).repeat_interleave(20)
    for alias in ("mincut", "mincut_u"):
        pooler = get_pooler(alias, in_channels=8, k=4)
        pooler(x=x, adj=edges, batch=batch)
        with Walk() as walk:
            pooler(x=x, adj=edges, batch=batch)
        rows.append((f"{alias}, forward", walk))
    return rows


def print_lists() -> None:
    """Print the modules with one importer and the repeated file names."""
    print("\nmodules with one importer:")
    for name, importer in sorted(single_importers().items()):
        print(f"  {name} <- {importer}")
    print("\nfile names that occur more than once:")
    for name, places in sorted(repeated_names().items()):
        print(f"  {name}: {', '.join(places)}")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Measure the structure of the code.")
    parser.add_argument(
        "--walks", action="store_true", help="also run four calls and count what they pass through"
    )
    parser.add_argument("--list", action="store_true", help="also name what is counted")
    arguments = parser.parse_args()
    walked = walks() if arguments.walks else []
    for name, value in [*measure(), *walked]:
        print(f"{name}: {value}")
    if arguments.list:
        print_lists()
        for call, walk in walked:
            print(f"\n{call}:")
            for file, function in sorted(walk.functions):
                print(f"  {file} {function}")


if __name__ == "__main__":
    main()
