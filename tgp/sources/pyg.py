"""Open datasets through classes and files of PyTorch Geometric: without network if possible, without running code."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import inspect
import io
import os
import pickle
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch_geometric
from torch_geometric.data import Data, InMemoryDataset

from tgp.errors import DatasetError, MissingPackageError, TgpError, UnknownNameError
from tgp.input_limits import READ_ERRORS, InputBudget, describe, input_budget, open_decompressed
from tgp.registry import load
from tgp.sources.download import check_reachable, unreachable
from tgp.sources.names import KnownDataset, family_folders, find_raw
from tgp.sources.no_code import load_tensors, no_code
from tgp.store.io.portable import close_locked, lock_file
from tgp.values import parse_value

__all__ = ["load_processed", "open_pyg", "published_split"]

_RESERVED = {"root", "name", "transform", "pre_transform", "pre_filter", "force_reload", "log"}
"""Arguments of dataset classes that are not parameters of a dataset."""

_CODE_HINT = "open it in a function of yours and pass --dataset module:function"


def open_pyg(known: KnownDataset, root: Path) -> Any:
    """Open a dataset through its class, from raw files below ``root`` or after a download into it.

    Args:
        known: Dataset to open.
        root: Directory of the datasets.

    Returns:
        An instance of the dataset class.

    Raises:
        DatasetError: If the raw files are missing and cannot be downloaded, or cannot be read.
        MissingPackageError: If the package of the dataset is not installed.
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
    _check_files(known, base)
    arguments = _constructor_arguments(known)
    with _writable_folder(known, base) as folder, _silence(), no_code(known.label):
        return _construct(known, folder, base, arguments)


def published_split(dataset: Any, label: str) -> dict[str, Any]:
    """Return the published split of an Open Graph Benchmark dataset.

    Args:
        dataset: Instance of an ogb class.
        label: Name of the dataset for error messages.

    Returns:
        Arrays of the ids of ``train``, ``val`` and ``test``.

    Raises:
        DatasetError: If the split cannot be read.
    """
    try:
        with _silence(), no_code(label):
            ids = dataset.get_idx_split()
        return {
            short: ids[name].numpy()
            for short, name in (("train", "train"), ("val", "valid"), ("test", "test"))
        }
    except (pickle.UnpicklingError, *READ_ERRORS) as error:
        if isinstance(error, TgpError):
            raise
        raise DatasetError(f"the split of {label} cannot be read: {type(error).__name__}: {error}") from error


def load_processed(path: Path) -> InMemoryDataset | list[Data]:
    """Load the graphs of a file written by torch, without running code from it.

    Args:
        path: A ``processed/data.pt`` of PyG, a saved list of ``Data``, or one saved ``Data``.

    Raises:
        DatasetError: If the file cannot be read as plain tensors, or contains something else.
    """
    try:
        with input_budget() as budget:
            content = load_tensors(path, budget)
    except pickle.UnpicklingError as error:
        raise _refused(error, str(path)) from error
    except READ_ERRORS as error:
        if isinstance(error, TgpError):
            raise
        raise DatasetError(f"{path} cannot be read: {describe(error)}") from error
    if (
        isinstance(content, tuple)
        and len(content) >= 2
        and (content[1] is None or isinstance(content[1], dict))
    ):
        data = content[0]
        if isinstance(data, dict) and all(isinstance(key, str) for key in data):
            data = Data.from_dict(data)
        if isinstance(data, Data):
            return [data] if content[1] is None else _sliced(data, content[1], path)
    if isinstance(content, Data):
        return [content]
    if isinstance(content, list | tuple) and content and all(isinstance(item, Data) for item in content):
        return list(content)
    raise DatasetError(f"{path} must hold graphs (torch_geometric.data.Data), got {type(content).__name__}")


def _refused(error: pickle.UnpicklingError, where: str) -> DatasetError:
    """Return the error for a file that torch refuses to load, without torch's advice to load it nevertheless."""
    found = re.search(r"GLOBAL (\S+)", str(error))
    if found is None:
        return DatasetError(
            f"{where} cannot be read: expected a file of torch that contains only tensors and graphs"
        )
    return DatasetError(
        f"{where} holds Python objects that could run code when they are loaded: {found[1]}", hint=_CODE_HINT
    )


def _sliced(data: Data, slices: dict[str, Any], path: Path) -> InMemoryDataset:
    try:
        _check_slices(slices, path)
        return _ProcessedDataset(data, slices)
    except READ_ERRORS as error:
        if isinstance(error, TgpError):
            raise
        raise DatasetError(f"{path} has slices that cannot be read: {describe(error)}") from error


def _check_slices(slices: dict[str, Any], path: Path) -> None:
    for name, values in slices.items():
        offsets = torch.as_tensor(values)
        if offsets.is_floating_point() or offsets.is_complex() or offsets.dim() != 1 or not len(offsets):
            raise DatasetError(
                f"{path}: the slices of {str(name)[:80]!r} must be a list of integers, "
                f"got {offsets.dtype} {list(offsets.shape)}"
            )


class _ProcessedDataset(InMemoryDataset):
    """Dataset of the concatenated tensors and slices of a processed file."""

    def __init__(self, data: Data, slices: dict[str, Any]) -> None:
        super().__init__(None)
        self.data, self.slices = data, slices


def _construct(known: KnownDataset, folder: Path, base: Path, arguments: dict[str, Any]) -> Any:
    """Call the dataset class with a writable folder. Error messages name the folder of the raw files, ``base``."""
    import urllib.error

    if known.family.named:
        arguments = {"name": known.name, **arguments}
    try:
        return load(known.family.target)(root=str(folder), **arguments)
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise unreachable(known.label, base / known.raw_folder(), str(error)) from error
    except (ModuleNotFoundError, ImportError) as error:
        raise MissingPackageError(f"{known.label} cannot be opened: {error}") from error
    except pickle.UnpicklingError as error:
        raise _refused(error, f"a file of {known.label} below {base}") from error
    except READ_ERRORS as error:
        if isinstance(error, TgpError):
            raise
        raise DatasetError(
            f"{known.label} cannot be read from {base}: {type(error).__name__}: {describe(error)}"
        ) from error


def _check_files(known: KnownDataset, base: Path) -> None:
    """Check the kinds and sizes of all files that the class may read, because it checks nothing."""
    raw = base / known.raw_folder()
    folders = [raw, *(raw.parent / name / "processed" for name in ("", "subset", "full"))]
    with input_budget() as budget:
        for folder in folders:
            for parent, _, names in os.walk(folder):
                for path in (Path(parent, name) for name in names):
                    budget.open(path).close()
                    if path.suffix in (".gz", ".xz") and folder is raw:
                        _check_compressed(path, budget)
        if known.family.name == "Planetoid" and raw.is_dir():
            _check_test_index(raw / known.raw_files()[-1], budget)


def _check_compressed(path: Path, budget: InputBudget) -> None:
    try:
        with open_decompressed(path, budget) as text:
            while text.buffer.read(1 << 20):
                pass
    except READ_ERRORS as error:
        if isinstance(error, TgpError):
            raise
        raise DatasetError(f"{path} cannot be read: {describe(error)}") from error


def _check_test_index(path: Path, budget: InputBudget) -> None:
    """Check the ids of the test nodes. The class allocates a row for each id between the smallest and the largest."""
    with budget.open(path) as file:
        try:
            ids = [int(word) for word in file.read().split()]
        except ValueError as error:
            raise DatasetError(f"{path} cannot be read: expected one id per line, got others") from error
    if not ids or min(ids) < 0 or max(ids) - min(ids) > 4 * len(ids) + 1000:
        raise DatasetError(f"{path} must hold ids of consecutive nodes, with few gaps")


def _constructor_arguments(known: KnownDataset) -> dict[str, Any]:
    if not known.params:
        return {}
    accepted = set(inspect.signature(load(known.family.target)).parameters) - _RESERVED
    for key in known.params:
        if key not in accepted:
            raise UnknownNameError(f"parameter of {known.family.name}", key, accepted)
    return {key: parse_value(text) for key, text in known.params.items()}


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Discard the output of dataset classes. The command line reports progress itself."""
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        yield


@contextlib.contextmanager
def _writable_folder(known: KnownDataset, base: Path) -> Iterator[Path]:
    """Yield a collection folder in which the class can write its processed files.

    This is ``base`` if it is writable, else a folder of the cache with a link to the raw folder. The name of the cache
    folder depends on sizes and times of the raw files, so changed files are processed again.
    """
    raw = base / known.raw_folder()
    if not raw.exists() or _can_write(raw.parent):
        with _locked(base, known):
            yield base
        return
    target = _cache_folder() / known.family.name / _digest_of_folder(raw)
    if target.is_dir():
        yield target
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    # The class works in a private folder, which is renamed at the end, so that parallel jobs never see partial files.
    fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
    try:
        _link_or_copy(raw, fresh / known.raw_folder())
        yield fresh
        with contextlib.suppress(OSError):
            fresh.rename(target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _can_write(folder: Path) -> bool:
    """Return True if files can be created in a folder and its mode has a write bit.

    The mode does not show read-only mounts, so a file is created. A superuser could write to a folder without write
    bits, but must not.
    """
    try:
        with tempfile.TemporaryFile(dir=folder):
            return bool(folder.stat().st_mode & 0o222)
    except OSError:
        return False


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "tgp" / "datasets"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return Path(tempfile.mkdtemp(prefix="tgp-datasets-"))


def _digest_of_folder(raw: Path) -> str:
    digest = hashlib.sha256(f"{torch_geometric.__version__}\0{raw.resolve()}".encode())
    for file in sorted(p for p in raw.rglob("*") if p.is_file()):
        status = file.stat()
        digest.update(f"\0{file.relative_to(raw)}\0{status.st_size}\0{status.st_mtime_ns}".encode())
    return digest.hexdigest()[:20]


def _link_or_copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        target.symlink_to(source.resolve(), target_is_directory=True)
    except OSError:  # the file system has no symbolic links
        shutil.copytree(source, target)


@contextlib.contextmanager
def _locked(base: Path, known: KnownDataset) -> Iterator[None]:
    """Let one process at a time download and process a dataset, if the file system supports locks."""
    base.mkdir(parents=True, exist_ok=True)
    path = base / f".{known.name}.lock"
    flags = os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, os.O_WRONLY | flags)
    except OSError as error:
        raise DatasetError(f"{path} cannot be locked: {error.strerror}") from error
    try:
        lock_file(descriptor, wait=True)
        yield
    finally:
        close_locked(descriptor)
