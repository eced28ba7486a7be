"""Built-in datasets: valid graphs, seeds, labels, parameters."""

import networkx as nx
import numpy as np
import pytest

from tgp.errors import ParameterError, UnknownNameError
from tgp.sources.builtin import BUILTIN, make_builtin
from tgp.store import data_digest


def graph_of(table, index):
    graph = nx.Graph()
    graph.add_nodes_from(range(int(np.diff(table.node_ptr)[index])))
    graph.add_edges_from(table.fields["edge_index"].item(index).T.tolist())
    return graph


@pytest.mark.parametrize("name", BUILTIN)
def test_graphs_are_valid_simple_and_undirected(name):
    table, description = make_builtin(f"{name}:num_graphs=20")
    table.validate()
    assert table.num_graphs == 20
    assert description == {"name": name, **BUILTIN[name].defaults, "num_graphs": 20}
    assert len(table.fields["x"].values) == table.num_nodes
    for index in range(20):
        edges = table.fields["edge_index"].item(index)
        keys = edges[0] * 10_000 + edges[1]
        assert (np.diff(keys) > 0).all()
        assert (edges[0] != edges[1]).all()
        assert np.array_equal(np.sort(edges[1] * 10_000 + edges[0]), keys)


@pytest.mark.parametrize("name", BUILTIN)
def test_a_graph_depends_only_on_seed_and_position(name):
    few, _ = make_builtin(f"{name}:num_graphs=6")
    many, _ = make_builtin(f"{name}:num_graphs=15")
    other, _ = make_builtin(f"{name}:num_graphs=6:seed=1")
    assert data_digest(few) == data_digest(many.take(range(6)))
    assert data_digest(few) != data_digest(other)


def test_the_default_set_never_changes():
    table, _ = make_builtin("molecules")
    assert (table.num_graphs, table.num_nodes) == (500, 26168)
    assert data_digest(table)[:16] == "31a2ef44bac68edf"


def test_molecules_are_balanced_connected_and_locally_similar():
    table, _ = make_builtin("molecules")
    y = table.fields["y"].values
    assert y.mean() == 0.5
    sizes, edges = np.diff(table.node_ptr), np.diff(table.fields["edge_index"].ptr)
    degrees = [[], []]
    for index in range(100):
        graph = graph_of(table, index)
        assert nx.is_connected(graph)
        assert max(dict(graph.degree).values()) <= 4
        degrees[y[index]] += dict(graph.degree).values()
    shares = [np.bincount(d, minlength=5) / len(d) for d in degrees]
    assert np.abs(shares[0] - shares[1]).max() < 0.02
    assert abs(sizes[y == 0].mean() / sizes[y == 1].mean() - 1) < 0.03
    assert abs((edges / sizes)[y == 0].mean() - (edges / sizes)[y == 1].mean()) < 0.01
    atoms = [table.fields["x"].values[np.repeat(y == c, sizes)].mean(axis=0) for c in (0, 1)]
    assert np.abs(atoms[0] - atoms[1]).max() < 0.02


def test_merging_rings_shows_the_label_of_molecules():
    """Chains of the same order connect the same pairs of rings twice; chains of another order connect more pairs."""
    table, _ = make_builtin("molecules:num_graphs=60")
    pairs = {0: [], 1: []}
    for index, label in enumerate(table.fields["y"].values):
        graph = graph_of(table, index)
        rings = [set(c) for c in nx.minimum_cycle_basis(graph) if len(c) in (5, 6)]
        # Rings that are units share no atom with another unit; small cycles between units do.
        units = [r for r in rings if not any(r & other for other in rings if other is not r)]
        if len(units) < 7:
            continue
        owner = {node: number for number, ring in enumerate(units) for node in ring}
        links = {
            frozenset((owner[a], owner[b]))
            for a, b in graph.edges
            if a in owner and b in owner and owner[a] != owner[b]
        }
        pairs[int(label)].append(len(links) / len(units))
    assert len(pairs[0]) > 10 and len(pairs[1]) > 10
    assert np.mean(pairs[1]) > 1.4 * np.mean(pairs[0])


def test_degrees_and_labels_of_random_graphs():
    grids, _ = make_builtin("grid:num_graphs=4:num_nodes=30")
    for index, torus in enumerate(grids.fields["y"].values):
        degrees = sorted(dict(graph_of(grids, index).degree).values())
        assert degrees[0] == (4 if torus else 2)
    heavy, _ = make_builtin("ba:num_graphs=1:num_nodes=3000")
    degrees = dict(graph_of(heavy, 0).degree).values()
    assert max(degrees) > 15 * np.mean(list(degrees))
    communities, _ = make_builtin("sbm:num_graphs=3:num_nodes=60")
    for index, label in enumerate(communities.fields["y"].values):
        edges = communities.fields["edge_index"].item(index)
        inside = edges[0] % (label + 2) == edges[1] % (label + 2)
        assert inside.mean() > 0.75


def test_points_are_joined_to_their_nearest_neighbours():
    table, _ = make_builtin("points:num_graphs=4:num_nodes=40:neighbors=3")
    assert sorted(table.fields["y"].values) == [0, 0, 1, 1]
    for index in range(4):
        pos, edges = table.fields["pos"].item(index), table.fields["edge_index"].item(index)
        assert pos.dtype == np.float32 and pos.min() >= 0 and pos.max() < 1
        distance = np.linalg.norm(pos[:, None] - pos[None], axis=2)
        near = np.argsort(distance, axis=1)[:, 1:4]
        joined = {(a, b) for a, row in enumerate(near.tolist()) for b in row}
        assert set(zip(*edges.tolist(), strict=True)) == joined | {(b, a) for a, b in joined}
    assert make_builtin("points:num_nodes=1")[0].fields["edge_index"].values.shape == (2, 0)


def test_neighbourhoods_of_regions_show_the_label():
    table, _ = make_builtin("regions:num_graphs=2:num_nodes=900:noise=80")
    y, x = table.fields["y"], table.fields["x"].values
    assert np.array_equal(y.ptr, table.node_ptr) and set(y.values) == {0, 1, 2, 3}
    assert 0.35 < (x.argmax(1) == y.values).mean() < 0.45  # 20 % true, a quarter of the rest by chance
    edges, labels = table.fields["edge_index"].item(0), y.item(0)
    assert (labels[edges[0]] == labels[edges[1]]).mean() > 0.8
    clean, _ = make_builtin("regions:noise=0")
    assert np.array_equal(clean.fields["x"].values.argmax(1), clean.fields["y"].values)


@pytest.mark.parametrize("spec", ["regions:parts=0", "regions:labels=0", "regions:noise=101"])
def test_regions_check_their_parameters(spec):
    with pytest.raises(ParameterError, match="regions"):
        make_builtin(spec)


@pytest.mark.parametrize(
    "spec", ["molecules:num_graphs=0", "er:degree=x", "grid:num_nodes=-1", "molecules:units=2", "er:seed"]
)
def test_bad_values_are_reported(spec):
    with pytest.raises(ParameterError):
        make_builtin(spec)


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(UnknownNameError, match="'molecules'"):
        make_builtin("molecule")
    with pytest.raises(UnknownNameError, match="'num_graphs'"):
        make_builtin("er:num_graph=3")


def test_families_differ_in_degrees_and_not_in_size_or_density():
    table, _ = make_builtin("families")
    assert data_digest(table)[:16] == "b06d3cfb1cb3bd1e"
    y, sizes = table.fields["y"].values, np.diff(table.node_ptr)
    assert np.abs(np.bincount(y) - 500 / 3).max() < 1
    density, spread = [], []
    for index in range(300):
        degree = np.bincount(table.fields["edge_index"].item(index)[0], minlength=sizes[index])
        density.append(degree.mean())
        spread.append(degree.var() / degree.mean())
    means = [np.mean(np.array(spread)[y[:300] == label]) for label in range(3)]
    assert means[2] < 0.5 < means[0] < 1.2 < means[1]
    for values in (np.array(density), sizes[:300]):
        groups = [values[y[:300] == label] for label in range(3)]
        assert max(g.mean() for g in groups) - min(g.mean() for g in groups) < values.std()


def test_families_check_their_parameters():
    with pytest.raises(ParameterError, match="at least 8"):
        make_builtin("families:num_nodes=7")
    with pytest.raises(ParameterError, match="percent"):
        make_builtin("families:noise=101")
