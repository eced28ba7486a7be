"""Output of ``tgp coarsen``: warnings where the result disappoints, counts, and what to do next."""

import json
import os
import re
import subprocess
import sys
import warnings

import pytest
import torch
from torch_geometric.data import Data

import tgp
from tgp.build import CoarsenConfig, plan_run
from tgp.build.findings import FindingWarning


@pytest.fixture
def run(tmp_path):
    """Function that runs ``tgp`` in a folder of its own."""

    def run(*words, **variables):
        command = [sys.executable, "-m", "tgp_cli.main", *words]
        environment = {**os.environ, **variables}
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)

    return run


def ring(n, **fields):
    nodes = torch.arange(n)
    edges = torch.stack([nodes, (nodes + 1) % n])
    return Data(edge_index=torch.cat([edges, edges.flip(0)], 1), num_nodes=n, **fields)


def test_every_run_ends_with_what_to_do_next(run, tmp_path):
    """The last lines can be copied: they inspect and load the store that was just written."""
    command = ("coarsen", "-d", "molecules:num_graphs=30", "-p", "graclus*2", "-o", "my store")
    for _ in range(2):  # the second run finds the store up to date
        done = run(*command)
        steps = done.stderr.split("Next: ")[1].splitlines()
        assert steps[:2] == ["tgp inspect 'my store'", "In Python:"]
        code = "\n".join([*steps[2:], "print(len(dataset), dataset[0].num_nodes > 0)"])
        loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
        assert loaded.stdout == "30 True\n", loaded.stderr
    assert "up to date" in done.stdout
    assert run(*command, "--quiet").stderr == ""
    quiet = run(*command, "--json")
    assert quiet.stderr == "" and json.loads(quiet.stdout)["status"] == "up to date"


def test_no_estimate_of_epochs(run):
    done = run("coarsen", "-d", "molecules:num_graphs=30", "-o", "s")
    assert "epoch" not in done.stdout + done.stderr


def test_a_level_that_hardly_shrinks_is_a_warning(run):
    command = ("coarsen", "-d", "molecules:num_graphs=50", "-p", "ndp,eigen:k=24", "-o", "s")
    done = run(*command)
    assert done.returncode == 0
    assert re.search(r"Warning: Level 2 \(eigen\) hardly shrinks: it keeps \d+ %", done.stderr)
    assert re.search(r"Hint: .*eigen:k=12", done.stderr)
    assert "Warning" not in done.stdout
    assert "hardly shrinks" in run(*command, "--quiet").stderr
    found = json.loads(run(*command, "--json").stdout)["findings"]
    assert {f["kind"] for f in found} >= {"stalled"} and found[0]["level"] == 2


def test_a_good_result_has_no_warning(run):
    done = run("coarsen", "-d", "molecules:num_graphs=50", "-p", "graclus*2", "-o", "s")
    assert "Warning" not in done.stderr


def test_python_warns_as_well(tmp_path):
    graphs = [ring(8, edge_weight=-torch.ones(16)) for _ in range(3)]
    with pytest.warns(FindingWarning, match="negative|hardly shrinks"):
        tgp.coarsen(graphs, "graclus", tmp_path / "s")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tgp.coarsen([ring(8), ring(9)], "graclus", tmp_path / "t")


def test_a_shard_size_needs_a_unit(run):
    done = run("coarsen", "-d", "molecules:num_graphs=30", "--shard-size", "5", "-o", "s")
    assert done.returncode == 2 and "5MB" in done.stderr and done.stdout == ""


def test_thousands_of_files_are_a_warning_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr("tgp.build.estimates.MANY_FILES", 50)
    name, settings = "molecules:num_graphs=30", {"shard_size": 1, "out": tmp_path / "s"}
    (finding,) = plan_run(CoarsenConfig(name, **settings)).findings
    assert finding.kind == "files" and "60 files in 30 shards" in finding.text
    seen = []

    def stop(step):
        seen.append(step.stage)
        if step.stage == "coarsening":
            raise KeyboardInterrupt

    with pytest.warns(FindingWarning, match="60 files"), pytest.raises(KeyboardInterrupt):
        tgp.coarsen(name, "graclus", **settings, progress=stop)
    assert seen[-1] == "coarsening"


def test_a_store_with_small_shards_can_be_continued(tmp_path):
    """A size in bytes is still possible, and a run without one uses the shards of the store."""
    from tgp.build import coarsen_dataset

    first = CoarsenConfig("molecules:num_graphs=10", shard_size="5B", out=tmp_path / "s")
    assert coarsen_dataset(first).num_units == 10
    again = CoarsenConfig("molecules:num_graphs=10", poolers=("graclus*2", "nopool"), out=tmp_path / "s")
    assert coarsen_dataset(again).num_units == 10


def test_one_graph_counts_edges(run):
    done = run("coarsen", "-d", "grid:num_graphs=1:num_nodes=2500", "-p", "graclus", "-o", "s")
    assert re.search(r"1 graph in .*, [\d,]+ edges/s", done.stdout)
    assert " 0 graphs/s" not in done.stdout


def test_every_graph_fails(run, tmp_path):
    """A pooler of the user that always fails: the run says so, and shows no code that cannot work."""
    (tmp_path / "failing.py").write_text(
        "import dataclasses\n"
        "from tgp.engine.methods import METHODS\n"
        "from tgp.errors import GraphError\n"
        "def load():\n"
        "    def fail(*arguments):\n"
        "        raise GraphError('no luck')\n"
        "    METHODS._loaded['graclus'] = dataclasses.replace(METHODS['graclus'], assign=fail)\n"
        "    from tests.habits.test_coarsen_output import ring\n"
        "    return [ring(5), ring(6)]\n"
    )
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    done = run("coarsen", "-d", "failing:load", "-p", "graclus", "-o", "s", PYTHONPATH=paths)
    assert done.returncode == 3
    assert "None of the 2 graphs could be coarsened" in done.stderr
    assert "no luck" in done.stderr and "PooledDataset" not in done.stderr
