"""How far a run is, and what it will take."""

import numpy as np
import pytest

from tgp.build import CoarsenConfig, coarsen_dataset, plan_run
from tgp.build import progress as progress_module
from tgp.build.prepare import attribute_bytes
from tgp.build.progress import Meter, Step, order_tasks
from tgp.ragged import Field, GraphTable
from tgp.store import HierarchySpec, StoreSpec, Task

SPEC = StoreSpec(
    {}, "0" * 64, 100, (0, 10, 40, 100), hierarchies=(HierarchySpec("a", [{"method": "graclus"}]),)
)
TASKS = [Task(unit, part) for unit in range(3) for part in ("graphs", "a")]


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when the test says so."""
    now = [100.0]
    monkeypatch.setattr(progress_module.time, "perf_counter", lambda: now[0])
    return now


def test_rates_and_the_rest_follow_graphs_and_work(clock):
    meter = Meter(SPEC, TASKS, [0, 1, 0, 3, 0, 4])
    assert meter.step() == Step("coarsening", 0, 3)
    clock[0] += 2
    meter.finished(Task(0, "graphs"), 500)
    assert meter.step() == Step("coarsening", 0, 3, bytes=500)
    meter.finished(Task(1, "a"), 1000)
    assert meter.step() == Step("coarsening", 1, 3, 15.0, 1500, pytest.approx(2 * 5 / 3))
    clock[0] += 3
    meter.finished(Task(2, "a"), 1000)
    meter.finished(Task(0, "a"), 1000)
    assert meter.step() == Step("coarsening", 3, 3, 20.0, 3500, 0.0)


def test_heavy_units_come_first_and_equal_ones_in_their_order():
    parts = ("graphs", "a")
    by_cost = [Task(unit, part) for unit in (2, 1, 0) for part in parts]
    assert order_tasks(TASKS, [0, 1, 0, 3, 0, 9]) == by_cost
    assert order_tasks(TASKS, [0, 5.0, 0, 5.1, 0, 5.2]) == TASKS
    assert order_tasks(TASKS[:1], [0]) == TASKS[:1]


def test_a_run_tells_where_it_is(tmp_path):
    seen = []
    config = CoarsenConfig("molecules:num_graphs=30", out=tmp_path / "s", shard_size=10_000)
    summary = coarsen_dataset(config, progress=seen.append)
    stages = list(dict.fromkeys(step.stage for step in seen))
    assert stages[0] == "opening the dataset" and stages[1].startswith("preparing kernels")
    assert stages[2:] == ["coarsening"]
    steps = [step for step in seen if step.stage == "coarsening"]
    assert [step.done for step in steps] == list(range(summary.num_units + 1))
    assert {step.total for step in steps} == {summary.num_units}
    assert steps[-1].bytes == summary.bytes and steps[-1].remaining == 0


@pytest.mark.parametrize("profile", ["fast", "small"])
@pytest.mark.parametrize(
    ("dataset", "poolers"),
    [
        ("molecules:num_graphs=400", ("graclus*3",)),
        ("molecules:num_graphs=100", ("ndp*2", "nmf:k=6", "eigen:k=4")),
        ("grid:num_graphs=1:num_nodes=5000", ("kmis*2", "sep*2")),
    ],
)
def test_estimated_bytes_are_right_within_a_factor_of_two(tmp_path, dataset, poolers, profile):
    config = CoarsenConfig(dataset, poolers=poolers, out=tmp_path / "s", profile=profile)
    planned, done = plan_run(config), coarsen_dataset(config)
    assert done.bytes / 2 <= planned.estimated_bytes <= 2 * done.bytes
    assert planned.num_units == done.num_units and planned.pending == done.units_done


def test_attributes_count_as_they_are_stored():
    node_ptr, edge_ptr = np.array([0, 2, 5]), np.array([0, 1, 3])
    fields = {
        "edge_index": Field("edge_index", np.zeros((2, 3), np.int64), edge_ptr, axis=-1, shifted=True),
        "x": Field("x", np.zeros((5, 3), np.float32), node_ptr),  # 12 bytes a node
        "z": Field("z", np.array([1, 2, 3, 4, 300]), node_ptr),  # 2 bytes a node
        "y": Field("y", np.array([-1, 1]), np.arange(3)),  # 1 byte a graph
        "own": Field("own", np.zeros((4, 2), bool), np.array([0, 4, 4])),  # 2 bytes a row, 4 for an offset
    }
    assert attribute_bytes(GraphTable(node_ptr, fields)).tolist() == [2 * 14 + 1 + 8 + 4, 3 * 14 + 1 + 4]
