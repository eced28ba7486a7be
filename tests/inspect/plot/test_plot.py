"""Plots of graphs and of poolers."""

import subprocess
import sys

import numpy as np
import pytest

from tgp.errors import InputError, MissingPackageError, UnknownNameError
from tgp.inspect import plot
from tgp.inspect.report.pictures import pooled_pictures
from tgp.inspect.report.placement import layout
from tgp.store import StoreReader
from tgp.testing.stores import build_store, random_table

pytest.importorskip("matplotlib", reason="needs the extra 'plot'")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("plot") / "store"
    build_store(path, random_table(6, seed=1, weighted=True))
    return path


def test_one_column_per_level(store):
    from matplotlib.collections import PathCollection

    figure = plot.hierarchy(store, 2)
    nodes, _ = StoreReader(store).sizes()
    titles = [axes.get_title() for axes in figure.axes]
    assert len(titles) == 4
    assert titles[0] == f"level 0: {nodes[2]} nodes"
    # Edges and bands are the other collections. Every shape of nodes is a collection of its own.
    drawn = [
        sum(len(marks.get_offsets()) for marks in axes.collections if isinstance(marks, PathCollection))
        for axes in figure.axes
    ]
    assert drawn == [StoreReader(store).sizes("halve" if k else None, k)[0][2] for k in range(4)]


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_same_figure_gives_the_same_file(store, tmp_path, suffix):
    files = [
        plot.save(plot.hierarchy(StoreReader(store), 0, "halve"), tmp_path / f"{i}.{suffix}", dpi=50)
        for i in (1, 2)
    ]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert files[0].stat().st_size > 1000


def test_wrong_arguments(store, tmp_path):
    with pytest.raises(InputError, match="graphs 0 to 5, got 6"):
        plot.hierarchy(store, 6)
    with pytest.raises(UnknownNameError):
        plot.hierarchy(store, 0, "halv")
    with pytest.raises(InputError, match=r"\.png, \.svg, \.pdf"):
        plot.save(plot.hierarchy(store, 0), tmp_path / "a.gif")


def test_missing_matplotlib_has_a_hint(store, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingPackageError) as caught:
        plot.hierarchy(store, 0)
    assert caught.value.hint == "pip install 'tgp-coarsen[plot]'"


def test_command_needs_neither_torch_nor_numba(store, tmp_path):
    code = (
        "import sys\nfrom tgp_cli.main import run\n"
        "assert run(['plot', sys.argv[1], '--graph', '1', '-o', sys.argv[2], '--quiet']) == 0\n"
        "print([m for m in ('torch', 'numba', 'matplotlib.pyplot') if m in sys.modules])"
    )
    out = tmp_path / "x.svg"
    done = subprocess.run(
        [sys.executable, "-c", code, store, out], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]" and out.stat().st_size > 1000


def test_figure_is_no_wider_than_a_page(store):
    figure = plot.hierarchy(store, 2)
    width, height = figure.get_size_inches()
    assert len(figure.axes) == 4 and 4 < width < 7.2 and height < width
    sizes = {text.get_fontsize() for axes in figure.axes for text in [axes.title, *axes.texts]}
    assert min(sizes) >= 7


def test_nodes_do_not_overlap(store):
    """Nodes of the input graph are smaller than the distances between them."""
    figure = plot.hierarchy(store, 2)
    figure.draw_without_rendering()
    axes = figure.axes[0]
    nodes = axes.collections[-1]
    points = axes.transData.transform(nodes.get_offsets()) * 72 / figure.dpi
    apart = np.linalg.norm(points[:, None] - points[None], axis=-1) + 1e9 * np.eye(len(points))
    assert np.quantile(apart.min(1), 0.5) > np.sqrt(nodes.get_sizes()).max()


def test_a_failed_write_leaves_the_old_file(store, tmp_path, monkeypatch):
    figure = plot.hierarchy(store, 0)
    with pytest.raises(InputError, match="there is no folder"):
        plot.save(figure, tmp_path / "nowhere" / "a.png")
    (tmp_path / "a.png").write_text("old")

    def fail(*_):
        raise OSError("no")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="no"):
        plot.save(figure, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["a.png"]


def test_pictures_of_a_soft_assignment():
    edges = np.array([[0, 1, 2, 1, 2, 3], [1, 2, 3, 0, 1, 2]])
    s = np.array([[1.0, 0.0], [0.25, 0.75], [0.0, 0.0], [0.0, 2.0]])
    first, last = pooled_pictures(edges, s, np.array([[5.0, 2.0], [2.0, 0.0]]), layout(edges, 4), "any")
    assert first.target.tolist() == [0, 1, -1, 1]
    assert first.share.tolist() == [1.0, 0.75, 1.0, 1.0]
    assert last.edges.tolist() == [[0], [1]] and last.members.tolist() == [1, 2]
    mean = (0.75 * first.places[1] + first.places[3]) / 1.75
    np.testing.assert_allclose(last.places[1], mean, atol=1e-9)


@pytest.fixture(scope="module")
def grid():
    torch = pytest.importorskip("torch")
    from torch_geometric.data import Data

    ids = torch.arange(16).view(4, 4)
    pairs = torch.cat(
        [torch.stack([ids[:, :-1], ids[:, 1:]]).flatten(1), torch.stack([ids[:-1], ids[1:]]).flatten(1)], 1
    )
    return Data(edge_index=torch.cat([pairs, pairs.flip(0)], 1), num_nodes=16)


@pytest.mark.slow
def test_gallery_of_all_poolers(grid):
    from tgp.poolers import pooler_map

    figure = plot.gallery(grid)
    titles = [part._suptitle.get_text() for part in figure.subfigs if part._suptitle is not None]
    assert [title.split(":")[0] for title in titles] == list(pooler_map)
    assert "nopool: 16 → 16" in titles and "topk: 16 → 8" in titles and "mincut: 16 → 4" in titles


def test_gallery_is_reproducible_and_keeps_the_random_state(grid, tmp_path):
    import torch

    before = torch.random.get_rng_state()
    files = [
        plot.save(plot.gallery(grid, ["topk", "mincut"], steps=2), tmp_path / f"{i}.svg") for i in (1, 2)
    ]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert torch.equal(torch.random.get_rng_state(), before)


def test_gallery_trains_on_the_poolers_own_loss(grid):
    plain, trained = (plot.gallery(grid, ["mincut"], steps=steps) for steps in (0, 25))
    first, second = (figure.subfigs[0].axes[1].images[0].get_array() for figure in (plain, trained))
    assert second.max(1).mean() > first.max(1).mean() + 0.1, "training makes the assignment sharper"


def test_gallery_skips_poolers_that_cannot_be_imported(grid, monkeypatch):
    monkeypatch.setattr(
        "tgp.inspect.plot.pooler_gallery._importable", lambda name: name in ("graclus", "nopool")
    )
    assert len(plot.gallery(grid).subfigs) == 2


def test_gallery_rejects_large_graphs():
    from torch_geometric.data import Data

    with pytest.raises(InputError, match="2 to 400 nodes, got 401"):
        import torch

        plot.gallery(Data(edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes=401))
