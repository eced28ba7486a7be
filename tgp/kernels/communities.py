"""Communities of high modularity: moves of single nodes (Louvain) and refinement of communities (Leiden).

A pass works on undirected rows without self loops. Edges inside a node of a later pass are part of its degree. All sums are
float64 in a fixed order: entries as stored, nodes as visited. A graph is computed alone, so its result does not depend on
the other graphs of the block.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import hash_u64, kernel, uf_find, uf_union
from tgp.kernels._vectors import prefetch
from tgp.kernels.array_types import BoolArray, FloatArray, IndexArray, PtrArray

__all__ = [
    "AHEAD",
    "MARGIN",
    "WINDOW",
    "connected_parts",
    "move_nodes",
    "number_labels",
    "refine_communities",
    "visiting_order",
]

MARGIN = 1e-10
"""Gain, as a share of the degree of a node, below which a move is rounding noise."""

WINDOW = 4096
"""Number of consecutive nodes that are shuffled together. The rows of a window stay in the processor cache."""

AHEAD = 16
"""Number of visits between the request for a row pointer and its use. Orders of visits have as many further elements, any nodes."""

_REQUESTED = 64
"""Largest number of entries of a row whose neighbours are requested from memory in advance."""

_U = np.uint64
_ONE = np.uint64(1)
_SIXTEEN, _EIGHT, _FOUR, _TWO = np.uint64(AHEAD), np.uint64(8), np.uint64(4), np.uint64(2)
_S32 = np.uint64(32)


@kernel
def visiting_order(node_ptr: PtrArray, seed: int, level: int, draw: int, visit: IndexArray) -> None:
    """Write the nodes of each graph in a random order: windows of ``WINDOW`` nodes, each shuffled by hashes.

    Args:
        node_ptr: ``[graphs + 1]`` offsets of the graphs.
        seed, level, draw: Key of the hashes, with the index of a node inside its graph.
        visit: Output ``[N]``.
    """
    for g in range(node_ptr.shape[0] - 1):
        lo, hi = node_ptr[g], node_ptr[g + 1]
        for start in range(lo, hi, WINDOW):
            for i in range(start, min(start + WINDOW, hi)):
                bits = hash_u64(seed, level, i - lo, draw) >> _S32
                at = start + np.int64((bits * _U(i - start + 1)) >> _S32)
                visit[i] = visit[at]
                visit[at] = i


@kernel
def move_nodes(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, node_ptr: PtrArray, active: BoolArray,
    first: int, last: int, degree: FloatArray, size: PtrArray, factor: FloatArray, max_size: int, effort: int,
    queue: IndexArray, waiting: BoolArray, link: FloatArray, seen: IndexArray, label: IndexArray,
    volume: FloatArray, members: PtrArray,
) -> None:  # fmt: skip
    """Move nodes to the neighbouring community of the largest gain, until no node wants to move.

    The nodes are taken from a queue. When a node moves, its neighbours in other communities are added to the end of the
    queue. Equal gains are decided by the first neighbour in the row. A node moves only if the gain exceeds that of staying
    by ``MARGIN``. A node that gains more alone than in any community becomes a community of its own.

    Args:
        indptr, indices: Undirected rows without self loops.
        weight: ``[nnz]`` positive weights, or an empty array if ``weighted`` is false.
        weighted: Use the weights; otherwise every weight is 1.
        node_ptr: ``[graphs + 1]`` offsets of the graphs.
        active: ``[graphs]``, graphs to compute.
        first, last: Range of graphs.
        degree: ``[N]`` degree of each node, with the edges inside it.
        size: ``[N]`` number of input nodes of each node.
        factor: ``[graphs]`` resolution divided by the sum of all degrees.
        max_size: Largest number of input nodes of a community.
        effort: Limit of the work: visited nodes and entries, as a multiple of those of the graph.
        queue: ``[N + AHEAD]`` nodes in the order of their first visit; overwritten.
        waiting, link: Scratch ``[N]``; ``link`` is zero on entry and on return.
        seen: Scratch, longer than any row.
        label: ``[N]`` community of each node, a node of the same graph; changed.
        volume, members: ``[N]`` sum of degrees and number of input nodes of each community; changed.
    """
    for g in range(first, last):
        lo, hi = node_ptr[g], node_ptr[g + 1]
        if not active[g]:
            continue
        nodes = hi - lo
        budget = effort * (nodes + indptr[hi] - indptr[lo])
        head, count = lo, nodes
        empty = np.int64(-1)
        for v in range(lo, hi):
            waiting[v] = True
        while count > 0 and budget > 0:
            # Request what the next visits read: row pointers, then entries, then labels, then sums of communities.
            at = _U(head)
            w = _U(np.uint32(queue[at + _SIXTEEN]))
            prefetch(indptr, w)
            prefetch(degree, w)
            prefetch(label, w)
            begin = _U(indptr[np.uint32(queue[at + _EIGHT])])
            prefetch(indices, begin)
            prefetch(indices, begin + _SIXTEEN)
            if weighted:
                prefetch(weight, begin)
                prefetch(weight, begin + _EIGHT)
            w = _U(np.uint32(queue[at + _FOUR]))
            for e in range(_U(indptr[w]), _U(min(indptr[w] + _REQUESTED, indptr[w + _ONE]))):
                prefetch(label, _U(np.uint32(indices[e])))
            w = _U(np.uint32(queue[at + _TWO]))
            for e in range(_U(indptr[w]), _U(min(indptr[w] + _REQUESTED, indptr[w + _ONE]))):
                near = _U(np.uint32(label[np.uint32(indices[e])]))
                prefetch(link, near)
                prefetch(volume, near)
            v = queue[head]
            head += 1
            if head == hi:
                head = lo
            count -= 1
            waiting[v] = False
            start, stop = _U(indptr[v]), _U(indptr[v + 1])
            budget -= np.int64(stop - start) + 1
            own = label[v]
            found = _U(0)
            for e in range(start, stop):
                c = label[np.uint32(indices[e])]
                old = link[np.uint32(c)]
                seen[found] = c
                found += _U(old == 0.0)
                link[np.uint32(c)] = old + (weight[e] if weighted else 1.0)
            k = degree[v]
            pull = factor[g] * k
            room = max_size - size[v]
            stay = link[own] - pull * (volume[own] - k)
            link[own] = 0.0
            best, target = stay + MARGIN * k, own
            for i in range(found):
                c = seen[i]
                gain = link[np.uint32(c)] - pull * volume[np.uint32(c)]
                link[np.uint32(c)] = 0.0
                if gain > best and c != own and members[c] <= room:
                    best, target = gain, c
            if best < 0.0 and members[own] > size[v]:
                # Alone is better. A community with two nodes or more leaves a label that no node has.
                while empty < 0 or members[empty] > 0:
                    empty = empty + 1 if empty >= lo else lo
                    if empty == hi:
                        empty = lo
                target = np.int32(empty)
            if target == own:
                continue
            label[v] = target
            volume[target] += k
            volume[own] -= k
            members[target] += size[v]
            members[own] -= size[v]
            if members[own] == 0:
                volume[own] = 0.0
            for e in range(start, stop):
                u = indices[e]
                if not waiting[np.uint32(u)] and label[np.uint32(u)] != target:
                    waiting[u] = True
                    tail = head + count
                    if tail >= hi:
                        tail -= nodes
                    queue[tail] = u
                    count += 1


@kernel
def refine_communities(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, node_ptr: PtrArray, active: BoolArray,
    first: int, last: int, degree: FloatArray, factor: FloatArray, visit: IndexArray, label: IndexArray,
    volume: FloatArray, link: FloatArray, seen: IndexArray, alone: BoolArray, part: IndexArray,
    part_volume: FloatArray, cut: FloatArray,
) -> None:  # fmt: skip
    """Divide each community into connected parts that are well connected to the rest of the community.

    Every node starts as a part. Nodes are visited once. A node that is still alone joins the part of its community with the
    largest positive gain; equal gains are decided by the first neighbour in the row. The node and the part must be well
    connected: the weight of their edges to the rest of the community is at least the expected weight.

    Args:
        indptr, indices, weight, weighted, node_ptr, active, first, last, degree, factor: See :func:`move_nodes`.
        visit: ``[N + AHEAD]`` nodes in the order of their visit.
        label, volume: Communities, as :func:`move_nodes` leaves them.
        link: Scratch ``[N]``, zero on entry and on return.
        seen: Scratch, longer than any row.
        alone, part_volume, cut: Scratch ``[N]``.
        part: Output ``[N]``, part of each node. A part is named after one of its nodes.
    """
    for g in range(first, last):
        lo, hi = node_ptr[g], node_ptr[g + 1]
        for v in range(lo, hi):
            part[v] = v
        if not active[g]:
            continue
        scale = factor[g]
        for v in range(lo, hi):
            inside = 0.0
            own = label[v]
            for e in range(_U(indptr[v]), _U(indptr[v + 1])):
                if label[np.uint32(indices[e])] == own:
                    inside += weight[e] if weighted else 1.0
            cut[v] = inside
            part_volume[v] = degree[v]
            alone[v] = True
        for i in range(lo, hi):
            # Request what the next visits read: row pointers, then entries, then labels, then sums of communities.
            at = _U(i)
            w = _U(np.uint32(visit[at + _SIXTEEN]))
            prefetch(indptr, w)
            prefetch(degree, w)
            prefetch(label, w)
            prefetch(cut, w)
            begin = _U(indptr[np.uint32(visit[at + _EIGHT])])
            prefetch(indices, begin)
            prefetch(indices, begin + _SIXTEEN)
            if weighted:
                prefetch(weight, begin)
                prefetch(weight, begin + _EIGHT)
            w = _U(np.uint32(visit[at + _FOUR]))
            for e in range(_U(indptr[w]), _U(min(indptr[w] + _REQUESTED, indptr[w + _ONE]))):
                prefetch(label, _U(np.uint32(indices[e])))
                prefetch(part, _U(np.uint32(indices[e])))
            w = _U(np.uint32(visit[at + _TWO]))
            for e in range(_U(indptr[w]), _U(min(indptr[w] + _REQUESTED, indptr[w + _ONE]))):
                near = _U(np.uint32(part[np.uint32(indices[e])]))
                prefetch(link, near)
                prefetch(part_volume, near)
                prefetch(cut, near)
            v = visit[i]
            own, k = label[v], degree[v]
            # A node moves only while it is alone, so a part never loses a node that connects it.
            if not alone[v] or cut[v] < scale * k * (volume[own] - k):
                continue
            pull = scale * k
            found = _U(0)
            start, stop = _U(indptr[v]), _U(indptr[v + 1])
            for e in range(start, stop):
                u = np.uint32(indices[e])
                if label[u] == own:
                    c = part[u]
                    old = link[np.uint32(c)]
                    seen[found] = c
                    found += _U(old == 0.0)
                    link[np.uint32(c)] = old + (weight[e] if weighted else 1.0)
            best, target = 0.0, v
            for j in range(found):
                c = seen[j]
                inner = part_volume[c]
                gain = link[c] - pull * inner
                if gain > best and cut[c] >= scale * inner * (volume[own] - inner):
                    best, target = gain, c
            if target != v:
                part[v] = target
                part_volume[target] += k
                cut[target] += cut[v] - 2.0 * link[target]
                alone[v] = alone[target] = False
            for j in range(found):
                link[seen[j]] = 0.0


@kernel
def connected_parts(
    indptr: PtrArray, indices: IndexArray, node_ptr: PtrArray, label: IndexArray, first: int, last: int,
    part: IndexArray,
) -> None:  # fmt: skip
    """Divide each community into its connected components.

    Args:
        indptr, indices, node_ptr, first, last: See :func:`move_nodes`.
        label: ``[N]`` community of each node.
        part: Output ``[N]``, the smallest node of the component of each node.
    """
    for v in range(node_ptr[first], node_ptr[last]):
        part[v] = v
    for v in range(node_ptr[first], node_ptr[last]):
        for e in range(indptr[v], indptr[v + 1]):
            if indices[e] < v and label[indices[e]] == label[v]:
                uf_union(part, v, indices[e])
    for v in range(node_ptr[first], node_ptr[last]):
        part[v] = uf_find(part, v)


@kernel
def number_labels(
    label: IndexArray, node_ptr: PtrArray, name: IndexArray, cluster: IndexArray, super_ptr: PtrArray
) -> None:
    """Number the labels of all graphs in the order of their first node.

    Args:
        label: ``[N]`` label of each node, a node of the same graph.
        node_ptr: ``[graphs + 1]`` offsets of the graphs.
        name: Scratch ``[N]``, -1 on entry.
        cluster: Output ``[N]``, number of each label.
        super_ptr: Output ``[graphs + 1]``, offsets of the numbers of each graph.
    """
    count = np.int32(0)
    super_ptr[0] = 0
    for g in range(node_ptr.shape[0] - 1):
        for v in range(node_ptr[g], node_ptr[g + 1]):
            at = np.uint32(label[v])
            if name[at] < 0:
                name[at] = count
                count += np.int32(1)
            cluster[v] = name[at]
        super_ptr[g + 1] = count
