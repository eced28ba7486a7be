"""The page on clusters: its commands are understood, its programs run, on stand-ins for SLURM."""

import re
import shlex
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from tgp_cli.main import run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "clusters.md"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), flags=re.S)


def commands():
    """Words of every call of ``tgp`` in the shell blocks, also those inside ``$(...)``."""
    found = []
    for line in "\n".join(blocks("bash")).splitlines():
        found += re.findall(r"(?:^|\$\()(tgp [^)#]+)", line.replace("$SLURM_ARRAY_TASK_ID", "3"))
    return [shlex.split(line)[1:] for line in found]


def test_the_page_has_commands():
    assert {words[0] for words in commands()} == {"coarsen", "status", "merge", "verify"}
    assert len(commands()) >= 7


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("words", [w for w in commands() if w[0] == "coarsen"], ids=" ".join)
def test_coarsen_commands_are_understood(words, place, capsys):
    if "--memory" in words:  # one graph in a file of edges
        np.save(place / words[words.index("--dataset") + 1], np.arange(20).reshape(10, 2))
    else:
        words = [*words, "--limit", "20"]
    assert run([*words, "--dry-run"]) == 0, capsys.readouterr().err
    assert not (place / "pooled").exists()


def test_the_other_commands_run(place, capsys):
    first = next(words for words in commands() if words[0] == "coarsen")
    assert run([word for word in first if word != "--dry-run"] + ["--limit", "20", "--quiet"]) == 0
    for words in commands():
        if words[0] != "coarsen":
            assert run(words) == 0, (words, capsys.readouterr().err)


def small(monkeypatch):
    """Fewer graphs for the programs of the page."""
    import tgp.build

    real = tgp.build.CoarsenConfig
    monkeypatch.setattr(tgp.build, "CoarsenConfig", lambda **values: real(limit=20, **values))


@pytest.mark.slow
def test_the_program_for_dask_runs(place, monkeypatch, capsys):
    distributed = pytest.importorskip("distributed")

    class Cluster(distributed.LocalCluster):
        """Takes what a cluster of SLURM takes, starts at most one worker, here."""

        def __init__(self, cores, processes, memory, walltime):
            assert (cores, processes) == (1, 1) and memory and walltime
            local = {"n_workers": 0, "processes": False, "dashboard_address": None}
            super().__init__(threads_per_worker=1, host="127.0.0.1", protocol="tcp://", **local)

        def scale(self, jobs):
            super().scale(min(jobs, 1))

    wait = distributed.Client.wait_for_workers
    monkeypatch.setattr(distributed.Client, "wait_for_workers", lambda self, count: wait(self, 1, 60))
    monkeypatch.setitem(sys.modules, "dask_jobqueue", types.SimpleNamespace(SLURMCluster=Cluster))
    small(monkeypatch)
    (program,) = [code for code in blocks("python") if "SLURMCluster" in code]
    exec(compile(program, str(PAGE), "exec"), {"__name__": "__main__"})
    assert "complete" in capsys.readouterr().out
    assert (place / "pooled/molecules/manifest.json").exists()


def test_the_program_for_executors_runs(place, monkeypatch, capsys):
    import concurrent.futures

    def threads(count, mp_context):
        assert mp_context.get_start_method() == "spawn"
        return concurrent.futures.ThreadPoolExecutor(count)

    monkeypatch.setattr(concurrent.futures, "ProcessPoolExecutor", threads)
    small(monkeypatch)
    (program,) = [code for code in blocks("python") if "ProcessPoolExecutor" in code]
    exec(compile(program, str(PAGE), "exec"), {"__name__": "__main__"})
    assert "complete" in capsys.readouterr().out
    assert (place / "pooled/molecules/manifest.json").exists()


def test_links_lead_somewhere():
    links = re.findall(r"\]\(([^)#]+)\)", re.sub(r"```.*?```", "", PAGE.read_text(), flags=re.S))
    assert links
    for link in links:
        assert link.startswith("http") or (PAGE.parent / link).exists(), link
