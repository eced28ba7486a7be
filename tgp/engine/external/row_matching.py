"""Heavy-edge matching of mapped rows: the pairs of :func:`tgp.engine.pair_matching.match_once`, with node arrays only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tgp.engine.edge_scores import sort_by_score
from tgp.engine.external.buckets import Limits
from tgp.engine.external.ranges import LOCAL, NODES_AT_ONCE, Job, Published, RangeMap, over_rows, row_jobs
from tgp.engine.external.row_files import MappedRows
from tgp.engine.level_method import RandomKey
from tgp.engine.pair_matching import FEW_PAIRS
from tgp.engine.threads import run_over_items
from tgp.kernels.array_types import Array, WordArray
from tgp.ragged.block import FloatArray, IndexArray
from tgp.ragged.fields import take_ragged

__all__ = ["RANGE_FUNCTIONS", "match_rows"]

NUM_CHOICES = 8
"""Number of best free neighbours that are kept for a node whose row was read again."""

CHOICE_SHARE = 8
"""Number of choices of all nodes for each entry of a bucket. While nodes are matched, there are no buckets in memory."""

LEAST_NODES = 1 << 16
"""Number of nodes whose rows are read in one call, even if their choices are larger than a bucket."""

MAX_ROUNDS, ROUNDS_PER_TRIAL = 24, 8
"""Number of rounds after which the remaining edges are sorted if they fit in memory, and of rounds between two trials."""


# Functions of ranges ------------------------------------------------------------------------------


def sum_degrees(job: Job, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Return the weighted degrees of the rows of a job."""
    from tgp.kernels import local_matching as kernels

    degree = np.empty(job["rows"]["num_nodes"])  # pages that are not written take no memory

    def kernel(rows: MappedRows) -> Callable[[int, int], object]:
        arrays = rows.arrays()
        return lambda low, high: kernels.weighted_degree(*arrays, low, high, degree)

    over_rows(job, kernel)
    return {"degree": degree[job["first"] : job["last"]]}


def point_nodes(job: Job, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Return the best free neighbours of some free nodes, ``width`` of each."""
    from tgp.kernels import external_matching as kernels

    nodes, code = arrays["nodes"][job["low"] : job["high"]], _read_codes(job, arrays)
    width = job["width"]
    found = np.empty(len(nodes) * width, np.int32)

    def kernel(rows: MappedRows) -> Callable[[int, int], object]:
        fixed = (rows.indptr, rows.indices, rows.weight, arrays["degree"], job["kind"], code, nodes)
        if width == 1:
            return lambda low, high: kernels.point_rows(*fixed, low, high, found)
        return lambda low, high: kernels.list_rows(*fixed, low, high, width, found)

    over_rows(job, kernel, nodes)
    return {"found": found}


def find_anchors(job: Job, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Return the strongest neighbour of some nodes, and a hash of all their neighbours."""
    from tgp.kernels import local_matching as kernels

    nodes, code = arrays["nodes"][job["low"] : job["high"]], _read_codes(job, arrays)
    anchor, signature = np.empty(len(nodes), np.int32), np.empty(len(nodes), np.uint64)

    def kernel(rows: MappedRows) -> Callable[[int, int], object]:
        fixed = (rows.indptr, rows.indices, rows.weight, arrays["degree"], job["kind"], code, nodes)
        return lambda low, high: kernels.find_anchors(*fixed, low, high, anchor, signature)

    over_rows(job, kernel, nodes)
    return {"anchor": anchor, "signature": signature}


RANGE_FUNCTIONS = (sum_degrees, point_nodes, find_anchors)
"""Range functions of this module."""


def _fill_codes(key: RandomKey, code: WordArray) -> WordArray:
    """Write the random numbers of the nodes to ``code`` ``[N]`` and return it."""
    from tgp.kernels import local_matching as kernels

    node_ptr = np.array([0, len(code)], np.int64)
    kernels.fill_codes(node_ptr, key.seed, key.level, 0, 0, len(code), code)
    return code


def _read_codes(job: Job, arrays: Mapping[str, Array]) -> WordArray:
    """Return the random numbers of free nodes, and 0 for other nodes. Only one bit for each node travels through files."""
    if "code" in arrays:
        return arrays["code"]
    num_nodes = job["rows"]["num_nodes"]
    code = _fill_codes(RandomKey(*job["key"]), np.empty(num_nodes, np.uint64))
    code *= np.unpackbits(arrays["free"], count=num_nodes)
    return code


# Rounds ---------------------------------------------------------------------------------------------


def match_rows(
    rows: MappedRows,
    key: RandomKey,
    *,
    by_share: bool,
    two_hop: bool,
    limits: Limits,
    ranges: RangeMap = LOCAL,
) -> tuple[IndexArray, int]:
    """Merge the pairs of one maximal matching.

    Args:
        rows: An undirected graph without parallel edges and negative weights.
        key: key of the random numbers.
        by_share: order edges by the share of their weight in the larger degree, otherwise by their weight.
        two_hop: merge nodes that are alone through common neighbours if the matching removes less than 30 % of the nodes.
        limits: Sizes of the run.
        ranges: Strategy that calls the functions of ranges. The result does not depend on it.

    Returns:
        Supernode of each node, numbered by their smallest node, and the number of supernodes.
    """
    from tgp.kernels import matching

    node_ptr = np.array([0, rows.num_nodes], np.int64)
    run = _Matching(rows, key, by_share, limits, ranges)
    num_pairs = run.match()
    mate = run.pair_alone() if two_hop and num_pairs < FEW_PAIRS * rows.num_nodes else run.partners()
    run.published.remove()
    del run
    cluster, super_ptr = np.empty(rows.num_nodes, np.int32), np.empty(2, np.int64)
    matching.number_pairs(mate, node_ptr, cluster, super_ptr)
    return cluster, int(super_ptr[1])


def _filter_nodes(kernel: Callable[[int, int], int], nodes: IndexArray, count: int) -> int:
    """Call a kernel that moves some of ``nodes[first:last]`` to the front, on several threads. Return the number of nodes that are left.

    Args:
        kernel: Function of a range that returns the number of nodes that it keeps.
        nodes: Nodes. The kept ones are moved to the front, in their order.
        count: Number of nodes.
    """
    counts: list[tuple[int, int]] = []
    run_over_items(lambda first, last: counts.append((first, kernel(first, last))), count)
    total = 0
    for first, kept in sorted(counts):
        if first != total:
            nodes[total : total + kept] = nodes[first : first + kept]
        total += kept
    return total


class _Matching:
    """State of :func:`match_rows`: codes, degrees, pointers and choices of the nodes.

    The best free neighbours of a node only change when they are matched. A node whose row is read again therefore keeps a list of
    its best choices, as far as memory suffices, and its row is not read before all of them are matched.
    """

    def __init__(
        self, rows: MappedRows, key: RandomKey, by_share: bool, limits: Limits, ranges: RangeMap
    ) -> None:
        from tgp.kernels import external_matching as kernels
        from tgp.kernels import local_matching as scores

        self.rows, self.key, self.ranges = rows, key, ranges
        self.piece, self.bucket = limits.piece, limits.bucket
        self.kind = scores.GIVEN if rows.weighted else scores.EQUAL
        self.degree: FloatArray = np.empty(0)
        if by_share:
            self.kind = scores.SHARE if rows.weighted else scores.UNIT_SHARE
            self.degree = np.empty(rows.num_nodes)
            self._fill_degrees()
        self.published = ranges.publish(self.degree)
        self.code = _fill_codes(key, np.empty(rows.num_nodes, np.uint64))
        self.pointer: IndexArray = np.full(rows.num_nodes, kernels.UNKNOWN, np.int32)
        self._drop_choices()

    def _drop_choices(self) -> None:
        self.slot, self.choices, self.num_slots = np.empty(0, np.int32), np.empty(0, np.int32), 0

    def _fill_degrees(self) -> None:
        chosen = self.ranges.choose(self.rows.num_entries, 0)
        jobs = row_jobs(self.rows, chosen.num_ranges, self.piece)
        for job, result in zip(jobs, chosen.run(sum_degrees, jobs), strict=True):
            self.degree[job["first"] : job["last"]] = result["degree"]

    def match(self) -> int:
        """Match nodes until no free node has a free neighbour; return the number of pairs."""
        from tgp.kernels import external_matching as kernels

        active = np.arange(self.rows.num_nodes, dtype=np.int32)
        num_rounds, remaining, matched = 0, len(active), list[int]()

        def take(first: int, last: int) -> int:
            nodes = active[first:last]
            found, left = kernels.take_mutual_rows(self.pointer, self.code, nodes, len(nodes))
            matched.append(found)
            return int(left)

        while remaining:
            self._point(active[:remaining], num_rounds == 0)
            remaining, num_rounds = _filter_nodes(take, active, remaining), num_rounds + 1
            if remaining and num_rounds >= MAX_ROUNDS and num_rounds % ROUNDS_PER_TRIAL == 0:
                found = self._match_sorted(active[:remaining])
                if found is not None:
                    return sum(matched) // 2 + found
        return sum(matched) // 2

    def _point(self, active: IndexArray, is_first: bool) -> None:
        """Let nodes point to their best free neighbours. Only the rows of nodes without a free choice are read."""
        from tgp.kernels import external_matching as kernels

        stale = np.empty_like(active)
        fixed = self.slot, self.choices, NUM_CHOICES

        def find(first: int, last: int) -> int:
            some = active[first:last], *fixed, stale[first:last]
            return int(kernels.find_stale(self.pointer, self.code, *some))

        stale = stale[: _filter_nodes(find, stale, len(active))]
        width = 1 if is_first else NUM_CHOICES
        for nodes, result in self._over_nodes(point_nodes, stale, width=width):
            found = result["found"].reshape(-1, width)
            self.pointer[nodes] = found[:, 0]
            if not is_first:
                self._keep_choices(nodes, found)

    def _keep_choices(self, nodes: IndexArray, found: IndexArray) -> None:
        """Keep the choices of some nodes. If there is no memory for all, the first ones have choices."""
        if not len(self.slot):
            room = min(self.bucket * CHOICE_SHARE // NUM_CHOICES, self.rows.num_nodes)
            self.slot = np.full(self.rows.num_nodes, -1, np.int32)
            self.choices = np.empty(room * NUM_CHOICES, np.int32)  # pages that are not written take no memory
        table = self.choices.reshape(-1, NUM_CHOICES)
        new = nodes[self.slot[nodes] < 0][: len(table) - self.num_slots]
        self.slot[new] = np.arange(self.num_slots, self.num_slots + len(new), dtype=np.int32)
        self.num_slots += len(new)
        slot = self.slot[nodes]
        table[slot[slot >= 0]] = found[slot >= 0]

    def _over_nodes(
        self,
        function: Callable[[Job, Mapping[str, Array]], dict[str, Any]],
        nodes: IndexArray,
        **options: int,
    ) -> Iterator[tuple[IndexArray, dict[str, Any]]]:
        """Call a range function for some nodes; yield parts of the nodes and the results."""
        if not len(nodes):
            return
        chosen = self.ranges
        if chosen.is_remote:
            chosen = chosen.choose(self._count_entries(nodes), self.rows.num_nodes)
        key, size = [self.key.seed, self.key.level], max(self.bucket // options.get("width", 1), LEAST_NODES)
        jobs = []
        for job in row_jobs(self.rows, chosen.num_ranges, self.piece):
            start, stop = np.searchsorted(nodes, np.array([job["first"], job["last"]], nodes.dtype)).tolist()
            for low in range(start, stop, size):
                some = {"low": low, "high": min(low + size, stop)}
                jobs.append({**job, **some, "kind": self.kind, "key": key, **options})
        free = np.packbits(self.code != 0) if chosen.is_remote else self.code
        arrays = {
            "degree": self.published,
            "nodes": chosen.publish(nodes),
            "free" if chosen.is_remote else "code": chosen.publish(free),
        }
        try:
            for job, result in zip(jobs, chosen.run(function, jobs, arrays), strict=True):
                yield nodes[job["low"] : job["high"]], result
        finally:
            for name, published in arrays.items():
                if name != "degree":
                    published.remove()

    def _count_entries(self, nodes: IndexArray) -> int:
        """Return the number of entries of some rows."""
        if len(nodes) == self.rows.num_nodes:
            return self.rows.num_entries
        total = 0
        for low in range(0, len(nodes), NODES_AT_ONCE):
            some = nodes[low : low + NODES_AT_ONCE]
            total += int((self.rows.indptr[some + 1] - self.rows.indptr[some]).sum())
            self.rows.release(int(some[0]), int(some[-1]) + 1, 0, 0)
        return total

    def _match_sorted(self, active: IndexArray) -> int | None:
        """Match the remaining nodes by sorting the edges between them, which gives the same pairs as further rounds.

        A path whose weights ascend has one pair per round.

        Args:
            active: Free nodes that have a free neighbour, ascending.

        Returns:
            Number of pairs, or ``None`` if the edges do not fit in memory. Nothing has changed then.
        """
        from tgp.kernels import local_matching as kernels

        code = self.code
        if len(active) > self.bucket or self._count_entries(active) > self.bucket:
            return None
        self._drop_choices()
        rows, cols, weight = self._free_edges(active)
        order = sort_by_score(code, rows, cols, self._scores(rows, cols, weight))
        before = np.count_nonzero(code)
        kernels.match_in_order(rows[order], cols[order], self.pointer, code)
        return int(before - np.count_nonzero(code)) // 2

    def _free_edges(self, active: IndexArray) -> tuple[IndexArray, IndexArray, FloatArray]:
        """Return sources, targets and weights of the edges between some nodes, each edge once.

        The file is read in ranges whose pages are released: scattered reads would map nearly all of it.
        """
        parts: list[tuple[IndexArray, IndexArray, FloatArray]] = []
        for first, last in self.rows.row_ranges(self.piece):
            low, high = np.searchsorted(active, np.array([first, last], active.dtype)).tolist()
            if low == high:
                continue
            some = active[low:high]
            row_ptr, entry = take_ragged(self.rows.indptr, some.astype(np.int64))
            rows, cols = np.repeat(some, np.diff(row_ptr)), self.rows.indices[entry]
            between = (rows < cols) & (self.code[cols] != 0)
            entry = entry[between]
            weight = self.rows.weight[entry] if self.rows.weighted else np.ones(len(entry))
            parts.append((rows[between], cols[between], weight))
        sources, targets, weights = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return sources, targets, weights

    def _scores(self, rows: IndexArray, cols: IndexArray, weight: FloatArray) -> FloatArray | None:
        """Return the scores of some edges, or ``None`` if all are equal."""
        from tgp.kernels import local_matching as kernels

        if self.kind == kernels.EQUAL:
            return None
        if self.kind == kernels.GIVEN:
            return weight
        most = np.maximum(self.degree[rows], self.degree[cols])
        shares = np.divide(weight, most, out=np.zeros(len(weight)), where=most > 0.0)
        return np.where(shares > 0.0, shares, 0.0)

    def partners(self) -> IndexArray:
        """Return the partner of each node, or the node itself."""
        for low in range(0, len(self.code), self.piece):
            high = min(low + self.piece, len(self.code))
            alone = low + np.flatnonzero(self.code[low:high])
            self.pointer[alone] = alone
        return self.pointer

    def pair_alone(self) -> IndexArray:
        """Match nodes that are alone and have the same strongest neighbour; return the partner of each node."""
        from tgp.kernels import local_matching

        mate, alone = self.partners(), self._list_alone()
        self._drop_choices()
        _fill_codes(self.key, self.code)
        anchor, signature = np.empty(len(alone), np.int32), np.empty(len(alone), np.uint64)
        done = 0
        for nodes, result in self._over_nodes(find_anchors, alone):
            some = slice(done, done + len(nodes))
            anchor[some], signature[some] = result["anchor"], result["signature"]
            done += len(nodes)
        self.published.remove()
        self.degree, self.code, self.published = np.empty(0), np.empty(0, np.uint64), Published(np.empty(0))
        order = np.lexsort((signature, anchor))
        local_matching.pair_relatives(alone[order], anchor[order], signature[order], mate)
        return mate

    def _list_alone(self) -> IndexArray:
        """Return the nodes without a partner that have neighbours. Pages of row pointers are released, not kept for all nodes."""
        parts = [np.empty(0, np.int32)]
        for first, last in self.rows.row_ranges(self.piece):
            is_alone = (self.code[first:last] != 0) & (np.diff(self.rows.indptr[first : last + 1]) > 0)
            parts.append((first + np.flatnonzero(is_alone)).astype(np.int32))
        return np.concatenate(parts)
