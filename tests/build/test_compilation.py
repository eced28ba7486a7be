"""Counting compiled kernels: the list of kernels, and the numbers that a run shows."""

import ast
import json
import multiprocessing
import os
import subprocess
import sys

import numba
import pytest

from tgp.build import compilation, workers
from tgp.build.compilation import kernels_of, read_compilation, watch_compilation
from tgp.engine.methods import METHODS
from tgp.engine.schedule import parse_schedule

RECORD = """
import json, sys
from tgp.build.compilation import kernels_of, watch_compilation
from tgp.build.jobs import job_header, warm_up
from tgp.engine.schedule import parse_schedule
from tgp.kernels.ahead import signature_of

def called():
    # A kernel that was called with other types than its annotations has two names.
    found = set()
    for name, module in list(sys.modules.items()):
        if name.startswith("tgp.kernels."):
            for value in vars(module).values():
                if getattr(value, "overloads", None) and value.py_func.__module__ == name:
                    kernel = f"{name.removeprefix('tgp.kernels.')}.{value.py_func.__name__}"
                    expected = signature_of(kernel)
                    others = [] if expected is None else [s for s in value.overloads if s != expected]
                    found.update([kernel, *(f"{kernel} for {types}" for types in others)])
    return found

schedules = []
result = []
for name in sys.argv[1:]:
    schedules.append(parse_schedule(name))
    seconds = warm_up(job_header(schedules[-1:]))
    listed = kernels_of(schedules, metrics=True)
    result.append([name, seconds, sorted(listed - called()), sorted(called() - listed)])
print(json.dumps(result))
"""


RECORD_EXTERNAL = (
    RECORD.partition("schedules = []")[0]
    + """
from tgp.build import CoarsenConfig, coarsen_dataset, external
from tgp.build.compilation import external_kernels_of
from tgp.engine.schedule import parse_schedule

schedule = "hem*2,kmis,graclus"
summary = coarsen_dataset(CoarsenConfig(sys.argv[1], poolers=schedule, out=sys.argv[2], memory="1GB"))
coarsen_dataset(CoarsenConfig(sys.argv[2], poolers="hem*2", out=f"{sys.argv[2]}-2", memory="1GB"))  # from arrays
listed = set(external_kernels_of(parse_schedule(schedule)))
print(json.dumps([summary.compile_seconds, sorted(listed - called()), sorted(called() - listed)]))
"""
)

COUNT = """
import sys
from numba.core import event
from tgp.build import jobs
from tgp.engine.schedule import parse_schedule

class Listener(event.Listener):
    def on_start(self, happened):
        function = happened.data["dispatcher"].py_func
        print(f"{function.__module__}.{function.__name__}")

    def on_end(self, happened):
        pass

jobs.usable_cores = lambda: 1  # no helper processes: everything is compiled here
with event.install_listener("numba:compile", Listener()):
    jobs.warm_up(jobs.job_header([parse_schedule(sys.argv[1])]))
"""

COMPILATIONS = {"graclus*2": 11, "ndp,eigen": 42, "sep*2": 36}
"""Most functions that a first run compiles, with those that kernels call and those of numba. Lower it where you can."""


def builtin_methods():
    return [
        entry.alias
        for entry in METHODS.all_entries()
        if entry.package is None and entry.target.startswith("tgp.")
    ]


def test_every_method_of_tgp_is_listed():
    assert set(compilation._METHODS) == set(builtin_methods())


def test_the_list_contains_the_kernels_that_methods_call():
    """Kernels that are loaded from the cache are those that Python calls. The first run fills the cache."""
    names = [name for name in builtin_methods() if METHODS[name].is_installed]
    command = [sys.executable, "-c", RECORD, *names]
    for _ in range(2):
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert found == [[name, 0.0, [], []] for name in names]


def test_the_list_contains_the_kernels_of_graphs_larger_than_memory(tmp_path):
    """A text with holes in its ids, weights, and many nodes around few hubs; then its store."""
    text = [f"{hub} {leaf} {1 / (leaf + 3 * hub)!r}" for hub in (1, 2) for leaf in range(10, 300, 2)]
    (tmp_path / "graph.txt").write_text("\n".join(text))
    for name in ("first", "second"):
        command = [sys.executable, "-c", RECORD_EXTERNAL, str(tmp_path / "graph.txt"), str(tmp_path / name)]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert found == [0.0, [], []]


def test_kernels_of_methods_of_other_packages_are_unknown():
    class Other:
        method = "other"

    assert kernels_of([[Other()]], metrics=True) == frozenset()
    schedule = parse_schedule("graclus")
    assert kernels_of([[*schedule, Other()]], metrics=True) == kernels_of([schedule], metrics=True)


def compile_one():
    return numba.njit(lambda x: x + 1)(1)


def test_compiled_kernels_are_counted_and_timed():
    assert read_compilation() is None
    with watch_compilation(frozenset()) as seconds:
        assert read_compilation() is None and seconds() == 0.0
        compile_one()
        assert read_compilation() == (1, 0)
        assert seconds() > 0.0
    assert read_compilation() is None


def test_the_number_never_exceeds_the_total():
    """Kernels that are not listed do not count. A kernel that is loaded counts as done."""
    import tgp.kernels.csr as csr

    csr.components  # noqa: B018 - loaded, but perhaps not called yet
    kernels = kernels_of([parse_schedule("graclus")], metrics=False)
    with watch_compilation(kernels):
        for _ in range(3):
            compile_one()
            number, total = read_compilation()
            assert 1 <= number <= total == len(kernels)


def test_a_worker_sends_the_numbers_to_its_parent(monkeypatch):
    incoming, outgoing = multiprocessing.Pipe(duplex=False)
    monkeypatch.setattr(workers, "connections", [outgoing])
    assert read_compilation(incoming) is None
    with watch_compilation(frozenset()):
        compile_one()
    assert read_compilation(incoming) == (1, 0)
    outgoing.close()
    assert read_compilation(incoming) is None
    incoming.close()
    with watch_compilation(frozenset()):
        compile_one()  # a parent that has ended is no error


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_a_first_run_shows_each_kernel(tmp_path, count):
    """The steps of a run with an empty cache count kernels. Those of a second run do not mention compilation."""
    code = (
        "import sys\n"
        "from tgp.build import CoarsenConfig, coarsen_dataset\n"
        "seen = []\n"
        "config = CoarsenConfig('er:num_graphs=40', poolers=('nopool',), out=sys.argv[1], workers=int(sys.argv[2]), metrics=False)\n"
        "summary = coarsen_dataset(config, progress=seen.append)\n"
        "print(sorted({(s.done, s.total) for s in seen if s.noun == 'kernel'}), summary.compile_seconds > 0)\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    outputs = []
    for name in "ab":
        command = [sys.executable, "-c", code, str(tmp_path / name), str(count)]
        run = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        outputs.append(run.stdout.strip())
    total = len(kernels_of([parse_schedule("nopool")], metrics=False))
    first = ast.literal_eval(outputs[0].removesuffix(" True"))
    assert first and all(1 <= number <= found == total for number, found in first)
    assert outputs[1] == "[] False"


@pytest.mark.slow
@pytest.mark.parametrize("schedule", COMPILATIONS)
def test_a_first_run_compiles_few_functions(tmp_path, schedule):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", COUNT, schedule]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    found = run.stdout.split()
    assert len(found) <= COMPILATIONS[schedule], "\n".join(sorted(found))
