"""Eigenvector of the largest eigenvalue of the normalized Laplacian, one for every connected component.

``L = I - D^{-1/2} A D^{-1/2}``, so it belongs to the smallest eigenvalue of ``M = D^{-1/2} A D^{-1/2}``. A bipartite
component needs no solver: its two colours are the signs. Other components are solved by the Lanczos method. The start
vector combines breadth-first parities and hashed random numbers. Each graph is processed by one thread and
independently of other graphs.

The nodes of graph ``g`` occupy the positions ``node_ptr[g]:node_ptr[g + 1]`` of ``order``, component by component. The
component that starts at position ``p`` has ``extent[p]`` nodes.
"""

from __future__ import annotations

import math

from tgp.kernels._prims import hash_uniform, kernel
from tgp.kernels.array_types import ByteArray, FloatArray, IndexArray, PtrArray

__all__ = ["LANCZOS_STEPS", "SMALL", "UNSOLVED", "component_vectors", "large_vectors"]

SMALL = 64
"""Largest number of nodes for which the Krylov basis is stored and reorthogonalized, so that the result is exact."""
LANCZOS_STEPS = 512
"""Largest number of steps for other components."""
UNSOLVED = -1.0
"""Residual of a component whose start vector has not been replaced by an eigenvector yet."""


@kernel(inner=True)
def _normalized_rows(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, order: IndexArray, at: int, size: int,
    position: IndexArray, ptr: PtrArray, cols: IndexArray, value: FloatArray, degree: FloatArray,
) -> None:  # fmt: skip
    """Write the rows of ``M`` for the component at position ``at``; degrees are ``sum |w|``.

    Also writes the position of each node in its component to ``position``.
    """
    ptr[0] = 0
    for k in range(size):
        i = order[at + k]
        position[i] = k
        ptr[k + 1] = ptr[k] + indptr[i + 1] - indptr[i]
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            total += abs(weight[e])
        degree[k] = total
    for k in range(size):
        i = order[at + k]
        slot = ptr[k]
        for e in range(indptr[i], indptr[i + 1]):
            other = position[indices[e]]
            cols[slot] = other
            value[slot] = weight[e] / math.sqrt(degree[k] * degree[other])
            slot += 1


@kernel(inner=True)
def _smallest_eigenpair(
    alpha: FloatArray, beta: FloatArray, size: int, vector: FloatArray, down: FloatArray, up: FloatArray
) -> None:
    """Write the unit eigenvector of the smallest eigenvalue of a symmetric tridiagonal matrix to ``vector``.

    The value is found by bisection. The vector is computed from the twisted factorization at this value: two sweeps
    without iteration.

    Args:
        alpha, beta: Diagonal and off-diagonal; the first ``size`` and ``size - 1`` elements are used.
        size: Order of the matrix.
        vector: ``[>= size]`` output.
        down, up: ``[>= size]`` scratch.
    """
    low = alpha[0]
    high = alpha[0]
    for i in range(size):
        reach = (beta[i - 1] if i > 0 else 0.0) + (beta[i] if i + 1 < size else 0.0)
        low = min(low, alpha[i] - reach)
        high = min(high, alpha[i])
    for _ in range(100):
        mid = 0.5 * (low + high)
        if mid <= low or mid >= high:
            break
        pivot = alpha[0] - mid
        negative = pivot < 0.0
        for i in range(1, size):
            if negative:
                break
            pivot = alpha[i] - mid - beta[i - 1] * beta[i - 1] / max(pivot, 1e-300)
            negative = pivot < 0.0
        if negative:
            high = mid
        else:
            low = mid
    value = low
    down[0] = alpha[0] - value
    for i in range(1, size):
        down[i] = alpha[i] - value - beta[i - 1] * beta[i - 1] / max(down[i - 1], 1e-300)
    up[size - 1] = alpha[size - 1] - value
    for i in range(size - 2, -1, -1):
        up[i] = alpha[i] - value - beta[i] * beta[i] / max(up[i + 1], 1e-300)
    twist = 0
    best = 1e300
    for i in range(size):
        gamma = abs(down[i] + up[i] - (alpha[i] - value))
        if gamma < best:
            best = gamma
            twist = i
    vector[twist] = 1.0
    total = 1.0
    for i in range(twist - 1, -1, -1):
        vector[i] = -beta[i] * vector[i + 1] / max(down[i], 1e-300)
        total += vector[i] * vector[i]
    for i in range(twist + 1, size):
        vector[i] = -beta[i - 1] * vector[i - 1] / max(up[i], 1e-300)
        total += vector[i] * vector[i]
    scale = 1.0 / math.sqrt(total)
    for i in range(size):
        vector[i] *= scale


@kernel(inner=True)
def _multiply(
    ptr: PtrArray, cols: IndexArray, value: FloatArray, x: FloatArray, at: int, size: int, out: FloatArray
) -> float:
    """Write ``M x`` to ``out`` and return the inner product of ``x`` and ``out``. ``x`` starts at position ``at``."""
    dot = 0.0
    for i in range(size):
        total = 0.0
        for e in range(ptr[i], ptr[i + 1]):
            total += value[e] * x[at + cols[e]]
        out[i] = total
        dot += total * x[at + i]
    return dot


@kernel(inner=True)
def _normalize(x: FloatArray, lo: int, hi: int) -> None:
    """Scale the elements ``lo`` to ``hi - 1`` to a unit vector in place."""
    total = 0.0
    for i in range(lo, hi):
        total += x[i] * x[i]
    norm = math.sqrt(total)
    for i in range(lo, hi):
        x[i] /= norm


@kernel(inner=True)
def _solve_small(
    ptr: PtrArray, cols: IndexArray, value: FloatArray, entry: FloatArray, at: int, size: int, down: FloatArray, up: FloatArray,
    basis: FloatArray, alpha: FloatArray, beta: FloatArray, weights: FloatArray, work: FloatArray,
) -> None:  # fmt: skip
    """Replace the start vector in ``entry`` by the eigenvector of the smallest eigenvalue, with a stored basis."""
    for i in range(size):
        basis[i] = entry[at + i]
    steps = 0
    while steps < size:
        alpha[steps] = _multiply(ptr, cols, value, basis, steps * size, size, work)
        for _ in range(2):
            for b in range(steps, -1, -1):
                dot = 0.0
                for i in range(size):
                    dot += basis[b * size + i] * work[i]
                for i in range(size):
                    work[i] -= dot * basis[b * size + i]
        norm = 0.0
        for i in range(size):
            norm += work[i] * work[i]
        norm = math.sqrt(norm)
        beta[steps] = norm
        steps += 1
        done = norm <= 1e-13 or steps == size
        if done or (steps >= 12 and steps & 3 == 0):
            _smallest_eigenpair(alpha, beta, steps, weights, down, up)
            if done or norm * abs(weights[steps - 1]) <= 1e-12:
                break
        for i in range(size):
            basis[steps * size + i] = work[i] / norm
    for i in range(size):
        total = 0.0
        for b in range(steps):
            total += weights[b] * basis[b * size + i]
        entry[at + i] = total


@kernel
def component_vectors(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, node_ptr: PtrArray, first: int, last: int, seed: int,
    level: int, order: IndexArray, extent: PtrArray, entry: FloatArray, residual: FloatArray, colour: ByteArray,
    position: IndexArray, ptr: PtrArray, cols: IndexArray, value: FloatArray, basis: FloatArray, small: FloatArray,
    alpha: FloatArray, beta: FloatArray, weights: FloatArray, work: FloatArray, down: FloatArray, up: FloatArray,
) -> int:  # fmt: skip
    """Find the components of the graphs ``first`` to ``last - 1``, and the eigenvectors of bipartite and small ones.

    Components are coloured with 1 and -1, breadth first. The ends of a positive edge need different colours and those
    of a negative edge the same colour. A colouring then cuts all positive and no negative edges; for positive weights
    it exists if the component is bipartite.

    Args:
        indptr, indices, weight: Simple undirected graphs, see :mod:`tgp.kernels.undirected`.
        node_ptr: ``[B + 1]``, offsets of the graphs.
        first, last: Range of graphs.
        seed, level: Key of the random numbers.
        order: ``[N]`` output: nodes, component by component.
        extent: ``[N]`` output: number of nodes of the component, at the position of its first node.
        entry: ``[N]`` output: entry of each node in the unit eigenvector, or in the start vector.
        residual: ``[N]`` output: norm of the residual of each component, or :data:`UNSOLVED`.
        colour: ``[N]`` scratch, zeros.
        position: ``[N]`` scratch.
        ptr, cols, value, basis, small, alpha, beta, weights, work, down, up: scratch for a component of
            :data:`SMALL` nodes.

    Returns:
        The largest number of stored edges of a component that is not solved, or 0.
    """
    most = 0
    for g in range(first, last):
        at = node_ptr[g]
        for root in range(node_ptr[g], node_ptr[g + 1]):
            if colour[root] != 0:
                continue
            order[at] = root
            colour[root] = 1
            end = at + 1
            head = at
            proper = True
            entries = 0
            while head < end:
                i = order[head]
                head += 1
                entries += indptr[i + 1] - indptr[i]
                for e in range(indptr[i], indptr[i + 1]):
                    j = indices[e]
                    want = -colour[i] if weight[e] > 0.0 else colour[i]
                    if colour[j] == 0:
                        colour[j] = want
                        order[end] = j
                        end += 1
                    elif colour[j] != want:
                        proper = False
            for k in range(at, end):
                i = order[k]
                total = 0.0
                for e in range(indptr[i], indptr[i + 1]):
                    total += abs(weight[e])
                entry[k] = colour[i] * math.sqrt(total)
                if not proper:
                    entry[k] *= 0.5 + hash_uniform(seed, level, i - node_ptr[g], 0)
            if end - at == 1:
                entry[at] = 1.0
            _normalize(entry, at, end)
            extent[at] = end - at
            residual[at] = 0.0
            if not proper and end - at <= SMALL:
                _normalized_rows(
                    indptr, indices, weight, order, at, end - at, position, ptr, cols, value, small
                )
                _solve_small(
                    ptr, cols, value, entry, at, end - at, down, up, basis, alpha, beta, weights, work
                )
                _normalize(entry, at, end)
            elif not proper:
                residual[at] = UNSOLVED
                if entries > most:
                    most = entries
            at = end
    return most


@kernel(inner=True)
def _lanczos(
    ptr: PtrArray, cols: IndexArray, value: FloatArray, entry: FloatArray, at: int, size: int, max_steps: int,
    alpha: FloatArray, beta: FloatArray, weights: FloatArray, down: FloatArray, up: FloatArray, vectors: FloatArray,
    basis: FloatArray, room: int,
) -> float:  # fmt: skip
    """Replace the start vector in ``entry`` by the eigenvector of the smallest eigenvalue; return the residual.

    A first run computes the tridiagonal matrix. If ``basis`` has room for all vectors of the run, the Ritz vector is
    added up from them. Otherwise a second, identical run adds it up, so that memory for four vectors is sufficient.
    Loss of orthogonality is harmless, because the run stops when this eigenpair has converged, and it is the first one
    to converge at its end of the spectrum.
    """
    total, now, before, work = 0, size, 2 * size, 3 * size
    steps = max_steps
    residual = 1.0
    for i in range(size):
        vectors[total + i] = 0.0
    for replay in range(2):
        if replay == 1 and steps <= room:
            for k in range(steps):
                for i in range(size):
                    vectors[total + i] += weights[k] * basis[k * size + i]
            break
        for i in range(size):
            vectors[now + i] = entry[at + i]
            vectors[before + i] = 0.0
        last = 0.0
        check = 16
        for k in range(steps):
            if replay == 1:
                for i in range(size):
                    vectors[total + i] += weights[k] * vectors[now + i]
                if k + 1 == steps:
                    break
            elif k < room:
                for i in range(size):
                    basis[k * size + i] = vectors[now + i]
            a = 0.0
            for i in range(size):
                dot = 0.0
                for e in range(ptr[i], ptr[i + 1]):
                    dot += value[e] * vectors[now + cols[e]]
                vectors[work + i] = dot
                a += dot * vectors[now + i]
            norm = 0.0
            for i in range(size):
                r = vectors[work + i] - a * vectors[now + i] - last * vectors[before + i]
                vectors[work + i] = r
                norm += r * r
            norm = math.sqrt(norm)
            if replay == 0:
                alpha[k] = a
                beta[k] = norm
                if k + 1 == check or k + 1 == steps or norm <= 1e-13:
                    check += max(8, check >> 3)
                    _smallest_eigenpair(alpha, beta, k + 1, weights, down, up)
                    residual = norm * abs(weights[k])
                    if residual <= 1e-9 or norm <= 1e-13:
                        steps = k + 1
                        break
            for i in range(size):
                vectors[before + i] = vectors[now + i]
                vectors[now + i] = vectors[work + i] / norm
            last = norm
    for i in range(size):
        entry[at + i] = vectors[total + i]
    return residual


@kernel
def large_vectors(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, node_ptr: PtrArray, first: int, last: int,
    max_steps: int, order: IndexArray, extent: PtrArray, entry: FloatArray, residual: FloatArray,
    position: IndexArray, ptr: PtrArray, cols: IndexArray, value: FloatArray, alpha: FloatArray, beta: FloatArray,
    weights: FloatArray, down: FloatArray, up: FloatArray, vectors: FloatArray, basis: FloatArray,
) -> None:  # fmt: skip
    """Solve the components that :func:`component_vectors` did not solve.

    Args:
        indptr, indices, weight, node_ptr, first, last: See :func:`component_vectors`.
        max_steps: Largest number of Lanczos steps, at most :data:`LANCZOS_STEPS`.
        order, extent, entry, residual: Output of :func:`component_vectors`, completed in place.
        position, ptr, cols, value, alpha, beta, weights, down, up, vectors, basis: Scratch.
    """
    at = node_ptr[first]
    while at < node_ptr[last]:
        size = extent[at]
        if residual[at] == UNSOLVED:
            _normalized_rows(indptr, indices, weight, order, at, size, position, ptr, cols, value, vectors)
            # Two runs over at most 2e8 entries take one or two seconds for any size.
            steps = min(max_steps, max(96, 200_000_000 // ptr[size]))
            residual[at] = _lanczos(
                ptr, cols, value, entry, at, size, steps, alpha, beta, weights, down, up, vectors, basis,
                basis.shape[0] // size,
            )  # fmt: skip
            _normalize(entry, at, at + size)
        at += size
