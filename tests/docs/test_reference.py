"""The generated pages are those of today's code."""

import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_reference_is_up_to_date():
    words = [sys.executable, str(ROOT / "docs/_tools/reference.py"), "--check"]
    done = subprocess.run(
        words, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nrun: python docs/_tools/reference.py"


PACKAGES = (
    "poolers", "src", "select", "reduce", "connect", "lift", "mp", "data", "datasets", "sources", "build",
    "inspect", "inspect.report", "inspect.plot", "engine", "ragged", "store", "utils",
)  # fmt: skip


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_class_and_function_is_on_a_page(package):
    pages = "".join(page.read_text() for page in (ROOT / "docs/reference/api").glob("*.md"))
    modules = set(re.findall(r"^::: (\S+)$", pages, flags=re.M))
    found = importlib.import_module(f"tgp.{package}")
    names = found.pooler_classes if package == "poolers" else getattr(found, "__all__", [])
    homes = {}
    for name in names:
        thing = getattr(found, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            homes[name] = thing.__module__
    assert homes
    # A page shows what its module defines, and what it names in __all__.
    shown = {name for module in modules for name in getattr(importlib.import_module(module), "__all__", [])}
    assert {name: home for name, home in homes.items() if home not in modules and name not in shown} == {}
