"""Spectral metrics of a store: their sample, their definition and the commands that show them."""

import numpy as np
import pytest

from tests.reference import spectral as reference
from tgp.build import CoarsenConfig, coarsen_dataset
from tgp.errors import InputError
from tgp.inspect import inspect_store
from tgp.inspect.overview import SpectralOptions, inspect_graph
from tgp.inspect.spectral_errors import sample_graphs
from tgp.inspect.thresholds import check_thresholds
from tgp.store import StoreReader

FIGURES = ("eigenvalue_error", "eigenvalue_error_scaled", "eigenvalue_error_restricted")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    out = tmp_path_factory.mktemp("s") / "er"
    config = CoarsenConfig(
        "er:num_graphs=12:num_nodes=15:degree=3", out=out, poolers=("graclus*2", "ndp", "nmf:k=4", "nopool")
    )
    coarsen_dataset(config)
    return out


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


def test_metrics_of_different_methods(store):
    view = inspect_store(store, spectral=SpectralOptions())
    figures = {h.name: h.levels[0].metrics for h in view.hierarchies}
    for name in FIGURES:
        assert figures["nopool"][name] == 0.0
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
    with pytest.raises(InputError, match="on request"):
        check_thresholds(inspect_store(store), ["eigenvalue_error>0.01"])
