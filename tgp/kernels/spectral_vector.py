"""Eigenvector of the largest eigenvalue of the normalized Laplacian, one for every connected component.

``L = I - D^{-1/2} A D^{-1/2}``, so it belongs to the smallest eigenvalue of ``M = D^{-1/2} A D^{-1/2}``. A bipartite
component needs no solver: its two colours are the signs. Other components are solved by the Lanczos method. The start
vector combines breadth-first parities and hashed random numbers. Each graph is processed by one thread and
independently of other graphs.
"""

from __future__ import annotations

import math

import numpy as np

from tgp.kernels._prims import hash_uniform, kernel
from tgp.kernels.array_types import FloatArray, IndexArray, IntArray, PtrArray

__all__ = ["component_vectors"]

_SMALL = 64
"""Largest number of nodes for which the Krylov basis is stored and reorthogonalized, so that the result is exact."""


@kernel
def _two_colour(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, root: int, colour: IntArray, order: IndexArray
) -> tuple[int, bool]:
    """Colour the component of ``root`` with 1 and -1, breadth first; return its size and whether it succeeded.

    The ends of a positive edge need different colours and those of a negative edge the same colour. A colouring then
    cuts all positive and no negative edges; for positive weights it exists if the component is bipartite. Writes
    ``colour`` and the visited nodes ``order``.
    """
    order[0] = root
    colour[root] = 1
    size = 1
    head = 0
    proper = True
    while head < size:
        i = order[head]
        head += 1
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            want = -colour[i] if weight[e] > 0.0 else colour[i]
            if colour[j] == 0:
                colour[j] = want
                order[size] = j
                size += 1
            elif colour[j] != want:
                proper = False
    return size, proper


@kernel
def _normalized_rows(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, order: IndexArray, position: IndexArray
) -> tuple[PtrArray, IndexArray, FloatArray]:
    """Return the rows of ``M`` for the nodes ``order``, in this order; degrees are ``sum |w|``.

    Writes the position of each of these nodes to ``position``.
    """
    size = order.shape[0]
    ptr = np.empty(size + 1, np.int64)
    degree = np.empty(size)
    ptr[0] = 0
    for k in range(size):
        i = order[k]
        position[i] = k
        ptr[k + 1] = ptr[k] + indptr[i + 1] - indptr[i]
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            total += abs(weight[e])
        degree[k] = total
    cols = np.empty(ptr[size], np.int32)
    value = np.empty(ptr[size])
    for k in range(size):
        i = order[k]
        slot = ptr[k]
        for e in range(indptr[i], indptr[i + 1]):
            other = position[indices[e]]
            cols[slot] = other
            value[slot] = weight[e] / math.sqrt(degree[k] * degree[other])
            slot += 1
    return ptr, cols, value


@kernel
def _smallest_eigenpair(alpha: FloatArray, beta: FloatArray, size: int, vector: FloatArray) -> float:
    """Return the smallest eigenvalue of a symmetric tridiagonal matrix and write its unit eigenvector to ``vector``.

    The value is found by bisection. The vector is computed from the twisted factorization at this value: two sweeps
    without iteration.

    Args:
        alpha, beta: Diagonal and off-diagonal; the first ``size`` and ``size - 1`` elements are used.
        size: Order of the matrix.
        vector: ``[>= size]`` output.
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
    value: float = low
    down = np.empty(size)
    up = np.empty(size)
    down[0] = alpha[0] - value
    for i in range(1, size):
        down[i] = alpha[i] - value - beta[i - 1] * beta[i - 1] / max(down[i - 1], 1e-300)
    up[size - 1] = alpha[size - 1] - value
    for i in range(size - 2, -1, -1):
        up[i] = alpha[i] - value - beta[i] * beta[i] / max(up[i + 1], 1e-300)
    twist = 0
    best = np.inf
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
    return value


@kernel
def _normalize(x: FloatArray) -> None:
    """Scale ``x`` to a unit vector in place."""
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * x[i]
    norm = math.sqrt(total)
    for i in range(x.shape[0]):
        x[i] /= norm


@kernel
def _multiply(ptr: PtrArray, cols: IndexArray, value: FloatArray, x: FloatArray, out: FloatArray) -> float:
    """Write ``M x`` to ``out`` and return the inner product of ``x`` and ``out``."""
    dot = 0.0
    for i in range(x.shape[0]):
        total = 0.0
        for e in range(ptr[i], ptr[i + 1]):
            total += value[e] * x[cols[e]]
        out[i] = total
        dot += total * x[i]
    return dot


@kernel
def _lanczos_stored(ptr: PtrArray, cols: IndexArray, value: FloatArray, vector: FloatArray) -> None:
    """Replace the start vector by the eigenvector of the smallest eigenvalue, with a stored orthogonal basis."""
    size = vector.shape[0]
    basis = np.empty((size, size))
    alpha = np.empty(size)
    beta = np.empty(size)
    weights = np.empty(size)
    work = np.empty(size)
    for i in range(size):
        basis[0, i] = vector[i]
    steps = 0
    while steps < size:
        alpha[steps] = _multiply(ptr, cols, value, basis[steps], work)
        for _ in range(2):
            for b in range(steps, -1, -1):
                dot = 0.0
                for i in range(size):
                    dot += basis[b, i] * work[i]
                for i in range(size):
                    work[i] -= dot * basis[b, i]
        norm = 0.0
        for i in range(size):
            norm += work[i] * work[i]
        norm = math.sqrt(norm)
        beta[steps] = norm
        steps += 1
        done = norm <= 1e-13 or steps == size
        if done or (steps >= 12 and steps % 4 == 0):
            _smallest_eigenpair(alpha, beta, steps, weights)
            if done or norm * abs(weights[steps - 1]) <= 1e-12:
                break
        for i in range(size):
            basis[steps, i] = work[i] / norm
    for i in range(size):
        total = 0.0
        for b in range(steps):
            total += weights[b] * basis[b, i]
        vector[i] = total


@kernel
def _lanczos_two_pass(
    ptr: PtrArray, cols: IndexArray, value: FloatArray, vector: FloatArray, max_steps: int
) -> float:
    """Replace the start vector by the eigenvector of the smallest eigenvalue; return the residual.

    Needs memory for four vectors: a first run computes the tridiagonal matrix, and a second, identical run adds up the
    Ritz vector. Loss of orthogonality is harmless, because the run stops when this eigenpair has converged, and it is
    the first one to converge at its end of the spectrum.
    """
    size = vector.shape[0]
    alpha = np.empty(max_steps)
    beta = np.empty(max_steps)
    weights = np.empty(max_steps)
    total = np.zeros(size)
    now = np.empty(size)
    before = np.empty(size)
    work = np.empty(size)
    steps = max_steps
    residual = 1.0
    for replay in range(2):
        for i in range(size):
            now[i] = vector[i]
            before[i] = 0.0
        last = 0.0
        check = 16
        for k in range(steps):
            if replay == 1:
                for i in range(size):
                    total[i] += weights[k] * now[i]
                if k + 1 == steps:
                    break
            a = _multiply(ptr, cols, value, now, work)
            norm = 0.0
            for i in range(size):
                r = work[i] - a * now[i] - last * before[i]
                work[i] = r
                norm += r * r
            norm = math.sqrt(norm)
            if replay == 0:
                alpha[k] = a
                beta[k] = norm
                if k + 1 == check or k + 1 == steps or norm <= 1e-13:
                    check += max(8, check // 8)
                    _smallest_eigenpair(alpha, beta, k + 1, weights)
                    residual = norm * abs(weights[k])
                    if residual <= 1e-9 or norm <= 1e-13:
                        steps = k + 1
                        break
            for i in range(size):
                before[i] = now[i]
                now[i] = work[i] / norm
            last = norm
    for i in range(size):
        vector[i] = total[i]
    return residual


@kernel
def _solve_component(ptr: PtrArray, cols: IndexArray, value: FloatArray, vector: FloatArray) -> float:
    """Replace the start ``vector`` by the eigenvector; return the residual."""
    if vector.shape[0] <= _SMALL:
        _lanczos_stored(ptr, cols, value, vector)
        return 0.0
    # Two runs over at most 2e8 entries take one or two seconds for any size.
    steps = min(512, max(96, 200_000_000 // ptr[-1]))
    return _lanczos_two_pass(ptr, cols, value, vector, steps)


@kernel
def component_vectors(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, node_ptr: PtrArray, seed: int, level: int
) -> tuple[IndexArray, PtrArray, FloatArray, FloatArray]:
    """Return the connected components and their eigenvectors.

    Args:
        indptr, indices, weight: Simple undirected graphs, see :mod:`tgp.kernels.undirected`.
        node_ptr: ``[B + 1]``, offsets of the graphs.
        seed, level: Key of the random numbers.

    Returns:
        Nodes (block ids) component by component ``[N]``, offsets of the components ``[C + 1]``, the entry of each of
        these nodes in the unit eigenvector of its component ``[N]``, and the norm of each component's residual ``[C]``.
    """
    count = indptr.shape[0] - 1
    order = np.empty(count, np.int32)
    ptr = np.zeros(count + 1, np.int64)
    entry = np.empty(count)
    residual = np.zeros(count)
    colour = np.zeros(count, np.int8)
    position = np.empty(count, np.int32)
    parts = 0
    for g in range(node_ptr.shape[0] - 1):
        for root in range(node_ptr[g], node_ptr[g + 1]):
            if colour[root] != 0:
                continue
            start = ptr[parts]
            size, proper = _two_colour(indptr, indices, weight, root, colour, order[start:])
            nodes = order[start : start + size]
            vector = entry[start : start + size]
            for k in range(size):
                total = 0.0
                for e in range(indptr[nodes[k]], indptr[nodes[k] + 1]):
                    total += abs(weight[e])
                vector[k] = colour[nodes[k]] * math.sqrt(total)
                if not proper:
                    vector[k] *= 0.5 + hash_uniform(seed, level, nodes[k] - node_ptr[g], 0)
            if size == 1:
                vector[0] = 1.0
            _normalize(vector)
            if not proper:
                rows, cols, value = _normalized_rows(indptr, indices, weight, nodes, position)
                residual[parts] = _solve_component(rows, cols, value, vector)
                _normalize(vector)
            parts += 1
            ptr[parts] = start + size
    return order, ptr[: parts + 1], entry, residual[:parts]
