"""Errors of the library become messages and exit codes here, and nowhere else."""

from __future__ import annotations

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

from tgp.errors import StoreDamagedError, StoreFullError, TgpError
from tgp_cli._status import ExitStatus

__all__ = ["Terminated", "catch_signals", "guard", "set_debug", "status_of"]

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
    if isinstance(error, StoreFullError) or (isinstance(error, OSError) and error.errno in _NO_SPACE):
        return ExitStatus.NO_SPACE
    if isinstance(error, StoreDamagedError):
        return ExitStatus.FINDINGS
    if isinstance(error, TgpError | OSError):
        return ExitStatus.USAGE
    return ExitStatus.BUG


def guard(command: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a command: report any error in one line and exit with its status."""

    @functools.wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            status = command(*args, **kwargs)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except BrokenPipeError:
            _close_stdout()
            raise typer.Exit(128 + getattr(signal, "SIGPIPE", 13)) from None
        except BaseException as error:
            if isinstance(error, SystemExit | GeneratorExit):
                raise
            _report(error)
            raise typer.Exit(int(status_of(error))) from error
        raise typer.Exit(int(status or ExitStatus.OK))

    return guarded


def _report(error: BaseException) -> None:
    if _debug["on"]:
        traceback.print_exception(error, file=sys.stderr)
    for line in _message(error):
        print(line, file=sys.stderr)
    sys.stderr.flush()


def _message(error: BaseException) -> list[str]:
    if isinstance(error, KeyboardInterrupt | Terminated):
        return ["Interrupted. Run the same command again to continue."]
    if isinstance(error, TgpError):
        lines = [f"Error: {error}"]
        lines += [f"  - {item}" for item in getattr(error, "differences", ()) if item not in str(error)]
        return lines + ([f"Hint: {error.hint}"] if error.hint else [])
    if isinstance(error, OSError) and error.errno in _NO_SPACE:
        return [f"Error: no space left: {error}", "Hint: free some space and run the same command again."]
    if isinstance(error, OSError) and error.errno is not None:
        where = f"{error.filename}: " if error.filename else ""
        return [f"Error: {where}{error.strerror}"]
    if isinstance(error, MemoryError):
        return ["Error: out of memory.", "Hint: fewer --workers or a smaller --shard-size need less."]
    text = str(error).strip().splitlines()
    summary = f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
    return [f"Error: unexpected {summary}", "Hint: --debug shows the traceback."]


def _close_stdout() -> None:
    """Stop the interpreter from complaining about the closed pipe at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
