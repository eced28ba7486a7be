"""Measure the cost of a task by its number of function calls, independently of time."""

import sys


def calls_of(task):
    """Return the number of Python and C functions that a task calls."""
    count = 0

    def count_call(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(count_call)
    try:
        task()
    finally:
        sys.setprofile(None)
    return count
