"""``tgp warmup``: compile kernels before the first run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tgp_cli._completion import complete_schedules
from tgp_cli._errors import ExitStatus
from tgp_cli._options import DebugOpt, JsonOpt, QuietOpt
from tgp_cli._output import Output
from tgp_cli._progress import Progress

if TYPE_CHECKING:
    from tgp.build.warmup import CompiledKernels

EPILOG = "Examples: tgp warmup | tgp warmup --pooler graclus --pooler ndp"


def command(
    poolers: Annotated[
        list[str] | None,
        typer.Option(
            "--pooler",
            "-p",
            metavar="SCHEDULE",
            show_default=False,
            help="Poolers to prepare. Repeat the option for several. Default: all.",
            autocompletion=complete_schedules,
        ),
    ] = None,
    json: JsonOpt = False,
    quiet: QuietOpt = False,
    debug: DebugOpt = False,
) -> ExitStatus:
    """Compile kernels before the first run.

    A first run compiles what its poolers need, which takes seconds. Run this command when an image is built, or once for a
    file system that the nodes of a cluster share. Exits with status 1 if no directory can hold the compiled kernels.
    """
    from tgp.build.warmup import compile_kernels

    output = Output(json=json, quiet=quiet)
    with Progress(output) as progress:
        found = compile_kernels(poolers or (), progress=progress)
    output.result(found.to_json(), lambda: _show(output, found))
    if found.path is None:
        return ExitStatus.FINDINGS
    output.hint(
        "Processes with the same NUMBA_CACHE_DIR share compiled kernels. It has to be a directory that only you can write "
        "to, used on processors of the same type."
    )
    return ExitStatus.OK


def _show(output: Output, found: CompiledKernels) -> None:
    from tgp.inspect.numbers import bytes_text, counted

    if found.path is None:
        output.text("Kernels cannot be kept: no directory is writable. Set NUMBA_CACHE_DIR to one.")
        return
    done = f"compiled in {found.seconds:.1f} s" if found.seconds else "already compiled"
    output.text(f"Kernels of {counted(len(found.poolers), 'pooler')} and of the loader: {done}.")
    output.text(f"{found.path}: {counted(found.num_files, 'file')}, {bytes_text(found.num_bytes)}")
