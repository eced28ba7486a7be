"""Progress of a run, and the order of its tasks."""

import dataclasses

import numpy as np
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


EDGES = np.arange(100)


def test_meter_counts_graphs_and_estimates_the_remaining_time(clock):
    meter = Meter(SPEC, TASKS, [0, 1, 0, 3, 0, 4], EDGES)
    assert meter.step() == Step("coarsening", 0, 100, elapsed=0.0)
    clock[0] += 2
    meter.finished(Task(0, "graphs"), 500)
    assert meter.step() == Step("coarsening", 0, 100, bytes=500, elapsed=2.0)
    meter.finished(Task(1, "a"), 1000)
    step = Step("coarsening", 30, 100, share=3 / 8, bytes=1500, elapsed=2.0, remaining=2 * 8 / 3 - 2)
    assert meter.step() == step
    clock[0] += 1  # no task finishes: the remaining time goes down
    assert meter.step() == dataclasses.replace(step, elapsed=3.0, remaining=2 * 8 / 3 - 3)
    clock[0] += 90
    assert meter.step().remaining == 0
    meter.finished(Task(2, "a"), 1000)
    meter.finished(Task(0, "a"), 1000)
    assert meter.step() == Step("coarsening", 100, 100, share=1.0, bytes=3500, elapsed=93.0, remaining=0.0)


def test_meter_counts_a_graph_once_per_hierarchy():
    hierarchies = tuple(HierarchySpec(name, [{"method": "graclus"}]) for name in "ab")
    spec = dataclasses.replace(SPEC, hierarchies=hierarchies)
    tasks = [Task(unit, part) for unit in range(3) for part in ("graphs", "a", "b")]
    step = Meter(spec, tasks, [1.0] * 9, EDGES).step()
    assert (step.total, step.hierarchies) == (200, 2)
    assert "of 200 graphs (2 hierarchies)" in step.describe()


def test_meter_counts_the_edges_of_a_few_graphs():
    spec = StoreSpec({}, "0" * 64, 3, (0, 1, 3), hierarchies=SPEC.hierarchies)
    meter = Meter(spec, [Task(0, "a"), Task(1, "a")], [1, 1], np.array([10, 2000, 3]))
    meter.finished(Task(1, "a"), 1)
    assert meter.step().describe().startswith("2,003 of 2,013 edges")


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (Step("opening"), ""),
        (
            Step("coarsening", 1204, 4110, elapsed=12.3, remaining=20.4),
            "1,204 of 4,110 graphs, 12 s, about 20 s left",
        ),
        (Step("coarsening", 1, 1, elapsed=3.0, remaining=0.0), "1 of 1 graph, 3 s"),
        (Step("compiling", 3, 16, "kernel", elapsed=61.0), "kernel 3 of 16, 61 s"),
        (Step("compiling", 3, 0, "kernel", elapsed=61.0), "kernel 3, 61 s"),
        (Step("waiting", 1, 4, waited=130.0), "2 min 10 s"),
        (Step("checking", 1, 4000, ""), "1 of 4,000"),
    ],
)
def test_a_step_in_words(step, text):
    assert step.describe() == text


def test_a_step_in_words_with_its_stage():
    assert Step("opening").describe(stage=True) == "opening"
    assert Step("opening", elapsed=2.0).describe(stage=True) == "opening, 2 s"
    assert Step("coarsening", 1, 4, elapsed=2.0).describe(stage=True) == "coarsening 1 of 4 graphs, 2 s"


def test_a_step_in_few_words():
    step = Step("coarsening", 5, 10, hierarchies=2, elapsed=10.0, remaining=20.0)
    assert step.describe(short=True) == "5 of 10 graphs, 10 s, 20 s left"


def test_a_step_in_words_between_two_steps():
    step = Step("coarsening", 5, 10, elapsed=10.0, remaining=20.0)
    assert step.describe(5.0) == "5 of 10 graphs, 15 s, about 15 s left"
    assert step.describe(100.0) == "5 of 10 graphs, 110 s, about 1 s left"


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
    assert [stage for stage in stages if stage != "compiling"] == [
        "opening the dataset",
        "loading kernels",
        "coarsening",
    ]
    steps = [step for step in seen if step.stage == "coarsening"]
    counts = sorted({step.done for step in steps})
    assert counts[0] == 0 and counts[-1] == 30 and len(counts) == summary.num_units + 1
    assert {(step.total, step.noun) for step in steps} == {(30, "graph")}
    assert steps[-1].bytes == summary.bytes and steps[-1].remaining == 0
