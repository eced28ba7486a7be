"""Opening datasets through their PyTorch Geometric classes: offline first, read-only folders respected."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import inspect
import io
import os
import pickle
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tgp.errors import DatasetError, MissingPackageError, TgpError, UnknownNameError
from tgp.registry import load
from tgp.sources.download import check_reachable, unreachable
from tgp.sources.names import KnownDataset, family_folders, find_raw
from tgp.sources.no_code import no_code
from tgp.values import parse_value

__all__ = ["open_pyg", "published_split"]

_BROKEN = (
    AssertionError,
    LookupError,
    EOFError,
    RuntimeError,
    ValueError,
    TypeError,
    AttributeError,
    OSError,
    zipfile.BadZipFile,
)
"""What classes raise at files that are not what they expect."""

_RESERVED = {"root", "name", "transform", "pre_transform", "pre_filter", "force_reload", "log"}


def open_pyg(known: KnownDataset, root: Path) -> Any:
    """Make the dataset object, from raw files below ``root`` or after a download into it.

    Raises:
        DatasetError: the raw files are not there and cannot be had.
        MissingPackageError: the dataset's package is not installed.
    """
    package = known.family.needs
    if package and importlib.util.find_spec(package) is None:
        raise MissingPackageError(
            f"{known.label} needs the package {package!r}", hint=f"pip install {package}"
        )
    base = find_raw(known, root)
    if base is None:
        base = family_folders(known, root)[0]
        if known.family.host:
            check_reachable(known.family.host, known.label, base / known.raw_folder())
    arguments = _arguments(known)
    with _writable(known, base) as place, _quiet(), no_code(known.label):
        return _construct(known, place, base, arguments)


def published_split(dataset: Any, label: str) -> dict[str, Any]:
    """The split that an Open Graph Benchmark comes with: ``train``, ``val`` and ``test`` ids as arrays."""
    try:
        with _quiet(), no_code(label):
            ids = dataset.get_idx_split()
        return {
            short: ids[name].numpy()
            for short, name in (("train", "train"), ("val", "valid"), ("test", "test"))
        }
    except (OSError, KeyError, AttributeError, RuntimeError, ValueError, pickle.UnpicklingError) as error:
        raise DatasetError(f"the split of {label} cannot be read: {type(error).__name__}: {error}") from error


def _construct(known: KnownDataset, place: Path, base: Path, arguments: dict[str, Any]) -> Any:
    import urllib.error

    if known.family.named:
        arguments = {"name": known.name, **arguments}
    try:
        return load(known.family.target)(root=str(place), **arguments)
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise unreachable(known.label, base / known.raw_folder(), str(error)) from error
    except (ModuleNotFoundError, ImportError) as error:
        raise MissingPackageError(f"{known.label} cannot be opened: {error}") from error
    except pickle.UnpicklingError as error:
        raise DatasetError(
            f"a file of {known.label} below {base} holds Python objects that could run code when they are "
            f"loaded: {str(error).splitlines()[0]}",
            hint="open it in a function of yours and pass --dataset module:function",
        ) from error
    except _BROKEN as error:
        if isinstance(error, TgpError):
            raise
        raise DatasetError(
            f"{known.label} cannot be read from {base}: {type(error).__name__}: {error}"
        ) from error


def _arguments(known: KnownDataset) -> dict[str, Any]:
    """The parameters after the name as constructor arguments; unknown ones are refused."""
    if not known.params:
        return {}
    accepted = set(inspect.signature(load(known.family.target)).parameters) - _RESERVED
    for key in known.params:
        if key not in accepted:
            raise UnknownNameError(f"parameter of {known.family.name}", key, accepted)
    return {key: parse_value(text) for key, text in known.params.items()}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Dataset classes chat while they work; the command line tells its own story."""
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        yield


@contextlib.contextmanager
def _writable(known: KnownDataset, base: Path) -> Iterator[Path]:
    """A family folder in which the class may write its processed files.

    That is ``base`` itself, or, where nothing can be written, a folder of the cache whose raw folder points
    to the real one. The cache entry depends on the raw files' sizes and times, so it is never stale.
    """
    raw = base / known.raw_folder()
    if not raw.exists() or _can_write(raw.parent):
        with _locked(base, known):
            yield base
        return
    target = _cache() / known.family.name / _state_of(raw)
    if target.is_dir():
        yield target
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    # Processed in a private folder and renamed when done: parallel jobs never see half a result.
    fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
    try:
        _mirror(raw, fresh / known.raw_folder())
        yield fresh
        with contextlib.suppress(OSError):
            fresh.rename(target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _can_write(folder: Path) -> bool:
    """Ask by trying: access bits do not tell of read-only mounts, nor does a superuser heed them."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return _mode_allows(folder)
    except OSError:
        return False


def _mode_allows(folder: Path) -> bool:
    """A folder without any write bit is meant to stay as it is, even for a superuser."""
    return bool(folder.stat().st_mode & 0o222)


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "tgp" / "datasets"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return Path(tempfile.mkdtemp(prefix="tgp-datasets-"))


def _state_of(raw: Path) -> str:
    import torch_geometric

    digest = hashlib.sha256(f"{torch_geometric.__version__}\0{raw.resolve()}".encode())
    for file in sorted(p for p in raw.rglob("*") if p.is_file()):
        status = file.stat()
        digest.update(f"\0{file.relative_to(raw)}\0{status.st_size}\0{status.st_mtime_ns}".encode())
    return digest.hexdigest()[:20]


def _mirror(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        target.symlink_to(source.resolve(), target_is_directory=True)
    except OSError:  # no symbolic links here
        shutil.copytree(source, target)


@contextlib.contextmanager
def _locked(base: Path, known: KnownDataset) -> Iterator[None]:
    """One process at a time downloads and processes a dataset, where the file system knows locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    base.mkdir(parents=True, exist_ok=True)
    with open(base / f".{known.name}.lock", "w") as lock:
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
