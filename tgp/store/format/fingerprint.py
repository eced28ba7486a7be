"""Specification of a store and its fingerprints."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tgp.errors import InputError
from tgp.ragged.types import Relation, TypeTable
from tgp.store.format import constants as fmt
from tgp.store.format.strict_json import Document, canonical, check_depth
from tgp.store.format.type_names import check_type_names, parse_relation_names, parse_types

__all__ = ["HierarchySpec", "StoreSpec"]


@dataclass(frozen=True)
class HierarchySpec:
    """Specification of one hierarchy.

    Args:
        name: Name of the hierarchy, see :func:`tgp.store.format.constants.check_hierarchy_name`.
        schedule: One JSON object per level, with all parameters resolved.
        seed: Seed of all random choices.
        engine: Revision of the engine that computes the hierarchy. ``None`` in stores of format 1.0, which revision 1
            wrote.
        metrics: True if quality figures are stored. ``None`` in stores of format 1.0, which do not say so.
        carry: Rules by which attributes of the input graphs are computed for the levels, as canonical text. ``None`` if
            the levels have no attributes.
        relations: Relations of heterogeneous graphs on which the supernodes depend. ``None`` for other graphs.
        type_graph: Edges of heterogeneous graphs that methods see. ``None`` for other graphs.
    """

    name: str
    schedule: list[dict[str, Any]]
    seed: int = 0
    engine: int | None = None
    metrics: bool | None = None
    carry: str | None = None
    relations: tuple[Relation, ...] | None = None
    type_graph: str | None = None

    def __post_init__(self) -> None:
        fmt.check_hierarchy_name(self.name)
        if not self.schedule or not all(isinstance(level, dict) for level in self.schedule):
            raise InputError(
                f"hierarchy {self.name!r}: expected a schedule of at least one level, got {self.schedule!r}",
                field="schedule",
            )
        _check_json(self.schedule, "schedule")
        if self.carry is not None and not 0 < len(self.carry) <= fmt.MAX_NAME:
            raise InputError(
                f"hierarchy {self.name!r}: expected carry rules of 1 to {fmt.MAX_NAME} characters, got "
                f"{len(self.carry)}",
                field="carry",
            )

    def to_json(self) -> dict[str, Any]:
        """Return the content of the specification file."""
        added = {
            "engine": self.engine,
            "with_metrics": self.metrics,
            "carry": self.carry,
            "relations": None if self.relations is None else [list(names) for names in self.relations],
            "type_graph": self.type_graph,
        }
        return {
            "name": self.name,
            "schedule": self.schedule,
            "seed": self.seed,
            **{key: value for key, value in added.items() if value is not None},
        }

    @classmethod
    def from_json(cls, document: Document) -> HierarchySpec:
        """Parse a specification file, or the entry of the manifest."""
        name = document.text("name")
        try:
            fmt.check_hierarchy_name(name)
        except InputError as error:
            raise document.fail("name", "the name of a hierarchy") from error
        schedule = [dict(level.values) for level in document.documents("schedule")]
        if not schedule:
            raise document.fail("schedule", "a list of levels")
        if len(schedule) > fmt.MAX_LEVELS:
            raise document.fail("schedule", f"a list of at most {fmt.MAX_LEVELS} levels")
        if "carry" in document.values and not document.text("carry"):
            raise document.fail("carry", "rules")
        return cls(
            name,
            schedule,
            document.integer("seed", low=-(2**63), high=2**64),
            document.integer("engine", low=1) if "engine" in document.values else None,
            document.boolean("with_metrics") if "with_metrics" in document.values else None,
            document.text("carry") if "carry" in document.values else None,
            parse_relation_names(document, "relations") if "relations" in document.values else None,
            document.choice("type_graph", fmt.TYPE_GRAPHS) if "type_graph" in document.values else None,
        )


@dataclass(frozen=True)
class StoreSpec:
    """Specification of a store: everything that its bytes depend on.

    Args:
        dataset: Description of the origin of the graphs, for people. It is not part of the fingerprint, because
            :attr:`data_digest` identifies the graphs exactly.
        data_digest: Digest of the graphs, see :func:`tgp.store.data_digest`.
        num_graphs: Number of graphs.
        bounds: Unit ``i`` holds graphs ``bounds[i]:bounds[i + 1]``.
        profile: ``"fast"`` or ``"small"``.
        hierarchies: Hierarchies over the graphs.
        types: Types and relations of heterogeneous graphs; ``None`` for other graphs.
        shard_edges: Number of edges after which a graph that is alone in its unit, or a level of it, is continued in another file;
            ``None`` if graphs are not divided.
    """

    dataset: Mapping[str, Any]
    data_digest: str
    num_graphs: int
    bounds: tuple[int, ...]
    profile: str = "fast"
    hierarchies: tuple[HierarchySpec, ...] = field(default=())
    types: TypeTable | None = None
    shard_edges: int | None = None

    def __post_init__(self) -> None:
        if len(self.bounds) > fmt.MAX_UNITS + 1:
            raise InputError(
                f"a store has at most {fmt.MAX_UNITS} units, got {len(self.bounds) - 1}. Use larger shards",
                field="bounds",
            )
        object.__setattr__(self, "bounds", tuple(int(b) for b in self.bounds))
        object.__setattr__(self, "hierarchies", tuple(self.hierarchies))
        steps = zip(self.bounds[:-1], self.bounds[1:], strict=True)
        if (
            len(self.bounds) < 2
            or self.bounds[0] != 0
            or self.bounds[-1] != self.num_graphs
            or any(b < a for a, b in steps)
        ):
            raise InputError(
                f"bounds must hold at least two numbers, start at 0, never decrease, and end at num_graphs = "
                f"{self.num_graphs}, got {_shorten(list(self.bounds))}",
                field="bounds",
            )
        if self.profile not in fmt.PROFILES:
            raise InputError(
                f"profile must be one of {', '.join(fmt.PROFILES)}, got {self.profile!r}", field="profile"
            )
        names = [h.name.lower() for h in self.hierarchies]
        if len(set(names)) != len(names):
            raise InputError(
                "names of hierarchies must differ in more than upper and lower case, "
                f"got {[h.name for h in self.hierarchies]}",
                field="hierarchies",
            )
        if self.shard_edges is not None and (self.profile != "fast" or self.types is not None):
            raise InputError(
                "shard_edges divides graphs with one type of nodes in the fast profile: expected such a store, got "
                f"the {self.profile} profile{' and several types' if self.types is not None else ''}",
                field="shard_edges",
            )
        _check_json(dict(self.dataset), "dataset")
        check_type_names(self.types, self.hierarchies)

    @property
    def num_units(self) -> int:
        """Number of units."""
        return len(self.bounds) - 1

    @property
    def is_mapped(self) -> bool:
        """True if every array is mapped from one file."""
        return self.profile == "fast" and self.shard_edges is None

    def base_json(self) -> dict[str, Any]:
        """Return the part of the specification that describes the graphs."""
        return {
            "format": fmt.FORMAT,
            "version": fmt.VERSION,
            "dataset": dict(self.dataset),
            "data_digest": self.data_digest,
            "num_graphs": self.num_graphs,
            "bounds": list(self.bounds),
            "profile": self.profile,
            **({} if self.types is None else {"types": self.types.to_json()}),
            **({} if self.shard_edges is None else {"shard_edges": self.shard_edges}),
        }

    @classmethod
    def from_json(cls, document: Document, hierarchies: tuple[HierarchySpec, ...] = ()) -> StoreSpec:
        """Parse the result of :meth:`base_json`.

        Args:
            document: Specification file, or the manifest.
            hierarchies: Hierarchies of the specification.

        Returns:
            The specification.

        Raises:
            StoreDamagedError: If a value is not valid.
        """
        try:
            return cls(
                dataset=document.mapping("dataset"),
                data_digest=document.digest("data_digest"),
                num_graphs=document.integer("num_graphs"),
                bounds=document.integers("bounds"),
                profile=document.choice("profile", fmt.PROFILES),
                hierarchies=hierarchies,
                types=parse_types(document),
                shard_edges=document.integer("shard_edges", low=1)
                if "shard_edges" in document.values
                else None,
            )
        except InputError as error:
            raise document.fail(error.field or "spec", f"valid ({error})") from error

    def part_fingerprint(self, part: str) -> str:
        """Return the fingerprint of one part.

        Args:
            part: ``"graphs"`` or the name of a hierarchy.
        """
        if part == fmt.GRAPHS:
            return self._graphs_fingerprint
        values = {"graphs": self._graphs_fingerprint, **self.hierarchy(part).to_json()}
        return hashlib.sha256(canonical(values)).hexdigest()

    @functools.cached_property
    def _graphs_fingerprint(self) -> str:
        # Cached, because every shard needs it and ``bounds`` is as long as the number of shards.
        base = {k: v for k, v in self.base_json().items() if k != "dataset"}
        return hashlib.sha256(canonical(base)).hexdigest()

    def hierarchy(self, name: str) -> HierarchySpec:
        """Return the hierarchy of that name.

        Args:
            name: Name of a hierarchy.

        Raises:
            InputError: If there is none.
        """
        for entry in self.hierarchies:
            if entry.name == name:
                return entry
        raise InputError(
            f"no hierarchy {name!r}: expected one of {[h.name for h in self.hierarchies]}", field="name"
        )

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the whole store. It does not depend on the order of the hierarchies."""
        parts = sorted(self.part_fingerprint(h.name) for h in self.hierarchies)
        return hashlib.sha256(canonical([self.part_fingerprint(fmt.GRAPHS), *parts])).hexdigest()


def _check_json(value: Any, name: str) -> None:
    try:
        canonical(value)
        good = check_depth(value, fmt.MAX_JSON_DEPTH - 4)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{name} must consist of plain JSON values: {error}", field=name) from error
    if not good:
        raise InputError(f"{name} is nested too deeply for the manifest", field=name)


def _shorten(value: Any) -> str:
    """Return a value as JSON of at most 120 characters."""
    text = canonical(value).decode()
    return text if len(text) <= 120 else text[:117] + "..."
