"""Look at datasets, batches and pooled graphs in a notebook."""

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

import tgp
from tgp.poolers import get_pooler


@pytest.fixture(scope="module")
def ds():
    ring = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
    graphs = [Data(x=torch.rand(6, 2), edge_index=torch.cat([ring, ring.flip(0)], 1)) for _ in range(8)]
    return tgp.coarsen(graphs, "graclus*2", out=None)


def test_show_a_dataset(ds):
    assert "PooledDataset: 8 graphs" in ds._repr_html_() and "<svg" in ds._repr_html_()


def test_show_a_graph_a_batch_and_a_hierarchy(ds):
    batch = next(iter(DataLoader(ds, batch_size=4)))
    for thing in (ds[0], batch, ds.as_hierarchy(0)):
        assert "<table" in thing._repr_html_() and "<svg" in thing._repr_html_()


def test_show_a_pooled_graph_and_its_assignment(ds):
    out = get_pooler("topk", in_channels=2, ratio=0.5)(x=ds[0].x, adj=ds[0].edge_index)
    assert "float32 [3, 2]" in out._repr_html_()
    assert "6 nodes → 3 supernodes" in out.so._repr_html_()


def test_plot_a_graph(ds):
    pytest.importorskip("matplotlib")
    assert ds.plot(3)._repr_png_()


def test_show_and_save_the_report(ds, tmp_path):
    report = ds.report()
    assert "<iframe" in report._repr_html_()
    assert report.save(tmp_path / "report.html").exists()
