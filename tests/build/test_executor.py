"""Units over executors: order, bounds, cancellation."""

import os
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import pytest

from tgp.build.executor import SerialExecutor, run_units
from tgp.errors import InputError, TgpError


def square(x):
    return x * x


def die(x):
    os._exit(1)


class Manual(Executor):
    """Futures that are done when the test says so."""

    def __init__(self):
        self.calls = []

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        self.calls.append((future, fn, args))
        return future

    def finish(self, position):
        future, fn, args = self.calls[position]
        future.set_running_or_notify_cancel()
        future.set_result(fn(*args))


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("make", [lambda: None, SerialExecutor, lambda: ThreadPoolExecutor(3)])
def test_every_unit_once(make, ordered):
    pool = make()
    results = list(run_units(square, range(20), pool, ordered=ordered))
    assert sorted(results) == [(i, i * i) for i in range(20)]
    if ordered:
        assert results == sorted(results)
    if pool is not None:
        pool.shutdown()


def test_other_processes():
    with ProcessPoolExecutor(2) as pool:
        assert list(run_units(square, range(5), pool, ordered=True)) == [(i, i * i) for i in range(5)]


def test_no_units():
    assert list(run_units(square, [])) == []


def when_submitted(pool, count, action):
    """Do ``action`` in a thread as soon as ``count`` units were submitted."""

    def run():
        while len(pool.calls) < count:
            time.sleep(0.001)
        action()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_order_of_completion():
    pool = Manual()
    stream = run_units(square, range(3), pool, in_flight=3)
    when_submitted(pool, 3, lambda: pool.finish(2))
    assert next(stream) == (2, 4)
    pool.finish(0)
    assert next(stream) == (0, 0)
    pool.finish(1)
    assert list(stream) == [(1, 1)]


def test_order_of_units_waits_for_the_first():
    pool = Manual()
    stream = run_units(square, range(2), pool, ordered=True, in_flight=2)
    when_submitted(pool, 2, lambda: (pool.finish(1), pool.finish(0)))
    assert list(stream) == [(0, 0), (1, 1)]


def test_few_units_wait():
    pool = Manual()
    drawn = []
    units = (drawn.append(i) or i for i in range(100))
    stream = run_units(square, units, pool, ordered=True, in_flight=4)
    when_submitted(pool, 4, lambda: pool.finish(0))
    next(stream)
    assert drawn == [0, 1, 2, 3]


def test_serial_is_lazy():
    drawn = []
    stream = run_units(square, (drawn.append(i) or i for i in range(10)))
    assert drawn == []
    assert next(stream) == (0, 0)
    assert drawn == [0]


def test_an_error_comes_through_and_cancels_the_rest():
    pool = Manual()
    stream = run_units(square, [1, "x", 3], pool, in_flight=3, ordered=True)

    when_submitted(pool, 3, lambda: pool.calls[0][0].set_exception(ValueError("broken unit")))
    with pytest.raises(ValueError, match="broken unit"):
        list(stream)
    assert [future.cancelled() for future, _, _ in pool.calls] == [False, True, True]


def test_leaving_early_cancels_the_rest():
    pool = Manual()
    stream = run_units(square, range(3), pool, ordered=True, in_flight=3)
    when_submitted(pool, 3, lambda: pool.finish(0))
    next(stream)
    stream.close()
    assert [future.cancelled() for future, _, _ in pool.calls] == [False, True, True]


def test_a_dead_worker_is_explained():
    with ProcessPoolExecutor(1) as pool, pytest.raises(TgpError, match="worker process") as caught:
        list(run_units(die, range(3), pool))
    assert "memory" in caught.value.hint


def test_on_done_sees_every_unit():
    seen = []
    list(run_units(square, range(4), on_done=lambda unit, result: seen.append((unit, result))))
    assert seen == [(0, 0), (1, 1), (2, 4), (3, 9)]


def test_bad_in_flight():
    with pytest.raises(InputError, match="in_flight"):
        run_units(square, [1], in_flight=0)


def test_serial_executor_keeps_errors_and_closes():
    pool = SerialExecutor()
    assert isinstance(pool.submit(square, "x").exception(), TypeError)
    pool.shutdown()
    with pytest.raises(RuntimeError, match="shutdown"):
        pool.submit(square, 2)
