"""Checks everything a store promises and lists what is wrong.

Bytes first: the digest of each file is compared before libhdf5 opens it. Then structure (the guard), then
meaning: ids of their own graph, every supernode of a hard assignment used, numbers finite, and coarse edges
that are the contraction of the finer ones wherever the schedule says so. A file whose bytes were altered is
still looked through, to name the array and the graph at fault where the damage shows in what they mean.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import StoreDamagedError, StoreError, StoreMissingError
from tgp.store.format import constants as fmt
from tgp.store.format.manifest import Manifest, PartRecord, canonical_bytes, unseal
from tgp.store.format.schema import ShardRecord
from tgp.store.io.files import LocalFiles, StoreFiles, file_digest
from tgp.store.read.gather import first_outside
from tgp.store.read.parts import DecodedCache, GraphsPart, HierarchyPart, check_size

__all__ = ["Finding", "verify_store"]

_CACHE_BYTES = 256 << 20


@dataclass(frozen=True)
class Finding:
    """Something wrong in a store.

    Args:
        shard: the file.
        field: the array or key in it, if known.
        graph: id of the graph in the whole store, if known.
        message: what is wrong, for people.
    """

    shard: str
    field: str | None
    graph: int | None
    message: str


def verify_store(path: str | os.PathLike[str] | StoreFiles, *, semantics: bool = True) -> list[Finding]:
    """Check a store completely; an empty list means that it is sound.

    Args:
        path: directory of the store.
        semantics: also check what arrays mean; without it, bytes and structure only.

    Raises:
        StoreMissingError: there is no complete store.
        StoreVersionError: made by another version of the format.
    """
    files: StoreFiles = LocalFiles(path) if isinstance(path, (str, os.PathLike)) else path
    data = _manifest_bytes(files)
    try:
        manifest = Manifest.from_bytes(data)
    except StoreDamagedError as error:
        return [Finding(fmt.MANIFEST, error.item, None, str(error))]
    findings = []
    if manifest.to_bytes() != data:
        findings.append(
            Finding(fmt.MANIFEST, None, None, f"{fmt.MANIFEST} is not written as the format says")
        )
    findings += _check_records(files, manifest)
    for unit in range(manifest.spec.num_units):
        findings += _Unit(files, manifest, unit).check(semantics)
    return findings


def _manifest_bytes(files: StoreFiles) -> bytes:
    try:
        return files.read(fmt.MANIFEST, fmt.MAX_MANIFEST_BYTES)
    except StoreMissingError as error:
        raise StoreMissingError(
            f"no complete store at {files.location}: it has no {fmt.MANIFEST}", path=files.location
        ) from error


def _check_records(files: StoreFiles, manifest: Manifest) -> Iterator[Finding]:
    """Completion records are not needed to read a store, but those that are there must agree with it."""
    for part, shards in manifest.shards.items():
        for unit, shard in enumerate(shards):
            name = f"{fmt.RECORDS}/{fmt.record_file(unit, part)}"
            try:
                data = files.read(name, fmt.MAX_MANIFEST_BYTES)
                record = PartRecord.from_bytes(data, unit, part)
            except StoreMissingError:
                continue
            except StoreError as error:
                yield Finding(name, None, None, str(error))
                continue
            same = record.shard == shard and record.fingerprint == manifest.spec.part_fingerprint(part)
            if not same or record.to_bytes() != data:
                yield Finding(name, None, None, f"{name} does not agree with the manifest")
    for hierarchy in (None, *manifest.hierarchies):
        name = f"{fmt.RECORDS}/{fmt.spec_file(hierarchy)}"
        try:
            data = files.read(name, fmt.MAX_MANIFEST_BYTES)
            document = unseal(data, name)
        except StoreMissingError:
            continue
        except StoreError as error:
            yield Finding(name, None, None, str(error))
            continue
        if canonical_bytes(document) != data:
            yield Finding(name, None, None, f"{name} is not written as the format says")


@dataclass(frozen=True)
class _Edges:
    """Edges of one level of a unit in unit-wide ids, for the check of the next level."""

    source: npt.NDArray[np.int64]
    target: npt.NDArray[np.int64]
    weight: npt.NDArray[np.float64] | None
    graph: npt.NDArray[np.int64]


class _Unit:
    """All checks of one unit."""

    def __init__(self, files: StoreFiles, manifest: Manifest, unit: int) -> None:
        self.files = files
        self.manifest = manifest
        self.unit = unit
        self.first = manifest.spec.bounds[unit]
        self.cache = DecodedCache(_CACHE_BYTES)
        self.findings: list[Finding] = []

    def found(self, shard: ShardRecord, field: str | None, message: str, row: int | None = None) -> None:
        graph = None if row is None else self.first + row
        where = "" if graph is None else f" (graph {graph})"
        text = f"{shard.file}: {field or ''}{' ' if field else ''}{message}{where}"
        self.findings.append(Finding(shard.file, field, graph, text))

    def bytes_match(self, part: str) -> bool | None:
        """Size and digest of a file, before anything parses it; ``None`` for a whole file with other bytes."""
        shard = self.manifest.shards[part][self.unit]
        try:
            check_size(self.files, shard)
            with self.files.open(shard.file) as file:
                if file_digest(file) == shard.sha256:
                    return True
            self.found(shard, None, "was altered: its bytes do not match the manifest's digest")
            return None
        except StoreError as error:
            self.findings.append(Finding(shard.file, None, None, str(error)))
        return False

    def check(self, semantics: bool) -> list[Finding]:
        matches = {part: self.bytes_match(part) for part in self.manifest.shards}
        sound = {part: match or (semantics and match is None) for part, match in matches.items()}
        if not sound[fmt.GRAPHS]:
            return self.findings
        graphs, edges = None, None
        with self.judging(fmt.GRAPHS, matches):
            graphs = GraphsPart(self.files, self.manifest, self.unit, self.cache)
            edges = self.graphs(graphs) if semantics else None
        if graphs is None or not matches[fmt.GRAPHS]:  # levels cannot be judged by other graphs
            return self.findings
        for name in self.manifest.hierarchies:
            if not sound[name]:
                continue
            with self.judging(name, matches):
                part = HierarchyPart(self.files, self.manifest, name, self.unit, self.cache, graphs.node_ptr)
                if semantics:
                    self.hierarchy(name, part, edges)
        return self.findings

    @contextlib.contextmanager
    def judging(self, part: str, matches: dict[str, bool | None]) -> Iterator[None]:
        """Damage becomes a finding. Altered bytes are one already, whatever else they lead to."""
        try:
            yield
        except StoreDamagedError as error:
            file = self.manifest.shards[part][self.unit].file
            self.findings.append(Finding(file, error.item, None, str(error)))
        except (ValueError, IndexError, TypeError, ArithmeticError):
            if matches[part]:
                raise

    def graphs(self, part: GraphsPart) -> _Edges | None:
        """Node ids of every shifted field; the input edges if all ids are sound."""
        sizes = np.diff(part.node_ptr.astype(np.int64))
        sound = True
        for info in self.manifest.fields:
            if not info.shifted:
                continue
            path, where = part.path(info.name), part.ptrs[info.name]
            ptr = part.array(where) if where else np.arange(part.count + 1)
            row = first_outside(part.array(path), ptr, sizes, 0, info.axis)
            if row is not None:
                self.found(part.record, path, "holds a node id outside its graph", row)
                sound = False
        fields = {f.name: f for f in self.manifest.fields}
        if not sound or "edge_index" not in fields or part.edge_ptr is None:
            return None
        weight = None
        if (
            "edge_weight" in fields
            and fields["edge_weight"].tail in ((), (1,))
            and "edge" in fields["edge_weight"].ptrs
        ):
            weight = part.array(part.path("edge_weight")).reshape(-1)
        return _edges(part.array(part.path("edge_index")), weight, part.edge_ptr, part.node_ptr)

    def hierarchy(self, name: str, part: HierarchyPart, finer: _Edges | None) -> None:
        info = self.manifest.hierarchies[name]
        for number, level in enumerate(info.levels):
            base = f"/levels/{number}"
            if not self.level_ids(part, number):
                return
            for array in ("edge_weight", "weight", "soft", "theta"):
                path = f"{base}/{array}"
                if path in part.present and not np.isfinite(part.array(path)).all():
                    self.found(part.record, path, "holds numbers that are not finite")
            cluster = None
            if f"{base}/cluster" in part.present:
                cluster = _unit_ids(
                    part.array(f"{base}/cluster"), part.node_ptrs[number], part.node_ptrs[number + 1]
                )
                self.coverage(part, number, cluster, level.kind)
            weight = part.array(f"{base}/edge_weight") if f"{base}/edge_weight" in part.present else None
            coarse = _edges(
                part.array(f"{base}/edge_index"), weight, part.edge_ptrs[number], part.node_ptrs[number + 1]
            )
            if finer is not None and cluster is not None and _is_plain_sum(info.schedule[number]):
                options = info.schedule[number]["params"]
                row = _first_unequal(finer, coarse, cluster, options, level.weight_dtype, part.count)
                if row is not None:
                    self.found(
                        part.record, f"{base}/edge_index", "is not the contraction of the finer edges", row
                    )
            finer = coarse

    def level_ids(self, part: HierarchyPart, number: int) -> bool:
        """Ids of one level inside their graphs."""
        nodes, supers = part.node_ptrs[number], part.node_ptrs[number + 1]
        targets = {
            "edge_index": (part.edge_ptrs[number], supers, 0),
            "cluster": (nodes, supers, -1),
            "representative": (supers, nodes, 0),
        }
        sound = True
        for array, (ptr, target, low) in targets.items():
            path = f"/levels/{number}/{array}"
            if path in part.present:
                row = first_outside(part.array(path), ptr, np.diff(target.astype(np.int64)), low)
                if row is not None:
                    self.found(part.record, path, "holds an id outside its graph", row)
                    sound = False
        return sound

    def coverage(self, part: HierarchyPart, number: int, cluster: npt.NDArray[np.int64], kind: str) -> None:
        """Every supernode of a hard assignment has nodes, and its representative is one of them."""
        supers = part.node_ptrs[number + 1].astype(np.int64)
        used = np.zeros(int(supers[-1]), bool)
        used[cluster[cluster >= 0]] = True
        if kind == "hard" and not used.all():
            row = int(np.searchsorted(supers, np.argmin(used), side="right")) - 1
            self.found(part.record, f"/levels/{number}/cluster", "leaves a supernode without nodes", row)
        path = f"/levels/{number}/representative"
        if path in part.present:
            chosen = _unit_ids(part.array(path), part.node_ptrs[number + 1], part.node_ptrs[number])
            wrong = cluster[chosen] != np.arange(len(chosen))
            if wrong.any():
                row = int(np.searchsorted(supers, np.argmax(wrong), side="right")) - 1
                self.found(part.record, path, "stands for a supernode it is not in", row)


def _unit_ids(
    local: npt.NDArray[Any], ptr: npt.NDArray[Any], target: npt.NDArray[Any]
) -> npt.NDArray[np.int64]:
    """Local ids cut by ``ptr`` -> ids of the unit, where graph ``g`` starts at ``target[g]``; -1 stays."""
    counts: npt.NDArray[np.int64] = np.diff(ptr).astype(np.int64)
    ids = local.astype(np.int64) + np.repeat(target[:-1].astype(np.int64), counts)
    return np.where(local < 0, -1, ids) if local.dtype.kind == "i" else ids


def _edges(
    index: npt.NDArray[Any], weight: npt.NDArray[Any] | None, ptr: npt.NDArray[Any], nodes: npt.NDArray[Any]
) -> _Edges:
    source, target = (_unit_ids(row, ptr, nodes) for row in index)
    graph = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr).astype(np.int64))
    return _Edges(source, target, None if weight is None else weight.astype(np.float64), graph)


def _is_plain_sum(level: dict[str, Any]) -> bool:
    """Whether the schedule promises ``A' = S^T A S`` without any scaling."""
    params = level.get("params")
    if not isinstance(params, dict) or params.get("connect_red_op") != "sum":
        return False
    return not params.get("degree_norm") and not params.get("edge_weight_norm")


def _distinct(ordered: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Ascending numbers, each once. (numpy's ``unique`` hashes, which is slow for numbers this regular.)"""
    first = np.ones(len(ordered), bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def _among(values: npt.NDArray[np.int64], ordered: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which values are among ascending numbers."""
    if not len(ordered):
        return np.zeros(len(values), bool)
    place = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    found: npt.NDArray[np.bool_] = ordered[place] == values
    return found


def _first_unequal(
    finer: _Edges,
    coarse: _Edges,
    cluster: npt.NDArray[np.int64],
    options: dict[str, Any],
    dtype: str | None,
    count: int,
) -> int | None:
    """The first graph whose coarse edges are not the sum of the finer ones; ``None`` if there is none.

    Compared are which supernodes are joined, and each graph's total weight within rounding.
    """
    source, target = cluster[finer.source], cluster[finer.target]
    kept = (source >= 0) & (target >= 0)
    if options.get("remove_self_loops", True):
        kept &= source != target
    width = int(max(cluster.max(initial=0), coarse.source.max(initial=0), coarse.target.max(initial=0))) + 1
    wanted = source[kept] * width + target[kept]
    keys = coarse.source * width + coarse.target
    pairs, order = _distinct(np.sort(wanted)), np.sort(keys)
    bad = np.zeros(count, bool)
    bad[coarse.graph[~_among(keys, pairs)]] = True
    if coarse.weight is None:
        twice = order[1:][order[1:] == order[:-1]]
        if len(twice) or len(keys) != len(pairs):
            bad[finer.graph[kept][~_among(wanted, order)]] = True
            bad[coarse.graph[_among(keys, twice)]] = True
    else:
        weight = np.ones(len(source)) if finer.weight is None else finer.weight
        before = np.bincount(finer.graph[kept], weight[kept], minlength=count)
        after = np.bincount(coarse.graph, coarse.weight, minlength=count)
        scale = np.bincount(finer.graph[kept], np.abs(weight[kept]), minlength=count)
        entries = np.bincount(coarse.graph, minlength=count)
        eps = np.finfo(dtype or "float32").eps
        with np.errstate(invalid="ignore", over="ignore"):  # weights of an altered file may be anything
            bad |= ~(np.abs(before - after) <= 4 * eps * scale + 1e-6 * (entries + 1))
    return int(np.argmax(bad)) if bad.any() else None
