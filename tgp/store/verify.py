"""Check a store completely and list everything that is wrong with it.

The digest of each file is compared first, before libhdf5 opens it. Then :mod:`tgp.store.io.guard` checks its structure.
Finally its values are checked: ids must belong to their own graph, every supernode of a hard assignment must have nodes,
numbers must be finite, and coarse edges must be the contraction of the finer edges wherever the schedule says so. A file
with a wrong digest is checked further, to name the array and the graph that are damaged.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tgp.errors import StoreDamagedError, StoreError
from tgp.kernels.array_types import Array, LongArray
from tgp.ragged.offsets import find_run
from tgp.store.contraction_check import (
    Edges,
    first_wrong_contraction,
    first_wrong_map,
    is_plain_sum,
    unit_edges,
    unit_ids,
)
from tgp.store.format import constants as fmt
from tgp.store.format.codec import restore
from tgp.store.format.manifest import (
    Manifest,
    is_later_minor,
    read_manifest_bytes,
)
from tgp.store.format.pieces import FileRecord
from tgp.store.format.schema import FieldInfo
from tgp.store.format.strict_json import canonical_bytes, unseal
from tgp.store.io.files import LocalFiles, StoreFiles, file_digest
from tgp.store.large_contraction import (
    first_disordered_piece,
    is_one_large_graph,
    is_wrong_contraction,
    loaded_edges,
)
from tgp.store.read.contents import GraphsPart, HierarchyPart, level_field_path
from tgp.store.read.divided_part import DividedPart
from tgp.store.read.parts import DecodedCache, check_size
from tgp.store.read.piece_array import iter_blocks
from tgp.store.read.single import read_failures, read_metric
from tgp.store.read.typed_unit import TypedUnit
from tgp.store.read.value_checks import (
    all_finite,
    first_outside,
    first_outside_stored,
    first_too_large,
    flat_rows,
    largest_number,
    value_check,
)
from tgp.store.verify_records import Finding, check_records, check_unlisted

__all__ = ["Finding", "verify_store"]

_CACHE_BYTES = 256 << 20


def verify_store(path: str | os.PathLike[str] | StoreFiles, *, semantics: bool = True) -> list[Finding]:
    """Check a store completely.

    Args:
        path: Directory or files of the store.
        semantics: Check the values of the arrays too, not only digests and structure.

    Returns:
        Everything that is wrong. An empty list means that the store is valid.

    Raises:
        StoreMissingError: If there is no complete store.
        StoreVersionError: If the store has another format version.
    """
    files: StoreFiles = LocalFiles(path) if isinstance(path, (str, os.PathLike)) else path
    data = read_manifest_bytes(files)
    try:
        manifest = Manifest.from_bytes(data)
    except StoreDamagedError as error:
        return [Finding(fmt.MANIFEST, error.item, None, str(error))]
    files.expect(manifest.files)
    findings = []
    document = unseal(data, fmt.MANIFEST)
    is_later = is_later_minor(document)
    if (canonical_bytes(document) if is_later else manifest.to_bytes()) != data:
        findings.append(
            Finding(fmt.MANIFEST, None, None, f"{fmt.MANIFEST} was edited: it is not in the canonical form")
        )
    findings += check_records(files, manifest, is_later)
    findings += check_unlisted(files, manifest)
    cache = DecodedCache(_CACHE_BYTES)
    parts: dict[str, list[HierarchyPart]] = {name: [] for name in manifest.hierarchies}
    for unit in range(manifest.spec.num_units):
        findings += _UnitVerifier(files, manifest, unit, cache, parts).verify(semantics)
    if semantics and not findings:
        findings += _check_figures(manifest, parts)
    return findings


def _check_figures(manifest: Manifest, parts: Mapping[str, Sequence[HierarchyPart]]) -> Iterator[Finding]:
    """Check that the metrics and the failures of each hierarchy can be read from its open files."""
    for name, info in manifest.hierarchies.items():
        try:
            for metric in info.metrics:
                read_metric(parts[name], metric)
            for part in parts[name]:
                if part.record.failures:
                    read_failures(part, part.record.failures)
        except StoreDamagedError as error:
            yield Finding(os.path.basename(error.path or ""), error.item, None, str(error))


class _UnitVerifier:
    """Checks of the files of one unit.

    Args:
        files: Files of the store.
        manifest: Its manifest.
        unit: Number of the unit.
        cache: Cache for decoded arrays.
        parts: Open files of each hierarchy. Those of this unit are added.
    """

    def __init__(
        self,
        files: StoreFiles,
        manifest: Manifest,
        unit: int,
        cache: DecodedCache,
        parts: Mapping[str, list[HierarchyPart]],
    ) -> None:
        self.files = files
        self.manifest = manifest
        self.unit = unit
        self.first = manifest.spec.bounds[unit]
        self.cache = cache
        self.parts = parts
        self.types: TypedUnit | None = None
        self.findings: list[Finding] = []

    def report(self, shard: FileRecord, field: str | None, message: str, row: int | None = None) -> None:
        """Add a finding. ``row`` is the position of the graph in the unit."""
        graph = None if row is None else self.first + row
        where = "" if graph is None else f" (graph {graph})"
        text = f"{shard.file}: {field or ''}{' ' if field else ''}{message}{where}"
        self.findings.append(Finding(shard.file, field, graph, text))

    def check_digest(self, part: str) -> bool | None:
        """Check the sizes and the digests of the files of a part.

        Returns:
            True if all are right, ``None`` if only the sizes are right, False if a file is missing or incomplete.
        """
        found = [self.check_file(file) for file in self.manifest.shards[part][self.unit].files]
        return False if False in found else None if None in found else True

    def check_file(self, record: FileRecord) -> bool | None:
        """Check the size and the digest of one file, see :meth:`check_digest`."""
        try:
            check_size(self.files, record)
            with self.files.open(record.file) as file:
                if file_digest(file) == record.sha256:
                    return True
            self.report(record, None, "was altered: its bytes do not match the digest of the manifest")
            self.files.drop(record.file)
            return None
        except StoreError as error:
            self.findings.append(Finding(record.file, None, None, str(error)))
        return False

    def verify(self, semantics: bool) -> list[Finding]:
        """Check all files of the unit and return what is wrong."""
        matches = {part: self.check_digest(part) for part in self.manifest.shards}
        readable = {part: match or (semantics and match is None) for part, match in matches.items()}
        if not readable[fmt.GRAPHS]:
            return self.findings
        graphs, edges = None, None
        with self.collect_damage(fmt.GRAPHS, matches):
            graphs = GraphsPart(self.files, self.manifest, self.unit, self.cache)
            edges = self.check_graphs(graphs) if semantics else None
            if edges is not None and self.manifest.spec.types is not None:
                TypedUnit(graphs, self.manifest)
        if graphs is None or not matches[fmt.GRAPHS]:  # levels can only be checked against the right graphs
            return self.findings
        for name in self.manifest.hierarchies:
            if not readable[name]:
                continue
            self.types = None
            with self.collect_damage(name, matches):
                if semantics and self.manifest.spec.types is not None:
                    self.types = TypedUnit(graphs, self.manifest)
                part = HierarchyPart(self.files, self.manifest, name, self.unit, self.cache, graphs.node_ptr)
                self.parts[name].append(part)
                if semantics:
                    self.check_hierarchy(name, part, edges)
        return self.findings

    @contextlib.contextmanager
    def collect_damage(self, part: str, matches: dict[str, bool | None]) -> Iterator[None]:
        """Add a finding for damage. Ignore other errors that follow from a wrong digest, which is already reported."""
        try:
            yield
        except StoreDamagedError as error:
            file = self.manifest.shards[part][self.unit].file
            self.findings.append(Finding(file, error.item, None, str(error)))
        except (ValueError, IndexError, TypeError, ArithmeticError):
            if matches[part]:
                raise

    def check_graphs(self, part: GraphsPart) -> Edges | None:
        """Check the node ids of the input graphs, and return their edges if all ids are valid."""
        sizes = np.diff(part.node_ptr.astype(np.int64))
        valid = True
        for info in self.manifest.fields:
            path, where = part.path(info.name), part.ptrs[info.name]
            ptr = part.array(where) if where else np.arange(part.count + 1)
            if not info.shifted:
                self.check_values(part, path, info, ptr)
                continue
            row = first_outside_stored(part.stored(path), ptr, sizes, 0, info.axis)
            if row is not None:
                self.report(part.record, path, "holds a node id outside its graph", row)
                valid = False
        fields = {f.name: f for f in self.manifest.fields}
        if not valid or "edge_index" not in fields or part.edge_ptr is None:
            return None
        given, weight = fields.get("edge_weight"), None
        if (
            given is not None
            and given.tail in ((), (1,))
            and "edge" in given.ptrs
            and "complex" not in given.dtype
        ):
            weight = flat_rows(part.stored(part.path("edge_weight")))
        if not self.check_ranges(part, 0, part.path("edge_index")):
            return None
        return unit_edges(part.stored(part.path("edge_index")), weight, part.edge_ptr, part.node_ptr)

    def check_ranges(self, part: DividedPart, level: int, path: str) -> bool:
        """Check that the edges of each piece start in its rows, in ascending order."""
        pieces = [piece for piece in part.record.pieces if piece.level == level]
        number = first_disordered_piece(part.stored(path), [piece.rows for piece in pieces])
        if number is not None:
            self.report(pieces[number], path, "must hold the edges of its rows, sorted by source", 0)
        return number is None

    def check_values(self, part: DividedPart, path: str, info: FieldInfo, ptr: Array) -> None:
        """Check that the values of a field are values of its original type."""
        check, high = value_check(info), largest_number(info.dtype)
        for _, block in iter_blocks(part.stored(path)):
            if first_too_large(block, high) is not None:
                self.report(part.record, path, f"holds a number above {high}")
            row = None if check is None else check(restore(block, info.dtype), ptr.astype(np.int64))
            if row is not None:
                self.report(part.record, path, "holds a value that is not valid", row)

    def check_hierarchy(self, name: str, part: HierarchyPart, finer: Edges | None) -> None:
        """Check the values of all levels. ``finer`` are the input edges, if they are valid."""
        info = self.manifest.hierarchies[name]
        for number, level in enumerate(info.levels):
            base = f"/levels/{number}"
            if not self.check_level_ids(part, number):
                return
            for array in ("edge_weight", "weight", "soft", "theta"):
                path = f"{base}/{array}"
                if path in part.present and not all_finite(part.stored(path)):
                    self.report(part.record, path, "holds numbers that are not finite")
            for field in level.fields:
                path = level_field_path(number, field.name)
                ptr = part.node_ptrs[number + 1] if field.ptr == "node" else part.edge_ptrs[number]
                if field.ptr == "own":
                    ptr = part.array(level_field_path(number, field.name, "ptr"))
                if path in part.present and not field.shifted:
                    self.check_values(part, path, field, ptr)
            cluster = None
            if f"{base}/cluster" in part.present:
                cluster = unit_ids(
                    part.array(f"{base}/cluster"), part.node_ptrs[number], part.node_ptrs[number + 1]
                )
                self.check_clusters(part, number, cluster, level.kind)
            weight = None
            if f"{base}/edge_weight" in part.present:
                weight = part.stored(f"{base}/edge_weight")
            elif level.weight_dtype is not None:  # readers use ones
                weight = np.broadcast_to(np.float64(1), part.record.edges[number])
            index = part.stored(f"{base}/edge_index")
            if not self.check_ranges(part, number, f"{base}/edge_index"):
                return
            coarse = unit_edges(index, weight, part.edge_ptrs[number], part.node_ptrs[number + 1])
            if f"{base}/fields/{fmt.EDGE_MAP}" in part.present:
                self.check_edge_map(part, number, finer, coarse, cluster)
            if self.types is not None:
                with self.collect_damage(name, {name: True}):
                    self.types.check_level(part, number, level, info.schedule[number])
            elif finer is not None and cluster is not None and is_plain_sum(info.schedule[number]):
                options = info.schedule[number]["params"]
                local = part.array(f"{base}/cluster")
                if is_one_large_graph(finer) or is_one_large_graph(coarse):
                    wrong = is_wrong_contraction(finer, coarse, local, options, level.weight_dtype)
                    row = 0 if wrong else None
                else:
                    row = first_wrong_contraction(finer, coarse, local, options, level.weight_dtype)
                if row is not None:
                    self.report(
                        part.record, f"{base}/edge_index", "is not the contraction of the finer edges", row
                    )
            finer = coarse

    def check_edge_map(
        self,
        part: HierarchyPart,
        number: int,
        finer: Edges | None,
        coarse: Edges,
        cluster: LongArray | None,
    ) -> None:
        """Check that each edge is mapped to the coarse edge between the supernodes of its ends."""
        path = level_field_path(number, fmt.EDGE_MAP)
        ptr = part.array(level_field_path(number, fmt.EDGE_MAP, "ptr"))
        row = first_outside(part.array(path), ptr, np.diff(part.edge_ptrs[number].astype(np.int64)), -1)
        if row is not None:
            self.report(part.record, path, "holds an id of an edge outside its graph", row)
        elif finer is not None and cluster is not None:
            if not np.array_equal(ptr, finer.ptr):
                self.report(part.record, path, "must have one row for each edge of the graph before")
                return
            found = unit_ids(part.array(path), ptr, part.edge_ptrs[number])
            row = first_wrong_map(loaded_edges(finer), loaded_edges(coarse), cluster, found)
            if row is not None:
                self.report(part.record, path, "is not the map of the finer edges", row)

    def check_level_ids(self, part: HierarchyPart, number: int) -> bool:
        """Check that all ids of one level belong to their own graph, and return True if they do."""
        nodes, supers = part.node_ptrs[number], part.node_ptrs[number + 1]
        targets = {
            "edge_index": (part.edge_ptrs[number], supers, 0),
            "cluster": (nodes, supers, -1),
            "representative": (supers, nodes, 0),
        }
        valid = True
        for array, (ptr, target, low) in targets.items():
            path = f"/levels/{number}/{array}"
            if path in part.present:
                sizes = np.diff(target.astype(np.int64))
                row = first_outside_stored(part.stored(path), ptr, sizes, low)
                if row is not None:
                    self.report(part.record, path, "holds an id outside its graph", row)
                    valid = False
        return valid

    def check_clusters(self, part: HierarchyPart, number: int, cluster: LongArray, kind: str) -> None:
        """Check that every supernode of a hard assignment has nodes, and that its representative is one of them."""
        supers = part.node_ptrs[number + 1].astype(np.int64)
        used = np.zeros(int(supers[-1]), bool)
        used[cluster if cluster.min(initial=0) >= 0 else cluster[cluster >= 0]] = True
        if kind == "hard" and not used.all():
            row = find_run(supers, np.argmin(used))
            self.report(part.record, f"/levels/{number}/cluster", "leaves a supernode without nodes", row)
        path = f"/levels/{number}/representative"
        if path in part.present:
            chosen = unit_ids(part.array(path), part.node_ptrs[number + 1], part.node_ptrs[number])
            wrong = cluster[chosen] != np.arange(len(chosen))
            if wrong.any():
                row = find_run(supers, np.argmax(wrong))
                self.report(part.record, path, "holds a node that is not in the supernode it represents", row)
