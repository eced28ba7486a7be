"""Another package runs all checks with one short test."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

TEST = """
import pytest
from tgp.testing import method_checks, pooler_checks


@pytest.mark.parametrize("check", [*pooler_checks("norm", temperature=1.0, slow=False), *method_checks("chunks"), *method_checks("soft")], ids=str)
def test_conformance(check):
    check()
"""

BROKEN = """
import pytest
from tgp.testing import pooler_checks


@pytest.mark.parametrize("check", pooler_checks("broken", only=["shapes", "modes_agree"]), ids=str)
def test_conformance(check):
    check()
"""


def run_tests(package, folder, text):
    """Run pytest on a test module of the package."""
    (folder / "test_theirs.py").write_text(text)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), str(ROOT)]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rf", "test_theirs.py"]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=600)


@pytest.mark.slow
def test_one_short_test_runs_everything(package, tmp_path):
    done = run_tests(package, tmp_path, TEST)
    assert done.returncode == 0, done.stdout[-3000:]
    passed = int(done.stdout.rpartition(" passed")[0].split()[-1])
    assert passed >= 40, done.stdout[-500:]


def test_a_wrong_loss_in_flat_mode_fails(package, tmp_path):
    done = run_tests(package, tmp_path, BROKEN)
    assert done.returncode == 1, done.stdout[-3000:]
    assert "modes_agree" in done.stdout and "loss size" in done.stdout
    assert "shapes" not in done.stdout.partition("short test summary")[2]
