"""An open store is accepted wherever a directory or a URL is, so that stores in memory can be inspected."""

from pathlib import Path

import pytest

import tgp
from tgp.build import find_problems
from tgp.inspect.compare import compare_hierarchies
from tgp.inspect.export import export_store
from tgp.inspect.overview import inspect_graph, inspect_store
from tgp.inspect.report import render_report, write_report
from tgp.store.locations import open_files, open_store, result_path, verify_location


@pytest.fixture(scope="module")
def readers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores") / "disk"
    poolers = ["graclus*2", "ndp"]
    return tgp.coarsen("molecules:num_graphs=8", poolers).reader, tgp.coarsen(
        "molecules:num_graphs=8", poolers, folder
    ).reader


def test_a_reader_is_returned_as_it_is(readers):
    for reader in readers:
        assert open_store(reader) is reader
        assert open_files(reader) is reader.files
        assert verify_location(reader) == []


def test_views_of_memory_and_disk_are_equal(readers):
    memory, disk = readers
    assert inspect_store(memory).hierarchies == inspect_store(disk).hierarchies
    assert repr(inspect_graph(memory, 3)) == repr(inspect_graph(disk, 3))  # some figures are NaN
    assert find_problems(memory) == find_problems(disk)
    assert (
        compare_hierarchies(memory, "ndp", "graclus-x2").levels
        == compare_hierarchies(disk, "ndp", "graclus-x2").levels
    )


def test_results_of_a_store_in_memory(readers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    memory, disk = readers
    assert result_path(memory, "-report.html").name == "memory-report.html"
    assert result_path(disk, "-report.html") == Path(disk.files.location + "-report.html")
    page = write_report(memory)
    assert page.resolve().parent == tmp_path
    assert page.read_text() == render_report(memory)
    export_store(memory, "npz", tmp_path / "a.npz", hierarchy="ndp")
    assert (tmp_path / "a.npz").exists()
