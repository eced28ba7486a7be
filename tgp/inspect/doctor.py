"""Examine the installation for bug reports: versions, machine, folders and optional packages.

Neither torch nor numba is imported: versions come from the metadata of the installed packages. Folders below the home
directory are shown with ``~``.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from tgp._version import __version__
from tgp.build.scratch import SCRATCH_SUFFIX, find_leftover
from tgp.build.workers import THREAD_LIMITS, usable_cores
from tgp.input_limits import physical_memory
from tgp.inspect.numbers import bytes_text, counted
from tgp.sources.names import default_root

__all__ = ["Check", "examine", "short_path"]

DISTRIBUTION = "tgp-coarsen"

_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:\[[^]]*\])?\s*(?:>=\s*([\w.]+))?[^;]*(?:;\s*(.*))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"](\w+)['\"]")
_FOR_DEVELOPERS = ("test", "docs", "fuzz", "bench")
_LEAST_SPACE = 10**9
"""Bytes of free space below which a folder is reported."""

_PROTOCOLS = {
    "s3": "s3fs",
    "gs": "gcsfs",
    "abfs": "adlfs",
    "hf": "huggingface_hub",
    "sftp": "paramiko",
    "smb": "smbprotocol",
}
"""Package that fsspec needs for each protocol."""


@dataclass(frozen=True)
class Check:
    """One line of the result.

    Args:
        section: group of the line.
        name: what was examined.
        value: what was found.
        problem: True if the value limits or prevents something.
        required: True if tgp does not work with this problem.
        advice: what to do; empty if there is nothing to do.
    """

    section: str
    name: str
    value: str
    problem: bool = False
    required: bool = False
    advice: str = ""


def examine(root: Path | None = None) -> list[Check]:
    """Examine the installation and the machine.

    Args:
        root: folder of the datasets; default ``$TGP_DATA`` or ``./data``.
    """
    return [*_versions(), *_machine(), *_folders(root or default_root()), *_optional()]


def short_path(path: str | os.PathLike[str]) -> str:
    """Return a path with ``~`` for the home directory. A relative path stays as it is.

    Examples:
        >>> short_path(Path.home() / "data"), short_path("data")
        ('~/data', 'data')
    """
    text, home = os.fspath(path), str(Path.home())
    if home != os.sep and (text + os.sep).startswith(home.rstrip(os.sep) + os.sep):
        return "~" + text[len(home.rstrip(os.sep)) :].replace(os.sep, "/")
    return text


def _versions() -> Iterator[Check]:
    yield Check("versions", "tgp", __version__)
    yield Check("versions", "Python", f"{platform.python_version()} ({platform.python_implementation()})")
    yield Check("versions", "platform", platform.platform())
    for name, least, extra in _requirements():
        if extra is None:
            yield _package_check(
                "versions", name, least, required=True, install=f"pip install '{name}>={least}'"
            )
    yield _hdf5()


def _requirements() -> list[tuple[str, str, str | None]]:
    """Return the name, the lowest version and the extra of each package in the metadata of tgp."""
    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # a source tree on the path, without an installation
        lines = ["torch", "torch_geometric", "numpy", "scipy", "numba", "h5py", "typer", "rich", "Jinja2"]
    found = []
    for line in lines:
        match = _REQUIREMENT.fullmatch(line.strip())
        if match is None:
            continue
        extra = _EXTRA.search(match[3] or "")
        if match[3] and extra is None:  # a package of other versions of Python
            continue
        if extra is None or extra[1] not in _FOR_DEVELOPERS:
            found.append((match[1], match[2] or "0", None if extra is None else extra[1]))
    return found


def _package_check(section: str, name: str, least: str, *, required: bool, install: str) -> Check:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check(section, name, "not installed", required, required, install)
    if _numbers(version) < _numbers(least):
        return Check(section, name, f"{version}, but {least} or later is needed", True, required, install)
    return Check(section, name, version)


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version.

    Examples:
        >>> _numbers("2.5.1+cpu"), _numbers("2024.2rc1")
        ((2, 5, 1), (2024, 2))
    """
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def _hdf5() -> Check:
    try:
        from tgp.store.io.guard import hdf5_version

        return Check("versions", "HDF5", hdf5_version())
    except (ImportError, OSError) as error:
        return Check(
            "versions", "HDF5", f"cannot be loaded: {error}", True, True, "pip install --force-reinstall h5py"
        )


def _machine() -> Iterator[Check]:
    count, usable = os.cpu_count() or 1, usable_cores()
    limited = "" if usable >= count else " (limited by the affinity or the control group)"
    yield Check("machine", "cores", f"{count}, usable {usable}{limited}")
    total = physical_memory()
    free = _available_memory()
    parts = ["unknown" if total >= 1 << 62 else bytes_text(total)]
    yield Check("machine", "memory", ", ".join(parts + ([f"available {bytes_text(free)}"] if free else [])))
    given = [f"{name}={os.environ[name]}" for name in THREAD_LIMITS if name in os.environ]
    yield Check("machine", "thread variables", ", ".join(given) or "none set")
    yield Check("machine", "terminal", f"{_encoding(sys.stdout)}, TERM={os.environ.get('TERM', 'not set')}")
    yield _browser()


def _available_memory() -> int | None:
    try:
        found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        return None
    return None if found is None else min(int(found[1]) * 1024, physical_memory())


def _encoding(stream: object) -> str:
    return str(getattr(stream, "encoding", None) or "unknown encoding")


def _browser() -> Check:
    import webbrowser

    try:
        return Check("machine", "browser", str(getattr(webbrowser.get(), "name", "found")))
    except webbrowser.Error:
        return Check("machine", "browser", "none", advice="open reports in the browser of another machine")


def _folders(root: Path) -> Iterator[Check]:
    yield _kernel_cache()
    yield _folder("datasets", root, "created by the first download")
    yield _folder("downloads", Path(os.environ.get("TGP_CACHE") or Path.home() / ".cache" / "tgp"), "empty")
    yield _folder("temporary files", Path(tempfile.gettempdir()), "missing")
    yield _folder("current directory", Path("."), "missing")
    yield from _unfinished_runs(Path("pooled"))


def _unfinished_runs(stores: Path) -> Iterator[Check]:
    """Describe the temporary files of interrupted runs with ``--memory`` in the default folder of stores."""
    for folder in sorted(stores.glob(f"*{SCRATCH_SUFFIX}")):
        left = find_leftover(folder.with_suffix(""))
        if left is not None:
            advice = "run the same 'tgp coarsen' command again to continue, or delete the folder"
            value = f"{short_path(left.path)} ({bytes_text(left.bytes)})"
            yield Check("folders", "unfinished run", value, advice=advice)


def _kernel_cache() -> Check:
    """Describe the first directory for compiled kernels that can be used, in the order of ``tgp.kernels._cache_folders``."""
    source = Path(__file__).parents[1] / "kernels"
    in_package = source / "__pycache__"
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    for_user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "numba"
    candidates = [Path(chosen)] if chosen else []
    candidates += [in_package, for_user]
    usable = next((folder for folder in candidates if _is_writable(folder)), None)
    if usable is None:
        tried = ", ".join(map(short_path, candidates))
        advice = "set NUMBA_CACHE_DIR to a directory that only you can write to"
        return Check("folders", "compiled kernels", f"no writable directory of {tried}", True, False, advice)
    files = [*usable.glob("*.nbc")] if usable == in_package else [*usable.glob("kernels_*/*.nbc")]
    size = sum(file.stat().st_size for file in files)
    state = (
        f"{counted(len(files), 'kernel')}, {bytes_text(size)}"
        if files
        else "no kernels yet: the first run compiles them"
    )
    return Check("folders", "compiled kernels", f"{short_path(usable)} ({state})")


def _folder(name: str, path: Path, absent: str) -> Check:
    shown = short_path(path)
    if not _is_writable(path):
        return Check(
            "folders",
            name,
            f"{shown} (not writable)",
            True,
            False,
            f"make {shown} writable, or choose another",
        )
    free = shutil.disk_usage(_existing(path)).free
    state = f"{bytes_text(free)} free" if path.exists() else f"{absent}, {bytes_text(free)} free"
    return Check(
        "folders",
        name,
        f"{shown} ({state})",
        free < _LEAST_SPACE,
        False,
        "free some space" * (free < _LEAST_SPACE),
    )


def _existing(path: Path) -> Path:
    """Return the path, or the nearest parent that exists."""
    path = path.absolute()
    return next((p for p in (path, *path.parents) if p.exists()), path)


def _is_writable(path: Path) -> bool:
    found = _existing(path)
    return found.is_dir() and os.access(found, os.W_OK | os.X_OK)


def _optional() -> Iterator[Check]:
    extras: dict[str, list[Check]] = {}
    for name, least, extra in _requirements():
        if extra is not None:
            install = f"pip install '{DISTRIBUTION}[{extra}]'"
            check = _package_check("optional", name, least, required=False, install=install)
            extras.setdefault(extra, []).append(check)
    for extra, checks in extras.items():
        yield from (
            Check(c.section, f"{c.name} ({extra})", c.value, c.problem, False, c.advice) for c in checks
        )
    yield Check("optional", "remote protocols", ", ".join(_protocols()))


def _protocols() -> Iterable[str]:
    yield "http, https"
    if importlib.util.find_spec("fsspec") is not None:
        yield "others by fsspec"
        yield from (
            name for name, package in _PROTOCOLS.items() if importlib.util.find_spec(package) is not None
        )
