"""Problems that are known before a run starts: one large graph and a method that uses one core for it."""

import pytest

from tgp.build import CoarsenConfig, coarsen_dataset, estimates, plan_run
from tgp.build.findings import FindingWarning
from tgp.engine.methods import METHODS

REGIONS = "regions:num_nodes=400:parts=4"


@pytest.fixture
def small_is_large(monkeypatch):
    monkeypatch.setattr(estimates, "LEAST_WORK", 100)
    monkeypatch.setattr(estimates, "LEAST_SECONDS", 1e-4)
    monkeypatch.setattr(estimates, "usable_cores", lambda: 4)


def findings_of(tmp_path, *poolers, dataset=REGIONS, **options):
    config = CoarsenConfig(dataset, poolers=poolers, out=tmp_path / "store", **options)
    return [finding for finding in plan_run(config).findings if finding.kind == "core"]


@pytest.mark.usefixtures("small_is_large")
def test_each_hierarchy_with_such_a_method_is_named_with_its_memory(tmp_path):
    sep, both = findings_of(tmp_path, "sep", "hem", "kmis*2", "hem,nmf:k=4,sep")
    assert sep.hierarchy == "sep" and "the coding tree of sep can use only one of the 4 cores" in sep.text
    assert "GB of memory" in sep.text and "hem" in sep.hint
    assert "the factorization of nmf and the coding tree of sep" in both.text


@pytest.mark.usefixtures("small_is_large")
def test_it_is_said_only_if_cores_would_be_idle(tmp_path):
    assert not findings_of(tmp_path, "hem*2")
    assert findings_of(tmp_path, "sep", threads=2) and not findings_of(tmp_path, "sep", threads=1)
    assert not findings_of(tmp_path, "sep", dataset="molecules:num_graphs=40")


def test_graphs_that_take_seconds_are_not_mentioned(tmp_path):
    assert not findings_of(tmp_path, "sep", dataset="regions:num_nodes=4000:parts=4")


@pytest.mark.usefixtures("small_is_large")
def test_a_run_warns_before_it_starts_and_not_if_nothing_is_left(tmp_path, recwarn):
    config = CoarsenConfig(REGIONS, poolers=("sep",), out=tmp_path / "store", metrics=False)
    with pytest.warns(FindingWarning, match="coding tree"):
        coarsen_dataset(config)
    recwarn.clear()
    coarsen_dataset(config)
    assert not [warning for warning in recwarn if "coding tree" in str(warning.message)]


def test_methods_of_the_issue_say_what_uses_one_core():
    """Kernels of ``hem`` and ``kmis`` work on ranges of one graph; those of the others have one owner for each graph."""
    said = {name for name in METHODS if METHODS[name].one_core}
    assert {"sep", "ndp", "nmf", "eigen", "lv", "graclus"} <= said
    assert not said & {"hem", "kmis"}


def test_a_graph_that_may_not_fit_in_memory_is_said_before_the_start(tmp_path, monkeypatch):
    """The need of a method is an upper bound, so the run starts after the warning."""
    monkeypatch.setattr(estimates, "LEAST_WORK", 100)
    monkeypatch.setattr(estimates, "_peak_resident_bytes", lambda: 0)
    config = CoarsenConfig(REGIONS, poolers=("graclus", "lv"), out=tmp_path / "store")
    assert plan_run(config).findings == []
    monkeypatch.setattr(estimates, "physical_memory", lambda: 10**6)
    (found,) = plan_run(config).findings
    assert (found.kind, found.hierarchy) == ("memory", "lv") and "--memory" in found.hint
    assert "lv needs up to 0.0 GB" in found.text and "has 0.0 GB" in found.text
    with pytest.warns(FindingWarning, match="may not fit in memory: lv needs"):
        coarsen_dataset(config)
