"""Dockerfile and environment.yml agree with the package."""

import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]
SUPPORTED = re.findall(r"Programming Language :: Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())


def instructions():
    """Return the instructions of the Dockerfile as pairs of keyword and arguments."""
    text = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def test_the_image_has_a_supported_python_and_pinned_versions():
    found = dict(instructions())
    assert re.fullmatch(r"python:(3\.\d+)-slim", found["FROM"])[1] in SUPPORTED
    assert any("-c constraints.txt" in arguments for word, arguments in instructions() if word == "RUN")


def test_the_image_runs_the_demo_without_being_root():
    words = [word for word, _ in instructions()]
    assert words.index("USER") < words.index("CMD")
    assert dict(instructions())["CMD"] == '["python", "examples/demo.py"]'


def test_copied_files_exist_and_are_not_ignored():
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for word, arguments in instructions():
        if word == "COPY":
            names = [name for name in arguments.split()[:-1] if not name.startswith("--")]
            assert all((ROOT / name).exists() for name in names), arguments
            assert set(names) <= kept, arguments


def find_unsupported_pins(lines, needed):
    """Return the pinned packages that a supported version of Python cannot install, with that version.

    Args:
        lines: Lines of a file of constraints.
        needed: Function that returns the versions of Python that a pinned release needs, or ``None`` if they are unknown.
    """
    found = []
    for requirement in (Requirement(line) for line in lines if line and not line.startswith("#")):
        for version in SUPPORTED:
            marker = requirement.marker
            applies = marker is None or marker.evaluate({"python_version": version})
            if applies and f"{version}.99" not in SpecifierSet(needed(requirement) or ""):
                found.append(f"{requirement.name} on Python {version}")
    return found


def needed_by_installed(requirement):
    try:
        found = metadata.distribution(requirement.name)
    except metadata.PackageNotFoundError:
        return None
    pinned = requirement.specifier.contains(found.version.partition("+")[0], prereleases=True)
    return found.metadata.get("Requires-Python") if pinned else None


def test_pinned_versions_can_be_installed_on_all_versions_of_python():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert find_unsupported_pins(lines, needed_by_installed) == []


def test_a_pin_for_newer_versions_of_python_is_found():
    lines = ["# note", "a==1", 'b==2; python_version >= "3.11"', "numpy==1"]
    assert find_unsupported_pins(lines, lambda _: ">=3.11") == ["a on Python 3.10", "numpy on Python 3.10"]
    assert find_unsupported_pins(lines, lambda _: None) == []


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="needs hadolint")
def test_the_dockerfile_passes_its_linter():
    assert subprocess.run(["hadolint", ROOT / "Dockerfile"], capture_output=True).stdout == b""


def test_the_conda_environment_installs_this_package_with_pinned_versions():
    content = yaml.safe_load((ROOT / "environment.yml").read_text())
    python = next(item for item in content["dependencies"] if str(item).startswith("python="))
    assert python.partition("=")[2] in SUPPORTED
    (pip,) = (item["pip"] for item in content["dependencies"] if isinstance(item, dict))
    assert pip[0] == "-c constraints.txt" and pip[1].startswith(".")
