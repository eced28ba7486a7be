"""Convert errors to messages and exit statuses. All commands report errors through this module.

Messages may quote names from a store, a dataset or the command line. Control characters in them are escaped.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from enum import IntEnum
from types import CodeType
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from tgp.errors import (
    StoreDamagedError,
    StoreFullError,
    StoreMissingError,
    TgpError,
    UserCodeError,
)
from tgp.text import inert_text
from tgp_cli._output import Output, print_line
from tgp_cli._wrap import terminal_width, wrap_text

__all__ = [
    "ExitStatus",
    "HungUp",
    "InertGroup",
    "Terminated",
    "catch_signals",
    "flush_streams",
    "guard",
    "report_error",
    "set_debug",
    "status_of",
]

if TYPE_CHECKING:
    _StreamHandler = logging.StreamHandler[Any]
else:  # Python 3.10 has no generic handlers
    _StreamHandler = logging.StreamHandler

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_debug = {"on": bool(os.environ.get("TGP_DEBUG"))}

_RESEND_DELAY = 0.01
"""Seconds until a signal that was lost is sent again."""


class ExitStatus(IntEnum):
    """Exit status of every command."""

    OK = 0
    FINDINGS = 1
    """The command ran and found damage, a value beyond a threshold, or a difference."""
    USAGE = 2
    """The arguments are wrong, data is missing, or the store was made from something else."""
    PARTIAL = 3
    """The command is done, but some graphs or units are missing."""
    NO_SPACE = 4
    """The disk, the quota or the memory is full."""
    CLUSTER = 5
    """The workers or the scheduler of a cluster failed, or do not match this run."""
    BUG = 70
    """An unexpected error; ``--debug`` shows the traceback."""
    HANGUP = 129
    """The terminal was closed (``SIGHUP``)."""
    INTERRUPTED = 130
    CLOSED_PIPE = 141
    """The reader of the output closed the pipe. Shells report the same status after ``SIGPIPE``."""
    TERMINATED = 143


class Terminated(BaseException):
    """Exception that SIGTERM raises. It is not an ``Exception``, so ``except Exception`` does not catch it."""


class HungUp(Terminated):
    """Exception that SIGHUP raises, so that a command removes its temporary files when the terminal is closed."""


_SIGNALS: dict[type[BaseException], int] = {Terminated: signal.SIGTERM, KeyboardInterrupt: signal.SIGINT}
if hasattr(signal, "SIGHUP"):  # not on Windows
    _SIGNALS[HungUp] = signal.SIGHUP


def catch_signals() -> None:
    """Make SIGTERM and SIGHUP end a command like an interrupt, and make sure that no signal is lost.

    A SIGHUP that the parent process ignores, for example ``nohup``, stays ignored.

    A signal handler runs between any two instructions of the main thread. If these belong to a destructor or to the
    callback of a weak reference, Python prints the exception of the handler and continues. In this case the signal is
    sent again.
    """

    def handler(number: int, _: Any) -> None:
        raise HungUp if number == _SIGNALS.get(HungUp) else Terminated

    signal.signal(signal.SIGTERM, handler)
    if HungUp in _SIGNALS and signal.getsignal(_SIGNALS[HungUp]) != signal.SIG_IGN:
        signal.signal(_SIGNALS[HungUp], handler)
    previous_hook = sys.unraisablehook

    def hook(args: Any) -> None:
        if args.exc_type in _SIGNALS:
            number = _SIGNALS[args.exc_type]
            timer = threading.Timer(_RESEND_DELAY, _resend_signal, (number, hook.__code__))
            timer.daemon = True
            timer.start()
            return
        previous_hook(args)

    sys.unraisablehook = hook


def _resend_signal(number: int, hook: CodeType) -> None:
    """Send a signal to the main thread when ``hook`` has ended. Inside the hook its exception would be lost, too."""
    while _runs_in_main_thread(hook):
        time.sleep(_RESEND_DELAY)
    if hasattr(signal, "pthread_kill"):  # this interrupts a blocking call of the main thread
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        signal.raise_signal(number)


def _runs_in_main_thread(code: CodeType) -> bool:
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


def set_debug(value: bool) -> bool:
    """Show tracebacks from now on (callback of ``--debug``)."""
    if value:
        _debug["on"] = True
    return value


def status_of(error: BaseException) -> ExitStatus:
    """Return the exit status of an error."""
    if isinstance(error, KeyboardInterrupt):
        return ExitStatus.INTERRUPTED
    if isinstance(error, Terminated):
        return ExitStatus.HANGUP if isinstance(error, HungUp) else ExitStatus.TERMINATED
    if isinstance(error, BrokenPipeError):
        return ExitStatus.CLOSED_PIPE
    if _no_space(error) or isinstance(error, MemoryError):
        return ExitStatus.NO_SPACE
    own = getattr(error, "exit_status", None)
    if isinstance(error, TgpError) and own is not None:
        return ExitStatus(own)
    if isinstance(error, StoreDamagedError):
        return ExitStatus.FINDINGS
    if isinstance(error, TgpError | OSError):
        return ExitStatus.USAGE
    return ExitStatus.BUG


def _no_space(error: BaseException | None) -> bool:
    """Return True if an error, or an error that caused it, says that the disk is full."""
    if isinstance(error, StoreFullError) or (isinstance(error, OSError) and error.errno in _NO_SPACE):
        return True
    return error is not None and _no_space(error.__cause__)


def guard(command: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a command so that it reports errors as messages and exits with their status."""

    @functools.wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            with _inert_warnings():
                status = command(*args, **kwargs)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except BaseException as error:
            if isinstance(error, SystemExit | GeneratorExit):
                raise
            raise typer.Exit(report_error(error, json=bool(kwargs.get("json")))) from error
        raise typer.Exit(int(status or ExitStatus.OK))

    return guarded


@contextlib.contextmanager
def _inert_warnings() -> Iterator[None]:
    """Escape control characters in warnings and in log records without a handler. Warnings of tgp get one line."""
    format_warning, handler = warnings.formatwarning, logging.lastResort

    def inert_warning(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        if category.__module__.partition(".")[0] == "tgp":
            lines = wrap_text(f"Warning: {inert_text(message)}", terminal_width(sys.stderr))
            return "\n".join([*lines, ""])
        return inert_text(format_warning(message, category, filename, lineno, line), lines=True)

    class InertHandler(_StreamHandler):
        def format(self, record: logging.LogRecord) -> str:
            return inert_text(super().format(record), lines=True)

    warnings.formatwarning = inert_warning
    logging.lastResort = InertHandler()
    logging.lastResort.setLevel(logging.WARNING)
    try:
        yield
    finally:
        warnings.formatwarning, logging.lastResort = format_warning, handler


def report_error(error: BaseException, *, json: bool = False) -> int:
    """Print the message of an error to stderr, if stderr can be written to, and return its exit status.

    Args:
        error: the error.
        json: print the fields of the error as JSON to stdout, too.
    """
    status = status_of(error)
    with contextlib.suppress(OSError):
        if _debug["on"]:
            print(inert_text("".join(traceback.format_exception(error)), lines=True), file=sys.stderr, end="")
        for line in _message(error):
            print_line(line, sys.stderr)
        if json and isinstance(error, Exception) and not isinstance(error, BrokenPipeError):
            Output(json=True).result({"error": _fields(error, status)}, lambda: None)
    return status


def _fields(error: Exception, status: ExitStatus) -> dict[str, Any]:
    """Return the fields of an error for programs: class, message, exit status, and those that its class adds."""
    known = {"type": _public_name(type(error)), "message": str(error), "exit_status": int(status)}
    fields = vars(error) if isinstance(error, TgpError) else {}
    return known | {name: value for name, value in fields.items() if not name.startswith("_")}


def _public_name(cls: type) -> str:
    """Return the name of the first class of the bases that is not private. ``_UnknownKey`` is an ``UnknownNameError``."""
    return next(base.__name__ for base in cls.__mro__ if not base.__name__.startswith("_"))


_ClickError: type[Exception] = typer.BadParameter.__mro__[2]  # Typer does not export the base class


class InertGroup(TyperGroup):
    """Group of commands whose usage errors quote arguments with control characters escaped."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Parse the command line, see Click."""
        with _inert_usage_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, *args: Any, **kwargs: Any) -> Any:
        """Parse the arguments of a command and run it, see Click."""
        with _inert_usage_errors():
            return super().invoke(*args, **kwargs)


@contextlib.contextmanager
def _inert_usage_errors() -> Iterator[None]:
    try:
        yield
    except _ClickError as error:
        if hasattr(error, "message"):
            error.message = inert_text(error.message, lines=True)
        if hasattr(error, "format_message"):
            width, first = terminal_width(sys.stderr), "Error: "  # Click prints it in front of the message
            message = error.format_message()
            if (
                type(error).__name__ == "MissingParameter"
                and getattr(getattr(error, "param", None), "name", "") == "store"
            ):
                message += "\nHint: 'tgp inspect' lists the stores below ./pooled."
            lines = [part for line in message.splitlines() for part in wrap_text(first + line, width)]
            text = "\n".join(line.removeprefix(first) for line in lines)
            error.format_message = lambda: text
        raise


def flush_streams(status: int) -> int:
    """Flush stdout and stderr.

    The interpreter would notice a closed pipe or a full disk only after the exit status is decided.

    Args:
        status: exit status of the command.

    Returns:
        ``status``, or the status of an error while flushing.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # discard the rest
            if status < ExitStatus.HANGUP:  # a terminal that was closed after a signal is no news
                status = report_error(error)
    return status


def _message(error: BaseException) -> list[str]:
    if isinstance(error, BrokenPipeError):
        return []  # the reader closed the pipe on purpose
    if isinstance(error, KeyboardInterrupt | Terminated):
        return ["Interrupted. Run the same command again to continue."]
    if isinstance(error, TgpError):
        lines = [
            *(error.trace if isinstance(error, UserCodeError) else ()),
            f"Error: {getattr(error, 'summary', error)}",
        ]
        lines += [f"  - {item}" for item in getattr(error, "differences", ())]
        hint = error.hint or _hint(error)
        return lines + ([f"Hint: {hint}"] if hint else [])
    if _no_space(error):
        return [f"Error: no space left: {error}", f"Hint: {_hint(error)}"]
    if isinstance(error, OSError) and error.errno is not None:
        where = f"{error.filename}: " if error.filename else ""
        return [f"Error: {where}{error.strerror}"]
    if isinstance(error, MemoryError):
        return ["Error: out of memory.", "Hint: use fewer --workers or a smaller --shard-size."]
    text = str(error).strip().splitlines()
    summary = f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
    return [f"Error: unexpected {summary}", "Hint: --debug shows the traceback."]


def _hint(error: BaseException) -> str | None:
    """Return a hint for errors of the library that have none."""
    if _no_space(error):
        return "free some space and run the same command again."
    if isinstance(error, StoreMissingError):
        return "after an interrupted run, run the same 'tgp coarsen' command again: it continues."
    return None
