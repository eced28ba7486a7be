"""A package of somebody else runs all checks with one short test."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

POOLERS = '''
from tgp.poolers import TopkPooling
from tgp.src.mlp import MLPPooling


class NormPooling(TopkPooling):
    """Top-k by the projection, with a required argument that the checks cannot know."""

    def __init__(self, in_channels, temperature, ratio=0.5):
        super().__init__(in_channels, ratio=ratio, multiplier=temperature)


class BrokenPooling(MLPPooling):
    """A dense pooler whose flat loss is 7 times too large."""

    def compute_loss(self, adj, S, *args, **kwargs):
        return {"size": S.sum() / S.size(-1)}

    def compute_sparse_loss(self, edge_index, edge_weight, S, *args, **kwargs):
        return {"size": 7 * S.sum() / S.size(-1)}
'''

METHODS = '''
from dataclasses import dataclass

import numpy as np

from tgp.engine.contraction import ContractOptions, contract
from tgp.engine.level_method import LevelMethod
from tgp.ragged import Assignment


@dataclass(frozen=True)
class Params:
    """Parameters."""

    size: int = 2


def assign(block, params, draw):
    counts = np.diff(block.node_ptr)
    super_ptr = np.concatenate([[0], np.cumsum(-(-counts // params.size))]).astype(np.int64)
    local = np.arange(block.num_nodes) - np.repeat(block.node_ptr[:-1], counts)
    cluster = local // params.size + np.repeat(super_ptr[:-1], counts)
    return Assignment("hard", super_ptr, cluster.astype(np.int32))


def connect(block, assignment, params):
    return contract(block, assignment, ContractOptions())


METHOD = LevelMethod("chunks", Params, assign, connect)
'''

TEST = """
import pytest
from tgp.testing import method_checks, pooler_checks


@pytest.mark.parametrize("check", [*pooler_checks("norm", temperature=1.0, slow=False), *method_checks("chunks")], ids=str)
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


@pytest.fixture
def package(tmp_path):
    """A package with a pooler and a method, found by its entry points, as if it were installed."""
    code = tmp_path / "their_package"
    code.mkdir()
    (code / "__init__.py").write_text('"""A package of somebody else."""\n')
    (code / "poolers.py").write_text(POOLERS)
    (code / "methods.py").write_text(METHODS)
    facts = tmp_path / "their_package-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\nSummary: Theirs\n"
    )
    (facts / "entry_points.txt").write_text(
        "[tgp.poolers]\nnorm = their_package.poolers:NormPooling\nbroken = their_package.poolers:BrokenPooling\n"
        "[tgp.methods]\nchunks = their_package.methods:METHOD\n"
    )
    return tmp_path


def run(package, text):
    (package / "test_theirs.py").write_text(text)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), str(ROOT)]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rf", "test_theirs.py"]
    return subprocess.run(command, cwd=package, env=env, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_one_short_test_runs_everything(package):
    done = run(package, TEST)
    assert done.returncode == 0, done.stdout[-3000:]
    passed = int(done.stdout.rpartition(" passed")[0].split()[-1])
    assert passed >= 40, done.stdout[-500:]


def test_a_wrong_flat_loss_fails_there(package):
    done = run(package, BROKEN)
    assert done.returncode == 1, done.stdout[-3000:]
    assert "modes_agree" in done.stdout and "loss size" in done.stdout
    assert "shapes" not in done.stdout.partition("short test summary")[2]
