"""Rules of the repository that ``docs/contributing.md`` states."""

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


def test_changelog_fragments_have_a_type():
    names = [p.name for p in (ROOT / "docs" / "changes").iterdir()]
    assert all(re.fullmatch(r"[\w-]+\.(added|changed|fixed|removed)\.md", name) for name in names), names
