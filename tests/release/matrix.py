"""Install the package in fresh environments and follow the README there.

    python -m tests.release.matrix --out matrix.json
    python -m tests.release.matrix --only wheel-3.12

Each cell makes a new environment, installs the package in one way, and runs the code blocks of the README, the examples and the
notebooks in a folder that has no source of the package. Interpreters are looked up as ``python3.X`` on the path and in the folder
of pyenv. A cell without an interpreter is listed as not run. Finished cells of the same commit are kept in the file of results.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("3.10", "3.11", "3.12", "3.13")
WAYS = ("wheel", "sdist", "clone", "editable", "lowest", "image")
"""Ways to install: ``clone`` is ``pip install .``, ``lowest`` has the oldest allowed versions of all direct requirements, and
``image`` repeats the steps of the Dockerfile with the files that it copies."""

TESTS = ["tests/docs/test_snippets.py", "-k", "README"]
EXAMPLES = ["tests/examples/test_examples.py", "tests/examples/test_notebooks.py"]


def default_cells() -> list[str]:
    """Return all cells: the wheel with every version of Python, the other ways with one."""
    return [f"wheel-{version}" for version in VERSIONS] + [f"{way}-3.11" for way in WAYS[1:]]


def find_python(version: str) -> str | None:
    """Return an interpreter of this version, or ``None``."""
    homes = sorted(
        Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(f"versions/{version}.*/bin/python")
    )
    return str(homes[-1]) if homes else shutil.which(f"python{version}")


def call(command: list[Any], **options: Any) -> str:
    """Run a command and return what it prints."""
    done = subprocess.run(
        [str(part) for part in command], text=True, capture_output=True, check=False, **options
    )
    if done.returncode:
        tail = (done.stdout + done.stderr).strip().splitlines()[-15:]
        raise RuntimeError(f"{' '.join(map(str, command))}: exit {done.returncode}\n" + "\n".join(tail))
    return done.stdout


def build(clone: Path, dist: Path) -> dict[str, Any]:
    """Build wheel and sdist, check them, and return what they contain."""
    call([sys.executable, "-m", "pip", "install", "--quiet", "build", "twine"])
    call([sys.executable, "-m", "build", "--outdir", dist, clone])
    checked = call([sys.executable, "-m", "twine", "check", "--strict", *dist.iterdir()])
    (wheel,) = dist.glob("*.whl")
    (sdist,) = dist.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    strange = [n for n in names if not n.startswith(("tgp/", "tgp_cli/")) and ".dist-info/" not in n]
    strange += [
        n for n in names if "test_" in n or "__pycache__" in n or n.endswith((".pyc", ".nbi", ".nbc", ".so"))
    ]
    return {
        "wheel": {
            "name": wheel.name,
            "bytes": wheel.stat().st_size,
            "files": len(names),
            "leftovers": strange,
        },
        "sdist": {"name": sdist.name, "bytes": sdist.stat().st_size},
        "twine": checked.count("PASSED"),
    }


def install(way: str, python: str, env: Path, clone: Path, dist: Path) -> str:
    """Make an environment, install the package, and return its interpreter."""
    call([python, "-m", "venv", env])
    found = str(env / "bin" / "python")
    pip = [found, "-m", "pip", "install", "--quiet", "-c", clone / "constraints.txt"]
    call([found, "-m", "pip", "install", "--quiet", "--upgrade", "pip"])
    if way == "lowest":
        (wheel,) = dist.glob("*.whl")
        call([found, "-m", "pip", "install", "--quiet", "uv"])
        call(
            [
                env / "bin" / "uv",
                "pip",
                "install",
                "--quiet",
                "--python",
                env,
                "--resolution",
                "lowest-direct",
                f"{wheel}[test]",
            ]
        )
        return found
    targets = {
        "wheel": next(iter(dist.glob("*.whl"))),
        "sdist": next(iter(dist.glob("*.tar.gz"))),
        "clone": clone,
    }
    if way == "editable":
        call([*pip, "-e", f"{clone}[test]"])
    elif way == "image":
        image = env.parent / "image"
        image.mkdir()
        for name in ("pyproject.toml", "constraints.txt", "README.md", "LICENSE"):
            shutil.copy(clone / name, image)
        for name in ("tgp", "tgp_cli"):
            shutil.copytree(clone / name, image / name)
        call([*pip, f"{image}[plot]"])
    else:
        call([*pip, f"{targets[way]}[test]"])
    return found


def follow(way: str, python: str, folder: Path, clone: Path) -> dict[str, Any]:
    """Follow the README in a folder without the source, and return seconds and figures."""
    for name in (
        "README.md",
        "pyproject.toml",
        "LICENSE",
        "Makefile",
        "Dockerfile",
        "environment.yml",
        "constraints.txt",
    ):
        if (clone / name).exists():
            shutil.copy(clone / name, folder)
    for name in ("docs", "examples", "tests"):
        shutil.copytree(clone / name, folder / name)
    options: dict[str, Any] = {"cwd": folder, "env": os.environ | {"PYTHONPATH": "", "NUMBA_CACHE_DIR": ""}}
    options["env"] = {k: v for k, v in options["env"].items() if v and k != "PYTHONPATH"}
    place = call(
        [python, "-c", "import tgp, sys; print(tgp.__file__, tgp.__version__, sys.version.split()[0])"],
        **options,
    )
    if way != "editable" and str(folder) in place.split()[0]:
        raise RuntimeError(f"the package was imported from the source: {place}")
    facts: dict[str, Any] = {"imported": place.split()[1], "python": place.split()[2]}
    tgp = Path(python).parent / "tgp"
    steps: dict[str, list[Any]] = {
        "start": [tgp, "--version"],
        "first hierarchy": [tgp, "coarsen", "--pooler", "graclus*3", "--pooler", "ndp,ndp", "--quiet"],
        "report": [tgp, "report", "pooled/molecules", "-o", "report.html"],
        "demo": [python, "examples/demo.py"],
    }
    if way != "image":
        pytest = [python, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"]
        steps |= {"README": [*pytest, *TESTS], "examples, notebooks": [*pytest, *EXAMPLES]}
    for step, command in steps.items():
        started = time.perf_counter()
        printed = call(command, **options)
        last = printed.strip().splitlines()[-1] if printed.strip() else ""
        facts[step] = {"seconds": round(time.perf_counter() - started, 1), "last": last}
    return facts


def run_cell(cell: str, clone: Path, dist: Path) -> dict[str, Any]:
    """Return the outcome of a cell."""
    way, _, version = cell.rpartition("-")
    python = find_python(version)
    if python is None:
        return {"outcome": "not run", "reason": f"no Python {version} on this machine"}
    with tempfile.TemporaryDirectory(prefix="tgp-matrix-") as name:
        folder = Path(name)
        (folder / "work").mkdir()
        try:
            found = install(way, python, folder / "env", clone, dist)
            return {"outcome": "passed", **follow(way, found, folder / "work", clone)}
        except RuntimeError as error:
            return {"outcome": "failed", "reason": str(error)}


def main() -> None:
    """Run the cells that are missing in the file of results."""
    parser = argparse.ArgumentParser(
        description="Install the package in fresh environments and follow the README there."
    )
    parser.add_argument("--out", type=Path, default=Path("matrix.json"), help="file of results")
    parser.add_argument("--only", nargs="+", default=default_cells(), help="cells such as wheel-3.12")
    options = parser.parse_args()
    commit = call(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"]).strip()
    results = json.loads(options.out.read_text()) if options.out.exists() else {}
    if results.get("commit") != commit:
        results = {"commit": commit, "cells": {}}
    with tempfile.TemporaryDirectory(prefix="tgp-clone-") as name:
        clone, dist = Path(name) / "clone", Path(name) / "dist"
        call(["git", "clone", "--quiet", ROOT, clone])
        results["build"] = build(clone, dist)
        print(json.dumps(results["build"], indent=2))
        for cell in options.only:
            if results["cells"].get(cell, {}).get("outcome") != "passed":
                started = time.perf_counter()
                results["cells"][cell] = run_cell(cell, clone, dist) | {
                    "seconds": round(time.perf_counter() - started)
                }
                options.out.write_text(json.dumps(results, indent=2) + "\n")
            print(cell, json.dumps(results["cells"][cell]), flush=True)
    if any(found["outcome"] == "failed" for found in results["cells"].values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
