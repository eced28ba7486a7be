"""``tgp doctor`` and ``python -m tgp``."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tgp.inspect import doctor
from tgp_cli.main import build_app


def invoke(*words):
    return CliRunner().invoke(build_app(words), words)


def checks():
    return {check.name: check for check in doctor.examine()}


def test_a_sound_installation():
    result = invoke("doctor")
    assert result.exit_code == 0
    for word in (
        "versions",
        "torch",
        "HDF5",
        "cores",
        "memory",
        "compiled kernels",
        "remote protocols",
        "dask",
    ):
        assert word in result.stdout
    report = json.loads(invoke("doctor", "--json").stdout)
    found = {check["name"]: check["value"] for check in report["checks"]}
    assert report["sound"] and found["numba"] == metadata.version("numba") and found["HDF5"][0].isdigit()


def test_nothing_heavy_is_imported():
    code = (
        "import sys\nfrom tgp_cli.main import run\nassert run(['doctor']) == 0\n"
        "assert not {'torch', 'torch_geometric', 'numba', 'dask', 'fsspec'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=600)


def test_a_missing_package_is_an_error(monkeypatch):
    found = metadata.version

    def version(name):
        if name == "numba":
            raise metadata.PackageNotFoundError(name)
        return found(name)

    monkeypatch.setattr(metadata, "version", version)
    result = invoke("doctor")
    assert result.exit_code == 1 and "! numba" in result.stdout and "pip install 'numba>=" in result.stdout
    assert "1 problem found" in result.stdout


def test_an_old_package_is_an_error_and_a_missing_extra_is_not(monkeypatch):
    found = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "1.0+cpu" if name == "torch" else found(name))
    torch = checks()["torch"]
    assert torch.problem and torch.required and "or later is needed" in torch.value

    def version(name):
        if name == "distributed":
            raise metadata.PackageNotFoundError(name)
        return found(name)

    monkeypatch.setattr(metadata, "version", version)
    dask = checks()["distributed (dask)"]
    assert not dask.problem and dask.value == "not installed" and "tgp-coarsen[dask]" in dask.advice
    assert invoke("doctor").exit_code == 0


def test_a_source_tree_without_metadata(monkeypatch):
    def requires(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    assert not checks()["torch"].problem


def test_hdf5_that_cannot_be_loaded(monkeypatch):
    import tgp.store.io.guard as guard

    def broken():
        raise ImportError("libhdf5.so is missing")

    monkeypatch.setattr(guard, "hdf5_version", broken)
    assert checks()["HDF5"].required and "libhdf5.so is missing" in checks()["HDF5"].value
    assert invoke("doctor").exit_code == 1


def test_the_kernel_cache(monkeypatch, tmp_path):
    folder = tmp_path / "kernels_0123"
    folder.mkdir()
    (folder / "matching.match-1.py311.0.nbc").write_bytes(b"x" * 5000)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert "(1 kernel, 5.0 kB)" in checks()["compiled kernels"].value
    monkeypatch.setattr(doctor, "_is_writable", lambda path: False)
    cache = checks()["compiled kernels"]
    assert cache.problem and not cache.required and "NUMBA_CACHE_DIR" in cache.advice
    assert checks()["datasets"].problem


@pytest.mark.parametrize("chosen", [False, True])
def test_the_kernel_cache_is_the_one_that_is_used(chosen, monkeypatch, tmp_path):
    from tgp.kernels import _cache, local_ids

    if chosen:
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
        monkeypatch.setattr(_cache._numba_config, "CACHE_DIR", str(tmp_path))
    used = Path(_cache.KernelCache(local_ids.local_ids).cache_path)
    shown = checks()["compiled kernels"].value.partition(" (")[0]
    assert shown in (doctor.short_path(used), doctor.short_path(used.parent))
    assert not chosen or used.name.startswith("kernels_")


@pytest.mark.skipif(os.name == "nt", reason="HOME is not used")
def test_the_home_directory_is_not_shown(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("TGP_CACHE", raising=False)
    monkeypatch.setenv("TGP_DATA", str(tmp_path / "private"))
    shown = invoke("doctor").stdout
    assert str(tmp_path) not in shown and "~/private" in shown and "~/.cache/tgp" in shown


def test_python_m_tgp(tmp_path):
    words = [
        sys.executable,
        "-m",
        "tgp",
        "coarsen",
        "-d",
        "er:num_graphs=4",
        "-p",
        "nopool",
        "-o",
        tmp_path / "s",
        "-j",
        "2",
    ]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=600, cwd=Path.cwd())
    assert done.returncode == 0, done.stderr
    listed = subprocess.run(
        [sys.executable, "-m", "tgp", "nothing"], capture_output=True, text=True, timeout=60
    )
    assert listed.returncode == 2 and "No such command" in listed.stderr
