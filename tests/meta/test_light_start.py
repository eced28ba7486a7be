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
