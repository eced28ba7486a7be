"""Checks that wrong calls are refused, and unusual ones accepted."""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Callable

from tgp.testing.calls import accepted_calls, refusal_problem, refused_calls
from tgp.testing.cases import Case, Skip

ONCE: frozenset[str] = frozenset()
SLOW: frozenset[str] = frozenset()


def check_refusals(case: Case) -> None:
    """Wrong ids, lengths, types and argument orders are refused with a message that names the argument."""
    _assert_no_problem(case, refused=True)


def check_acceptance(case: Case) -> None:
    """Unusual but valid calls are accepted."""
    _assert_no_problem(case, refused=False)


def _assert_no_problem(case: Case, refused: bool) -> None:
    make = refused_calls if refused else accepted_calls

    def run(report: Callable[[str], None]) -> None:
        pooler = case.build()
        for call in make(case):
            report(f"{call.kind}: the process died")
            problem = refusal_problem(pooler, call, refused)
            report(f"{call.kind}: {problem}" if problem else "")

    problems = _in_child(run)
    assert not problems, "\n".join(problems)


def _in_child(run: Callable[[Callable[[str], None]], None]) -> list[str]:
    """Run a function in a forked process, because a wrong node id may end it; return the problems it reports.

    Every second report replaces the one before, so that the last report of a process that died remains.
    """
    if not hasattr(os, "fork"):
        raise Skip("needs os.fork: a wrong call may end the process")
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork in a process with threads
        child = os.fork()
    if not child:
        _child(run, reader, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        reports = []
        while True:
            try:
                reports.append(pickle.load(stream))  # noqa: S301
            except EOFError:
                break
    os.waitpid(child, 0)
    last = reports[len(reports) - len(reports) % 2 :]
    return [text for text in [*reports[1::2], *last] if text]


def _child(run: Callable[[Callable[[str], None]], None], reader: int, writer: int) -> None:
    os.close(reader)
    try:
        with warnings.catch_warnings(), os.fdopen(writer, "wb", buffering=0) as stream:
            warnings.simplefilter("ignore")
            run(lambda text: stream.write(pickle.dumps(text)))
    finally:
        os._exit(0)
