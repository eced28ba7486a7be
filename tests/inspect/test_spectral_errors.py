"""Spectral metrics of a store: their sample, their definition and the commands that show them."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import erdos_renyi_graph, to_undirected

import tgp
from tests.reference import lifted
from tests.reference import spectral as reference
from tgp.build import CoarsenConfig, coarsen_dataset
from tgp.errors import InputError
from tgp.inspect import inspect_store, spectral_errors
from tgp.inspect.figures import CONVENTION_FIGURES, SPECTRAL_FIGURES
from tgp.inspect.overview import SpectralOptions, inspect_graph
from tgp.inspect.spectral_errors import sample_graphs
from tgp.inspect.thresholds import check_thresholds
from tgp.store import StoreReader


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    out = tmp_path_factory.mktemp("s") / "er"
    config = CoarsenConfig(
        "er:num_graphs=12:num_nodes=15:degree=3", out=out, poolers=("graclus*2", "ndp", "nmf:k=4", "nopool")
    )
    coarsen_dataset(config)
    return out


def make_store(folder, features):
    """Write a store of three connected graphs, with random features or none."""
    torch.manual_seed(1)
    graphs = []
    for n in (14, 9, 17):
        path = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
        graph = Data(
            edge_index=to_undirected(torch.cat([path, erdos_renyi_graph(n, 0.15)], dim=1)), num_nodes=n
        )
        if features:
            graph.x = torch.randn(n, features)
        graphs.append(graph)
    tgp.coarsen(graphs, "graclus*2", out=folder)
    return folder


def local(reader, graph, hierarchy=None, level=None):
    if hierarchy is None:
        edges = reader.gather_graphs([graph]).fields["edge_index"].values
        return edges, None, int(reader.sizes()[0][graph])
    arrays = reader.gather_level([graph], hierarchy, level)
    return arrays.edge_index, arrays.edge_weight, int(arrays.super_ptr[-1])


def test_metrics_are_means_over_graphs(store):
    view = inspect_store(store, spectral=SpectralOptions(sample=100, modes=5))
    reader = StoreReader(store)
    for hierarchy in view.hierarchies:
        for number, level in enumerate(hierarchy.levels):
            plain, scaled = [], []
            for graph in range(12):
                fine = reference.modes(*local(reader, graph), 5)
                coarse = reference.modes(*local(reader, graph, hierarchy.name, number), 5)
                plain.append(reference.error(fine, coarse))
                scaled.append(reference.scaled_error(fine, coarse))
            assert np.isclose(level.metrics["eigenvalue_error"], np.nanmean(plain))
            assert np.isclose(level.metrics["eigenvalue_error_scaled"], np.nanmean(scaled))
    assert view.spectral == {"sample": 100, "modes": 5, "seed": 0, "signals": "x"}


def test_restricted_error_is_the_error_of_the_contracted_input(store):
    reader = StoreReader(store)
    edges, _, n = local(reader, 3)
    clusters = np.arange(n)
    fine = reference.modes(edges, None, n, 8)
    card = inspect_graph(store, 3, hierarchy="graclus-x2", modes=8)
    for row in card["levels"]:
        level = reader.gather_level([3], "graclus-x2", row["level"] - 1)
        clusters = level.assignment.cluster[clusters]
        coarse = reference.modes(clusters[edges], None, int(level.super_ptr[-1]), 8)
        shared = min(len(fine[1]), len(coarse[1]))
        assert (coarse[1][:shared] >= fine[1][:shared] - 1e-9).all()
        assert np.isclose(row["metrics"]["eigenvalue_error_restricted"], reference.error(fine, coarse))


@pytest.mark.parametrize("graph", range(3))
def test_conventions_of_the_literature_equal_dense_matrices(tmp_path, graph):
    """Both levels of a hierarchy: stored graphs, and the clusters of the input nodes."""
    store = make_store(tmp_path / "s", 4)
    reader = StoreReader(store)
    edges, _, n = local(reader, graph)
    matrix, cluster = lifted.laplacian(edges, None, n), np.arange(n)
    zeros = lifted.num_components(matrix)
    x = reader.gather_graphs([graph]).fields["x"].values.astype(float)
    for row in inspect_graph(store, graph, hierarchy="graclus-x2", modes=6)["levels"]:
        level = reader.gather_level([graph], "graclus-x2", row["level"] - 1)
        cluster = level.assignment.cluster[cluster]
        count = int(level.super_ptr[-1])
        c = lifted.scaled_indicator(cluster, count)
        stored = lifted.laplacian(level.edge_index, level.edge_weight, count)
        fine = lifted.lowest(matrix, zeros, 6)
        expected = {
            "combinatorial_error": reference.error(fine, lifted.lowest(stored, zeros, 6)),
            "combinatorial_error_highest": lifted.highest_error(matrix, stored, 6, (zeros, zeros)),
            "size_weighted_error": reference.error(fine, lifted.lowest(c.T @ matrix @ c, zeros, 6)),
            "size_weighted_error_highest": lifted.highest_error(matrix, c.T @ matrix @ c, 6, (zeros, zeros)),
            "hyperbolic_error": lifted.hyperbolic(matrix, cluster, count, x),
            "reconstruction_error": lifted.reconstruction(matrix, cluster, count),
            "restricted_approximation": lifted.approximation(matrix, cluster, count, 6),
            "eigenvalue_error_highest": _normalized_highest(matrix, stored, zeros),
        }
        assert expected.keys() == set(CONVENTION_FIGURES)
        for name, value in expected.items():
            assert np.isclose(row["metrics"][name], value, rtol=1e-6, equal_nan=True), name


@pytest.mark.filterwarnings("ignore:.*edge weights:UserWarning")
def test_clusters_of_signed_weights_are_compared_with_the_undirected_graph(tmp_path):
    """Negative weights count as 0 before graphs are contracted: they do not cancel positive ones of the same clusters."""
    generator, n = torch.Generator().manual_seed(4), 20
    ends = torch.randint(0, n, (2, 70), generator=generator)
    weight = torch.randn(70, generator=generator)
    tgp.coarsen(
        [Data(edge_index=ends, edge_weight=weight, num_nodes=n)], "random:ratio=0.4", out=tmp_path / "s"
    )
    cluster = StoreReader(tmp_path / "s").gather_level([0], "random+ratio=0_4", 0).assignment.cluster
    adjacency, matrix = np.zeros((n, n)), lifted.laplacian(ends.numpy(), weight.numpy(), n)
    np.add.at(adjacency, tuple(ends.numpy()), weight.numpy())
    adjacency = np.maximum((adjacency + adjacency.T) / 2, 0)
    zeros, count = lifted.num_components(matrix), cluster.max() + 1
    fine, c = lifted.lowest(matrix, zeros, 5), lifted.scaled_indicator(cluster, count)
    coarse = c.T @ matrix @ c
    both, stored = lifted.num_components(coarse), np.nonzero(adjacency)
    rows = reference.modes(np.stack(stored), adjacency[stored], n, 5)
    contracted = reference.modes(cluster[np.stack(stored)], adjacency[stored], count, 5)
    expected = {
        "size_weighted_error": reference.error(fine, lifted.lowest(coarse, both, 5)),
        "size_weighted_error_highest": lifted.highest_error(matrix, coarse, 5, (zeros, both)),
        "eigenvalue_error_restricted": reference.error(rows, contracted),
    }
    (level,) = inspect_graph(tmp_path / "s", 0, modes=5)["levels"]
    for name, value in expected.items():
        assert np.isclose(level["metrics"][name], value, rtol=1e-6), name


def _normalized_highest(*args):
    *matrices, zeros = args
    scaled = []
    for matrix in matrices:
        degree = np.diag(matrix)
        root = 1 / np.sqrt(np.where(degree > 0, degree, 1))
        scaled.append(root[:, None] * matrix * root)
    return lifted.highest_error(*scaled, 6, (zeros, zeros))


def test_the_hyperbolic_error_uses_some_columns_of_wide_features(tmp_path, monkeypatch):
    reader, ids = StoreReader(make_store(tmp_path / "s", 7)), np.arange(3)
    whole = spectral_errors._read_signals(reader, ids)
    assert whole.shape == (40, 7)
    monkeypatch.setattr(spectral_errors, "MAX_SIGNAL_ENTRIES", 140)
    assert np.array_equal(spectral_errors._read_signals(reader, ids), whole[:, ::2])


def test_without_features_the_hyperbolic_error_uses_the_identity(tmp_path):
    store = make_store(tmp_path / "s", 0)
    view = inspect_store(store, spectral=SpectralOptions())
    assert view.spectral["signals"] == "identity"
    reader, expected = StoreReader(store), []
    for graph in range(3):
        edges, _, n = local(reader, graph)
        cluster = reader.gather_level([graph], "graclus-x2", 0).assignment.cluster
        matrix = lifted.laplacian(edges, None, n)
        expected.append(lifted.hyperbolic(matrix, cluster, cluster.max() + 1, np.eye(n)))
    assert np.isclose(view.hierarchies[0].levels[0].metrics["hyperbolic_error"], np.mean(expected))


def test_metrics_of_different_methods(store):
    view = inspect_store(store, spectral=SpectralOptions())
    figures = {h.name: h.levels[0].metrics for h in view.hierarchies}
    for name in set(SPECTRAL_FIGURES) - {"hyperbolic_error"}:
        assert figures["nopool"][name] == pytest.approx(0.0, abs=1e-6)
    assert figures["nopool"]["hyperbolic_error"] is None  # the features of these graphs are constant
    for name in ("combinatorial_error", "combinatorial_error_highest", "eigenvalue_error_highest"):
        assert figures["ndp"][name] > 0 and figures["nmf+k=4"][name] > 0
    for name in spectral_errors.CLUSTER_METRICS:
        assert figures["ndp"][name] is None and figures["nmf+k=4"][name] is None
    # The restricted error is not defined for dropped nodes and soft clusters.
    assert figures["ndp"]["eigenvalue_error_restricted"] is None
    assert figures["nmf+k=4"]["eigenvalue_error_restricted"] is None
    assert figures["ndp"]["eigenvalue_error"] > 0


def test_the_sample_depends_on_seed_and_count_only():
    first = sample_graphs(10_000, SpectralOptions(sample=50))
    assert len(set(first.tolist())) == 50 and (np.diff(first) > 0).all()
    assert first[:4].tolist() == sample_graphs(10_000, SpectralOptions(sample=50))[:4].tolist()
    assert first.tolist() != sample_graphs(10_000, SpectralOptions(sample=50, seed=1)).tolist()
    assert 3000 < first.mean() < 7000
    assert sample_graphs(7, SpectralOptions(sample=50)).tolist() == [*range(7)]
    with pytest.raises(InputError, match="modes"):
        SpectralOptions(modes=0)


def test_thresholds_on_spectral_metrics(store):
    view = inspect_store(store, spectral=SpectralOptions())
    missed = list(check_thresholds(view, ["eigenvalue_error>0.01"]))
    assert len(missed) == 4 and missed[0].startswith("graclus-x2, level 1: eigenvalue error = ")
    for figure in ("eigenvalue_error", "hyperbolic error", "RSA"):
        with pytest.raises(InputError, match="on request"):
            check_thresholds(inspect_store(store), [f"{figure}>0.01"])
    for name in set(CONVENTION_FIGURES) - {"hyperbolic_error"}:
        missed = list(check_thresholds(view, [f"{name}>=0"]))
        assert {"graclus-x2, level 1", "nopool, level 1"} <= {text.split(":")[0] for text in missed}, name
    assert len(list(check_thresholds(view, ["size-weighted REE > 0.1"]))) == 2
