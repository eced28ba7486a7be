"""JobQueue: order of results, number of jobs in flight, cancellation, dead workers."""

import os
import threading
from concurrent.futures import Executor, Future, InvalidStateError, ProcessPoolExecutor, ThreadPoolExecutor

import pytest

from tgp.build import executors
from tgp.build.executors import JobQueue, Pool
from tgp.errors import TgpError


def square(x):
    return x * x


def die(x):
    os._exit(1)


class ManualExecutor(Executor):
    """Executor whose futures finish when the test calls ``finish``."""

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

    def cancelled(self):
        return [future.cancelled() for future, _, _ in self.calls]


def run_all(executor, items, in_flight=4, function=square):
    """Return the results of all calls in the order in which the queue gives them."""
    results = []
    with JobQueue(Pool(executor, lambda: in_flight), function) as queue:
        for item in items:
            results += queue.submit(item)
        results += queue.drain()
    return results


@pytest.mark.parametrize("in_flight", [1, 2, 50])
def test_every_job_runs_once(in_flight):
    with ThreadPoolExecutor(3) as executor:
        assert sorted(run_all(executor, range(20), in_flight)) == [i * i for i in range(20)]
        assert run_all(executor, []) == []


def test_jobs_run_in_other_processes():
    with ProcessPoolExecutor(2) as executor:
        assert sorted(run_all(executor, range(5))) == [0, 1, 4, 9, 16]


def test_results_come_in_the_order_of_completion():
    executor = ManualExecutor()
    with JobQueue(Pool(executor, lambda: 3), square) as queue:
        assert [queue.submit(i) for i in range(3)] == [[], [], []]
        results = queue.drain()
        executor.finish(2)
        assert next(results) == 4
        executor.finish(0)
        assert next(results) == 0
        executor.finish(1)
        assert list(results) == [1]


def test_submit_waits_while_the_queue_is_full():
    executor = ManualExecutor()
    with JobQueue(Pool(executor, lambda: 2), square) as queue:
        queue.submit(5)
        queue.submit(6)
        finished = threading.Event()

        def finish_later():
            finished.set()
            executor.finish(1)

        thread = threading.Thread(target=finish_later)
        thread.start()
        assert queue.submit(7) == [36] and finished.is_set()
        thread.join()
        assert len(executor.calls) == 3


def test_the_limit_is_read_before_each_submission():
    limit = [1]
    executor = ManualExecutor()
    with JobQueue(Pool(executor, lambda: limit[0]), square) as queue:
        queue.submit(0)
        limit[0] = 3
        assert [queue.submit(i) for i in (1, 2)] == [[], []]
        limit[0] = 1
        for position in range(3):
            executor.finish(position)
        assert queue.submit(3) == [0, 1, 4]


def test_an_error_is_raised_unchanged_and_cancels_the_rest():
    executor = ManualExecutor()
    with pytest.raises(ValueError, match="broken job"), JobQueue(Pool(executor, lambda: 3), square) as queue:
        for item in (1, 2, 3):
            queue.submit(item)
        executor.calls[0][0].set_exception(ValueError("broken job"))
        list(queue.drain())
    assert executor.cancelled() == [False, True, True]


def test_leaving_the_block_cancels_the_rest():
    executor = ManualExecutor()
    with JobQueue(Pool(executor, lambda: 3), square) as queue:
        for item in range(3):
            queue.submit(item)
        executor.finish(0)
        next(queue.drain())
    assert executor.cancelled() == [False, True, True]


def test_a_dead_worker_is_explained():
    with ProcessPoolExecutor(1) as executor, pytest.raises(TgpError, match="worker process") as caught:
        run_all(executor, range(3), function=die)
    assert "memory" in caught.value.hint


class ThreadOfPool(threading.Thread):
    __module__ = ProcessPoolExecutor.__module__


def test_cancelled_futures_of_killed_workers_print_nothing(monkeypatch):
    shown = []
    monkeypatch.setattr(
        threading, "excepthook", lambda args: shown.append((type(args.thread), args.exc_type))
    )

    def fail(error):
        raise error

    with executors._ignore_cancelled_futures():
        for kind in (ThreadOfPool, threading.Thread):
            for error in (InvalidStateError("CANCELLED"), KeyError("shown")):
                thread = kind(target=fail, args=(error,))
                thread.start()
                thread.join()
    assert shown == [
        (ThreadOfPool, KeyError),
        (threading.Thread, InvalidStateError),
        (threading.Thread, KeyError),
    ]
