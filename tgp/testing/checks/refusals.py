"""Checks that wrong calls raise errors, and that unusual valid calls do not."""

from __future__ import annotations

import json
import os
import signal
import warnings
from collections.abc import Callable

import torch

from tgp.testing.calls import accepted_calls, refusal_problem, refused_calls
from tgp.testing.cases import Case, Skip

ONCE: frozenset[str] = frozenset()
SLOW: frozenset[str] = frozenset()

TIMEOUT = 120
"""Seconds for all calls of a pooler."""


def check_refusals(case: Case) -> None:
    """Check that wrong ids, lengths, types and argument orders raise an error that names the argument."""
    _assert_no_problem(case, refused=True)


def check_acceptance(case: Case) -> None:
    """Check that unusual but valid calls are accepted."""
    _assert_no_problem(case, refused=False)


def _assert_no_problem(case: Case, refused: bool) -> None:
    pooler = case.build()
    calls = list((refused_calls if refused else accepted_calls)(case))

    def run(report: Callable[[str], None]) -> None:
        for call in calls:
            report(f"{call.kind}: the process died")
            problem = refusal_problem(pooler, call, refused)
            report(f"{call.kind}: {problem}" if problem else "")

    reports = _in_child(run)
    assert len(reports) >= 2 * len(calls) or len(reports) % 2, "the process ended before all calls were made"
    # The second report of a call replaces the first; the last one of a process that died has no second.
    problems = [*reports[1::2], *reports[len(reports) - len(reports) % 2 :]]
    assert not any(problems), "\n".join(filter(None, problems))


def _in_child(run: Callable[[Callable[[str], None]], None]) -> list[str]:
    """Run a function in a forked process, because a wrong node id may end it; return what it reports."""
    if not hasattr(os, "fork") or torch.cuda.is_initialized():
        raise Skip("needs os.fork without CUDA: a wrong call may end the process")
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork in a process with threads
        child = os.fork()
    if not child:
        _child(run, reader, writer)
    os.close(writer)
    with os.fdopen(reader) as stream:
        reports = [json.loads(line) for line in stream]
    os.waitpid(child, 0)
    return reports


def _child(run: Callable[[Callable[[str], None]], None], reader: int, writer: int) -> None:
    os.close(reader)
    torch.set_num_threads(1)  # the threads of the parent do not exist here, and OpenMP would wait for them
    signal.alarm(TIMEOUT)  # a call that does not return ends the process, too
    try:
        with warnings.catch_warnings(), os.fdopen(writer, "w", buffering=1) as stream:
            warnings.simplefilter("ignore")
            run(lambda text: print(json.dumps(text), file=stream))
    finally:
        os._exit(0)
