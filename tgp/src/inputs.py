"""Read and check the arguments of one forward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tgp.connect.edge_attributes import DENSE_REDUCTIONS, check_edge_attributes
from tgp.errors import InputError, UnknownNameError
from tgp.imports import is_sparsetensor
from tgp.select.base_select import SelectOutput
from tgp.utils.checks import MAX_EMPTY_GRAPHS, check_array_ids
from tgp.utils.ops.connectivity import (
    check_and_filter_edge_weights,
    connectivity_to_edge_index,
    is_dense_adj,
    real_weights,
)
from tgp.utils.ops.reductions import check_reduction
from tgp.utils.signature import foo_signature
from tgp.utils.tracing import on_host
from tgp.utils.user_code import is_library_code

if TYPE_CHECKING:
    from tgp.src.base import SRCPooling

__all__ = ["PoolInputs", "check_assignment", "check_keywords", "read_inputs"]

_IDS = (torch.int64, torch.int32)


class UnknownArgumentError(UnknownNameError, TypeError):
    """A keyword that no stage accepts. Also a ``TypeError``, as Python itself raises."""


class MissingArgumentError(InputError, TypeError, NotImplementedError):
    """An argument that the pooler needs is ``None``."""


class PoolInputs(NamedTuple):
    """Arguments of one forward pass.

    Args:
        x: Node features ``[N, F]``, or padded ``[B, N, F]``.
        adj: Connectivity.
        edge_weight: Weights of the edges ``[E]``.
        so: An assignment that replaces selection, or ``None``.
        batch: Graph ids ``[N]``.
        mask: Real nodes ``[B, N]`` of padded input.
        batch_size: Number of graphs, if known.
        num_nodes: ``N``, if known.
        max_num_nodes: Size of the padding, if given.
        edge_attr: Attributes of the edges ``[E]`` or ``[E, D]``, or of a dense adjacency ``[B, N, N]`` or ``[B, N, N, D]``.
        edge_attr_reduce: Their reduction; ``None`` for the default of the pooler.
        extra: Further keywords, for the selector.
        checked: True if the node ids are known to be in range.
    """

    x: Tensor | None = None
    adj: Any = None
    edge_weight: Tensor | None = None
    so: SelectOutput | None = None
    batch: Tensor | None = None
    mask: Tensor | None = None
    batch_size: int | None = None
    num_nodes: int | None = None
    max_num_nodes: int | None = None
    edge_attr: Tensor | None = None
    edge_attr_reduce: str | None = None
    extra: dict[str, Any] = {}
    checked: bool = False

    def replace(self, **changes: Any) -> PoolInputs:
        """Return a copy with other values of some fields. torch 2.6 cannot compile ``_replace`` without graph breaks."""
        return PoolInputs(*[changes.get(name, value) for name, value in zip(_NAMES, self, strict=True)])


_NAMES = PoolInputs._fields
_FIELDS = tuple(name for name in _NAMES if name not in ("extra", "checked"))
_COMMON = (*_FIELDS, "batch_pooled", "attn", "lifting", "validate", "level", "use_cache")
"""Keywords that every pooler accepts, so that all poolers can be called in the same way. A pooler ignores those that it
does not need. They are a tuple because torch 2.6 cannot compile a copy of a global frozenset."""


def read_inputs(pooler: SRCPooling, arguments: dict[str, Any]) -> PoolInputs:
    """Check the arguments of a forward pass once, for all stages.

    Values (node ids, graph ids) are checked only if they can be read for free: not on accelerators and not
    while a graph is traced. The argument ``validate=False`` skips the check of values.

    Args:
        pooler: The pooler that is called.
        arguments: Keywords of the call.

    Returns:
        The arguments with flat weights of a floating-point type and ids of type int64.

    Raises:
        InputError: If an argument has a wrong shape, length or type, or ids out of range.
        UnknownArgumentError: If no stage accepts a keyword.
    """
    validate = arguments.pop("validate", True)
    arguments.pop("batch_pooled", None)
    known = {name: arguments.pop(name) for name in _FIELDS if name in arguments}
    inputs = PoolInputs(**known, extra=arguments)
    check_keywords(pooler, arguments)
    check_assignment(inputs.so)
    if inputs.adj is None and inputs.x is not None and not isinstance(inputs.x, Tensor):
        raise _wrong_type("x", "a Tensor or a graph (Data, Batch)", inputs.x)
    if inputs.adj is None and not pooler._connectivity_optional:
        raise MissingArgumentError(
            f"{type(pooler).__name__} needs a connectivity: edge_index cannot be None, got adj=None. {_CALL}",
            field="adj",
        )
    if inputs.x is None and pooler._needs_features:
        raise MissingArgumentError(
            f"{type(pooler).__name__} needs node features: x is None. {_CALL}", field="x"
        )
    if inputs.so is None and pooler._selection_checks_ids():
        validate = False
    return _checked(pooler, inputs, validate)


_CALL = "Call it as pooler(x=x, adj=edge_index, edge_weight=edge_weight, batch=batch)."


def check_assignment(so: Any) -> None:
    """Check that ``so`` is an assignment.

    Layers of PyG take ``batch`` as their fourth argument. Here the fourth argument is ``so``, so a call that was
    written for PyG passes a tensor.

    Raises:
        InputError: If ``so`` is another object.
    """
    if so is None or isinstance(so, SelectOutput) or hasattr(so, "num_supernodes"):
        return
    shape = f" of shape {list(so.shape)}" if isinstance(so, Tensor) else ""
    raise InputError(
        f"so must be a SelectOutput, got {type(so).__name__}{shape}. "
        f"The fourth argument of a pooler is not batch. {_CALL}",
        field="so",
    )


def check_keywords(pooler: SRCPooling, arguments: dict[str, Any]) -> None:
    """Check that a stage accepts every further keyword of a call.

    Raises:
        UnknownArgumentError: If not; the message contains the nearest valid name.
    """
    unknown = [name for name in arguments if name not in _COMMON]
    if not unknown:
        return
    valid = set(_COMMON)
    kind = f"argument of {type(pooler).__name__}"
    if "edge_index" in arguments:  # the name in PyG. Selectors have it, but a pooler passes it to them itself
        raise UnknownArgumentError(kind, "edge_index", valid, suggest="adj")
    for target in (pooler.forward, pooler.select, pooler.selector):
        if target is None:
            continue
        function = target.forward if isinstance(target, torch.nn.Module) else target
        signature = foo_signature(function)
        if signature.has_kwargs and not is_library_code(function):
            return  # code of the user, which may accept any keyword
        valid.update(signature.args)
    valid.update(getattr(pooler.selector, "needs", ()))
    for name in unknown:
        if name not in valid:
            raise UnknownArgumentError(kind, name, valid)


def _checked(pooler: SRCPooling, inputs: PoolInputs, validate: bool) -> PoolInputs:
    x, adj, batch, size = inputs.x, inputs.adj, inputs.batch, inputs.num_nodes
    _check_types(inputs)
    if inputs.edge_attr is not None:
        _check_edge_attr(inputs, pooler.is_dense)
    if is_dense_adj(adj):
        _check_dense(inputs)
        return inputs if batch is None else inputs.replace(batch=_check_batch(batch, inputs, None, validate))
    if x is not None:
        if size is not None and size != x.size(0):
            raise InputError(
                f"num_nodes must be the number of rows of x: expected {x.size(0)}, got {size}.",
                field="num_nodes",
            )
        size = x.size(0)
    elif size is None and batch is not None:
        size = batch.numel()
    weight, checked = inputs.edge_weight, False
    if adj is not None:
        adj, weight, checked = _check_edges(inputs, size, validate)
    if batch is not None:
        batch = _check_batch(batch, inputs, size, validate)
        if checked and pooler._rejects_crossing_edges:
            _check_crossing(adj, batch)
    return inputs.replace(adj=adj, edge_weight=weight, batch=batch, num_nodes=size, checked=checked)


def _check_types(inputs: PoolInputs) -> None:
    x = inputs.x
    tensors = (x, inputs.edge_weight, inputs.batch, inputs.mask)
    for name, value in zip(("x", "edge_weight", "batch", "mask"), tensors, strict=True):
        if value is not None and not isinstance(value, Tensor):
            raise _wrong_type(name, "a Tensor", value)
    for name in ("batch_size", "num_nodes", "max_num_nodes"):
        value = getattr(inputs, name)
        if value is None:
            continue
        if not isinstance(value, (int, torch.SymInt)) or isinstance(value, bool):
            raise _wrong_type(name, "an int", value)
        if isinstance(value, int) and value < 0:
            raise InputError(f"{name} must not be negative: got {value}.", field=name)
    if x is not None and (x.dim() not in (1, 2, 3) or x.dtype is torch.bool or x.is_complex()):
        raise InputError(
            f"x must have shape [N, F] or [B, N, F] and real numbers: got {list(x.shape)} of {x.dtype}.",
            field="x",
        )


def _check_edge_attr(inputs: PoolInputs, is_dense: bool) -> None:
    """Check edge attributes against the connectivity, and their reduction."""
    adj, attr, how = inputs.adj, inputs.edge_attr, inputs.edge_attr_reduce
    if adj is None:
        raise InputError("edge_attr needs a connectivity: expected edges, got adj=None.", field="edge_attr")
    if is_dense_adj(adj) and isinstance(attr, Tensor) and attr.layout is torch.strided:
        if attr.shape[: adj.dim()] != adj.shape or attr.dim() > adj.dim() + 1:
            raise InputError(
                f"edge_attr must have one row per entry of adj: expected {[*adj.shape]} or {[*adj.shape, 'D']}, got "
                f"{list(attr.shape)}.",
                field="edge_attr",
            )
        rows = attr.reshape(adj.numel(), -1)
        check_edge_attributes(rows, adj.numel(), adj.device)
    else:
        if isinstance(adj, Tensor) and adj.layout is torch.sparse_coo and not adj.is_coalesced():
            raise InputError(
                "edge_attr needs sorted entries: expected a coalesced matrix, got one that is not. Call adj.coalesce().",
                field="edge_attr",
            )
        ids, length = _node_ids(adj, None)
        check_edge_attributes(attr, length, ids.device)
    if how is None:
        return
    if is_dense and how not in DENSE_REDUCTIONS:
        raise UnknownNameError("reduction of edge_attr for a dense assignment", str(how), DENSE_REDUCTIONS)
    assert attr is not None
    check_reduction(how, attr, "edge_attr")


class _TypeInputError(InputError, TypeError, NotImplementedError):
    """An argument of the wrong type."""


def _wrong_type(name: str, expected: str, value: Any) -> InputError:
    return _TypeInputError(f"{name} must be {expected}, got {type(value).__name__}. {_CALL}", field=name)


def _check_dense(inputs: PoolInputs) -> None:
    """Check a dense adjacency, the features and the mask against each other."""
    adj, x, mask = inputs.adj, inputs.x, inputs.mask
    if adj.dim() == 3 and adj.size(1) != adj.size(2):
        raise InputError(f"adj must have shape [B, N, N]: got {list(adj.shape)}.", field="adj")
    if adj.is_complex():
        raise InputError(f"adj must hold real numbers: got {adj.dtype}.", field="adj")
    graphs, size = (1 if adj.dim() == 2 else adj.size(0)), adj.size(-1)
    if x is not None:
        rows = (1, *x.shape[:1]) if x.dim() < 3 else x.shape[:2]
        if tuple(rows) != (graphs, size):
            raise InputError(
                f"x must have a row for every node of adj: expected [{graphs}, {size}, F], got {list(x.shape)}.",
                field="x",
            )
    if mask is not None and tuple(mask.shape) not in ((graphs, size), (size,) if graphs == 1 else ()):
        raise InputError(f"mask must have shape [{graphs}, {size}]: got {list(mask.shape)}.", field="mask")


def _check_edges(inputs: PoolInputs, size: int | None, validate: bool) -> tuple[Any, Tensor | None, bool]:
    """Return a sparse connectivity with ids of int64, its real weights, and True if the ids were checked."""
    adj, weight, x = inputs.adj, inputs.edge_weight, inputs.x
    if x is not None and x.dim() == 3:
        raise InputError(
            f"x must have shape [N, F] with sparse connectivity: got {list(x.shape)}.", field="x"
        )
    ids, length = _node_ids(adj, size)
    if isinstance(adj, Tensor) and adj.layout is torch.strided:
        adj = ids = adj.long()
        if weight is not None:
            weight = _real_weight(weight, x)
            if weight.numel() != length:
                raise InputError(
                    f"edge_weight must have one value per edge: expected {length}, got {weight.numel()}.",
                    field="edge_weight",
                )
    if not validate or size is None or not on_host(ids):
        return adj, weight, False
    check_array_ids(ids.numpy(), size, "edge_index", "Node ids are the rows of x, from 0 on.")
    return adj, weight, True


def _node_ids(adj: Any, size: int | None) -> tuple[Tensor, int]:
    """Return the node ids of a connectivity and its number of edges."""
    if is_sparsetensor(adj):
        row, col, _ = adj.coo()
        _check_matrix_shape(adj.sizes(), size)
        return torch.stack([row, col]), row.numel()
    if not isinstance(adj, Tensor):
        raise _TypeInputError(
            f"adj must be a Tensor or a SparseTensor, got {type(adj).__name__}. {_CALL}", field="adj"
        )
    if adj.layout is torch.strided:
        if adj.dim() != 2 or adj.size(0) != 2:
            raise InputError(
                f"adj must be an edge list [2, E], a sparse matrix, or a dense adjacency for a dense pooler: "
                f"got {list(adj.shape)} of {adj.dtype}.",
                field="adj",
            )
        if adj.dtype not in _IDS:
            raise InputError(f"edge_index must hold int64 ids: got {adj.dtype}.", field="edge_index")
        return adj, adj.size(1)
    _check_matrix_shape(adj.shape, size)
    if adj.layout is torch.sparse_coo:
        return adj._indices(), adj._nnz()
    ids = adj.col_indices() if adj.layout is torch.sparse_csr else adj.row_indices()
    return ids, ids.numel()


def _check_matrix_shape(shape: Any, size: int | None) -> None:
    if len(shape) != 2 or (size is not None and max(shape) > size):
        raise InputError(
            f"adj must be a matrix over the nodes: expected shape [{size}, {size}], got {list(shape)}.",
            field="adj",
        )


def _real_weight(weight: Tensor, x: Tensor | None) -> Tensor:
    """Return flat weights of a floating-point type; integer and bool weights take the type of the features."""
    weight = check_and_filter_edge_weights(weight)
    if weight.is_complex():
        raise InputError(f"edge_weight must hold real numbers: got {weight.dtype}.", field="edge_weight")
    return real_weights(weight, x.dtype if x is not None and x.is_floating_point() else None)


def _check_batch(batch: Tensor, inputs: PoolInputs, size: int | None, validate: bool) -> Tensor:
    """Return checked graph ids as int64."""
    if batch.dim() != 1 or batch.is_floating_point() or batch.is_complex() or batch.dtype is torch.bool:
        raise InputError(
            f"batch must hold one graph id per node, [N] of int64: got {list(batch.shape)} of {batch.dtype}.",
            field="batch",
        )
    if size is not None and batch.numel() != size:
        raise InputError(
            f"batch must have one graph id per node: expected {size}, got {batch.numel()}.", field="batch"
        )
    batch = batch.long()
    if validate and on_host(batch):
        limit = inputs.batch_size
        if limit is None:
            limit = batch.numel() + MAX_EMPTY_GRAPHS
        hint = "Graph ids start at 0; pass batch_size if many graphs are empty."
        check_array_ids(batch.numpy(), limit, "batch", hint)
    return batch


def _check_crossing(adj: Any, batch: Tensor) -> None:
    """Check that every edge stays inside its graph. The ids must be checked and on the host."""
    source, target = connectivity_to_edge_index(adj)[0].numpy()
    graph = batch.numpy()
    from_graph, to_graph = graph.take(source), graph.take(target)  # numpy needs half the time of torch
    if np.array_equal(from_graph, to_graph):
        return
    edge = int((from_graph != to_graph).argmax())
    raise InputError(
        f"an edge must stay inside its graph, got {source[edge]} -> {target[edge]} between graphs "
        f"{from_graph[edge]} and {to_graph[edge]} (edge {edge}).",
        field="edge_index",
    )
