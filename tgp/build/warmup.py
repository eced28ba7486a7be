"""Compile kernels before the first run, for container images and clusters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tgp.build.compilation import METHODS_WITH_KERNELS, CompilationDisplay, watch_compilation
from tgp.build.executors import JobQueue, open_executor
from tgp.build.jobs import job_header, warm_up
from tgp.build.progress import Step, ignore_step
from tgp.engine.methods import METHODS
from tgp.engine.schedule import parse_schedule

__all__ = ["CompiledKernels", "compile_kernels"]


@dataclass(frozen=True)
class CompiledKernels:
    """Result of :func:`compile_kernels`.

    Attributes:
        poolers: Schedules whose kernels are compiled.
        seconds: Seconds that were spent compiling; 0 if all kernels were in the cache.
        path: Directory of the compiled kernels, or ``None`` if they are not cached.
        num_files: Number of files of kernels in the directory.
        num_bytes: Total size of the files.
    """

    poolers: tuple[str, ...]
    seconds: float
    path: str | None
    num_files: int
    num_bytes: int

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self)


def compile_kernels(
    poolers: Sequence[str] = (), *, progress: Callable[[Step], None] = ignore_step
) -> CompiledKernels:
    """Compile the kernels of some poolers, of the quality figures and of the loader, and keep them on disk.

    Args:
        poolers: Schedules, for example ``"graclus*2"``. Default: all methods of the package that are installed with the packages that they need.
        progress: Function that is called with a :class:`~tgp.build.progress.Step` for each kernel.

    Returns:
        Where the kernels are, and how long compiling took.

    Raises:
        InputError: If a schedule is invalid.
    """
    names = tuple(poolers) or tuple(name for name in METHODS_WITH_KERNELS if METHODS[name].is_installed)
    header = job_header([parse_schedule(name) for name in names], metrics=True) | {
        "small": True,
        "large": True,
    }
    with open_executor(None, 1) as pool:
        display = CompilationDisplay(pool.compilation, progress)
        with JobQueue(pool, _compile, on_tick=display) as queue:
            queue.submit(header)
            seconds = next(queue.drain())
    path = _cache_path()
    files = [] if path is None else list(Path(path).glob("*.nbc"))
    return CompiledKernels(names, seconds, path, len(files), sum(file.stat().st_size for file in files))


def _compile(header: dict[str, Any]) -> float:
    """Compile the kernels of a header and those of the loader; return the seconds."""
    from tgp.store.read.batch_plan import load_kernels

    seconds = warm_up(header)
    with watch_compilation(frozenset()) as loader_seconds:
        load_kernels()
        return seconds + loader_seconds()


def _cache_path() -> str | None:
    from tgp.kernels.local_ids import join_rows

    cache: Any = getattr(join_rows, "_cache", None)
    path: str | None = None if cache is None else cache.cache_path
    return path
