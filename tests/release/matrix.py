"""Install the package in fresh environments and follow the README there.

    python -m tests.release.matrix                       # all cells that have not passed
    python -m tests.release.matrix --only wheel-3.12 --again

Each cell makes a new environment, installs the package in one way, and runs the README, the demo, the examples and the notebooks
in a folder that has no source of the package. Interpreters are looked up in the folder of pyenv and as ``python3.X`` on the path.
A cell without an interpreter is listed as not run. Results are kept in a file: the next call continues with the cells that have
not passed with the same package. ``docs/install.md`` shows the file as a table (``docs/_tools/release_tables.py``).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).with_name("results.json")
VERSIONS = ("3.10", "3.11", "3.12", "3.13")
WAYS = ("wheel", "sdist", "clone", "editable", "lowest", "image")
"""Ways to install: ``clone`` is ``pip install .``, ``lowest`` has the oldest allowed versions of all direct requirements, and
``image`` repeats the steps of the Dockerfile with the files that it copies."""

SHORT = ("sdist", "clone", "image", "editable")
"""Ways that repeat the README and the demo, but not all examples: their files must be those of the wheel. The test suite
runs in an editable installation."""

SHIPPED = ("tgp", "tgp_cli", "pyproject.toml", "setup.py")
FOLLOWED = (
    "README.md", "CHANGELOG.md", "pyproject.toml", "LICENSE", "Makefile", "Dockerfile", "environment.yml", "constraints.txt",
    "docs", "examples", "tests",
)  # fmt: skip
"""Files of the package, and files that a cell copies into its folder."""

REQUIREMENTS = ("torch", "torch_geometric", "numpy", "scipy", "numba", "h5py", "typer", "rich")
FACTS = f"""
import hashlib, json, platform, tgp
from importlib import metadata
files = [f for f in metadata.files("tgp-coarsen") if f.parts[0] in ("tgp", "tgp_cli") and f.suffix != ".pyc"]
digests = sorted((str(f), hashlib.sha256(f.locate().read_bytes()).hexdigest()) for f in files)
print(json.dumps({{
    "place": tgp.__file__,
    "python": platform.python_version(),
    "files": hashlib.sha256(json.dumps(digests).encode()).hexdigest(),
    "versions": {{name: metadata.version(name) for name in {REQUIREMENTS}}},
}}))
"""
"""Program that prints where the package is installed, a digest of its files, and the versions of its requirements."""


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
        tail = (done.stdout + done.stderr).strip().splitlines()[-25:]
        raise RuntimeError(f"{' '.join(map(str, command))}: exit {done.returncode}\n" + "\n".join(tail))
    return done.stdout


def package_id() -> str:
    """Return a digest of the committed files that an installation depends on."""
    trees = call(["git", "-C", ROOT, "rev-parse", *(f"HEAD:{name}" for name in SHIPPED)])
    return hashlib.sha256(trees.encode()).hexdigest()[:12]


def build(clone: Path, dist: Path) -> None:
    """Build wheel and sdist, and check them as the package index does."""
    with tempfile.TemporaryDirectory(prefix="tgp-tools-") as name:
        call([sys.executable, "-m", "venv", name])
        python = Path(name) / "bin" / "python"
        call([python, "-m", "pip", "install", "--quiet", "build", "twine"])
        call([python, "-m", "build", "--outdir", dist, clone])
        call([python, "-m", "twine", "check", "--strict", *dist.iterdir()])


def describe(dist: Path) -> dict[str, Any]:
    """Return sizes and contents of the built files."""
    (wheel,) = dist.glob("*.whl")
    (sdist,) = dist.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = sorted(archive.namelist())
        shipped = [name for name in names if name.startswith(("tgp/", "tgp_cli/"))]
        digests = [(name, hashlib.sha256(archive.read(name)).hexdigest()) for name in shipped]
        (about,) = (archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
    tracked = set(call(["git", "-C", ROOT, "ls-files", "tgp", "tgp_cli"]).splitlines())
    strange = [name for name in names if name not in tracked and ".dist-info/" not in name]
    return {
        "wheel": {"name": wheel.name, "bytes": wheel.stat().st_size, "files": len(names)},
        "sdist": {"name": sdist.name, "bytes": sdist.stat().st_size},
        "leftovers": strange,
        "missing": sorted(tracked - set(names)),
        "relative links": sorted(set(re.findall(r"\]\(((?:docs/|\w+\.md|CITATION)[^)]*)\)", about))),
        "digest": hashlib.sha256(json.dumps(digests).encode()).hexdigest(),
    }


def install(way: str, python: str, env: Path, clone: Path, dist: Path) -> str:
    """Make an environment, install the package, and return its interpreter."""
    call([python, "-m", "venv", env])
    found = str(env / "bin" / "python")
    pip = [found, "-m", "pip", "install", "--quiet", "-c", clone / "constraints.txt"]
    call([found, "-m", "pip", "install", "--quiet", "--upgrade", "pip"])
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    if way == "lowest":
        # uv takes only requirements of the project itself as direct ones, not those of a wheel.
        call([found, "-m", "pip", "install", "--quiet", "uv"])
        uv, pins = [env / "bin" / "uv", "pip"], env / "lowest.txt"
        lowest = ["--resolution", "lowest-direct", "--extra", "test", "--python", found]
        call([*uv, "compile", "--quiet", *lowest, clone / "pyproject.toml", "--output-file", pins])
        call([*uv, "install", "--quiet", "--python", env, "-r", pins, wheel])
    elif way == "editable":
        call([*pip, "-e", f"{clone}[test]"])
    elif way == "image":
        image = env.parent / "image"
        image.mkdir()
        for line in re.findall(r"^COPY (?!--)(.*) \S+$", (clone / "Dockerfile").read_text(), re.M):
            for name in line.split():
                copy = shutil.copytree if (clone / name).is_dir() else shutil.copy
                copy(clone / name, image / name)
        call([*pip, f"{image}[plot]"])
    else:
        call([*pip, f"{ {'wheel': wheel, 'sdist': sdist, 'clone': clone}[way] }[test]"])
    call([found, "-m", "pip", "check"])
    return found


def steps(way: str, python: str) -> Iterator[tuple[str, list[Any]]]:
    """Yield the commands of a cell with their names."""
    tgp = Path(python).parent / "tgp"
    if way == "image":
        yield "warmup", [tgp, "warmup"]
    yield "start", [tgp, "--version"]
    yield "first hierarchy", [tgp, "coarsen", "--pooler", "graclus*3", "--pooler", "ndp,ndp", "--quiet"]
    yield "report", [tgp, "report", "pooled/molecules", "-o", "report.html"]
    yield "demo", [python, "examples/demo.py"]
    if way == "image":  # it has no pytest
        return
    pytest = [python, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    yield "README", [*pytest, "tests/docs/test_snippets.py", "-k", "README"]
    if way not in SHORT:
        yield (
            "examples, notebooks",
            [*pytest, "tests/examples/test_examples.py", "tests/examples/test_notebooks.py"],
        )


def above_lowest(versions: dict[str, str], project: Path) -> dict[str, str]:
    """Return the versions that are not the lowest ones that a ``pyproject.toml`` allows."""
    bounds = dict(re.findall(r'"([\w]+)>=([\d.]+)', project.read_text()))
    numbers = {name: version.partition("+")[0] for name, version in versions.items()}
    return {
        name: version
        for name, version in numbers.items()
        if f"{version}.0.0".split(".")[:3] != f"{bounds[name]}.0.0".split(".")[:3]
    }


def follow(way: str, python: str, folder: Path, clone: Path, built: dict[str, Any]) -> dict[str, Any]:
    """Follow the README in a folder without the source, and return versions and seconds."""
    for name in FOLLOWED:
        source = clone / name
        if source.is_dir():
            shutil.copytree(source, folder / name)
        else:
            shutil.copy(source, folder)
    removed = ("PYTHONPATH", "NUMBA_CACHE_DIR")
    options: dict[str, Any] = {
        "cwd": folder,
        "env": {key: value for key, value in os.environ.items() if key not in removed},
    }
    options["env"]["TMPDIR"] = str(folder.parent / "temporary")
    (folder.parent / "temporary").mkdir()
    facts: dict[str, Any] = json.loads(call([python, "-c", FACTS], **options))
    inside = Path(facts.pop("place")).is_relative_to(Path(python).parents[1])
    if inside is (way == "editable"):
        raise RuntimeError("the package was not imported from the place where it was installed")
    if facts.pop("files") != built["digest"] and way != "editable":
        raise RuntimeError("the installed files are not those of the wheel")
    if way == "lowest" and (higher := above_lowest(facts["versions"], clone / "pyproject.toml")):
        raise RuntimeError(f"not the lowest versions: {higher}")
    facts["steps"] = {}
    for step, command in steps(way, python):
        started = time.perf_counter()
        printed = call(command, **options).strip()
        last = printed.splitlines()[-1] if printed else ""
        facts["steps"][step] = {
            "seconds": round(time.perf_counter() - started, 1),
            "last": last.replace(f"{folder.parent}{os.sep}", ""),
        }
    return facts


def run_cell(cell: str, clone: Path, dist: Path, built: dict[str, Any]) -> dict[str, Any]:
    """Return the outcome of a cell."""
    way, _, version = cell.rpartition("-")
    python = find_python(version)
    if python is None:
        return {"outcome": "not run", "reason": f"no Python {version} on this machine"}
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="tgp-matrix-") as name:
        folder = Path(name)
        (folder / "work").mkdir()
        try:
            found = install(way, python, folder / "env", clone, dist)
            installed = round(time.perf_counter() - started)
            facts = follow(way, found, folder / "work", clone, built)
            outcome = {"outcome": "passed", "install seconds": installed, **facts}
        except RuntimeError as error:
            text = str(error).replace(f"{folder}{os.sep}", "").replace(f"{clone}{os.sep}", "")
            outcome = {"outcome": "failed", "reason": text}
    return {
        **outcome,
        "seconds": round(time.perf_counter() - started),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def main() -> None:
    """Run the cells that have not passed with the committed package."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="file of results")
    parser.add_argument("--dist", type=Path, default=ROOT / "build" / "release", help="folder of built files")
    parser.add_argument("--only", nargs="+", default=default_cells(), help="cells such as wheel-3.12")
    parser.add_argument("--again", action="store_true", help="also run cells that have passed")
    options = parser.parse_args()
    package = package_id()
    results = json.loads(options.out.read_text()) if options.out.exists() else {"cells": {}}
    with tempfile.TemporaryDirectory(prefix="tgp-clone-") as name:
        clone, dist = Path(name) / "clone", options.dist / package
        call(["git", "clone", "--quiet", ROOT, clone])
        if not dist.exists():
            build(clone, dist)
        built = results["build"] = {"package": package, **describe(dist)}
        print(json.dumps(built, indent=2))
        for cell in options.only:
            known = results["cells"].get(cell, {})
            if options.again or known.get("outcome") != "passed" or known.get("package") != package:
                results["cells"][cell] = {**run_cell(cell, clone, dist, built), "package": package}
                options.out.write_text(json.dumps(results, indent=1) + "\n")
            print(cell, json.dumps(results["cells"][cell]), flush=True)
    wrong = [cell for cell, found in results["cells"].items() if found["outcome"] == "failed"]
    faults = {name: built[name] for name in ("leftovers", "missing", "relative links") if built[name]}
    if wrong or faults:
        raise SystemExit(f"failed: {wrong}, {faults}")


if __name__ == "__main__":
    main()
