"""What a run does, as one frozen object; read from arguments, a TOML file, or both."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tgp.sources.names import resolve
from tgp.errors import InputError, ParameterError, UnknownNameError

__all__ = ["CoarsenConfig", "from_options", "hierarchy_name", "load_config", "parse_shard", "store_name"]

DEFAULT_POOLERS = ("graclus*2",)
DEFAULT_SHARD_SIZE = 64 * 10**6
_FILES = (
    ".npz",
    ".h5",
    ".hdf5",
    ".pt",
    ".graphml",
    ".edgelist",
    ".edges",
    ".txt",
    ".csv",
    ".tsv",
    ".gr",
    ".el",
    ".gz",
    ".xz",
)


@dataclass(frozen=True)
class CoarsenConfig:
    """Everything ``tgp coarsen`` can be asked for.

    Args:
        dataset: a known name, a path, ``module:callable``, or a built-in set, each with optional ``:key=value``.
        root: where datasets are kept; default ``$TGP_DATA`` or ``./data``.
        out: directory of the store; default ``pooled/<dataset>``.
        poolers: one schedule per hierarchy.
        names: a name per hierarchy; default made from the schedule.
        only_levels: numbers of the levels to store, counted from 1 (the input graph is level 0). A stored level then
            maps from the stored level before it.
        seed: seed of every random choice.
        workers: worker processes; default as many as cores can be used, units there are, and seconds of work are
            expected. Small runs stay in this process.
        scheduler: address of a Dask scheduler, or its scheduler file.
        shard: ``(i, n)``: only the units ``i, i + n, i + 2n, ...``.
        profile: ``"fast"`` or ``"small"``; default that of an existing store, else fast.
        shard_size: bytes a shard should have; default that of an existing store, else 64 MB.
        limit: only the first graphs.
        undirected: add the missing reverse edges.
        largest_component: keep the largest connected component of each graph.
        add_degree: append the node degree to the features.
        exclude: attributes to leave out of the store.
        force: rebuild a store that was made from something else.
        retry_failed: try graphs again that failed before.
        metrics: store quality figures of each level.
    """

    dataset: str = "molecules"
    root: Path | None = None
    out: Path | None = None
    poolers: tuple[str, ...] = DEFAULT_POOLERS
    names: tuple[str, ...] = ()
    only_levels: tuple[int, ...] | None = None
    seed: int = 0
    workers: int | None = None
    scheduler: str | None = None
    shard: tuple[int, int] | None = None
    profile: str | None = None
    shard_size: int | None = None
    limit: int | None = None
    undirected: bool = False
    largest_component: bool = False
    add_degree: bool = False
    exclude: tuple[str, ...] = ()
    force: bool = False
    retry_failed: bool = False
    metrics: bool = True

    def __post_init__(self) -> None:
        if not self.poolers:
            raise InputError("at least one schedule of poolers is needed", field="poolers")
        if self.names and len(self.names) != len(self.poolers):
            raise InputError(
                f"expected one name per schedule, got {len(self.names)} names for {len(self.poolers)} schedules",
                field="names",
            )
        if self.profile not in (None, "fast", "small"):
            raise UnknownNameError("profile", str(self.profile), ("fast", "small"))
        for name, least in (("workers", 1), ("limit", 1), ("shard_size", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ParameterError(f"{name!r} must be at least {least}, got {value}", field=name)
        if self.only_levels is not None and min(self.only_levels, default=1) < 1:
            raise InputError(
                f"only_levels must hold levels from 1 on, got {','.join(map(str, self.only_levels))}",
                field="only_levels",
                hint="level 0 is the input graph, which is always stored; the first pooled graph is level 1",
            )
        if self.force and self.shard is not None:
            raise InputError(
                "a job of several must not rebuild the store: it would throw away the work of the others",
                field="force",
                hint="rebuild with --force --shard left out, or delete the store before the jobs start",
            )
        if self.scheduler is not None and (self.workers or 1) > 1:
            raise InputError("choose workers of this machine or a scheduler, not both", field="scheduler")

    @property
    def kept_positions(self) -> tuple[int, ...] | None:
        """Positions in the schedule, counted from 0, of the levels to store; ``None`` for all levels."""
        return None if self.only_levels is None else tuple(level - 1 for level in self.only_levels)

    @property
    def path(self) -> Path:
        """Directory of the store."""
        if self.out is not None:
            return self.out
        known = None if os.path.exists(self.dataset) and os.sep in self.dataset else _known(self.dataset)
        return Path("pooled") / store_name(known or self.dataset)


def _known(dataset: str) -> str | None:
    """A known dataset as its collection writes it, so that ``mutag`` and ``MUTAG`` are one store."""
    target = dataset.partition(":")[2]
    if target and "=" not in target.partition(":")[0]:
        return None
    known = resolve(dataset)
    if known is None:
        return None
    first = resolve(known.name)
    name = (
        known.name if first is None or first.family is known.family else f"{known.family.name}-{known.name}"
    )
    return ":".join([name, *(f"{key}={value}" for key, value in known.params.items())])


def store_name(dataset: str) -> str:
    """A folder name for a dataset: the last part of a path, other signs replaced."""
    word = Path(dataset).name
    while ":" not in word and Path(word).suffix in _FILES:
        word = Path(word).stem
    return re.sub(r"[^A-Za-z0-9._=+-]+", "-", word).strip("-.") or "dataset"


def hierarchy_name(schedule: object, kept_positions: tuple[int, ...] | None = None) -> str:
    """A name for a schedule that can be part of a file name: ``ndp,eigen:k=4*2`` -> ``ndp-eigen+k=4-x2``."""
    text = str(schedule).replace("*", "-x").replace(",", "-").replace(":", "+")
    text = re.sub(r"[^A-Za-z0-9_+=-]+", "_", text)
    kept = "" if kept_positions is None else "-only=" + "+".join(map(str, kept_positions))
    return text[: 80 - len(kept)] + kept


def parse_levels(text: str) -> tuple[int, ...]:
    """``"1,3"`` as ``(1, 3)``."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"expected levels such as 1,3, got {text!r}", field="only_levels") from None


def parse_shard(text: str) -> tuple[int, int]:
    """``"3/10"`` as ``(3, 10)``: the job number counts from 0."""
    match = re.fullmatch(r"\s*(\d+)\s*/\s*(\d+)\s*", text)
    if match is None:
        raise InputError(f"expected i/N such as 0/8, got {text!r}", field="shard")
    job, jobs = int(match[1]), int(match[2])
    if not 0 <= job < jobs:
        raise InputError(f"expected i/N with 0 <= i < N, got {text!r}", field="shard")
    return job, jobs


def from_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the command line as fields of :class:`CoarsenConfig`; what was not given is left out.

    Names that are no fields are ignored; ``no_metrics`` is understood; texts of ``shard`` and ``shard_size`` are read.
    """
    fields = {f.name for f in dataclasses.fields(CoarsenConfig)}
    readers: dict[str, Callable[[Any], Any]] = {
        "shard": parse_shard,
        "shard_size": size_in_bytes,
        "only_levels": parse_levels,
    }
    given: dict[str, Any] = {"metrics": False} if options.get("no_metrics") else {}
    for name, value in options.items():
        if name not in fields or value is None or value is False or value in ([], ()):
            continue
        value = tuple(value) if isinstance(value, list | tuple) else value
        given[name] = readers[name](value) if name in readers else value
    return given


def load_config(path: Path | None, given: Mapping[str, Any]) -> CoarsenConfig:
    """Arguments over the values of a TOML file over defaults.

    Args:
        path: the file, or ``None``. Its keys are the fields of :class:`CoarsenConfig`; ``-`` may stand for ``_``.
        given: arguments; ``None`` means not given.
    """
    values = {} if path is None else _read_toml(path)
    values.update({key: value for key, value in given.items() if value is not None})
    return CoarsenConfig(**values)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        import tomllib
    except ImportError:
        raise InputError("a configuration file needs Python 3.11 or newer", field="config") from None
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no configuration file {path}", field="config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}", field="config") from error
    fields = {f.name: f for f in dataclasses.fields(CoarsenConfig)}
    aliases = {"pooler": "poolers", "name": "names"}
    values: dict[str, Any] = {}
    for key, value in content.items():
        name = aliases.get(key, key.replace("-", "_"))
        if name not in fields:
            raise UnknownNameError(f"key in {path}", key, fields)
        values[name] = _typed(path, name, value, str(fields[name].type))
    return values


def _typed(path: Path, name: str, value: Any, kind: str) -> Any:
    """A TOML value as the type of its field."""
    if name == "shard":
        return parse_shard(str(value))
    if name == "only_levels" and isinstance(value, list) and all(type(item) is int for item in value):
        return tuple(value)
    if kind.startswith("tuple[str"):
        items = [value] if isinstance(value, str) else value
        if isinstance(items, list) and all(isinstance(item, str) for item in items):
            return tuple(items)
    elif kind.startswith("Path"):
        if isinstance(value, str):
            return Path(value)
    elif kind.startswith("bool"):
        if isinstance(value, bool):
            return value
    elif kind.startswith("int"):
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if name == "shard_size" and isinstance(value, str):
            return size_in_bytes(value)
    elif isinstance(value, str):
        return value
    raise InputError(f"{path}: {name!r} must be {kind}, got {value!r}", field=name)


_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def size_in_bytes(text: str) -> int:
    """``64MB``, ``1.5G``, ``64MiB`` or a plain number of bytes."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", text.lower())
    if match is None or (match[3] and not match[2]):
        raise InputError(f"expected a size such as 64MB or 1GiB, got {text!r}", field="shard_size")
    factor = 1024 ** "kmgt".index(match[2]) * 1024 if match[3] else _UNITS[match[2]]
    size = int(float(match[1]) * factor)
    if size < 1:
        raise InputError(f"expected a positive size, got {text!r}", field="shard_size")
    return size
