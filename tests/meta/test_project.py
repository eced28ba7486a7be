"""Rules of the repository that ``docs/contributing.md`` states."""

import ast
import re
from pathlib import Path

import tgp

ROOT = Path(__file__).resolve().parents[2]
SHARED = {
    "reference",
    "conformance",
    "fuzz",
    "gpu",
    "habits",
    "compat",
    "paper",
    "docs",
    "examples",
    "meta",
    "release",
    "reliability",
    "benchmarks",
    "cli",
}


def folders(path: Path) -> set[str]:
    return {p.name for p in path.iterdir() if p.is_dir() and any(p.rglob("*.py"))}


def test_test_directories_mirror_packages():
    packages = folders(ROOT / "tgp")
    tests = folders(ROOT / "tests")
    assert tests - packages == SHARED
    assert packages - tests == set(), "a package without tests"


def test_citation_has_the_version_of_the_package():
    assert f"\nversion: {tgp.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"version = {{{tgp.__version__}}}," in (ROOT / "README.md").read_text()


def test_the_newest_section_of_the_changelog_is_that_of_the_version():
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
    assert headings[0] == tgp.__version__


def test_changelog_fragments_have_a_type():
    names = [p.name for p in (ROOT / "docs" / "changes").iterdir() if p.name != "README.md"]
    assert all(re.fullmatch(r"[\w-]+\.(added|changed|fixed|removed)\.md", name) for name in names), names


NOT_GENERIC = {"StreamHandler", "LoggerAdapter"}
"""Classes of the standard library that have no ``Class[...]`` in Python 3.10, the oldest version."""


def generic_bases(source):
    """Return the names of these classes that a source uses as generic bases of classes."""
    bases = [
        base for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef) for base in node.bases
    ]
    names = [ast.unparse(base.value).split(".")[-1] for base in bases if isinstance(base, ast.Subscript)]
    return [name for name in names if name in NOT_GENERIC]


def test_classes_have_bases_of_the_oldest_python():
    assert generic_bases("class A(logging.StreamHandler[Any]): pass") == ["StreamHandler"]
    files = [file for top in ("tgp", "tgp_cli") for file in (ROOT / top).rglob("*.py")]
    assert [file.name for file in files if generic_bases(file.read_text())] == []
