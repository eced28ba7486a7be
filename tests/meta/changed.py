"""Run the tests of changed packages: ``python -m tests.meta.changed [REVISION]`` (``make quick``).

A change in ``tgp/store`` selects ``tests/store``; a changed test file selects itself. Slow tests are left out, and
hypothesis draws fewer examples.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ALWAYS = ["tests/meta"]
OTHER = {
    "tgp_cli": "tests/cli",
    "docs": "tests/docs",
    "examples": "tests/examples",
    "README.md": "tests/docs",
}


def changed_files(revision: str = "HEAD") -> list[str]:
    """Return the files that differ from ``revision`` in the working tree, and untracked files."""
    lines: list[str] = []
    for command in (["diff", "--name-only", revision], ["ls-files", "--others", "--exclude-standard"]):
        done = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True)
        lines += done.stdout.splitlines()
    return lines


def select_tests(files: list[str]) -> list[str]:
    """Return the test files and directories that belong to changed files.

    Args:
        files: Changed files, relative to the root of the repository.
    """
    chosen = set(ALWAYS)
    for name in files:
        path = Path(name)
        if path.parts[0] == "tests" and path.suffix == ".py":
            chosen.add(name if path.name.startswith("test_") else str(path.parent))
        elif path.parts[0] == "tgp" and len(path.parts) > 2:
            chosen.add(f"tests/{path.parts[1]}")
        elif path.parts[0] in OTHER:
            chosen.add(OTHER[path.parts[0]])
    existing = sorted(name for name in chosen if (ROOT / name).exists())
    # A directory includes the files below it.
    return [name for name in existing if not any(name.startswith(f"{other}/") for other in existing)]


def main() -> int:
    """Run pytest on the selected tests and return its exit status."""
    tests = select_tests(changed_files(*sys.argv[1:2]))
    print("tests:", " ".join(tests), flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "-m", "not slow", *tests]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "HYPOTHESIS_PROFILE": "quick"}).returncode


if __name__ == "__main__":
    sys.exit(main())
