"""A folder to follow a page in: small raw files under the names that pages use, no network, tables restored."""

import importlib.util
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch

from tgp.engine.methods import METHODS
from tgp.poolers import pooler_map
from tgp.sources.builtin import make_builtin

COLLECTIONS = ("MUTAG", "PROTEINS", "DD", "NCI1", "ENZYMES", "REDDIT-BINARY")

TOOLS = Path(__file__).resolve().parents[2] / "docs" / "_tools"


@pytest.fixture(scope="session")
def tool():
    """Load one of the scripts that build the pages."""

    def load(name):
        spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
        return module

    return load


def write_collection(root, name, num_graphs):
    """Raw files in the layout of the TU collection, so that ``--dataset MUTAG`` finds a small stand-in."""
    table, _ = make_builtin(f"molecules:num_graphs={num_graphs}")
    raw = root / "TUDataset" / name / "raw"
    raw.mkdir(parents=True)
    sizes = np.diff(table.node_ptr)
    edges = table.fields["edge_index"]
    starts = np.repeat(table.node_ptr[:-1], np.diff(edges.ptr))
    columns = {
        "A": [f"{a}, {b}" for a, b in (edges.values + starts + 1).T.tolist()],
        "graph_indicator": np.repeat(np.arange(1, len(sizes) + 1), sizes).tolist(),
        "graph_labels": table.fields["y"].values.tolist(),
        "node_labels": table.fields["x"].values.argmax(-1).tolist(),
    }
    for part, rows in columns.items():
        (raw / f"{name}_{part}.txt").write_text("".join(f"{row}\n" for row in rows))


@pytest.fixture(scope="session")
def collections(tmp_path_factory):
    root = tmp_path_factory.mktemp("raw")
    for name in COLLECTIONS:
        write_collection(root, name, 40)
    return root


@pytest.fixture
def desk(tmp_path, monkeypatch, collections):
    """The folder in which a reader sits."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TGP_DATA", str(collections))
    monkeypatch.setenv("TGP_CACHE", str(tmp_path / ".cache"))
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "0")
    monkeypatch.syspath_prepend(str(tmp_path))
    for table in (METHODS, pooler_map):
        monkeypatch.setattr(table, "entries", dict(table.entries))
        monkeypatch.setattr(table, "_loaded", dict(table._loaded))
    before = set(sys.modules)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield tmp_path
    for name in set(sys.modules) - before:
        module = sys.modules[name]
        if isinstance(module, types.ModuleType) and str(getattr(module, "__file__", None) or "").startswith(
            str(tmp_path)
        ):
            del sys.modules[name]
