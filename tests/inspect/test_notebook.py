"""Notebook output: escaped, bounded, without scripts and style sheets; drawings of small graphs."""

import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import tgp
from tests.inspect.conftest import build
from tgp.data import GraphHierarchy, PoolDataLoader, PooledDataset, PreCoarsening
from tgp.engine import coarsen
from tgp.errors import MissingPackageError, UnknownNameError
from tgp.inspect import inline_html, notebook
from tgp.inspect.notebook import render_html
from tgp.poolers import get_pooler
from tgp.select import SelectOutput
from tgp.testing.graphs import path

HOSTILE = "<script>alert(1)</script>\"'&\x1b[31m\u202e"


class Checker(HTMLParser):
    """Parser that checks that all elements are closed and collects their names."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.words = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def checked(value):
    """Return the elements and the text of the output of an object."""
    html = value._repr_html_()
    parser = Checker()
    parser.feed(html)
    assert not parser.open
    assert not {"script", "style", "link"} & set(parser.tags)
    return html, parser.tags, " ".join(parser.words)


@pytest.fixture(scope="module")
def dataset(store):
    return PooledDataset(store, hierarchy="graclus-x2")


def test_a_dataset(dataset):
    _, tags, text = checked(dataset)
    assert "PooledDataset: 30 graphs" in text and "hierarchy graclus-x2" in text
    assert "hierarchy nopool (not read)" in text
    assert tags.count("svg") == 3  # the input graph and two levels
    assert tags.count("circle") + tags.count("path") > 20
    _, _, part = checked(dataset[:4])
    assert "4 graphs of 30" in part
    _, tags, text = checked(dataset[:0])
    assert "0 graphs of 30" in text and "svg" not in tags
    _, tags, _ = checked(PooledDataset(dataset.reader.files.location, levels=[], hierarchy="nopool"))
    assert "table" in tags


def test_a_dataset_in_memory_shows_itself_and_its_report():
    ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    mine = tgp.coarsen([Data(edge_index=ring, num_nodes=4)] * 3, "ndp", out=None)
    assert "PooledDataset: 3 graphs" in checked(mine)[2]
    assert "<html" in mine.report().page
    assert mine.plot(2)._repr_png_().startswith(b"\x89PNG")


def test_graphs_batches_and_hierarchies(dataset):
    _, tags, text = checked(dataset[3])
    assert "PooledData" in text and "edge_index" in text and tags.count("svg") == 3
    _, tags, text = checked(GraphHierarchy(dataset[3]))
    assert "GraphHierarchy: 2 levels" in text and tags.count("svg") == 3
    batch = next(iter(PoolDataLoader(dataset, batch_size=4)))
    _, tags, text = checked(batch)
    assert "PooledBatch: 4 graphs" in text and tags.count("svg") == 3
    assert "Hierarchy: 2 levels of 1 graph" in checked(coarsen(path(9), "graclus*2"))[2]


def test_repr_and_str_are_unchanged(dataset):
    assert repr(dataset).startswith("PooledDataset(") and "<" not in repr(dataset[0]).replace("...", "")
    assert (
        repr(SelectOutput(cluster_index=torch.tensor([0, 1])))
        == "SelectOutput(num_nodes=2, num_supernodes=2)"
    )


def test_assignments(dataset):
    so = SelectOutput(cluster_index=torch.tensor([0, 0, 1]), node_index=torch.tensor([0, 1, 3]), num_nodes=4)
    html, _, text = checked(so)
    assert "4 nodes → 2 supernodes" in text and "1 dropped node" in text and "0, 1" in text
    assert html.count("<rect") == 4  # the frame and three entries
    soft = SelectOutput(s=torch.tensor([[0.9, 0.1], [0.2, 0.8]]))
    assert "largest share" in checked(soft)[2]
    padded = SelectOutput(s=torch.rand(3, 5, 2))
    assert "svg" not in checked(padded)[1]


@pytest.mark.parametrize("name", ["topk", "graclus", "mincut", "mincut_u", "nopool"])
def test_pooled_graphs(dataset, name):
    data = dataset[3]
    pooler = get_pooler(name, in_channels=4, k=3, ratio=0.5)
    x = torch.rand(data.num_nodes, 4, requires_grad=True)
    out = pooler(x=x, adj=data.edge_index)
    _, tags, text = checked(out)
    assert "PoolingOutput" in text and ("svg" in tags) == (out.edge_index.size(0) == 2)
    if out.loss:
        assert "loss:" in text


def test_a_large_batch_gives_a_small_table_without_a_drawing():
    nodes = 10**6
    edges = torch.arange(nodes).repeat(2, 1)
    so = SelectOutput(cluster_index=torch.arange(nodes) // 2, num_supernodes=nodes // 2)
    level = Data(edge_index=edges[:, : nodes // 2], num_nodes=nodes // 2, so=so)
    data = tgp.data.PooledData(edge_index=edges, num_nodes=nodes, pooled_data=[level])
    for key in range(40):
        data[f"attribute_{key}"] = torch.zeros(3)
    html, tags, text = checked(data)
    assert len(html) < 10_000 and "svg" not in tags and "1,000,000" in text and "more attributes" in text
    html, tags, _ = checked(so)
    assert len(html) < 2_000 and "svg" not in tags
    html, tags, _ = checked(GraphHierarchy(data))
    assert len(html) < 5_000 and "svg" not in tags


def test_text_of_a_store_is_escaped(tmp_path, monkeypatch):
    hostile = tgp.coarsen(
        [Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2, **{"<b>x": torch.zeros(2)})],
        "graclus",
        out=tmp_path / "<i>store",
    )
    html, tags, _ = checked(hostile)
    assert not {"b>x", "i", "script"} & set(tags) and "&lt;b&gt;x" in html and "&lt;i&gt;store" in html
    data = Data(edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes=1)
    pooled = tgp.data.PooledData(**data.to_dict())
    pooled[HOSTILE] = HOSTILE
    html, tags, _ = checked(pooled)
    assert "script" not in tags and "\x1b" not in html and "\u202e" not in html
    assert (
        inline_html.cell_text("x" * 10_000).endswith("...") and len(inline_html.cell_text("x" * 10_000)) < 300
    )


def test_other_objects_are_refused():
    with pytest.raises(TypeError, match="int has no notebook output"):
        render_html(3)


def test_colours_are_readable_on_light_and_dark_pages():
    def luminance(colour):
        channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    for colour in inline_html.COLOURS:
        for page in ("#ffffff", "#111111"):
            low, high = sorted((luminance(colour), luminance(page)))
            assert (high + 0.05) / (low + 0.05) >= 3, (colour, page)


def test_drawings_do_not_depend_on_a_theme(dataset):
    html = dataset._repr_html_()
    used = {colour.lower() for colour in re.findall(r"#[0-9a-fA-F]{3,8}\b", html)}
    assert used <= set(inline_html.COLOURS)


def test_plots(dataset):
    figure = dataset.plot(2)
    assert figure._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(IndexError, match="there is no graph 30"):
        dataset.plot(30)
    with pytest.raises(UnknownNameError, match="graclus-x2"):
        dataset.plot(0, hierarchy="graclus-x3")


def test_plots_draw_the_graph_of_the_subset(store, monkeypatch):
    seen = []
    monkeypatch.setattr("tgp.inspect.plot.hierarchy", lambda *arguments: seen.append(arguments) or _Figure())
    PooledDataset(store, hierarchy="nopool")[5:].plot(-1)
    PooledDataset(store, hierarchy="nopool")[5:].plot(1, "graclus-x2")
    assert [arguments[1:] for arguments in seen] == [(29, "nopool"), (6, "graclus-x2")]


class _Figure:
    pass


def test_a_plot_without_matplotlib_names_the_extra(dataset, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingPackageError, match="matplotlib") as caught:
        dataset.plot(0)
    assert "tgp-coarsen[plot]" in caught.value.hint


def test_reports(dataset, tmp_path):
    report = dataset.report(graphs=[1])
    html = report._repr_html_()
    assert html.startswith('<iframe srcdoc="&lt;!') and 'sandbox="allow-scripts"' in html
    assert "<script" not in html.split("srcdoc=")[0] and "<html" not in html
    written = report.save(tmp_path / "report.html")
    assert written.read_text() == report.page
    assert len(repr(report)) < 120


def test_the_report_is_that_of_the_command(store, tmp_path):
    from tgp.inspect.report import render_report

    assert PooledDataset(store, hierarchy="nopool").report().page == render_report(store)


def test_importing_the_library_does_not_import_the_drawings():
    code = "import sys, tgp.data, tgp.engine; print('tgp.inspect.notebook' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def test_hierarchies_with_many_levels_and_names(tmp_path):
    store = build(tmp_path / "s", "graclus*2", "ndp", "kmis", "nopool", "random:ratio=0.5")
    _, _, text = checked(PooledDataset(store, hierarchy="ndp"))
    assert text.index("hierarchy ndp") < text.index("hierarchy graclus")
    assert "and 1 more hierarchy" in text and notebook.MAX_HIERARCHIES == 4


def test_levels_of_precoarsening():
    data = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    _, tags, _ = checked(PreCoarsening("graclus*2")(data))
    assert tags.count("svg") == 3


def test_a_remote_dataset_downloads_nothing_to_show_itself(store, tmp_path):
    fsspec = pytest.importorskip("fsspec")
    from tgp.store.io.remote import RemoteFiles

    memory = fsspec.filesystem("memory")
    memory.put(str(store), "/notebook/er", recursive=True)
    cache = tmp_path / "cache"
    remote = PooledDataset(RemoteFiles("memory://notebook/er", cache), hierarchy="graclus-x2")
    before = set(cache.rglob("*.h5"))
    _, tags, text = checked(remote)
    assert "PooledDataset: 30 graphs" in text and "600" in text and "svg" not in tags
    assert set(cache.rglob("*.h5")) == before
    assert len(remote.sizes()[0]) == 30 and set(cache.rglob("*.h5")) != before


def test_many_levels_are_not_all_drawn(tmp_path):
    deep = tgp.coarsen([Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)], "nopool*30", out=None)
    for thing in (deep, deep[0], deep.as_hierarchy()):
        html, tags, _ = checked(thing)
        assert tags.count("svg") <= inline_html.MAX_DRAWINGS and len(html) < 20_000
