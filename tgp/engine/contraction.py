"""Contraction: the coarse graph ``S^T A S`` of an assignment, and the parameters that methods share for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt

import tgp
from tgp.engine.carry_members import Groups, InputEdges
from tgp.engine.parameter_checks import check_choice
from tgp.engine.range_contraction import contract_rows
from tgp.errors import InputError
from tgp.kernels.array_types import FloatArray, LongArray
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.offsets import offsets

__all__ = [
    "REDUCE_CODES",
    "ConnectParams",
    "ContractOptions",
    "ReduceOp",
    "contract",
    "edge_map",
    "largest_weights",
    "make_options",
    "postprocess",
]

ReduceOp = Literal["sum", "mean", "min", "max", "mul"]
REDUCE_CODES = {name: code for code, name in enumerate(get_args(ReduceOp))}
"""Codes of the operations in the kernels."""


@dataclass(frozen=True)
class ContractOptions:
    """Options of :func:`contract`.

    Args:
        reduce_op: operation that merges parallel edges: ``sum``, ``mean``, ``min``, ``max`` or ``mul``.
        remove_self_loops: remove edges inside a supernode.
        degree_norm: divide each weight by the square roots of the row sums of its end points.
        edge_weight_norm: divide the weights of each graph by its largest ``|w|``.
        count_edges: give an unweighted block unit weights, so that coarse weights count edges.

    Raises:
        ParameterError: if ``reduce_op`` is unknown.
    """

    reduce_op: ReduceOp = "sum"
    remove_self_loops: bool = True
    degree_norm: bool = False
    edge_weight_norm: bool = False
    count_edges: bool = False

    def __post_init__(self) -> None:
        check_choice("reduce_op", self.reduce_op, REDUCE_CODES)


class HasContractOptions(Protocol):
    """Parameters of a method that contain options of :func:`contract`, such as :class:`ConnectParams`."""

    def contract_options(self) -> ContractOptions: ...


@dataclass(frozen=True, kw_only=True)
class ConnectParams:
    """Base of the parameter classes of methods that connect supernodes by :func:`contract`.

    Args:
        connect_red_op: operation that merges parallel coarse edges: ``sum``, ``mean``, ``min``, ``max`` or ``mul``.
        remove_self_loops: remove edges inside a supernode.
        degree_norm: normalise the coarse graph symmetrically by its degrees.
        edge_weight_norm: divide the coarse weights of each graph by the largest one.
        count_edges: let the coarse weights of an unweighted graph count edges.

    Raises:
        ParameterError: if ``connect_red_op`` is unknown.
    """

    connect_red_op: ReduceOp = "sum"
    remove_self_loops: bool = True
    degree_norm: bool = False
    edge_weight_norm: bool = False
    count_edges: bool = False

    def __post_init__(self) -> None:
        self.contract_options()

    def contract_options(self) -> ContractOptions:
        """Return the options of :func:`contract` that these parameters stand for."""
        return make_options(
            self.connect_red_op,
            self.remove_self_loops,
            self.degree_norm,
            self.edge_weight_norm,
            self.count_edges,
        )


make_options = lru_cache(maxsize=64)(ContractOptions)
"""Constructor of :class:`ContractOptions` that returns one object for equal options."""


def contract(
    block: BlockCSR, assignment: Assignment, options: ContractOptions | HasContractOptions | None = None
) -> BlockCSR:
    """Return the coarse block ``S^T A S`` of an assignment, post-processed by :func:`postprocess`.

    For hard and one-hot assignments, edges of dropped nodes (cluster ``-1``) are removed and the values of ``S`` have
    no effect. An unweighted block stays unweighted, unless ``count_edges`` or a normalisation asks for weights.

    For soft assignments the result is always weighted: parallel edges are added up and an unweighted edge counts 1.
    ``reduce_op`` and ``count_edges`` have no effect.

    Weights ``|w| <= tgp.eps`` are removed. If the largest ``|w|`` of a graph is less than 1, ``tgp.eps`` is multiplied by it,
    so that the result does not depend on the unit of small weights.

    Args:
        block: the graphs ``A``.
        assignment: the assignment ``S`` of their nodes.
        options: options of the contraction, or parameters of a method that contain them; default ``ContractOptions()``. The
            function is thus the ``connect`` of most methods.

    Returns:
        A block with the supernodes of ``assignment`` as nodes.

    Raises:
        InputError: if the assignment belongs to another block.

    Examples:
        >>> from tgp.testing.graphs import path
        >>> pairs = Assignment("hard", np.array([0, 2]), np.array([0, 0, 1, 1], np.int32))
        >>> contract(path(4), pairs).edge_index().tolist()
        [[0, 1], [1, 0]]
    """
    if options is None:
        options = ContractOptions()
    elif not isinstance(options, ContractOptions):
        options = options.contract_options()
    if assignment.soft is not None:
        return _contract_soft(block, assignment, assignment.soft, options)
    cluster = assignment.cluster
    if cluster is None or len(cluster) != block.num_nodes:
        raise InputError(
            f"assignment belongs to another block: expected {block.num_nodes} nodes, "
            f"got {0 if cluster is None else len(cluster)}",
            field="assignment",
        )
    block = _with_counts(block, options)
    tiny, by_graph = _tiny_weights(block)
    indptr, indices, weight = contract_rows(
        *block.arrays(),
        cluster,
        assignment.num_supernodes,
        REDUCE_CODES[options.reduce_op],
        options.remove_self_loops,
        tiny,
    )
    coarse = BlockCSR(indptr, indices, None if block.weight is None else weight, assignment.super_ptr)
    return _normalise(_without_tiny(coarse, by_graph), options)


def edge_map(block: BlockCSR, assignment: Assignment, coarse: BlockCSR) -> LongArray:
    """Return the coarse edge to which each edge of a contraction belongs.

    An edge ``u -> v`` belongs to the coarse edge from the supernode of ``u`` to the supernode of ``v``. With it, attributes of the edges
    are pooled by one segment reduction.

    Args:
        block: the graphs.
        assignment: hard or one-hot assignment of their nodes.
        coarse: their contraction, such as the result of :func:`contract`. Its rows may lack edges. The last one of parallel
            coarse edges is found.

    Returns:
        ``[E]`` int64: position of the coarse edge in ``coarse.indices``, -1 if there is none. That is so for edges inside a supernode
        (if they are removed), edges of dropped nodes, and edges whose coarse weight vanished.

    Raises:
        InputError: if the assignment is soft, or if it belongs to other blocks.

    Examples:
        >>> from tgp.testing.graphs import path
        >>> pairs = Assignment("hard", np.array([0, 2]), np.array([0, 0, 1, 1], np.int32))
        >>> block = path(4)
        >>> block.edge_index().tolist()
        [[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]
        >>> edge_map(block, pairs, contract(block, pairs)).tolist()
        [-1, -1, 0, 1, -1, -1]
    """
    cluster = assignment.cluster
    if cluster is None:
        raise InputError(
            "edges of a soft assignment have no map: expected one supernode per node, got a matrix",
            field="assignment",
        )
    if len(cluster) != block.num_nodes or assignment.num_supernodes != coarse.num_nodes:
        raise InputError(
            f"assignment belongs to other blocks: expected {block.num_nodes} nodes and {coarse.num_nodes} supernodes, got "
            f"{len(cluster)} and {assignment.num_supernodes}",
            field="assignment",
        )
    nodes = Groups(cluster.astype(np.int64), coarse.num_nodes, assignment.super_ptr)
    return InputEdges(block.indptr, block.indices).find(nodes, coarse)


def _contract_soft(
    block: BlockCSR, assignment: Assignment, soft: npt.NDArray[np.float32], options: ContractOptions
) -> BlockCSR:
    from tgp.kernels import soft as kernels

    if len(soft) != block.num_nodes or assignment.num_graphs != block.num_graphs:
        raise InputError(
            f"assignment belongs to another block: expected {block.num_nodes} nodes in {block.num_graphs} graphs, "
            f"got {len(soft)} nodes in {assignment.num_graphs} graphs",
            field="assignment",
        )
    tiny, by_graph = _tiny_weights(block)
    indptr, indices, weight = kernels.soft_product(
        block.indptr,
        block.indices,
        block.weights_or_ones(),
        block.node_ptr,
        np.ascontiguousarray(soft, dtype=np.float32),
        tiny,
    )
    coarse = BlockCSR(indptr, indices, weight, assignment.super_ptr)
    return _postprocess(_without_tiny(coarse, by_graph), options, tiny)


def largest_weights(block: BlockCSR) -> FloatArray:
    """Return the largest ``|w|`` of each graph, ``[B]``: 1 if the block is unweighted, 0 for a graph without edges.

    Args:
        block: the graphs.
    """
    if block.weight is None:
        return np.ones(block.num_graphs)
    if block.num_graphs == 1:
        return np.array([_largest(block.weight)])
    out = np.zeros(block.num_graphs)
    ptr = block.edge_ptr
    filled = np.flatnonzero(np.diff(ptr))
    if len(filled):
        # The largest |w| is the largest w or the smallest one, without an array of |w|.
        starts = ptr[:-1][filled]
        highest = np.maximum.reduceat(block.weight, starts)
        out[filled] = np.maximum(highest, -np.minimum.reduceat(block.weight, starts))
    return out


def _largest(weight: FloatArray) -> float:
    """Return the largest ``|w|``, and 0 if there are no weights."""
    return max(float(weight.max()), -float(weight.min())) if len(weight) else 0.0


def postprocess(block: BlockCSR, options: ContractOptions | None = None) -> BlockCSR:
    """Apply the options of a contraction to a coarse block.

    The steps are, in this order: remove self loops, remove weights ``|w| <= tgp.eps``, normalise by degree, normalise
    by the largest weight. A node whose out-weights sum to zero or less has factor 0 in the degree normalisation.

    Args:
        block: the coarse graphs.
        options: options of the contraction; ``reduce_op`` has no effect here.

    Returns:
        A new block, or ``block`` itself if nothing changes.
    """
    return _postprocess(block, options or ContractOptions(), tgp.eps)


def _postprocess(block: BlockCSR, options: ContractOptions, tiny: float) -> BlockCSR:
    from tgp.kernels import contract as kernels

    block = _with_counts(block, options)
    if options.remove_self_loops or block.weight is not None:
        indptr, indices, weight = kernels.filter_entries(*block.arrays(), options.remove_self_loops, tiny)
        block = BlockCSR(indptr, indices, None if block.weight is None else weight, block.node_ptr)
    return _normalise(block, options)


def _tiny_weights(block: BlockCSR) -> tuple[float, FloatArray | None]:
    """Return the threshold of all graphs: ``tgp.eps`` times the largest ``|w|``, but at most ``tgp.eps``.

    If graphs have different thresholds, the result is 0 and the threshold of each graph, ``[B]``.
    """
    weight = block.weight
    if weight is None:
        return tgp.eps, None
    if len(block.node_ptr) == 2:
        highest = _largest(weight)
        return tgp.eps * highest if 0.0 < highest < 1.0 else tgp.eps, None
    largest = largest_weights(block)
    if not ((largest > 0.0) & (largest < 1.0)).any():
        return tgp.eps, None
    return 0.0, tgp.eps * np.minimum(largest, 1.0)


def _without_tiny(block: BlockCSR, tiny: FloatArray | None) -> BlockCSR:
    """Remove the weights ``|w| <= tiny`` of each graph."""
    if tiny is None or block.weight is None:
        return block
    keep = np.abs(block.weight) > np.repeat(tiny, np.diff(block.edge_ptr))
    if keep.all():
        return block
    return BlockCSR(offsets(keep)[block.indptr], block.indices[keep], block.weight[keep], block.node_ptr)


def _normalise(block: BlockCSR, options: ContractOptions) -> BlockCSR:
    from tgp.kernels import contract as kernels

    weight = block.weight
    if options.degree_norm:
        weight = kernels.degree_norm(block.indptr, block.indices, block.weights_or_ones())
    if options.edge_weight_norm:
        weight = kernels.max_norm(block.edge_ptr, block.weights_or_ones() if weight is None else weight)
    return block if weight is block.weight else BlockCSR(block.indptr, block.indices, weight, block.node_ptr)


def _with_counts(block: BlockCSR, options: ContractOptions) -> BlockCSR:
    """Return the block with unit weights if its edges are to be counted."""
    if block.weight is not None or not options.count_edges:
        return block
    return BlockCSR(block.indptr, block.indices, block.weights_or_ones(), block.node_ptr)
