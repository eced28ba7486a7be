"""Names of datasets: resolve them, list them, and find their raw files. Imports nothing heavy."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tgp.errors import UnknownNameError
from tgp.sources.families import FAMILIES, Family
from tgp.values import parse_call

__all__ = [
    "EDGE_LIST_SUFFIXES",
    "FILE_SUFFIXES",
    "KnownDataset",
    "default_root",
    "family_folders",
    "find_raw",
    "is_callable",
    "is_path",
    "known_names",
    "nearest_names",
    "resolve",
]

EDGE_LIST_SUFFIXES = (".edgelist", ".edges", ".txt", ".csv", ".tsv", ".gr", ".el")
FILE_SUFFIXES = (
    ".npy",
    ".npz",
    ".parquet",
    ".h5",
    ".hdf5",
    ".pt",
    ".graphml",
    *EDGE_LIST_SUFFIXES,
    ".gz",
    ".xz",
)
"""Suffixes of the files that :mod:`tgp.sources.local_files` reads."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+.-]*")
"""Names of datasets that are not in the tables. They become part of paths and addresses."""


@dataclass(frozen=True)
class KnownDataset:
    """Dataset of a known collection.

    Args:
        family: Its collection.
        name: Its name in the spelling of the collection.
        params: Arguments of the dataset class as text.
    """

    family: Family
    name: str
    params: dict[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Qualified name."""
        return f"{self.family.name}/{self.name}"

    def raw_folder(self) -> str:
        """Return the raw folder, relative to the folder of the collection."""
        return _fill_template(self.family.folder, self.name)

    def raw_files(self) -> list[str]:
        """Return the names of the raw files."""
        return [
            _fill_template(name, self.name) for name in self.family.special.get(self.name, self.family.files)
        ]

    def parts(self) -> list[KnownDataset]:
        """Return one dataset per split, or this dataset if it has no splits or ``params`` chooses one."""
        if "split" in self.params or self.name in self.family.whole:
            return [self]
        return [
            KnownDataset(self.family, self.name, {**self.params, "split": split})
            for split in self.family.splits
        ] or [self]


def _fill_template(template: str, name: str) -> str:
    lower = name.lower()
    return template.format(
        name=name, lower=lower, under=lower.replace("-", "_"), capital=name.capitalize(), short=lower[:3]
    )


def _members() -> Iterator[tuple[str, Family]]:
    return ((name, family) for family in FAMILIES.values() for name in family.members)


def known_names() -> list[str]:
    """Return the names of all known datasets.

    If two collections have a dataset of the same name, the second one is qualified (``CitationFull/Cora``).
    """
    seen: set[str] = set()
    names = []
    for name, family in _members():
        names.append(f"{family.name}/{name}" if name.lower() in seen else name)
        seen.add(name.lower())
    return names


def resolve(spec: str) -> KnownDataset | None:
    """Return the known dataset of a name.

    Args:
        spec: ``"NAME"``, ``"Collection/NAME"`` or ``"NAME:key=value"`` in upper or lower case.

    Returns:
        The dataset, or ``None`` if no collection has a dataset of this name.

    Raises:
        UnknownNameError: If a collection is named that has no such dataset.

    Examples:
        >>> resolve("mutag").label
        'TUDataset/MUTAG'
    """
    name, params = parse_call(spec)
    head, slash, rest = name.partition("/")
    families = {key.lower(): family for key, family in FAMILIES.items()}
    if slash and head.lower() in families:
        family = families[head.lower()]
        members = {member.lower(): member for member in family.members}
        if rest.lower() not in members and not (family.open_ended and _NAME.fullmatch(rest)):
            raise UnknownNameError(f"dataset of {family.name}", rest, family.members)
        return KnownDataset(family, members.get(rest.lower(), rest), params)
    for member, family in _members():
        if member.lower() == name.lower():
            return KnownDataset(family, member, params)
    for prefix, key in (("ogbg-", "OGB-G"), ("ogbn-", "OGB-N")):
        if name.lower().startswith(prefix) and _NAME.fullmatch(name):
            return KnownDataset(FAMILIES[key], name.lower(), params)
    return None


def is_path(spec: str) -> bool:
    """Return True if a dataset is an existing file or folder, written so that it cannot be a name.

    Args:
        spec: Value of ``--dataset``.
    """
    return (os.sep in spec or "." in spec) and os.path.exists(spec)


def is_callable(spec: str) -> bool:
    """Return True if a dataset is written as ``module:callable``, so that opening it runs code.

    Args:
        spec: Value of ``--dataset``.

    Examples:
        >>> is_callable("mine:make"), is_callable("er:num_graphs=4"), is_callable("MUTAG")
        (True, False, False)
    """
    rest = spec.partition(":")[2]
    return bool(rest) and "=" not in rest.partition(":")[0] and not is_path(spec)


def nearest_names(name: str) -> list[str]:
    """Return up to three known names that are most similar to a name.

    Args:
        name: Any text.
    """
    valid = {known.lower(): known for known in known_names()}
    found = difflib.get_close_matches(name.lower(), valid, n=3, cutoff=0.6)
    return [valid[key] for key in found]


def default_root() -> Path:
    """Return the default directory of the datasets: ``$TGP_DATA`` if it is set, else ``./data``."""
    return Path(os.environ.get("TGP_DATA") or "data")


def find_raw(known: KnownDataset, root: Path) -> Path | None:
    """Return the collection folder that contains the raw files of a dataset, or ``None`` if they are missing.

    Args:
        known: Dataset to find.
        root: Directory of the datasets.
    """
    files = known.raw_files()
    for base in family_folders(known, root):
        folder = base / known.raw_folder()
        if files and all(os.path.lexists(folder / name) for name in files):
            return base
        if not files and folder.is_dir() and any(folder.iterdir()):
            return base
    return None


def family_folders(known: KnownDataset, root: Path) -> list[Path]:
    """Return the folders that may contain the raw folder of a dataset: ``root/Collection``, then ``root``.

    Args:
        known: Dataset to find.
        root: Directory of the datasets.
    """
    return [root / known.family.name, root]
