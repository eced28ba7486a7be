"""Print docstrings chosen at random, to read them as a stranger would: ``python -m tests.meta.docstrings --seed 1``."""

from __future__ import annotations

import argparse
import ast
import random
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def docstrings() -> list[tuple[str, str]]:
    """Return the place and the text of every docstring that ships."""
    found = []
    for folder in ("tgp", "tgp_cli"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                    text = ast.get_docstring(node)
                    if text:
                        name = getattr(node, "name", "")
                        found.append((f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)} {name}", text))
    return found


def main() -> None:
    """Print the chosen docstrings."""
    parser = argparse.ArgumentParser(description="Print docstrings chosen at random.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=50)
    arguments = parser.parse_args()
    for place, text in random.Random(arguments.seed).sample(docstrings(), arguments.count):
        print(f"--- {place}\n{text}\n")


if __name__ == "__main__":
    main()
