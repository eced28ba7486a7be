"""Stores of heterogeneous graphs: round trip, equality with the transform, batches, wrong input, changed content."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

import tgp
from tests.data.test_hetero import movies, papers
from tgp.data import PoolDataLoader, PooledDataset, PreCoarsening, precoarsen
from tgp.data.hetero import join_hetero
from tgp.engine.carry import CarryRules
from tgp.engine.schedule import parse_schedule
from tgp.engine.typed_table import coarsen_table, resolve_types
from tgp.errors import DatasetError, InputError, StoreDamagedError, StoreMismatchError, UnknownNameError
from tgp.inspect.export import export_store
from tgp.inspect.recompute import verify_by_recompute
from tgp.ragged.types import EDGE_TYPE, NODE_TYPE, TypeTable
from tgp.sources.objects import objects_to_table
from tgp.store import HierarchySpec, MemoryWriter, StoreSpec, data_digest, verify_store
from tgp.store.format.manifest import read_manifest
from tgp.store.format.strict_json import seal

pytestmark = pytest.mark.filterwarnings("ignore::tgp.build.findings.FindingWarning")
SCHEDULES = ("graclus*2", "kmis,graclus", "sep*2", "random:ratio=0.5")


def graphs(make=papers):
    found = [make(seed) for seed in range(4)]
    for number, graph in enumerate(found):
        graph.name = f"g{number}"
        graph.y = torch.tensor([number])
    return found


def assert_same(first, second):
    """Check that two graphs, levels or batches have the same attributes, bit for bit."""
    assert first.metadata() == second.metadata()
    for one, other in zip(first.stores, second.stores, strict=True):
        assert set(one.keys()) == set(other.keys())
        for key, value in one.items():
            if key == "pooled_data":
                assert len(value) == len(other[key])
                for a, b in zip(value, other[key], strict=True):
                    assert_same(a, b)
            elif key == "so":
                assert (value.num_nodes, value.num_supernodes) == (
                    other[key].num_nodes,
                    other[key].num_supernodes,
                )
                assert torch.equal(value.cluster_index, other[key].cluster_index)
                assert torch.equal(value.node_index, other[key].node_index)
            elif isinstance(value, torch.Tensor):
                assert value.dtype == other[key].dtype and torch.equal(value, other[key]), key
            else:
                assert value == other[key], key


@pytest.mark.parametrize("make", [movies, papers])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("carry", ["auto", None])
def test_store_equals_transform(make, schedule, carry):
    dataset = tgp.coarsen(graphs(make), schedule, carry=carry)
    expected = precoarsen(graphs(make), schedule, carry=carry)
    for found, wanted in zip(dataset, expected, strict=True):
        assert isinstance(found, HeteroData)
        assert_same(found, wanted)


def featured(seed):
    """Return a graph whose types have features of different widths and types."""
    generator = torch.Generator().manual_seed(seed)
    data = papers(seed)
    for number, kind in enumerate(data.node_types):
        x = torch.randn(data[kind].num_nodes, 3 - number % 2, generator=generator)
        data[kind].x = x.double() if number == 1 else x
    return data


@pytest.mark.parametrize("schedule", ["simmatch*2", "graclus,simmatch"])
def test_methods_that_need_attributes(schedule, tmp_path):
    given = [featured(seed) for seed in range(4)]
    expected = precoarsen([featured(seed) for seed in range(4)], schedule)
    for options in ({}, {"workers": 2, "shard_size": 1}):
        path = tmp_path / f"store{len(options)}"
        for found, wanted in zip(tgp.coarsen(given, schedule, path, **options), expected, strict=True):
            assert_same(found, wanted)
        assert verify_store(path) == [] and verify_by_recompute(path) == []
    kind = given[0].node_types[-1]
    changed = [featured(seed) for seed in range(4)]
    for data in changed:
        data[kind].x = data[kind].x.flip(0)
    others = tgp.coarsen(changed, schedule)
    assert any(
        not torch.equal(level[kind].so.cluster_index, old[kind].so.cluster_index)
        for graph, before in zip(others, expected, strict=True)
        for level, old in zip(graph.pooled_data, before.pooled_data, strict=True)
    ), "the result must depend on the features"


def test_missing_and_wrong_attributes_are_found_before_anything_is_written(tmp_path):
    given, kind = [featured(seed) for seed in range(4)], featured(0).node_types[-1]
    given[2][kind].x[1] = torch.nan
    with pytest.raises(InputError, match=rf"node type '{kind}': 'x'.*not finite.* at node 1 of graph 2"):
        tgp.coarsen(given, "simmatch", tmp_path / "store")
    for data in given:
        data[kind].num_nodes = data[kind].x.size(0)
        del data[kind].x
    with pytest.raises(InputError, match=f"simmatch needs the node attribute 'x': .* got none on '{kind}'"):
        tgp.coarsen(given, "simmatch", tmp_path / "store")
    with pytest.raises(InputError, match="have no edge map: expected no rule edge_index=map"):
        tgp.coarsen(given, "graclus", tmp_path / "store", carry="edge_index=map")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("type_graph", ["same", "project"])
def test_chosen_relations_and_projection(type_graph):
    options = {"relations": "cites,by", "type_graph": type_graph}
    dataset = tgp.coarsen(graphs(), "graclus*2", **options)
    transform = PreCoarsening("graclus*2", **options)
    for found, wanted in zip(dataset, map(transform, graphs()), strict=True):
        assert_same(found, wanted)
    spec = dataset.reader.manifest.spec.hierarchies[0]
    assert spec.relations == (("movie", "cites", "movie"), ("movie", "by", "director"))
    assert spec.type_graph == type_graph


@pytest.mark.parametrize("workers", [0, 1])
def test_batches_are_those_of_joined_graphs(workers):
    dataset = tgp.coarsen(graphs(), "graclus*2", carry="auto")
    for batch, low in zip(PoolDataLoader(dataset, batch_size=3, num_workers=workers), (0, 3), strict=True):
        parts = [dataset[i] for i in range(low, min(low + 3, 4))]
        assert_same(batch, join_hetero(parts))
        alone = batch.get_example(0)
        assert torch.equal(
            alone["movie", "by", "director"].edge_index, parts[0]["movie", "by", "director"].edge_index
        )


def test_fields_and_levels_are_chosen():
    store = tgp.coarsen(graphs(), "graclus*2", carry="auto").reader
    dataset = PooledDataset(store, levels=[2], fields=["x"], level_fields=["nodes/movie/y"])
    whole = PooledDataset(store)[1]
    graph = dataset[1]
    assert set(graph["movie"].keys()) == {"x"} and set(graph.pooled_data[0]["movie"].keys()) == {
        "y",
        "num_nodes",
        "so",
    }
    assert torch.equal(
        graph.pooled_data[0]["movie"].so.cluster_index, whole.pooled_data[1]["movie"].so.cluster_index
    )
    with pytest.raises(UnknownNameError):
        PooledDataset(store, fields=["z"])
    with pytest.raises(InputError, match="carry"):
        PooledDataset(store, carry="auto")


def test_same_bytes_for_any_number_of_workers(tmp_path):
    for workers in (1, 2):
        tgp.coarsen(
            graphs() * 4,
            "graclus*2",
            tmp_path / str(workers),
            carry="auto",
            workers=workers,
            shard_size="20kB",
        )
    names = sorted(path.name for path in (tmp_path / "1").glob("*.*"))
    assert len(names) > 4
    for name in names:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()
    assert verify_store(tmp_path / "1") == [] and verify_by_recompute(tmp_path / "1") == []
    assert json.loads((tmp_path / "1" / "manifest.json").read_text())["minor"] == 4
    files = export_store(tmp_path / "1", "npz", tmp_path / "out")
    with np.load(files[0]) as arrays:
        assert arrays["node_type_names"].tolist() == ["movie", "actor", "director"]
    with pytest.raises(InputError, match="npz"):
        export_store(tmp_path / "1", "graphml", tmp_path / "other")
    with pytest.raises(StoreMismatchError, match="relations"):
        tgp.coarsen(
            graphs() * 4, "graclus*2", tmp_path / "1", carry="auto", shard_size="20kB", relations="by"
        )


def other_types(data):
    data["studio"].num_nodes = 2


def other_relation(data):
    del data["movie", "like", "movie"]


def wrong_id(data):
    data["movie", "cast", "actor"].edge_index[1, 0] = 60


def wrong_weight(data):
    data["movie", "by", "director"].edge_weight[3] = float("nan")


def wrong_rows(data):
    data["movie", "cast", "actor"].edge_attr = torch.ones(3, 3, dtype=torch.float64)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (other_types, "graph 2 has other types of nodes"),
        (other_relation, "graph 2 has other relations"),
        (wrong_id, "graph 2: relation movie-cast-actor has a wrong id"),
        (wrong_weight, "movie-by-director must hold finite"),
        (wrong_rows, "edge_attr has the wrong length"),
    ],
)
def test_wrong_graphs_are_refused_before_anything_is_written(change, text, tmp_path):
    found = graphs()
    change(found[2])
    with pytest.raises(DatasetError, match=text):
        tgp.coarsen(found, "graclus", tmp_path / "store")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"relations": "directs"}, UnknownNameError, "directs"),
        ({"type_graph": "none"}, UnknownNameError, "none"),
        ({"poolers": "ndp"}, InputError, "several types"),
        ({"poolers": "graclus*"}, InputError, "number of levels"),
        ({"only_levels": 1}, InputError, "only_levels"),
        ({"undirected": True}, DatasetError, "undirected"),
        ({"carry": "pos=mean"}, UnknownNameError, "pos"),
    ],
)
def test_wrong_settings(options, error, text, tmp_path):
    with pytest.raises(error, match=text):
        tgp.coarsen(graphs(), **{"poolers": "graclus", "out": tmp_path / "store", **options})
    assert not (tmp_path / "store").exists()


def test_settings_need_several_types():
    plain = [Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)]
    with pytest.raises(InputError, match="relations has no effect"):
        tgp.coarsen(plain, "graclus", relations="cites")
    with pytest.raises(DatasetError, match="graph 1"):
        tgp.coarsen([movies(), plain[0]], "graclus")


def field_change(name, change):
    return lambda fields: {**fields, name: replace(fields[name], values=change(fields[name].values.copy()))}


def set_first(value):
    def change(values):
        values[0] = value
        return values

    return change


def write(graph_change=None, level_change=None):
    """Write a store with valid digests and wrong content."""
    table = objects_to_table(graphs())
    types, schedule = table.types, parse_schedule("graclus")
    options = {"relations": types.relations, "steps": resolve_types(CarryRules.parse("auto"), table, types)}
    hierarchy = coarsen_table(table, types, schedule, **options).hierarchy
    if graph_change:
        table = replace(table, fields=graph_change(table.fields))
    if level_change:
        hierarchy = replace(hierarchy, levels=tuple(level_change(level) for level in hierarchy.levels))
    entry = HierarchySpec("h", schedule.to_json(), carry="auto", relations=types.relations, type_graph="auto")
    spec = StoreSpec({}, data_digest(table), 4, (0, 4), "fast", (entry,), types)
    writer = MemoryWriter(spec)
    writer.write_graphs(0, table)
    writer.write_hierarchy(0, "h", hierarchy)
    writer.publish()
    return writer.files


def level_fields(change):
    return lambda level: replace(level, fields=change(level.fields))


def merge_types(level):
    cluster = level.assignment.cluster.copy()
    cluster[0] = cluster[50]
    return replace(level, assignment=replace(level.assignment, cluster=cluster))


def shorten(fields):
    name = "nodes/movie/x"
    entry = fields[name]
    return {
        **fields,
        name: replace(entry, values=entry.values[:-1], ptr=np.minimum(entry.ptr, entry.ptr[-1] - 1)),
    }


def test_unchanged_content_is_valid():
    files = write()
    assert verify_store(files) == []
    assert len(PooledDataset(files)) == 4


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"graph_change": field_change(NODE_TYPE, set_first(3))}, "node_type"),
        ({"graph_change": field_change(NODE_TYPE, set_first(1))}, "edge_type|wrong length"),
        ({"graph_change": field_change(EDGE_TYPE, set_first(5))}, "edge_type"),
        ({"graph_change": field_change(EDGE_TYPE, set_first(1))}, "another type"),
        ({"graph_change": shorten}, "wrong length"),
        ({"level_change": level_fields(field_change(NODE_TYPE, set_first(7)))}, "node_type"),
        ({"level_change": level_fields(field_change(EDGE_TYPE, set_first(9)))}, "edge_type"),
        ({"level_change": level_fields(shorten)}, "wrong length"),
        ({"level_change": merge_types}, "different types"),
    ],
)
def test_changed_content_is_refused(changes, text):
    files = write(**changes)
    with pytest.raises(StoreDamagedError, match=text):
        PooledDataset(files).get_batch([0, 1, 2, 3])
    assert any(finding.message for finding in verify_store(files))


def _fields_of_level(body):
    return body["hierarchies"][0]["levels"][0]["fields"]


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body["types"].update(nodes=["movie", "movie", "director"]),
        lambda body: body["types"].update(nodes=["movie", "actor", "bad\nname"]),
        lambda body: body["types"].update(nodes="movie"),
        lambda body: body["types"]["relations"].append(["movie", "with", "cat"]),
        lambda body: body["types"]["relations"].append(["movie", "with"]),
        lambda body: body.pop("types"),
        lambda body: body["hierarchies"][0].pop("relations"),
        lambda body: body["hierarchies"][0].update(type_graph="none"),
        lambda body: body["hierarchies"][0].update(relations=[["cat", "eats", "actor"]]),
        lambda body: body["fields"][1].update(name="nodes/cat/x"),
        lambda body: _fields_of_level(body).remove(
            next(field for field in _fields_of_level(body) if field["name"] == "node_type")
        ),
    ],
)
def test_wrong_names_in_a_manifest_are_refused(change):
    files = write()
    body = json.loads(files.read("manifest.json", 1 << 26))
    change(body)
    for key in ("format", "version", "checksum"):
        body.pop(key)
    files.contents["manifest.json"] = seal(body)
    with pytest.raises(StoreDamagedError):
        read_manifest(files)


def test_names_of_types_may_contain_anything_printable():
    types = TypeTable(("a/b", "50 %"), (("a/b", "x-y", "50 %"),))
    assert types.problem() is None
    assert types.parse(types.edge_field(0, "edge_attr")).name == "edge_attr"
    assert types.parse(types.node_field(1, "a/x")) == ("nodes", 1, "a/x")
