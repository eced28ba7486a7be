"""Graphs from a function of the user: ``--dataset mine.py:load`` and ``--dataset package.module:callable``."""

from typing import NamedTuple

import pytest

from tgp_cli.main import run

MINE = """
import networkx
import scipy.sparse
import torch
from torch_geometric.data import Data, InMemoryDataset


def ring(n=6):
    i = torch.arange(n)
    edges = torch.stack([i, (i + 1) % n])
    return Data(edge_index=torch.cat([edges, edges.flip(0)], 1), x=torch.ones(n, 2))


def one():
    return ring()


def many(count=3):
    return [ring(5 + i) for i in range(count)]


def generator():
    yield ring()
    yield ring(8)


class Rings(InMemoryDataset):
    def __init__(self):
        super().__init__()
        self.data, self.slices = self.collate(many())


def dataset():
    return Rings()


def networkx_graphs():
    return [networkx.path_graph(4), networkx.cycle_graph(5)]


def matrices():
    return [scipy.sparse.csr_array([[0, 1], [1, 0]]), scipy.sparse.coo_array([[0, 2.0], [2.0, 0]])]


def named():
    graphs = many()
    for graph in graphs:
        graph.note = object()
    return graphs


def fails():
    values = [1]
    return values[3]


def fails_late():
    yield ring()
    raise KeyError("boom")


def number():
    return 3
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("own")
    (path / "habit_graphs.py").write_text(MINE)
    package = path / "pack" / "inner"
    package.mkdir(parents=True)
    (package / "graphs.py").write_text("from habit_graphs import one\n")
    return path


class Result(NamedTuple):
    status: int
    stdout: str
    stderr: str


@pytest.fixture
def coarsen(folder, monkeypatch, capfd):
    """Run ``tgp coarsen --dataset DATASET`` in a folder."""

    def coarsen(dataset, *options, cwd=folder):
        monkeypatch.chdir(cwd)
        status = run(["coarsen", "--dataset", dataset, "--out", "store", "--force", *options])
        return Result(status, *capfd.readouterr())

    return coarsen


@pytest.mark.parametrize(
    ("function", "graphs"),
    [
        ("one", 1),
        ("many", 3),
        ("many:count=2", 2),
        ("generator", 2),
        ("dataset", 3),
        ("networkx_graphs", 2),
        ("matrices", 2),
    ],
)
def test_a_function_of_a_file_returns_graphs_of_any_kind(coarsen, function, graphs):
    result = coarsen(f"habit_graphs.py:{function}")
    assert result.status == 0, result.stderr
    assert f"{graphs} graph" in result.stdout


def test_a_function_of_a_package_in_the_working_directory(coarsen):
    assert coarsen("pack.inner.graphs:one").status == 0


def test_a_file_in_another_folder(coarsen, folder, tmp_path):
    result = coarsen(f"{folder / 'habit_graphs.py'}:one", cwd=tmp_path)
    assert result.status == 0, result.stderr


@pytest.mark.parametrize("function", ["fails", "fails_late"])
def test_an_exception_shows_the_traceback_of_the_user_and_no_frame_of_tgp(coarsen, function):
    result = coarsen(f"habit_graphs.py:{function}")
    assert result.status == 2
    assert f"in {function}" in result.stderr
    assert "Error" in result.stderr.splitlines()[-1]
    assert "report it" not in result.stderr and "callables.py" not in result.stderr
    assert "objects.py" not in result.stderr


def test_a_python_file_without_a_function_lists_its_functions(coarsen):
    result = coarsen("habit_graphs.py")
    assert result.status == 2
    assert "habit_graphs.py:one" in result.stderr


def test_a_function_that_does_not_exist_gets_a_suggestion(coarsen):
    result = coarsen("habit_graphs.py:meny")
    assert result.status == 2
    assert "habit_graphs.py:many" in result.stderr


def test_a_module_that_cannot_be_imported_is_named(coarsen, tmp_path):
    result = coarsen("my_graphs:one", cwd=tmp_path)
    assert result.status == 2
    assert "'my_graphs'" in result.stderr and "Minnesota" not in result.stderr


def test_a_result_that_is_not_a_graph(coarsen):
    result = coarsen("habit_graphs.py:number")
    assert result.status == 2
    assert "got int" in result.stderr


def test_excluded_attributes_may_have_any_type(coarsen):
    assert coarsen("habit_graphs.py:named", "--exclude", "note").status == 0
    result = coarsen("habit_graphs.py:many", "--exclude", "notes")
    assert result.status == 2 and "cannot exclude 'notes'" in result.stderr
