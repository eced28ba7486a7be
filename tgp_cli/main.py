"""Entry point: a static table of commands, so that ``tgp --help`` imports nothing heavy."""

from __future__ import annotations

import atexit
import importlib
import os
import sys
import threading
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import typer

from tgp._version import __version__
from tgp.build.workers import UNIT_THREAD
from tgp.errors import TgpError, nearest
from tgp_cli._errors import Terminated, catch_signals, finish, guard, report
from tgp_cli._status import ExitStatus

__all__ = ["COMMANDS", "build_app", "examples", "main"]


class Command(NamedTuple):
    """Where a command lives and the line ``tgp --help`` shows for it."""

    module: str
    help: str


COMMANDS: dict[str, Command] = {
    "coarsen": Command("tgp_cli.commands.coarsen", "Compute hierarchies of a dataset and store them."),
    "inspect": Command("tgp_cli.commands.inspect", "Show what a store holds and how good it is."),
    "verify": Command("tgp_cli.commands.verify", "Check a store for damage."),
    "poolers": Command("tgp_cli.commands.poolers", "List poolers and their parameters."),
    "datasets": Command("tgp_cli.commands.datasets", "List known datasets."),
    "report": Command("tgp_cli.commands.report", "Write a page that shows a store."),
    "plot": Command("tgp_cli.commands.plot", "Draw one graph through its levels."),
    "export": Command("tgp_cli.commands.export", "Convert a store for other tools."),
    "status": Command("tgp_cli.commands.status", "Show which units of a store are missing."),
    "merge": Command("tgp_cli.commands.merge", "Publish a store that several jobs wrote."),
}

HELP = "Compute graph-pooling hierarchies once, store them, stream them into training."
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
    """Stands for a command that this invocation does not need."""


def _wanted(arguments: Sequence[str]) -> set[str]:
    """Names of the commands whose modules this invocation needs."""
    if "_TGP_COMPLETE" in os.environ:
        return set(COMMANDS)
    return {next((word for word in arguments if not word.startswith("-")), "")}


def examples(epilog: str) -> list[str]:
    """The commands of an epilog ``Examples: a | b``."""
    return epilog.partition(":")[2].strip().split(" | ")


def _example_lines(epilog: str) -> str:
    """An epilog with a line per example: in one paragraph they would look like pipes."""
    title = epilog.partition(":")[0]
    # A paragraph that begins with "\b" keeps its lines.
    return "\n".join(["\b", f"{title}:", *(f"  {line}" for line in examples(epilog))])


def build_app(arguments: Sequence[str]) -> typer.Typer:
    """The application; only the command that ``arguments`` name is imported."""
    app = typer.Typer(
        name="tgp",
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
            register = app.command(name, epilog=_example_lines(loaded.EPILOG), context_settings=settings)
            register(guard(loaded.command))
        else:
            app.command(name, help=summary)(_unloaded)
    return app


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit status."""
    streams = sys.stdout, sys.stderr
    try:
        for word in _wanted(arguments) - {*COMMANDS, ""}:
            guess = nearest(word, COMMANDS)
            text = f"No such command {word!r}." + (f" Did you mean {guess!r}?" if guess else "")
            raise TgpError(text, hint="'tgp --help' lists all commands.")
        build_app(arguments)(args=list(arguments), prog_name="tgp")
    except (KeyboardInterrupt, Terminated, OSError, TgpError) as error:  # outside of any command
        return report(error)
    except SystemExit as end:
        if sys.stdout is not streams[0]:  # Typer found a pipe that nobody reads, and silenced it
            sys.stdout, sys.stderr = streams
            return ExitStatus.CLOSED_PIPE
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return ExitStatus.OK


def main() -> None:
    """Console entry point."""
    catch_signals()
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for the life of the process
    if sys.stdout.errors == "strict":
        # File names need not be text; one that cannot be printed is shown escaped, as on stderr.
        sys.stdout.reconfigure(errors="backslashreplace")
    interrupted: list[int] = []
    # Registered first, so it runs last: after worker pools and their semaphores are gone.
    atexit.register(_skip_teardown, interrupted)
    status = finish(run(sys.argv[1:]))
    if any(thread.name.startswith(UNIT_THREAD) for thread in threading.enumerate()):
        # Interrupted while a kernel runs in a thread; stores survive any kill, so do not wait for it.
        os._exit(status)
    if status in (ExitStatus.INTERRUPTED, ExitStatus.TERMINATED):
        interrupted.append(status)
    sys.exit(status)


def _skip_teardown(interrupted: list[int]) -> None:
    """Leave at once after an interrupt: taking compiled kernels apart takes half a second of work."""
    if interrupted:
        os._exit(interrupted[0])


if __name__ == "__main__":
    main()
