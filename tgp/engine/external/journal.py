"""Journal of a run that can be killed and continued."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["JOURNAL", "LOCK", "Journal"]

JOURNAL = "journal.json"
"""Name of the file with the finished steps, in a scratch folder."""

LOCK = ".lock"
"""Name of the file in a scratch folder by which one run excludes others."""


class Journal:
    """Record of the finished steps of a run, in its scratch folder.

    A step writes its files, synchronizes them with the disk, and then records their sizes. After a kill, the next run cuts the files
    back to the recorded sizes and continues. The journal is replaced atomically.

    Args:
        folder: Scratch folder. It is created if it does not exist.
        key: Text that identifies the run. If the folder belongs to a run with another key, its content is deleted.
        on_record: Function that is called with the name of a step after it was recorded.

    Attributes:
        on_progress: Function that is called with a description of the current work and the numbers of done and of all edges.
    """

    on_progress: Callable[[str, int, int], None] | None = None

    def __init__(self, folder: Path, key: str, on_record: Callable[[str], None] | None = None) -> None:
        self.folder, self._key = folder, key
        self._on_record = on_record
        self._steps: dict[str, Any] = {}
        folder.mkdir(parents=True, exist_ok=True)
        found = self._read()
        if found is None or found["key"] != key:
            self._clear()
            self._write()
        else:
            self._steps = found["steps"]

    def _read(self) -> dict[str, Any] | None:
        try:
            found = json.loads((self.folder / JOURNAL).read_text())
        except (FileNotFoundError, ValueError):
            return None
        is_valid = isinstance(found, dict) and isinstance(found.get("steps"), dict) and "key" in found
        return found if is_valid else None

    def _clear(self) -> None:
        (self.folder / JOURNAL).unlink(missing_ok=True)  # first, so that it never refers to missing files
        for path in self.folder.iterdir():
            if path.name == LOCK:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def _write(self) -> None:
        temporary = self.folder / f"{JOURNAL}.new"
        with temporary.open("w") as file:
            json.dump({"key": self._key, "steps": self._steps}, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.folder / JOURNAL)

    def find(self, step: str) -> Any:
        """Return what was recorded for a step, or ``None``.

        Args:
            step: Name of the step.
        """
        return self._steps.get(step)

    def record(self, step: str, facts: Any) -> None:
        """Record the state of a step. Its files must be synchronized with the disk.

        Args:
            step: Name of the step.
            facts: JSON values, replacing what was recorded before.
        """
        self._steps[step] = facts
        self._write()
        if self._on_record is not None:
            self._on_record(step)

    def report(self, action: str, done: int = 0, total: int = 0) -> None:
        """Report progress to :attr:`on_progress`.

        Args:
            action: Description of the current work, such as ``"sorting"``.
            done: Number of edges that are done.
            total: Number of all edges; 0 if they are not counted.
        """
        if self.on_progress is not None:
            self.on_progress(action, min(done, total), total)

    def remove(self) -> None:
        """Delete the scratch folder."""
        self._clear()
        shutil.rmtree(self.folder)
