"""Errors of the library become messages and exit codes here, and nowhere else."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

import typer

from tgp.errors import StoreDamagedError, StoreFullError, StoreMissingError, TgpError, UnknownNameError
from tgp_cli._status import ExitStatus

__all__ = ["Terminated", "catch_signals", "finish", "guard", "report", "set_debug", "status_of"]

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_debug = {"on": bool(os.environ.get("TGP_DEBUG"))}


_AGAIN = 0.01  # seconds until a swallowed signal is delivered once more


class Terminated(BaseException):
    """SIGTERM arrived. Not an ``Exception``, so no ``except`` of a library swallows it on the way up."""


def catch_signals() -> None:
    """Let SIGTERM end a command as an interrupt does, and let neither get lost.

    A signal handler runs between any two instructions of the main thread. Where these belong to a destructor or
    to the callback of a weak reference, Python prints what the handler raises and goes on; so it is raised again.
    """

    def handler(*_: Any) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, handler)
    others = sys.unraisablehook

    def hook(args: Any) -> None:
        for kind, number in ((Terminated, signal.SIGTERM), (KeyboardInterrupt, signal.SIGINT)):
            if issubclass(args.exc_type, kind):
                again = threading.Timer(_AGAIN, _to_main_thread, (number,))
                again.daemon = True
                again.start()
                return
        others(args)

    sys.unraisablehook = hook


def _to_main_thread(number: int) -> None:
    if hasattr(signal, "pthread_kill"):  # wakes the main thread if it waits for something
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        signal.raise_signal(number)


def set_debug(value: bool) -> bool:
    """Callback of ``--debug``: show tracebacks from now on."""
    if value:
        _debug["on"] = True
    return value


def status_of(error: BaseException) -> ExitStatus:
    """The exit status that belongs to an error."""
    if isinstance(error, KeyboardInterrupt):
        return ExitStatus.INTERRUPTED
    if isinstance(error, Terminated):
        return ExitStatus.TERMINATED
    if isinstance(error, BrokenPipeError):
        return ExitStatus.CLOSED_PIPE
    if _no_space(error):
        return ExitStatus.NO_SPACE
    if isinstance(error, StoreDamagedError):
        return ExitStatus.FINDINGS
    if isinstance(error, TgpError | OSError):
        return ExitStatus.USAGE
    return ExitStatus.BUG


def _no_space(error: BaseException | None) -> bool:
    """Whether a full disk is behind an error, perhaps told in other words."""
    if isinstance(error, StoreFullError) or (isinstance(error, OSError) and error.errno in _NO_SPACE):
        return True
    return error is not None and _no_space(error.__cause__)


def guard(command: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a command: report any error in one line and exit with its status."""

    @functools.wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            status = command(*args, **kwargs)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except BaseException as error:
            if isinstance(error, SystemExit | GeneratorExit):
                raise
            raise typer.Exit(report(error)) from error
        raise typer.Exit(int(status or ExitStatus.OK))

    return guarded


def report(error: BaseException) -> int:
    """Tell the user about an error, if there is a way to; its exit status."""
    with contextlib.suppress(OSError):
        if _debug["on"]:
            traceback.print_exception(error, file=sys.stderr)
        for line in _message(error):
            print(line, file=sys.stderr)
    return status_of(error)


def finish(status: int) -> int:
    """Hand over what was printed and is still buffered; ``status``, or that of what went wrong.

    Left to the interpreter, a closed pipe or a full disk would be noticed after the exit status is settled.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # the rest goes nowhere
            status = report(error)
    return status


def _message(error: BaseException) -> list[str]:
    if isinstance(error, BrokenPipeError):
        return []  # whoever closed the pipe has read enough
    if isinstance(error, KeyboardInterrupt | Terminated):
        return ["Interrupted. Run the same command again to continue."]
    if isinstance(error, TgpError):
        lines = [f"Error: {error}"]
        lines += [f"  - {item}" for item in getattr(error, "differences", ()) if item not in str(error)]
        hint = error.hint or _hint(error)
        return lines + ([f"Hint: {hint}"] if hint else [])
    if _no_space(error):
        return [f"Error: no space left: {error}", f"Hint: {_hint(error)}"]
    if isinstance(error, OSError) and error.errno is not None:
        where = f"{error.filename}: " if error.filename else ""
        return [f"Error: {where}{error.strerror}"]
    if isinstance(error, MemoryError):
        return ["Error: out of memory.", "Hint: fewer --workers or a smaller --shard-size need less."]
    text = str(error).strip().splitlines()
    summary = f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
    return [f"Error: unexpected {summary}", "Hint: --debug shows the traceback."]


def _hint(error: BaseException) -> str | None:
    """What to do next, where the library does not say it."""
    if _no_space(error):
        return "free some space and run the same command again."
    if isinstance(error, StoreMissingError):
        return "an interrupted run has none yet: run the same 'tgp coarsen' command again, it continues."
    if isinstance(error, UnknownNameError) and error.kind == "pooler":
        from tgp.poolers import pooler_map

        if error.name.lower() in pooler_map.entries:
            return (
                f"{error.name} is trained with the model, as a layer of it; "
                "'tgp poolers --precoarsenable' lists what can be computed beforehand."
            )
    return None
