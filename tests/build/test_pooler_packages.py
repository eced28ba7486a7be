"""Pooler classes of other packages and of programs as levels of ``tgp coarsen``."""

import json
import os
import subprocess
import sys

import pytest

POOLERS = """
import torch

from tgp.connect import SparseConnect
from tgp.lift import BaseLift
from tgp.reduce import BaseReduce
from tgp.select import Select, SelectOutput
from tgp.src import BasePrecoarseningMixin, SRCPooling


class BlockSelect(Select):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, edge_index=None, num_nodes=None, **kwargs):
        order = torch.randperm(num_nodes)
        return SelectOutput(cluster_index=order // self.size, num_nodes=num_nodes)


class BlockPooling(BasePrecoarseningMixin, SRCPooling):
    "Random blocks of nodes."

    def __init__(self, size: int = 2, connector=None):
        if size < 1:
            raise ValueError(f"size must be positive, got {size}")
        super().__init__(BlockSelect(size), BaseReduce(), BaseLift(), SparseConnect())


class NoLevels(SRCPooling):
    def __init__(self):
        super().__init__(BlockSelect(2), BaseReduce(), BaseLift(), SparseConnect())
"""


def run(*arguments, site, code=None):
    env = dict(os.environ)
    env["PYTHONPATH"] = os.pathsep.join([str(site), env.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    start = ["-m", "tgp_cli.main"] if code is None else ["-c", code]
    command = [sys.executable, *start, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=600, cwd=site)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return a folder with an installed package that offers two poolers."""
    site = tmp_path_factory.mktemp("poolers") / "site"
    info = site / "block_pooling-1.5.dist-info"
    info.mkdir(parents=True)
    (site / "block_pooling.py").write_text(POOLERS)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: block-pooling\nVersion: 1.5\nSummary: Blocks\n"
    )
    (info / "entry_points.txt").write_text(
        "[tgp.poolers]\nblocks = block_pooling:BlockPooling\nnolevels = block_pooling:NoLevels\n"
    )
    (info / "RECORD").write_text("")
    return site


def build(site, out, pooler, *more):
    data = ("-d", "molecules:num_graphs=30", "--shard-size", "12kB", "--seed", "3")
    return run("coarsen", *data, "-p", pooler, "-o", out, *more, site=site)


def contents(store):
    return {path.name: path.read_bytes() for path in sorted(store.glob("*.h5"))}


def test_a_pooler_of_a_package_in_a_schedule(site, tmp_path):
    stores = [tmp_path / "one", tmp_path / "two"]
    for store, workers in zip(stores, ("1", "2"), strict=True):
        result = build(site, store, "blocks:size=3*2,graclus", "--workers", workers)
        assert result.returncode == 0, result.stderr
    manifest = json.loads((stores[0] / "manifest.json").read_text())
    (hierarchy,) = manifest["hierarchies"]
    package = {"name": "block-pooling", "version": "1.5"}
    assert hierarchy["schedule"][0]["package"] == package
    assert hierarchy["schedule"][0]["params"]["size"] == 3
    assert "package" not in hierarchy["schedule"][2]
    assert len(contents(stores[0])) > 2 and contents(stores[0]) == contents(stores[1])
    shown = run("inspect", stores[0], site=site)
    assert "package block-pooling 1.5" in shown.stdout
    deep = run("verify", stores[0], "--deep", site=site)
    assert deep.returncode == 0, deep.stdout + deep.stderr
    code = f"""
from tgp.data import PooledDataset, PreCoarsening
from torch_geometric.data import Data
graph = PooledDataset({str(stores[0])!r})[17]
plain = Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes)
levels = PreCoarsening([("blocks", {{"size": 3}})] * 2 + ["graclus"], seed=3)(plain).pooled_data
for level, stored in zip(levels, graph.pooled_data, strict=True):
    assert level.so.cluster_index.tolist() == stored.so.cluster_index.tolist()
    assert level.edge_index.tolist() == stored.edge_index.tolist()
"""
    same = run(site=site, code=code)
    assert same.returncode == 0, same.stderr


def test_wrong_parameters_and_poolers_are_reported(site, tmp_path):
    cases = {
        "blocks:sise=3": "Did you mean 'size'",
        "blocks:size=much": "must be a whole number, got 'much'",
        "blocks:size=0": "size must be positive, got 0",
        "nolevels": "has neither 'precoarsening' nor 'multi_level_precoarsening'",
    }
    for pooler, text in cases.items():
        result = build(site, tmp_path / "none", pooler)
        assert result.returncode == 2, (pooler, result.stderr)
        assert text in " ".join(result.stderr.split()), result.stderr
        assert "Traceback" not in result.stderr


def test_tgp_poolers_shows_the_parameters(site):
    card = json.loads(run("poolers", "blocks", "--json", site=site).stdout)
    assert card["package"] == "block-pooling 1.5" and card["precoarsenable"]
    assert {row["name"]: row["default"] for row in card["parameters"]}["size"] == 2
    assert not json.loads(run("poolers", "nolevels", "--json", site=site).stdout)["precoarsenable"]


def test_a_registered_pooler_in_worker_processes(site, tmp_path):
    code = """
import sys
from pathlib import Path
from block_pooling import BlockPooling
from tgp.build import CoarsenConfig, coarsen_dataset
from tgp.poolers import register_pooler

class Here(BlockPooling):
    pass

def in_a_function():
    class Inside(BlockPooling):
        pass
    return Inside

def build(pooler, out, workers):
    schedule = (f"{pooler},graclus",)
    out = Path(sys.argv[1]) / out
    config = CoarsenConfig(
        "molecules:num_graphs=30", out=out, poolers=schedule, shard_size=12000, workers=workers
    )
    return coarsen_dataset(config).workers

if __name__ == "__main__":
    register_pooler("mine", "block_pooling:BlockPooling", "Blocks of mine", precoarsenable=True)
    register_pooler("here", Here, precoarsenable=True)
    register_pooler("inside", in_a_function(), precoarsenable=True)
    print(build("mine", "1", 1), build("mine", "2", 2), build("here", "3", 2), build("inside", "4", 2))
"""
    result = run(tmp_path, site=site, code=code)
    assert result.returncode == 0, result.stderr
    assert contents(tmp_path / "1") == contents(tmp_path / "2") != {}
    assert len(contents(tmp_path / "3")) == len(contents(tmp_path / "4")) == len(contents(tmp_path / "1"))
    assert result.stdout.split() == ["1", "2", "1", "1"], "no other process can import the last two"
