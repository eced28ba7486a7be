"""Compare the specification of a store with that of a run, and describe the differences in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tgp.errors import Difference
from tgp.ragged.types import Relation
from tgp.store.format.fingerprint import HierarchySpec, StoreSpec
from tgp.store.format.strict_json import canonical

__all__ = ["spec_differences"]

FIRST_REVISION = 1
"""Engine revision of stores that do not name one."""

LONGEST_VALUE = 60
"""Number of characters after which a value is cut."""


def spec_differences(stored: StoreSpec, asked: StoreSpec) -> list[Difference]:
    """List the differences that prevent a store from being continued.

    A hierarchy that only one of the two specifications has is not a difference, because hierarchies can be added.

    Args:
        stored: Specification of the store.
        asked: Specification of the new run.
    """
    found: list[Difference] = []
    if stored.data_digest != asked.data_digest:
        found += _data_differences(stored, asked)
    if stored.num_graphs != asked.num_graphs:
        text = f"number of graphs: {stored.num_graphs:,} in the store, {asked.num_graphs:,} asked for"
        found.append(Difference("num_graphs", text, stored.num_graphs, asked.num_graphs))
    elif stored.bounds != asked.bounds and stored.data_digest == asked.data_digest:
        found.append(_shard_difference(stored, asked))
    if stored.profile != asked.profile:
        text = f"profile: {stored.profile!r} in the store, {asked.profile!r} asked for"
        found.append(Difference("profile", text, stored.profile, asked.profile))
    if stored.shard_edges != asked.shard_edges:
        text = _change("edges of a file (shard_edges)", stored.shard_edges, asked.shard_edges)
        found.append(Difference("shard_edges", text, stored.shard_edges, asked.shard_edges))
    if stored.types != asked.types:
        old, new = (None if t is None else t.to_json() for t in (stored.types, asked.types))
        found.append(Difference("types", _change("types of nodes and relations", old, new), old, new))
    known = {h.name: h for h in stored.hierarchies}
    for wanted in asked.hierarchies:
        if wanted.name in known:
            found += _hierarchy_differences(known[wanted.name], wanted)
            continue
        twin = next((name for name in known if name.lower() == wanted.name.lower()), None)
        if twin is not None:
            text = f"hierarchy {wanted.name!r}: the store has {twin!r}, a name that differs in case only"
            found.append(Difference("name", text, twin, wanted.name, wanted.name))
    return found


def _data_differences(stored: StoreSpec, asked: StoreSpec) -> Iterator[Difference]:
    """Yield the settings of the dataset that differ, then the difference of the graphs."""
    old, new = (dict(_leaves(_without_layout(spec.dataset))) for spec in (stored, asked))
    same = True
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key), new.get(key)
        if canonical(before) != canonical(after):
            same = False
            label = "dataset" if key == "name" else f"option {key} of the dataset"
            yield Difference(key, _change(label, before, after), before, after)
    text = "the graphs are not those of the store"
    if same:
        text += ", although the description of the dataset is the same"
    yield Difference("graphs", text, stored.data_digest, asked.data_digest)


def _without_layout(dataset: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in dataset.items() if key != "shard_size"}


def _shard_difference(stored: StoreSpec, asked: StoreSpec) -> Difference:
    noun = "shard" if stored.num_units == 1 else "shards"
    text = f"cut into shards: {stored.num_units:,} {noun} in the store, {asked.num_units:,} asked for"
    if stored.num_units == asked.num_units:
        pairs = enumerate(zip(stored.bounds, asked.bounds, strict=True))
        position, (old, new) = next((i, ends) for i, ends in pairs if ends[0] != ends[1])
        text += (
            f"; shard {position - 1} ends before graph {old:,} in the store, before graph {new:,} in this run"
        )
    return Difference("bounds", text, stored.num_units, asked.num_units)


def _hierarchy_differences(stored: HierarchySpec, asked: HierarchySpec) -> list[Difference]:
    name = f"hierarchy {asked.name!r}"
    found: list[Difference] = []
    if stored.seed != asked.seed:
        text = f"{name}: seed {stored.seed} in the store, {asked.seed} asked for"
        found.append(Difference("seed", text, stored.seed, asked.seed, asked.name))
    before, after = stored.engine or FIRST_REVISION, asked.engine or FIRST_REVISION
    if before != after:
        text = f"{name}: computed by engine revision {before} in the store, this version of tgp has revision {after}"
        found.append(Difference("engine", text, before, after, asked.name))
    if stored.metrics is not None and asked.metrics is not None and stored.metrics != asked.metrics:
        words = {True: "with", False: "without"}
        text = (
            f"{name}: {words[stored.metrics]} quality figures in the store, {words[asked.metrics]} asked for"
        )
        found.append(Difference("metrics", text, stored.metrics, asked.metrics, asked.name))
    if stored.carry != asked.carry:
        text = _change(f"{name}: carry", stored.carry, asked.carry)
        found.append(Difference("carry", text, stored.carry, asked.carry, asked.name))
    for key in ("relations", "type_graph"):
        old, new = getattr(stored, key), getattr(asked, key)
        if old != new:
            before_text, after_text = (
                v if v is None or isinstance(v, str) else _relations_text(v) for v in (old, new)
            )
            text = _change(f"{name}: {key}", before_text, after_text)
            found.append(Difference(key, text, before_text, after_text, asked.name))
    if len(stored.schedule) != len(asked.schedule):
        text = f"{name}: {len(stored.schedule)} levels in the store, {len(asked.schedule)} asked for"
        found.append(Difference("levels", text, len(stored.schedule), len(asked.schedule), asked.name))
    for number, levels in enumerate(zip(stored.schedule, asked.schedule, strict=False), 1):
        found += _level_differences(asked.name, number, *levels)
    return found


def _relations_text(relations: Iterable[Relation]) -> str:
    return ",".join("-".join(relation) for relation in relations)


def _level_differences(
    name: str, number: int, stored: Mapping[str, Any], asked: Mapping[str, Any]
) -> Iterator[Difference]:
    """Yield the differences of one level. The parameters of different methods are not compared."""
    old, new = dict(_leaves(stored)), dict(_leaves(asked))
    keys = sorted(old.keys() | new.keys())
    if canonical(old.get("method")) != canonical(new.get("method")):
        keys = ["method"]
    for key in keys:
        before, after = old.get(key), new.get(key)
        if canonical(before) != canonical(after):
            label = (
                f"parameter {key.removeprefix('params.')}"
                if key.startswith("params.")
                else key.replace(".", " ")
            )
            text = _change(f"hierarchy {name!r}, level {number}: {label}", before, after)
            yield Difference(key, text, before, after, name, number)


def _change(label: str, stored: Any, asked: Any) -> str:
    return f"{label}: {_value_text(stored)} in the store, {_value_text(asked)} asked for"


def _value_text(value: Any) -> str:
    """Return a JSON value for people."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "on" if value else "off"
    text = str(value) if isinstance(value, str | int | float) else canonical(value).decode()
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."


def _leaves(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested mappings with their keys joined by dots."""
    for key, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            yield from _leaves(inner, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", inner
