"""Commands that show a store whose graph is divided over several files, and limits for graphs that are too large to draw."""

from collections import Counter
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import tgp
from tests.store.divided_stores import halved, random_kinds, sorted_table, write_one
from tests.store.mutation_stores import Forge
from tgp.build import findings
from tgp.errors import InputError, StoreDamagedError
from tgp.inspect import export, overview, spectral_errors, stream_arrays
from tgp.inspect.export import export_store
from tgp.inspect.recompute import verify_by_recompute
from tgp.inspect.report import sampled_levels, scene
from tgp.inspect.report.page import render_report
from tgp.inspect.report.pictures import Picture
from tgp.ragged import Field, GraphTable
from tgp.store import StoreReader, StoreSpec, StoreWriter, data_digest, locations
from tgp.store.read import divided_part, memory_need, single
from tgp.store.read.piece_array import PieceArray
from tgp_cli.main import run as tgp_command


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder, table = tmp_path_factory.mktemp("divided"), sorted_table(weighted=True)
    return [write_one(folder / str(n) / "store", table, *halved(table), n) for n in (None, 40)]


def test_inspect_shows_the_same_figures_without_reading_edges(stores, monkeypatch):
    expected = overview.inspect_store(stores[0])
    figures = overview.inspect_graph(stores[0], 0)
    read = []
    array = divided_part.DividedPart.array

    def note(part, path):
        read.append(path)
        return array(part, path)

    monkeypatch.setattr(divided_part.DividedPart, "array", note)
    monkeypatch.setattr(single, "_BLOCK", 7)
    found = overview.inspect_store(stores[1])
    assert overview.inspect_graph(stores[1], 0) == figures
    for left, right in zip(found.hierarchies[0].levels, expected.hierarchies[0].levels, strict=True):
        assert (left.cluster_histogram, left.nodes, left.edges) == (
            right.cluster_histogram,
            right.nodes,
            right.edges,
        )
    assert found.hierarchies[0].bytes > expected.hierarchies[0].bytes  # the headers of the pieces
    assert not [
        path
        for path in read
        if path.endswith(("edge_index", "edge_weight", "cluster", "/x")) and "/2/" not in path
    ]


def test_findings_about_weights_are_the_same(tmp_path):
    table = sorted_table(weighted=True)
    table.fields["edge_weight"].values[[3, 100]] = -1, np.nan
    paths = [write_one(tmp_path / str(n), table, *halved(sorted_table()), n) for n in (None, 40)]
    found = [list(findings._find_weights(StoreReader(path))) for path in paths]
    assert found[0] == found[1] and len(found[0]) == 2


def test_reports_are_the_same(stores):
    whole, divided = (render_report(path) for path in stores)
    assert divided.count("<svg") == whole.count("<svg") > 0


def test_spectral_figures_of_large_graphs_are_refused(stores, monkeypatch):
    monkeypatch.setattr(spectral_errors, "MOST_EDGES", 50)
    with pytest.raises(InputError, match="too large for spectral figures: expected at most 50 edges"):
        overview.inspect_graph(stores[1], 0, modes=3)


def make_ring(nodes=900, pos=False):
    """Return a ring with chords and loops, in both directions and sorted."""
    ids = np.arange(nodes)
    source = np.concatenate([ids, ids, ids[::7]])
    target = np.concatenate([(ids + 1) % nodes, (ids + 13) % nodes, ids[::7]])
    keys = np.unique(np.concatenate([source * nodes + target, target * nodes + source]))
    index, weight = np.stack([keys // nodes, keys % nodes]), 1.0 + (keys // nodes + keys % nodes) % 3
    ptr = np.array([0, len(keys)])
    fields = {
        "edge_index": Field("edge_index", index, ptr, axis=-1, shifted=True),
        "edge_weight": Field("edge_weight", weight.astype(np.float32), ptr),
    }
    if pos:
        fields["pos"] = Field("pos", np.stack([ids, ids % 30], 1).astype(np.float32), np.array([0, nodes]))
    return GraphTable(np.array([0, nodes]), fields)


def make_stores(folder, table, spec, hierarchy, cuts=(None, 300)):
    return [write_one(folder / str(n) / "store", table, spec, hierarchy, n) for n in cuts]


def with_positions(spec, hierarchy):
    """Return the hierarchy with positions at all levels."""
    levels = []
    for level in hierarchy.levels:
        ptr = level.super_ptr
        rows = np.arange(2 * ptr[-1], dtype=np.float32).reshape(-1, 2)
        levels.append(replace(level, fields={"pos": Field("pos", rows, ptr)}))
    return replace(spec, engine=1, carry="pos=mean"), replace(hierarchy, levels=tuple(levels))


def assert_same_scenes(left, right, skip=()):
    for one, other in zip(left, right, strict=True):
        assert (one.hierarchy, one.sizes, one.reason) == (other.hierarchy, other.sizes, other.reason)
        for some, others in ((one.pictures, other.pictures), (one.part, other.part)):
            for picture, twin in zip(some, others, strict=True):
                for field in (field for field in fields(Picture) if field.name not in skip):
                    found, expected = getattr(picture, field.name), getattr(twin, field.name)
                    np.testing.assert_array_equal(found, expected, err_msg=field.name)


@pytest.mark.parametrize("kind", ["hard", "pos", "soft"])
def test_a_sample_is_what_is_drawn_of_a_graph_that_is_read(tmp_path, monkeypatch, kind):
    """The surroundings of a supernode, found by reading single rows, are those that the whole graph gives."""
    table = make_ring(pos=kind == "pos")
    spec, hierarchy = (
        random_kinds(table, ("soft", "soft"), 1) if kind == "soft" else halved(table, 3, fields=False)
    )
    if kind == "pos":
        spec, hierarchy = with_positions(spec, hierarchy)
    paths = make_stores(tmp_path, table, spec, hierarchy)
    expected = scene.graph_scenes(StoreReader(paths[0]), 0)
    assert expected[0].part and not expected[0].is_sample
    monkeypatch.setattr(scene, "MOST_EDGES", 50)
    monkeypatch.setattr(scene, "read_input", None)
    monkeypatch.setattr(sampled_levels, "_BLOCK", 64)
    found = [scene.graph_scenes(StoreReader(path), 0) for path in paths]
    assert_same_scenes(*found)
    assert all(one.is_sample for scenes in found for one in scenes)
    if kind != "soft":  # without a small supernode, the middle is chosen in another way
        # Positions are projected relative to those of the nodes that were read.
        assert_same_scenes(found[0], expected, ("places", "centres") if kind == "pos" else ())
    page = render_report(paths[1])
    drawn = len(found[1][0].part[0].nodes)
    assert f"A sample: of the input graph, {drawn} of 900 nodes ({100 * drawn / 900:.2g} %) are drawn" in page
    assert page.count("<svg") > 4


def test_a_sample_of_edges_in_any_order(tmp_path, monkeypatch):
    """Edges that are not sorted are read in blocks for each step. Those of one direction are followed in it."""
    table = make_ring()
    order = np.random.default_rng(0).permutation(table.fields["edge_index"].values.shape[1])
    mixed = {
        name: replace(field, values=np.ascontiguousarray(field.values[..., order]))
        for name, field in table.fields.items()
    }
    monkeypatch.setattr(scene, "MOST_EDGES", 50)
    monkeypatch.setattr(sampled_levels, "_BLOCK", 64)
    spec, hierarchy = halved(table, fields=False)
    paths = [
        write_one(tmp_path / name, one, spec, hierarchy)
        for name, one in {"sorted": table, "mixed": GraphTable(table.node_ptr, mixed)}.items()
    ]
    assert_same_scenes(*(scene.graph_scenes(StoreReader(path), 0) for path in paths))


def test_only_the_edges_of_the_drawn_nodes_are_read(tmp_path, monkeypatch):
    table = make_ring(60_000)
    (path,) = make_stores(tmp_path, table, *halved(table, 2, fields=False), cuts=(20_000,))
    read = Counter()
    take, blocks = PieceArray._take, PieceArray.blocks
    monkeypatch.setattr(PieceArray, "_take", lambda a, ids: read.update({a.path: ids.size}) or take(a, ids))
    monkeypatch.setattr(
        PieceArray, "blocks", lambda a, step=None: read.update({a.path: a.num_rows}) or blocks(a, step)
    )
    monkeypatch.setattr(scene, "MOST_EDGES", 50)
    (found,) = scene.graph_scenes(StoreReader(path), 0)
    edges = table.fields["edge_index"].values.shape[1]
    assert len(found.part[0].nodes) == 160 and edges > 240_000
    assert 0 < read["/fields/edge_index"] < 0.1 * edges  # mostly bisections
    assert read["/fields/edge_weight"] <= found.part[0].edges.shape[1] * 2 + len(found.part[0].nodes)


def test_a_wrong_id_in_a_sample_is_named(tmp_path, monkeypatch):
    table = make_ring()
    (path,) = make_stores(tmp_path, table, *halved(table, 1, fields=False), cuts=(300,))
    forge = Forge(path)
    for number in range(len(list(path.glob("*.graphs.r*")))):
        with forge.shard(f"graphs.r{number:04d}") as file:
            file["fields/edge_index"][1] = 65_000
    forge.save()
    monkeypatch.setattr(scene, "MOST_EDGES", 50)
    with pytest.raises(StoreDamagedError, match="outside its graph"):
        scene.graph_scenes(StoreReader(path), 0)


def test_a_figure_of_a_large_graph_is_a_sample(tmp_path, stores, monkeypatch):
    pytest.importorskip("matplotlib")
    from tgp.inspect.plot.level_figure import hierarchy

    table = make_ring(3000)
    (path,) = make_stores(tmp_path, table, *halved(table, 1, fields=False), cuts=(3000,))
    monkeypatch.setattr(scene, "MOST_EDGES", 50)
    titles = [axes.get_title() for axes in hierarchy(path, 0).axes]
    assert titles[0] == "level 0: 3,000 nodes\n160 of them drawn"
    compressed = write_small(tmp_path / "small", table, *halved(table, 1, fields=False))
    with pytest.raises(InputError, match="too large to draw from a store of the small profile"):
        hierarchy(compressed, 0)
    assert "Not drawn: a graph with more than 50 edges" in render_report(compressed).replace(
        "20,000,000", "50"
    )


def write_small(path, table, spec, levels):
    """Write a compressed store of one graph."""
    whole = StoreSpec({"name": "toy"}, data_digest(table), 1, (0, 1), "small", (spec,))
    return write_one(path, table, spec, levels, writer=StoreWriter.open(path, whole))


@pytest.mark.parametrize("kind", ["fields", "kinds", "pos"])
def test_arrays_are_exported_in_pieces_with_the_same_bytes(tmp_path, monkeypatch, kind):
    if kind == "pos":
        table = make_ring(120, pos=True)
        spec, hierarchy = with_positions(*halved(table, 2, fields=False))
    else:
        table = sorted_table(weighted=True)
        spec, hierarchy = halved(table) if kind == "fields" else random_kinds(table)
    whole, divided = make_stores(tmp_path, table, spec, hierarchy, (None, 40))
    expected = export_store(whole, "npz", tmp_path / "read")
    monkeypatch.setattr(stream_arrays, "_BLOCK", 7)
    streamed = [export_store(divided, "npz", tmp_path / "divided")]
    monkeypatch.setattr(export, "LARGE", 1)
    monkeypatch.setattr(export, "_npz_values", None)
    streamed.append(export_store(whole, "npz", tmp_path / "whole"))
    for files in streamed:
        for file, other in zip(files, expected, strict=True):
            assert file.name == other.name and file.read_bytes() == other.read_bytes(), file.name


def test_exports_that_need_much_memory_are_refused(tmp_path, stores, monkeypatch):
    monkeypatch.setattr(export, "MOST_TEXT_EDGES", 50)
    with pytest.raises(
        InputError, match=r"too large for GraphML: expected at most 50 edges, got \d+\nHint: .*npz"
    ):
        export_store(stores[1], "graphml", tmp_path / "out")
    monkeypatch.setattr(memory_need, "physical_memory", lambda: 1000)
    with pytest.raises(InputError, match=r"(?s)graph 0 with its levels needs at least .* GB of memory.*npz"):
        export_store(stores[1], "pyg", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert export_store(stores[1], "npz", tmp_path / "out")


def test_a_graph_that_does_not_fit_is_not_recomputed(tmp_path, monkeypatch, capsys):
    edges = make_ring().fields["edge_index"].values
    data = Data(edge_index=torch.from_numpy(edges), num_nodes=900)
    for schedule, way in {"hem": "coarsen the store again", "sep": "machine with more memory"}.items():
        path = tmp_path / schedule
        tgp.coarsen(data, schedule, path, metrics=False, workers=1, shard_edges=300)
        assert verify_by_recompute(path) == []
        with monkeypatch.context() as patch:
            patch.setattr(memory_need, "physical_memory", lambda: 1000)
            with pytest.raises(
                InputError, match=f"(?s)recomputing {schedule} of graph 0 needs at least .*{way}"
            ):
                verify_by_recompute(path)
            patch.setattr(locations, "verify_location", None)  # the files are not read before
            assert tgp_command(["verify", str(path), "--deep"]) == 2
            assert "needs at least" in capsys.readouterr().err
