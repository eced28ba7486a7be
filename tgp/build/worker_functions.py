"""Functions that run on a worker of a cluster, where tgp may be missing or may have another version.

The client sends the source text of this module with each call, see :mod:`tgp.build.cluster`. The module therefore uses
the standard library only, and its functions return plain values that any version of Python can read.
"""

from __future__ import annotations

import importlib
import os
import platform
import secrets
import socket
import sys
from typing import Any


def describe_worker() -> dict[str, Any]:
    """Return the identity of this process and the version of tgp that it imports.

    Returns:
        ``host``, ``pid``, ``address`` (of a Dask worker, else ``None``), ``python``, ``version``, ``engine`` (the
        revision of the engine) and ``hdf5`` (the version of the HDF5 library). The last three are ``None`` if tgp cannot
        be imported; ``problem`` then has the reason.
    """
    found: dict[str, Any] = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "address": None,
        "python": platform.python_version(),
        "version": None,
        "engine": None,
        "hdf5": None,
        "problem": None,
    }
    distributed = sys.modules.get("distributed")
    if distributed is not None:
        try:
            found["address"] = str(distributed.get_worker().address)
        except Exception:  # noqa: BLE001 - not inside a task
            found["address"] = None
    try:
        found["version"] = str(importlib.import_module("tgp").__version__)
        found["engine"] = int(importlib.import_module("tgp.engine.revision").ENGINE_REVISION)
        found["hdf5"] = str(importlib.import_module("h5py").version.hdf5_version)
    except Exception as error:  # noqa: BLE001 - anything can fail in another version
        found["problem"] = f"{type(error).__name__}: {error}"
    return found


def probe(folder: str, name: str, content: str) -> dict[str, Any]:
    """Check that this process sees a file of the client, and write a file that the client can look for.

    Args:
        folder: Directory of the store.
        name: Name of the file that the client has written into the directory.
        content: Content of that file. The answer has the same content.

    Returns:
        Result of :func:`describe_worker`, the name of the file that this process wrote as ``answer``, and as
        ``unseen`` the reason if the file cannot be read, has another content, or no answer can be written.
    """
    found = describe_worker()
    found["answer"] = found["unseen"] = None
    try:
        with open(os.path.join(folder, name), encoding="ascii") as file:
            if file.read(1000) != content:
                found["unseen"] = "the file of the client has another content there"
                return found
    except (OSError, ValueError) as error:
        is_folder = os.path.isdir(folder)
        found["unseen"] = (
            f"the directory exists there, but the file of the client does not: {error}"
            if is_folder and isinstance(error, FileNotFoundError)
            else str(error)
        )
        return found
    answer = f"{name}-{found['pid']}-{secrets.token_hex(8)}"
    try:
        with open(os.path.join(folder, answer), "x", encoding="ascii") as file:
            file.write(content)
    except OSError as error:
        found["unseen"] = f"the directory is visible there, but not writable: {error}"
        return found
    found["answer"] = answer
    return found


def call(module: str, name: str, arguments: tuple[Any, ...]) -> dict[str, Any]:
    """Import a function and call it.

    Args:
        module: Module of the function.
        name: Name of the function.
        arguments: Its arguments.

    Returns:
        ``{"result": ...}``, or ``{"refused": ...}`` with the result of :func:`describe_worker` if the function cannot be
        imported. An error of the function is raised unchanged.
    """
    try:
        function = getattr(importlib.import_module(module), name)
    except Exception as error:  # noqa: BLE001 - anything can fail in another version
        found = describe_worker()
        found["problem"] = found["problem"] or f"{type(error).__name__}: {error}"
        return {"refused": found}
    return {"result": function(*arguments)}
