"""Run ``tgp``. Commands are listed in a static table, so that ``tgp --help`` imports nothing heavy."""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import os
import sys
import threading
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperArgument, TyperCommand

from tgp._version import __version__
from tgp.build.workers import UNIT_THREAD
from tgp.errors import TgpError, nearest
from tgp_cli._completion import completed_words, strip_bash_words
from tgp_cli._errors import (
    ExitStatus,
    InertGroup,
    Terminated,
    catch_signals,
    flush_streams,
    guard,
    report_error,
)

__all__ = ["COMMANDS", "build_app", "examples", "main"]


class Command(NamedTuple):
    """Module of a command and the line that ``tgp --help`` shows for it."""

    module: str
    help: str


COMMANDS: dict[str, Command] = {
    "coarsen": Command("tgp_cli.commands.coarsen", "Compute hierarchies of a dataset and store them."),
    "inspect": Command("tgp_cli.commands.inspect", "Show the contents and the quality of a store."),
    "verify": Command("tgp_cli.commands.verify", "Check a store for damage."),
    "poolers": Command("tgp_cli.commands.poolers", "List, describe and recommend poolers."),
    "datasets": Command("tgp_cli.commands.datasets", "List known datasets."),
    "report": Command("tgp_cli.commands.report", "Write an HTML report of a store."),
    "view": Command("tgp_cli.commands.view", "Show all graphs of a store in the browser."),
    "plot": Command("tgp_cli.commands.plot", "Draw one graph at all of its levels."),
    "export": Command("tgp_cli.commands.export", "Convert a store for other tools."),
    "status": Command("tgp_cli.commands.status", "Show which files of a store are missing."),
    "merge": Command("tgp_cli.commands.merge", "Complete a store that several jobs wrote."),
    "warmup": Command("tgp_cli.commands.warmup", "Compile kernels before the first run."),
    "doctor": Command("tgp_cli.commands.doctor", "Check the installation, for bug reports."),
}

HELP = "Compute graph pooling hierarchies once, store them, and load them during training."
EPILOG = "Start with 'tgp coarsen', which needs no data, then 'tgp inspect'."


def _version(value: bool) -> None:
    if value:
        print(f"tgp {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


def _unloaded() -> None:
    """Stand in for a command that this invocation does not need."""


def _wanted(arguments: Sequence[str]) -> set[str]:
    """Return the names of the commands whose modules this invocation needs."""
    completed = completed_words()
    if completed is not None:
        return set(COMMANDS) & set(completed)
    return {next((word for word in arguments if not word.startswith("-")), "")}


class _PlainCommand(TyperCommand):
    """Command whose help shows an argument by its name. Some versions of Typer add its type, such as ``<str>``."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, see Click."""
        found = super().get_params(ctx)
        for parameter in found:
            if isinstance(parameter, TyperArgument):
                vars(parameter).update(display_type=_no_type, display_type_rich=_no_type)
        return found


def _no_type(ctx: Any) -> str:
    return ""


def examples(epilog: str) -> list[str]:
    """Return the examples of an epilog.

    Examples:
        >>> examples("Examples: tgp coarsen | tgp inspect")
        ['tgp coarsen', 'tgp inspect']
    """
    return epilog.partition(":")[2].strip().split(" | ")


def _example_lines(epilog: str) -> str:
    """Format an epilog with one line per example."""
    title = epilog.partition(":")[0]
    # Click keeps the lines of a paragraph that begins with "\b".
    return "\n".join(["\b", f"{title}:", *(f"  {line}" for line in examples(epilog))])


def build_app(arguments: Sequence[str]) -> typer.Typer:
    """Build the application.

    Args:
        arguments: command line. Only the command that it names is imported.
    """
    app = typer.Typer(
        name="tgp",
        cls=InertGroup,
        help=HELP,
        epilog=EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    wanted = _wanted(arguments)
    for name, (module, summary) in COMMANDS.items():
        if name in wanted:
            loaded = importlib.import_module(module)
            settings = getattr(loaded, "SETTINGS", None)
            register = app.command(
                name, cls=_PlainCommand, epilog=_example_lines(loaded.EPILOG), context_settings=settings
            )
            register(guard(loaded.command))
        else:
            app.command(name, help=summary)(_unloaded)
    return app


def run(arguments: Sequence[str]) -> int:
    """Run a command.

    Args:
        arguments: command line without the name of the program.

    Returns:
        The exit status.
    """
    streams = sys.stdout, sys.stderr
    try:
        for word in _wanted(arguments) - {*COMMANDS, ""}:
            guess = nearest(word, COMMANDS)
            text = f"No such command {word!r}." + (f" Did you mean {guess!r}?" if guess else "")
            raise TgpError(text, hint="'tgp --help' lists all commands.")
        with strip_bash_words():
            build_app(arguments)(args=list(arguments), prog_name="tgp")
    except (KeyboardInterrupt, Terminated, OSError, TgpError) as error:  # raised outside of a command
        return report_error(error)
    except SystemExit as end:
        if sys.stdout is not streams[0]:  # Typer replaces stdout if the pipe is closed
            sys.stdout, sys.stderr = streams
            return ExitStatus.CLOSED_PIPE
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return ExitStatus.OK


def main() -> None:
    """Run the command line of this process and exit (entry point of the package)."""
    gc.set_threshold(100_000)  # imports create many objects and no garbage
    catch_signals()
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - open until the process ends
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        # A file name may contain bytes that are not text. They are printed escaped, as on stderr.
        sys.stdout.reconfigure(errors="backslashreplace")
    finished: list[int] = []
    # Functions run in reverse order, so this one runs after worker pools and their semaphores are removed.
    atexit.register(_skip_teardown, finished)
    status = flush_streams(run(sys.argv[1:]))
    if any(thread.name.startswith(UNIT_THREAD) for thread in threading.enumerate()):
        # A kernel still runs in a thread after an interrupt. A store survives a kill, so do not wait for it.
        os._exit(status)
    finished.append(status)
    sys.exit(status)


def _skip_teardown(finished: list[int]) -> None:
    """Exit without unloading modules and kernels, which takes a tenth of a second, and half a second after a compilation."""
    if finished:
        os._exit(flush_streams(finished[0]))


if __name__ == "__main__":
    main()
