"""Every file of the packages is in the wheel, and no other: ``matrix.py`` compares a built wheel, this test the settings."""

import importlib.util
import re
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.release import matrix

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
CACHES = {".pyc", ".nbi", ".nbc"}


def find_unshipped(root, settings):
    """Return the files of the packages that the settings of setuptools leave out."""
    tool = settings["tool"]["setuptools"]
    left = []
    for file in sorted(
        path for top in ("tgp", "tgp_cli") for path in (root / top).rglob("*") if path.is_file()
    ):
        name = file.relative_to(root)
        if file.suffix in CACHES:
            continue
        found = any(fnmatch(name.parts[0], pattern) for pattern in tool["packages"]["find"]["include"])
        if file.suffix == ".py":
            shipped = found and all(
                (root / part / "__init__.py").exists() for part in list(name.parents)[:-1]
            )
        else:
            patterns = tool["package-data"].get(name.parts[0], [])
            shipped = any(name.relative_to(name.parts[0]).match(pattern) for pattern in patterns)
        if not shipped:
            left.append(name.as_posix())
    return left


@pytest.fixture
def settings():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_all_files_of_the_packages_are_shipped(settings):
    assert find_unshipped(ROOT, settings) == []


def test_a_file_that_is_not_shipped_is_found(tmp_path, settings):
    for name in ("tgp/__init__.py", "tgp/a/b.py", "tgp/table.csv", "tgp/py.typed", "tgp/__pycache__/x.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert find_unshipped(tmp_path, settings) == ["tgp/a/b.py", "tgp/table.csv"]


def test_links_of_the_readme_are_absolute_on_a_package_index():
    spec = importlib.util.spec_from_file_location("build_settings", ROOT / "setup.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    text = (ROOT / "README.md").read_text()
    files = {link for link in re.findall(r"\]\(([^)\s]+)\)", text) if (ROOT / link.split("#")[0]).is_file()}
    assert len(files) > 20
    absolute = build.absolute_links(text, "1.2.3")
    assert not any(f"]({link})" in absolute for link in files)
    assert "](https://raw.githubusercontent.com/tgp-coarsen/tgp/v1.2.3/docs/img/gallery.svg)" in absolute
    assert "](https://github.com/tgp-coarsen/tgp/blob/v1.2.3/docs/guide/command-line.md#datasets)" in absolute
    assert build.absolute_links(absolute, "4") == absolute
    assert (
        build.absolute_links("`pooler[0](batch.x)` [a](https://b.c/d.md)", "4")
        == "`pooler[0](batch.x)` [a](https://b.c/d.md)"
    )


def test_packages_contain_no_tests():
    names = [path.name for top in ("tgp", "tgp_cli") for path in (ROOT / top).rglob("*.py")]
    assert [name for name in names if re.match(r"(test_.*|.*_test|conftest)\.py$", name)] == []


def test_the_matrix_covers_all_versions_and_ways(settings):
    classifiers = " ".join(settings["project"]["classifiers"])
    assert list(matrix.VERSIONS) == re.findall(r"Python :: (3\.\d+)", classifiers)
    assert {cell.rpartition("-")[0] for cell in matrix.default_cells()} == set(matrix.WAYS)
    assert all((ROOT / name).exists() for name in matrix.FOLLOWED + matrix.SHIPPED)


def test_requirements_are_shown_with_their_versions(settings):
    names = {re.match(r"[\w]+", text)[0] for text in settings["project"]["dependencies"]}
    assert names >= set(matrix.REQUIREMENTS)


def test_versions_above_the_lowest_are_found(tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        'dependencies = ["torch>=2.5.1", "torch_geometric>=2.6", "numba>=0.60"]'
    )
    lowest = {"torch": "2.5.1+cpu", "torch_geometric": "2.6.0", "numba": "0.60.0"}
    assert matrix.above_lowest(lowest, tmp_path / "pyproject.toml") == {}
    newer = lowest | {"numba": "0.61.0"}
    assert matrix.above_lowest(newer, tmp_path / "pyproject.toml") == {"numba": "0.61.0"}
