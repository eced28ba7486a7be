"""Importing the package and asking for help must not load torch, numba or HDF5."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "torch_geometric", "numba", "h5py", "scipy")


def loaded_after(code: str) -> set[str]:
    probe = f"{code}\nimport sys\nprint(','.join(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    return (
        set(filter(None, done.stdout.strip().splitlines()[-1].split(","))) if done.stdout.strip() else set()
    )


@pytest.mark.parametrize(
    "code",
    [
        "import tgp, tgp_cli.main",
        "import tgp.poolers; tgp.poolers.pooler_classes",
        "import tgp.engine; from tgp.engine.methods import METHODS; list(METHODS)",
        "import tgp; dir(tgp); tgp.errors",
        "import tgp; dir(tgp.datasets); tgp.datasets.dataset_classes",
    ],
)
def test_import_is_light(code):
    assert loaded_after(code) == set()


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import tgp; tgp.store", {"torch", "numba"}),
        ("from tgp.engine import parse_schedule; parse_schedule('graclus*2')", {"torch", "numba"}),
        ("import tgp.engine.coarsening, tgp.kernels.contract", {"torch", "torch_geometric"}),
    ],
)
def test_engine_and_store_stay_torch_free(code, absent):
    assert not loaded_after(code) & absent


def test_optional_packages_are_imported_on_first_access(tmp_path):
    """tgp uses neither of these extensions. PyG imports them if they are installed, so it is not loaded here."""
    for name in ("torch_cluster", "torch_scatter"):
        (tmp_path / f"{name}.py").write_text("")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import tgp.imports\n"
        "loaded = {'torch_cluster', 'torch_scatter'} & set(sys.modules)\n"
        "assert loaded == set(), loaded\n"
        "assert tgp.imports.HAS_TORCH_CLUSTER and tgp.imports.torch_cluster is sys.modules['torch_cluster']"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
