"""The tables of the section "Reduction methods" of docs/performance.md are those that ``bench_reduction.py`` prints."""

from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks import _reduction as child
from tests.benchmarks import bench_reduction, run_all
from tgp.engine import METHODS, coarsen
from tgp.ragged import BlockCSR
from tgp.testing.graphs import grid2d, path

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "performance.md").read_text()


@pytest.mark.parametrize("name", bench_reduction.HEADERS)
def test_every_table_can_be_replaced(name, capsys):
    bench_reduction.print_header(name)
    made = capsys.readouterr().out + "| new |\n"
    replaced, count = run_all.replace_tables(PAGE, made)
    assert count == 1 and replaced.count("| new |") == 1


def test_methods_of_the_growth_table_exist():
    known = [name.partition(":")[0] for name in bench_reduction.GROWTH]
    assert set(METHODS.entries) >= {name for name in known if name != "amg"}


def test_labels_and_their_figures():
    block, program = grid2d(4, 6), child.ours("", "hem")
    result = coarsen(block, "hem")
    cluster = child.labels_of(program, result)
    np.testing.assert_array_equal(cluster, result.levels[0].assignment.cluster)
    found = child.describe(block, cluster)
    inside = (cluster[block.rows()] == cluster[block.indices]).sum()
    assert found["cut"] == pytest.approx(1 - inside / block.num_edges) and found["largest"] == 2
    assert found["parts"] == result.levels[0].block.num_nodes  # pairs of neighbours
    torn = child.describe(path(4), np.array([0, 1, 1, 0]))
    assert torn["parts"] == 3 and torn["cut"] == pytest.approx(2 / 3)
    assert child.labels_of(program, coarsen(block, "bistride")) is None  # nodes are dropped


def test_exact_sizes_are_recognised():
    parts = BlockCSR.concat([path(10), path(7)])
    block = BlockCSR(parts.indptr, parts.indices, None, np.array([0, 17]))
    result = coarsen(block, "hem:ratio=0.5")
    assert child.has_exact_sizes(block, result, "hem:ratio=0.5")
    assert not child.has_exact_sizes(block, result, "hem:ratio=0.4")
    assert not child.has_exact_sizes(block, coarsen(block, "hem"), "hem")


def test_digests_see_every_array():
    block = grid2d(9, 9)
    assert child.digest(block, "hem", 1) == child.digest(block, "hem", 2)
    assert len({child.digest(block, text, 1) for text in ("hem", "graclus", "hem:count_edges=true")}) == 3
