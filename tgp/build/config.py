"""Settings of a run, from arguments and from a TOML file."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import sys
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

from tgp.build.settings import TEXT_PARSERS, normalize_settings
from tgp.engine.schedule import Schedule, parse_schedule
from tgp.errors import DatasetError, InputError, ParameterError, UnknownNameError
from tgp.input_limits import InputBudget
from tgp.sources.names import FILE_SUFFIXES, is_callable, resolve
from tgp.store.format.constants import TYPE_GRAPHS
from tgp.values import convert_value

__all__ = [
    "CoarsenConfig",
    "from_options",
    "hierarchy_name",
    "load_config",
    "store_name",
]


@dataclass(frozen=True)
class CoarsenConfig:
    """Settings of a run of ``tgp coarsen``.

    Short forms are accepted: text for a directory, a size (``"64MB"``) or level numbers (``"1,3"``), one text for a tuple
    of texts, a mapping from names to schedules for ``poolers``, and a mapping from attributes to reductions for ``carry``.

    Args:
        dataset: A built-in set, a known name, a path or ``module:callable``, each with optional ``:key=value``; or graphs:
            a PyG dataset, ``Data`` objects, networkx graphs or scipy matrices (one, a list or a generator).
        root: Directory of the datasets; default ``$TGP_DATA`` or ``./data``.
        out: Directory of the store; default ``pooled/<dataset>``. Graphs that are Python objects need it.
        poolers: One schedule per hierarchy.
        until: Size limit of schedules whose last level has ``*`` and no number, such as ``graclus*``: the level is repeated until
            every graph has at most this number of nodes, or hardly shrinks. The default is 1.
        names: One name per hierarchy; by default the name is made from the schedule.
        only_levels: Numbers of the levels to store, counted from 1 (the input graph is level 0). The assignment of a
            stored level then refers to the previous stored level.
        seed: Seed of every random choice.
        workers: Number of worker processes. The default depends on the usable cores, the number of units and the
            estimated work; a small run stays in this process.
        scheduler: Address of a Dask scheduler, or its scheduler file.
        threads: Largest number of threads that work on one graph. The default is the number of usable cores if the run stays in one
            process, and 1 in worker processes. All processes together never use more threads than there are cores. Bytes do not
            depend on it.
        shard: ``(i, n)`` to write only the units ``i, i + n, i + 2n, ...``.
        profile: ``"fast"`` or ``"small"``; default is that of an existing store, else ``"fast"``.
        shard_size: Target size of a shard in bytes; default is that of an existing store, else 64 MB.
        shard_edges: Number of edges after which a graph that is alone in its shard, or a level of it, is continued in another file;
            default is that of an existing store, else graphs are not divided.
        limit: Number of graphs to keep, from the first.
        undirected: Add the missing reverse edges.
        largest_component: Keep the largest connected component of each graph.
        add_degree: Append the node degree to the features.
        exclude: Attributes to leave out of the store.
        force: Rebuild a store that was built from other data or settings.
        retry_failed: Coarsen graphs again that failed in an earlier run.
        metrics: Store quality figures of each level.
        max_input: Limit in bytes of the memory that the content of the input files may need; default 4 GB or 100 times
            the size of the files, whichever is more, and at most the memory of the machine.
        carry: Rules by which attributes of the graphs are computed for the levels, such as ``"auto"`` or
            ``"pos=mean,y=majority"``; see :class:`~tgp.engine.carry.CarryRules`. The levels have no attributes if ``None``.
        relations: Relations of heterogeneous graphs on which the supernodes depend, such as ``"cites"`` or
            ``"author-writes-paper"``; all if there are none. All relations are contracted.
        type_graph: Edges of heterogeneous graphs that methods see, ``"auto"``, ``"same"`` or ``"project"``; see
            :data:`~tgp.engine.type_graph.TypeGraph`. The default is ``"auto"``.
        memory: Largest memory of the run in bytes, for one graph in a file of edges that may be larger than memory; ``"auto"`` is four
            fifths of the memory of the machine or cgroup. The levels are computed from temporary files next to the store. Only the methods
            that :func:`~tgp.engine.methods.external_methods` returns can do this, and there are no quality figures.
    """

    dataset: Any = "molecules"
    root: Path | None = None
    out: Path | None = None
    poolers: tuple[str, ...] = ("graclus*2",)
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
    max_input: int | None = None
    carry: str | None = None
    until: int | None = None
    threads: int | None = None
    relations: tuple[str, ...] = ()
    type_graph: str | None = None
    memory: int | None = None
    shard_edges: int | None = None

    def __post_init__(self) -> None:
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        for name, value in normalize_settings(fields).items():
            object.__setattr__(self, name, value)
        if not self.poolers:
            raise InputError("poolers must hold at least one schedule, got none", field="poolers")
        if self.names and len(self.names) != len(self.poolers):
            raise InputError(
                f"names must hold one name per schedule: expected {len(self.poolers)}, got {len(self.names)}",
                field="names",
            )
        if self.profile not in (None, "fast", "small"):
            raise UnknownNameError("profile", str(self.profile), ("fast", "small"))
        if self.type_graph not in (None, *TYPE_GRAPHS):
            raise UnknownNameError("type graph", str(self.type_graph), TYPE_GRAPHS)
        for name, least in (
            ("workers", 1),
            ("threads", 1),
            ("limit", 1),
            ("shard_size", 1),
            ("shard_edges", 1),
            ("max_input", 1),
            ("memory", 1),
            ("until", 1),
            ("seed", 0),
        ):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Integral):
                raise ParameterError(
                    f"{name!r} must be a whole number, got {value!r} ({type(value).__name__})", field=name
                )
            if value is not None and value < least:
                raise ParameterError(f"{name!r} must be at least {least}, got {value}", field=name)
        if self.only_levels is not None and min(self.only_levels, default=1) < 1:
            raise InputError(
                f"only_levels must hold numbers of at least 1, got {','.join(map(str, self.only_levels))}",
                field="only_levels",
                hint="level 0 is the input graph, which is always stored; the first pooled graph is level 1",
            )
        if self.force and self.shard is not None:
            raise InputError(
                "force cannot be combined with shard: each job would delete the files of the others",
                field="force",
                hint="use --force without --shard, or delete the store before the jobs start",
            )
        if self.scheduler is not None and (self.workers or 1) > 1:
            raise InputError(
                "workers and scheduler cannot be combined: choose one of them", field="scheduler"
            )

    @property
    def kept_positions(self) -> tuple[int, ...] | None:
        """Positions in the schedule, counted from 0, of the levels to store; ``None`` for all levels."""
        return None if self.only_levels is None else tuple(level - 1 for level in self.only_levels)

    @functools.cached_property
    def schedules(self) -> tuple[Schedule, ...]:
        """Schedule of each hierarchy, with the size limit of open-ended ones."""
        schedules = tuple(map(parse_schedule, self.poolers))
        if self.until is None:
            return schedules
        if not any(schedule.open_ended for schedule in schedules):
            raise InputError(
                f"until has no effect: expected a schedule whose last level has * and no number, got {', '.join(self.poolers)}",
                field="until",
                hint="repeat the last level up to a size: graclus*",
            )
        return tuple(s.with_until(self.until) if s.open_ended else s for s in schedules)

    @property
    def hierarchy_names(self) -> tuple[str, ...]:
        """Name of each hierarchy."""
        kept = self.kept_positions
        return self.names or tuple(hierarchy_name(schedule, kept) for schedule in self.schedules)

    @property
    def path(self) -> Path:
        """Directory of the store."""
        if self.out is not None:
            return self.out
        if not isinstance(self.dataset, str):
            raise InputError(
                f"the store needs a directory: expected out=..., got None for graphs of type {type(self.dataset).__name__}",
                field="out",
            )
        known = (
            None if os.path.exists(self.dataset) and os.sep in self.dataset else _canonical_name(self.dataset)
        )
        return Path("pooled") / store_name(known or self.dataset)


def _canonical_name(dataset: str) -> str | None:
    """Return a known dataset name as its collection writes it, so that ``mutag`` and ``MUTAG`` share a store."""
    target = dataset.partition(":")[2]
    if target and "=" not in target.partition(":")[0]:
        return None  # module:callable
    known = resolve(dataset)
    if known is None:
        return None
    first = resolve(known.name)
    is_unique = first is None or first.family is known.family
    name = known.name if is_unique else f"{known.family.name}-{known.name}"
    return ":".join([name, *(f"{key}={value}" for key, value in known.params.items())])


def store_name(dataset: str) -> str:
    """Return a folder name for a dataset.

    Args:
        dataset: Name or path of the dataset.

    Examples:
        >>> store_name("road/NY.gr.xz"), store_name("er:num_graphs=4")
        ('NY', 'er-num_graphs=4')
    """
    name = Path(dataset).name
    while ":" not in name and Path(name).suffix in FILE_SUFFIXES:
        name = Path(name).stem
    return re.sub(r"[^A-Za-z0-9._=+-]+", "-", name).strip("-.") or "dataset"


def hierarchy_name(schedule: object, kept_positions: tuple[int, ...] | None = None) -> str:
    """Return a name for a schedule that can be part of a file name.

    Args:
        schedule: Schedule, or its text.
        kept_positions: Positions of the levels to store; ``None`` for all levels.

    Examples:
        >>> hierarchy_name("ndp,eigen:k=4*2")
        'ndp-eigen+k=4-x2'
        >>> hierarchy_name("graclus:until=10*")
        'graclus+until=10-xn'
    """
    text = re.sub(r"\*$", "*n", str(schedule)).replace("*", "-x").replace(",", "-").replace(":", "+")
    text = re.sub(r"[^A-Za-z0-9_+=-]+", "_", text)
    kept = "" if kept_positions is None else "-only=" + "+".join(map(str, kept_positions))
    return text[: 80 - len(kept)] + kept


_MAX_CONFIG = 1 << 20
"""Largest size of a configuration file in bytes."""


def from_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Convert options of the command line to fields of :class:`CoarsenConfig`.

    Args:
        options: Options by name. ``no_metrics`` sets ``metrics``; other names that are not fields are ignored.

    Returns:
        The fields that were given. An option that is ``None``, false or empty counts as not given.
    """
    fields = {f.name for f in dataclasses.fields(CoarsenConfig)}
    given: dict[str, Any] = {"metrics": False} if options.get("no_metrics") else {}
    for name, value in options.items():
        if name not in fields or value is None or value is False or value in ([], ()):
            continue
        given[name] = value
    return given


def load_config(path: Path | None, given: Mapping[str, Any]) -> CoarsenConfig:
    """Combine a configuration file with arguments. Arguments override the file, the file overrides the defaults.

    A file cannot run code: ``dataset = "module:callable"`` and ``scheduler`` (Dask unpickles what a scheduler sends)
    are accepted only if ``given`` contains the same setting.

    Args:
        path: TOML file, or ``None``. Its keys are the fields of :class:`CoarsenConfig`, with ``-`` or ``_``.
        given: Arguments; ``None`` means not given.

    Raises:
        InputError: If the file does not exist, is not TOML, has a value of the wrong type, or would run code.
        UnknownNameError: If a key is not a field.
    """
    values = {} if path is None else _read_toml(path)
    confirmed = {key: value for key, value in given.items() if value is not None}
    if path is not None:
        _refuse_code({key: value for key, value in values.items() if key not in confirmed}, path)
    return CoarsenConfig(**values | confirmed)


def _refuse_code(values: Mapping[str, Any], path: Path) -> None:
    """Refuse settings of a file that make this process run code, unless the command line gives them, too."""
    if is_callable(values.get("dataset", "")):
        raise InputError(
            f"{path}: dataset = {values['dataset']!r} would run code: expected a name or a path",
            field="dataset",
            hint=f"if you trust this code, give it on the command line: --dataset {values['dataset']}",
        )
    if values.get("scheduler") is not None:
        raise InputError(
            f"{path}: scheduler = {values['scheduler']!r} would run code that the scheduler sends",
            field="scheduler",
            hint=f"if you trust this cluster, give it on the command line: --scheduler {values['scheduler']}",
        )


def _read_toml(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    if not path.exists():
        raise InputError(f"there is no configuration file {path}", field="config")
    try:
        with InputBudget().open(path) as file:
            data = file.read(_MAX_CONFIG + 1)
        if len(data) > _MAX_CONFIG:
            raise InputError(f"{path} must have at most {_MAX_CONFIG} bytes, got more", field="config")
        content = tomllib.loads(data.decode("utf-8"))
    except DatasetError as error:
        raise InputError(str(error), field="config") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not TOML: {error}", field="config") from error
    hints = {**typing.get_type_hints(CoarsenConfig), "dataset": str}
    aliases = {"pooler": "poolers", "name": "names"}
    values: dict[str, Any] = {}
    for key, value in content.items():
        name = aliases.get(key, key.replace("-", "_"))
        if name not in hints:
            raise UnknownNameError(f"key in {path}", key, hints)
        is_short = isinstance(value, str) if name in (*TEXT_PARSERS, "relations") else name == "carry"
        if is_short:
            values[name] = value
        else:
            values[name] = convert_value(value, hints[name], f"{path}: {name!r}", field=name)
    return values
