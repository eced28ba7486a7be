"""Searches by id and figure, compared with the figures of single graphs."""

import numpy as np
import pytest

from tests.inspect.conftest import build
from tgp.errors import InputError, UnknownNameError
from tgp.inspect.overview import inspect_graph
from tgp.inspect.view import GraphIndex, Query
from tgp.inspect.view.listing import PAGE_ROWS, address, graph_figures, list_graphs
from tgp.inspect.view.search import parse_search
from tgp.store import StoreReader, StoreWriter
from tgp.store.read.parts import OpenPart
from tgp.testing.stores import build_store, halving, halving_spec, random_table, store_spec


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A store with graphs of different sizes, two hierarchies with metrics and several shards."""
    out = tmp_path_factory.mktemp("view") / "molecules"
    from tgp.build import CoarsenConfig, coarsen_dataset

    coarsen_dataset(
        CoarsenConfig("molecules:num_graphs=130", out=out, poolers=("graclus*2", "kmis"), shard_size=20_000)
    )
    return out


@pytest.fixture(scope="module")
def reader(path):
    found = StoreReader(path)
    assert found.num_shards > 1
    return found


@pytest.fixture(scope="module")
def index(reader):
    return GraphIndex(reader)


@pytest.fixture(scope="module")
def graphs(reader):
    """All figures of every graph, one by one."""
    levels = [(name, n + 1) for name, info in reader.hierarchies.items() for n in range(info.depth)]
    sizes = {place: reader.sizes(*place) for name, n in levels for place in ((name, n - 1), (name, n))}
    metrics = {place: reader.metrics(place[0], place[1] - 1) for place in levels}

    def row(graph, name, level):
        (nodes, edges), (before, _) = sizes[name, level], sizes[name, level - 1]
        found = {key: values[graph].item() for key, values in metrics[name, level].items()}
        return {
            "hierarchy": name,
            "level": level,
            "nodes": int(nodes[graph]),
            "edges": int(edges[graph]),
            "ratio": int(nodes[graph]) / int(before[graph]),
            "metrics": found,
        }

    return [
        {
            "graph": graph,
            "nodes": int(reader.sizes()[0][graph]),
            "edges": int(reader.sizes()[1][graph]),
            "levels": [row(graph, *place) for place in levels],
        }
        for graph in range(reader.num_graphs)
    ]


def figures(row):
    return {**row["metrics"], "nodes": row["nodes"], "edges": row["edges"], "ratio": row["ratio"]}


def where(graphs, holds, hierarchy=None, level=None):
    """Return the graphs for which a function of the figures holds at one of the levels."""
    return [
        card["graph"]
        for card in graphs
        if any(
            holds(figures(row))
            for row in card["levels"]
            if hierarchy in (None, row["hierarchy"]) and level in (None, row["level"])
        )
    ]


@pytest.mark.parametrize(
    ("text", "ids", "names"),
    [
        ("", "", []), ("17", "17", []), ("5, 17", "5,17", []), ("5 17", "5,17", []), ("3:9", "3:9", []),
        ("nodes>50", "", ["nodes"]), ("nodes > 50", "", ["nodes"]), ("nodes>50 ratio>0.9", "", ["nodes", "ratio"]),
        ("nodes>50, ratio>0.9", "", ["nodes", "ratio"]), ("nodes>50 and ratio>0.9", "", ["nodes", "ratio"]),
        ("nodes>50 AND ratio<=.9;cut!=1", "", ["nodes", "ratio", "cut"]), ("dropped nodes>0", "", ["dropped nodes"]),
        ("nodes>2 dropped nodes == 0", "", ["nodes", "dropped nodes"]), ("7 nodes>2", "7", ["nodes"]),
        ("0:5 8 nodes>2", "0:5,8", ["nodes"]),
    ],
)  # fmt: skip
def test_grammar(text, ids, names):
    found = parse_search(text)
    assert found.ids == ids and [condition.name for condition in found.conditions] == names


@pytest.mark.parametrize(
    "text", ["nodes", "nodes>", ">5", "nodes>x", "nodes>nan", "nodes=5", "ratio>0.9 foo", "-3", "<b>", "5 x", "a" * 2000]
)  # fmt: skip
def test_invalid_searches(index, text):
    with pytest.raises((InputError, UnknownNameError)):
        index.search(Query(text))


def test_conditions_are_those_of_fail_if(index):
    with pytest.raises(UnknownNameError, match="Did you mean 'ratio'"):
        index.search(Query("ratoi>0.5"))
    with pytest.raises(InputError, match="figure of a whole level"):
        index.search(Query("stalled graphs>0"))
    with pytest.raises(InputError, match="on request only"):
        index.search(Query("eigenvalue_error>0"))
    assert index.search(Query("parts>0")).tolist() == index.search(Query("components>0")).tolist()


def test_ids(index, reader):
    last = reader.num_graphs - 1
    assert index.search(Query("17")).tolist() == [17]
    assert index.search(Query("20, 17 3:6")).tolist() == [3, 4, 5, 17, 20]
    assert index.search(Query(f"{last}")).tolist() == [last]
    for text in (f"{last + 1}", "99999999999999999999999", "5:2"):
        with pytest.raises(InputError):
            index.search(Query(text))


def test_sizes_are_those_of_the_input_graphs(index, graphs):
    expected = [card["graph"] for card in graphs if card["nodes"] > 50]
    assert 0 < len(expected) < len(graphs)
    assert index.search(Query("nodes>50")).tolist() == expected
    expected = [card["graph"] for card in graphs if card["edges"] <= 130 and card["nodes"] > 50]
    assert index.search(Query("edges<=130 nodes>50")).tolist() == expected


def test_sizes_of_a_level(index, graphs):
    expected = where(graphs, lambda f: f["nodes"] > 18, "graclus-x2", 2)
    assert 0 < len(expected) < len(graphs)
    assert index.search(Query("nodes>18", hierarchy="graclus-x2", level=2)).tolist() == expected


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("ratio>0.6", lambda f: f["ratio"] > 0.6),
        ("ratio<0.4", lambda f: f["ratio"] < 0.4),
        ("cut<0.7 modularity<0.3", lambda f: f["cut"] < 0.7 and f["modularity"] < 0.3),
        ("singletons==7", lambda f: f["singletons"] == 7),
        ("singletons!=7 ratio>=0.6", lambda f: f["singletons"] != 7 and f["ratio"] >= 0.6),
    ],
)
@pytest.mark.parametrize(("hierarchy", "level"), [(None, None), ("graclus-x2", None), (None, 1), ("kmis", 1)])
def test_figures_of_levels(index, graphs, text, holds, hierarchy, level):
    """All conditions must hold at the same level."""
    expected = where(graphs, holds, hierarchy, level)
    assert index.search(Query(text, hierarchy=hierarchy, level=level)).tolist() == expected


def test_conditions_hold_at_the_same_level(index, graphs):
    low, high = 0.4, 0.6
    separate = {*where(graphs, lambda f: f["ratio"] < low)} & {*where(graphs, lambda f: f["ratio"] > high)}
    assert separate and not index.search(Query(f"ratio<{low} ratio>{high}")).size


@pytest.mark.parametrize("descending", [False, True])
def test_order(index, graphs, descending):
    best = max if descending else min
    values = [best(figures(row)["cut"] for row in card["levels"]) for card in graphs]
    expected = sorted(range(len(graphs)), key=lambda g: -values[g] if descending else values[g])
    assert index.search(Query(sort="-cut" if descending else "cut")).tolist() == expected
    assert index.search(Query(sort="-id")).tolist() == [*range(len(graphs))][::-1]


def test_unknown_places(index):
    with pytest.raises(UnknownNameError, match="graclus-x2"):
        index.search(Query(hierarchy="graclus-x3"))
    for level in (0, 3, 10**15):
        with pytest.raises(InputError, match="expected a level from 1 to 2"):
            index.search(Query(level=level))


def test_failed_graphs_have_no_figures(failed_store):
    index = GraphIndex(StoreReader(failed_store))
    assert index.search(Query("failures>0")).tolist() == [3]
    assert index.search(Query("failures==0")).tolist() == [0, 1, 2, 4, 5, 6, 7]
    assert 3 not in index.search(Query("ratio<=1"))
    assert index.search(Query(sort="ratio")).tolist()[-1] == 3
    assert index.search(Query(sort="-ratio")).tolist()[-1] == 3
    assert "failed" in list_graphs(index, Query("3")).rows[0].cells[-1]
    assert graph_figures(index.reader, 3).rows == ()


def test_stores_without_metrics_or_hierarchies(tmp_path):
    build_store(tmp_path / "s", random_table(5, seed=1))
    index = GraphIndex(StoreReader(tmp_path / "s"))
    assert index.search(Query("ratio>0.1")).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(InputError, match="no level of the store has the figure 'cut'"):
        index.search(Query("cut>0"))


def test_figures_that_only_some_levels_have(tmp_path):
    """A metric of another program, which only the first of three levels has."""
    table = random_table(4, seed=1)
    writer = StoreWriter.open(tmp_path / "s", store_spec(table, 1, hierarchies=[halving_spec()]))
    writer.write_graphs(0, table)
    metrics = {"0/odd": np.array([1.0, 2.0, np.nan, 4.0]), "1/rows": np.zeros((4, 2))}
    writer.write_hierarchy(0, "halve", halving(table), metrics=metrics)
    writer.publish()
    index = GraphIndex(StoreReader(tmp_path / "s"))
    assert index.search(Query("odd>1 ratio<1")).tolist() == [1, 3]
    assert index.search(Query("odd!=1")).tolist() == [1, 3], "a condition does not hold without a value"
    assert index.search(Query(sort="-odd")).tolist() == [3, 1, 0, 2]
    assert index.search(Query("rows>=0")).size == 0, "a graph has several numbers"
    with pytest.raises(UnknownNameError):
        index.search(Query("odd>1", level=2))


@pytest.mark.parametrize("graph", [0, 129])
def test_figures_of_one_graph(path, reader, graph):
    found = graph_figures(reader, graph).to_json()
    for level, expected in zip(found, inspect_graph(path, graph)["levels"], strict=True):
        names = ("hierarchy", "level", "method")
        assert [level[name] for name in names] == [expected[name] for name in names]
        values = figures(expected)
        values["cluster_largest"] = values.pop("largest")
        known = {key: float(value) for key, value in values.items() if value == value}  # not NaN
        assert {key: level["figures"].get(key) for key in values if key in known} == pytest.approx(known)
        assert not {*level["figures"]} - {*known, "edge_ratio", "cluster_mean"}


def test_neighbours(index):
    found = index.search(Query("nodes>58", "-nodes")).tolist()
    assert len(found) > 3
    for i, graph in enumerate(found):
        before = found[i - 1] if i else None
        after = found[i + 1] if i + 1 < len(found) else None
        assert index.neighbours(Query("nodes>58", "-nodes"), graph) == (i, before, after)
    missing = next(graph for graph in range(130) if graph not in found)
    assert index.neighbours(Query("nodes>58", "-nodes"), missing) == (None, None, None)


def test_pages(index):
    seen, target = [], Query(sort="-nodes")
    page = list_graphs(index, target)
    assert page.first is page.previous is None and len(page.rows) == PAGE_ROWS
    for offset in range(0, 130, PAGE_ROWS):
        page = list_graphs(index, target, offset)
        assert page.offset == offset and page.total == 130
        seen += [row.graph for row in page.rows]
    assert page.following is page.last is None and len(page.rows) == 130 % PAGE_ROWS
    assert page.previous == f"graphs?offset={PAGE_ROWS}&sort=-nodes" and page.first == "graphs?sort=-nodes"
    assert seen == index.search(target).tolist()
    assert list_graphs(index, target, 10**18) == page, "beyond the end is the last page"
    nothing = list_graphs(index, Query("nodes>1000"))
    assert nothing.rows == () and nothing.total == 0 and nothing.status == "No graph of 130 graphs matches."


def test_columns_follow_the_search(index):
    labels = [
        heading.label for heading in list_graphs(index, Query("ratio>0.1 cut<1", "-modularity")).headings
    ]
    assert labels == [
        "graph",
        "nodes",
        "edges",
        "ratio, largest",
        "cut, smallest",
        "modularity, largest",
        "graclus-x2",
        "kmis",
    ]
    labels = [heading.label for heading in list_graphs(index, Query(hierarchy="kmis", level=1)).headings]
    assert labels == [
        "graph",
        "nodes",
        "edges",
        "ratio",
        "cut",
        "modularity",
        "singletons",
        "components",
        "kmis",
    ]


def test_a_click_on_a_heading_sorts_and_a_second_one_reverses(index):
    def link(query, label):
        return next(h for h in list_graphs(index, query).headings if h.label == label).link

    assert link(Query(), "nodes") == "graphs?sort=-nodes"
    assert link(Query(sort="-nodes"), "nodes") == "graphs?sort=nodes"
    assert link(Query(), "graph") == "graphs?sort=-id" and link(Query(sort="-id"), "graph") == "graphs"


def test_addresses_are_quoted():
    assert (
        address("graphs", Query("a&b=<c>", hierarchy="x y"), offset=0)
        == "graphs?q=a%26b%3D%3Cc%3E&hierarchy=x+y"
    )


def test_a_search_reads_no_level_data(path, monkeypatch):
    """Only offsets, from which sizes follow, metrics and failures are read."""
    read = set()
    array = OpenPart.array

    def recorded(self, name, *args, **options):
        read.add(name)
        return array(self, name, *args, **options)

    monkeypatch.setattr(OpenPart, "array", recorded)
    index = GraphIndex(StoreReader(path))
    list_graphs(index, Query("nodes>5 ratio>0.1 cut<1", "-modularity"))
    assert any("metrics" in name for name in read)
    assert not [name for name in read if not name.startswith("/metrics") and "ptr" not in name]
    assert {name.rpartition("/")[2] for name in read if name.startswith("/metrics")} == {"cut", "modularity"}


def test_a_graph_reads_the_metrics_of_its_shard_only(path, monkeypatch):
    reader = StoreReader(path)
    asked = []
    metrics = StoreReader.metrics

    def recorded(self, *args, **options):
        asked.append(options["shard"])
        return metrics(self, *args, **options)

    monkeypatch.setattr(StoreReader, "metrics", recorded)
    graph_figures(reader, reader.manifest.spec.bounds[1])
    assert {*asked} == {1}


def test_memory_is_bounded(reader):
    index = GraphIndex(reader, column_bytes=3 * 8 * reader.num_graphs)
    for key in ("cut", "modularity", "entropy", "ratio", "edge_ratio", "cluster_mean", "singletons"):
        index.search(Query(sort=key))
        kept = [column for column in index._columns.values() if column is not None]
        assert sum(column.nbytes for column in kept) <= 3 * 8 * reader.num_graphs
    assert len(index._results) <= 4
    expected = GraphIndex(reader).search(Query(sort="cut"))
    assert np.array_equal(index.search(Query(sort="cut")), expected), (
        "a column that was dropped is read again"
    )


def test_profiles_give_the_same_results(tmp_path):
    found = []
    for profile in ("fast", "small"):
        index = GraphIndex(StoreReader(build(tmp_path / profile, "graclus*2", profile=profile)))
        found.append(list_graphs(index, Query("ratio>0.5", "-cut")))
    assert found[0] == found[1] and found[0].rows
