"""Cost without a clock: how much a task calls."""

import sys


def calls_of(task):
    """How many functions a task calls, in Python and in C."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        task()
    finally:
        sys.setprofile(None)
    return count
