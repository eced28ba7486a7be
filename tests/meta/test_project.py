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
    assert f"version = {{{tgp.__version__}}}," in (ROOT / "README.md").read_text()


def test_the_newest_section_of_the_changelog_is_that_of_the_version():
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
    assert headings[0] == tgp.__version__


def test_changelog_fragments_have_a_type():
    names = [p.name for p in (ROOT / "docs" / "changes").iterdir() if p.name != "README.md"]
    assert all(re.fullmatch(r"[\w-]+\.(added|changed|fixed|removed)\.md", name) for name in names), names
