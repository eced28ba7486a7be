"""Progress of a run, and the order of its tasks."""

import pytest

from tgp.build import CoarsenConfig, coarsen_dataset
from tgp.build import progress as progress_module
from tgp.build.progress import Meter, Step, order_tasks
from tgp.store import HierarchySpec, StoreSpec, Task

SPEC = StoreSpec(
    {}, "0" * 64, 100, (0, 10, 40, 100), hierarchies=(HierarchySpec("a", [{"method": "graclus"}]),)
)
TASKS = [Task(unit, part) for unit in range(3) for part in ("graphs", "a")]


@pytest.fixture
def clock(monkeypatch):
    """Replace the clock by a number that the test changes."""
    now = [100.0]
    monkeypatch.setattr(progress_module.time, "perf_counter", lambda: now[0])
    return now


def test_meter_computes_speed_and_remaining_time(clock):
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


def test_order_tasks_puts_heavy_units_first():
    parts = ("graphs", "a")
    by_cost = [Task(unit, part) for unit in (2, 1, 0) for part in parts]
    assert order_tasks(TASKS, [0, 1, 0, 3, 0, 9]) == by_cost
    assert order_tasks(TASKS, [0, 5.0, 0, 5.1, 0, 5.2]) == TASKS
    assert order_tasks(TASKS[:1], [0]) == TASKS[:1]


def test_a_run_reports_its_stages(tmp_path):
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
