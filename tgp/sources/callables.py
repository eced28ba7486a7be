"""Get graphs from a function of the user, written as ``module:function`` or ``file.py:function``."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from tgp.errors import DatasetError, UserCodeError, nearest
from tgp.ragged import GraphTable
from tgp.sources.names import resolve
from tgp.sources.objects import collect_graphs, objects_to_table
from tgp.values import parse_call, parse_value

__all__ = ["open_callable", "python_file_error"]

_FILE = re.compile(r"(.+\.py):(.+)")
"""File and function. The path may contain a colon (a drive of Windows)."""


def open_callable(spec: str, unwanted: set[str] | None = None) -> GraphTable:
    """Call a function of the user and convert the graphs that it returns.

    Args:
        spec: ``module:function`` or ``path/to/file.py:function``, with optional arguments ``:key=value``. The module
            may be in the working directory. The name may also belong to an object that is not callable.
        unwanted: Attributes to leave out, see :func:`~tgp.sources.objects.objects_to_table`.

    Raises:
        DatasetError: If the module or the function does not exist, or if the result is not graphs.
        UserCodeError: If the code of the user raises an exception.
    """
    match = _FILE.fullmatch(spec)
    module_name, rest = (match[1], match[2]) if match else spec.split(":", 1)
    attribute, params = parse_call(rest)
    arguments = {key: parse_value(text) for key, text in params.items()}
    with _import_path(Path(module_name).parent if match else Path.cwd()):
        module = _load_file(Path(module_name), spec) if match else _import(module_name, spec)
        target = _find(module, attribute, module_name)
        with _user_code(spec):
            found = target(**arguments) if callable(target) else target
            with suppress(DatasetError):  # not graphs; the conversion explains it
                found = collect_graphs(found)
    try:
        return objects_to_table(found, unwanted)
    except DatasetError as error:
        raise DatasetError(f"{spec}: {error}", hint=error.hint) from error


def python_file_error(path: Path) -> DatasetError:
    """Return the error for a Python file that is given without a function.

    Args:
        path: Existing file.
    """
    names = _functions(path)
    written = [f"{path}:{name}" for name in names[:3]] or [f"{path}:FUNCTION"]
    return DatasetError(
        f"{path} is a Python file: expected the name of a function that returns graphs, got none",
        hint=f"write {', '.join(written)}; arguments follow the name: {written[0]}:name=value",
    )


def _functions(path: Path) -> list[str]:
    """Return the public functions that a file defines, without running it."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []
    return [n.name for n in tree.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")]


@contextmanager
def _import_path(folder: Path) -> Iterator[None]:
    """Let modules of a folder be imported inside the block."""
    added = str(folder.resolve())
    sys.path.insert(0, added)
    try:
        yield
    finally:
        if added in sys.path:
            sys.path.remove(added)


def _import(name: str, spec: str) -> ModuleType:
    try:
        with _user_code(spec):
            return importlib.import_module(name)
    except UserCodeError as error:
        cause = error.__cause__
        missing = cause.name if isinstance(cause, ModuleNotFoundError) else None
        if missing is None or not (name == missing or name.startswith(f"{missing}.")):
            raise
    if resolve(name) is not None:
        text = f"{spec!r} is not a dataset: expected parameters of {name!r} as {name}:key=value, got {spec!r}"
        raise DatasetError(text)
    raise DatasetError(
        f"the module {name!r} cannot be imported: expected an installed module or one of the working directory",
        hint=f"write the path of the file: path/to/{name.replace('.', os.sep)}.py:{spec.partition(':')[2]}",
    )


def _load_file(path: Path, spec: str) -> ModuleType:
    """Import a Python file as a module of its own name."""
    if not path.is_file():
        raise DatasetError(f"there is no file {str(path)!r}: expected a Python file with a function")
    name = path.stem if path.stem.isidentifier() else "tgp_user_dataset"
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(path.resolve()):
        return known
    module_spec = importlib.util.spec_from_file_location(name, path.resolve())
    if module_spec is None or module_spec.loader is None:
        raise DatasetError(f"{path} cannot be imported: expected a Python file")
    module = importlib.util.module_from_spec(module_spec)
    if known is None:
        sys.modules[name] = module  # dataclasses and pickle look it up
    try:
        with _user_code(spec):
            module_spec.loader.exec_module(module)
    except BaseException:
        if sys.modules.get(name) is module:
            del sys.modules[name]
        raise
    return module


def _find(module: ModuleType, attribute: str, module_name: str) -> Any:
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            names = [name for name, value in vars(found).items() if callable(value) and name[0] != "_"]
            guess = nearest(part, names)
            hint = None if guess is None else f"did you mean {module_name}:{guess}?"
            raise DatasetError(
                f"{module_name} has no function {attribute!r}: expected one of {', '.join(names[:10]) or 'none'}",
                hint=hint,
            )
        found = getattr(found, part)
    return found


@contextmanager
def _user_code(spec: str) -> Iterator[None]:
    """Turn any exception inside the block into a ``UserCodeError`` with the frames of the user."""
    try:
        yield
    except DatasetError:
        raise
    except (Exception, SystemExit) as error:
        text = str(error).strip().splitlines()
        summary = f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
        trace = _own_frames(error, error.__traceback__)
        raise UserCodeError(f"{spec} failed with {summary}", trace=trace) from error


def _own_frames(error: BaseException, trace: TracebackType | None) -> list[str]:
    """Format a traceback without the frames of tgp and of the import system in front."""
    skipped = (str(Path(__file__).parents[1]), "<frozen importlib", importlib.__file__ or "")
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(skipped):
        trace = trace.tb_next
    lines = traceback.format_exception(type(error), error, trace)
    return [line for text in lines for line in text.rstrip("\n").splitlines()]
