"""Call a pooler with a graph of PyG: pool all of its attributes, and lift."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.utils import cumsum

from tgp.connect.edge_attributes import (
    DENSE_REDUCTIONS,
    attributes_of_edges,
    contract_edge_attributes,
    edge_map,
)
from tgp.connect.kron_conn import KronConnect
from tgp.engine.carry import MAP, CarryRules, CarryStep, resolve_attributes
from tgp.engine.carry_attributes import Attribute, Owner, ValueKind
from tgp.errors import InputError
from tgp.select.base_select import SelectOutput
from tgp.src.carried import Members
from tgp.src.output import PoolingOutput
from tgp.utils.ops.adjacency import dense_to_block_diag
from tgp.utils.ops.batching import build_pooled_batch
from tgp.utils.ops.connectivity import connectivity_to_edge_index, is_dense_adj

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from tgp.src.base import SRCPooling

__all__ = ["is_graph", "lift_graph", "pool_graph"]

_STRUCTURE = ("x", "edge_index", "adj_t", "edge_weight", "batch", "ptr", "so", "loss")
"""Attributes that the pooler itself makes, or that hold the graph."""

_PARTS = ("adj", "edge_weight", "batch", "mask", "edge_attr", "edge_attr_reduce", "batch_pooled")
"""Arguments of a forward pass that a graph already contains."""


def is_graph(value: Any) -> bool:
    """Return True if a value is a ``Data`` or ``Batch``.

    Raises:
        InputError: If it is another graph of PyG.
    """
    from torch_geometric.data import Data
    from torch_geometric.data.data import BaseData

    if not isinstance(value, BaseData):
        return False
    if not isinstance(value, Data):
        raise InputError(
            f"a pooler needs a graph with one type of nodes: expected Data or Batch, got {type(value).__name__}. "
            "Pool one node type, or convert it with to_homogeneous().",
            field="x",
        )
    return True


def pool_graph(pooler: SRCPooling, data: Data, carry: Any = "auto", **arguments: Any) -> Data:
    """Pool a graph or a batch with all of its attributes.

    Args:
        pooler: The pooler that is called.
        data: ``Data`` or ``Batch``.
        carry: Rules for the attributes, see :class:`~tgp.engine.carry.CarryRules`.
        **arguments: Further arguments of the forward pass.

    Returns:
        The pooled graph: ``x`` by the reducer of the pooler, ``edge_index``, ``edge_weight``, the attributes that are carried,
        ``num_members``, ``so``, ``loss`` (a dictionary), and for a batch ``batch`` and ``ptr``. Attributes of the graph are not
        changed.

    Raises:
        InputError: If the graph has no edges, an argument is given twice, or a rule does not fit.
    """
    _check_arguments(arguments)
    edges, weight = _edges(pooler, data)
    facts = _describe(data, 0 if edges is None else edges.size(1))
    rules = CarryRules.parse(carry)
    if "x" in dict(rules.reductions):
        raise InputError(
            "carry has a rule for 'x': the reducer of the pooler makes the features. Pass another reducer to the pooler.",
            field="carry",
        )
    wants_map = dict(rules.reductions).get("edge_index") == MAP
    rules = replace(rules, reductions=tuple(rule for rule in rules.reductions if rule != ("edge_index", MAP)))
    steps = resolve_attributes(rules, facts)
    attributes = {name: data[name] for name, fact in facts.items() if isinstance(data[name], Tensor)}
    request = _EdgeRequest([step for step in steps if step.owner == "edge"], attributes, pooler.is_dense)
    out = pooler.forward(
        x=data.x,
        adj=edges,
        edge_weight=weight,
        batch=data.batch,
        num_nodes=data.num_nodes,
        **({"batch_size": data.num_graphs} if _is_batch(data) else {}),
        **request.arguments(),
        **_needed(pooler, data, arguments),
        **{name: value for name, value in arguments.items() if value is not None},
    )
    if not isinstance(out, PoolingOutput) or out.so is None:
        raise InputError(
            f"{type(pooler).__name__} cannot pool a graph: expected a PoolingOutput with an assignment, got "
            f"{type(out).__name__}. Pass tensors instead.",
            field="x",
        )
    out, kept = _flatten(pooler, out, out.so)
    assert out.so is not None
    fields = request.split(edges, out, dict(rules.reductions))
    members = Members.of(out.so, data.batch, kept)
    nodes = [CarryStep("num_members", "count"), *(step for step in steps if step.owner == "node")]
    given = {**attributes, **({"num_members": data.num_members} if "num_members" in data else {})}
    pooled = {step.name: members.reduce(step, given) for step in nodes}
    rest = {name: data[name] for name, fact in facts.items() if fact.owner == "graph" and not fact.ids}
    result = _assemble(data, out, pooled, fields, rest)
    merges = out.so.is_sparse and out.so.cluster is not None and not isinstance(pooler.connector, KronConnect)
    if wants_map and merges and edges is not None:
        result.edge_map = edge_map(edges, out.so, result.edge_index)
    return result


def _needed(pooler: SRCPooling, data: Data, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of the graph that the selector needs in addition to the features, unless they are given."""
    names = getattr(pooler.selector, "needs", ())
    return {name: data[name] for name in names if name != "x" and name in data and name not in arguments}


def lift_graph(pooler: SRCPooling, data: Data) -> Tensor:
    """Return the features of a pooled graph, lifted to the nodes from which it was pooled.

    Args:
        pooler: The pooler that made the graph.
        data: Result of :func:`pool_graph`. Its ``x`` may have been replaced.

    Returns:
        ``[N, F]`` in the order of the nodes.
    """
    so = data.get("so")
    if not isinstance(so, SelectOutput) or data.x is None:
        raise InputError(
            f"lifting needs a pooled graph: expected Data with x and so, got {list(data.keys())}. "
            "Pass the result of pooler(data).",
            field="x",
        )
    lifted = pooler.forward(x=data.x, so=so, lifting=True, batch=so.batch, batch_pooled=data.batch)
    assert isinstance(lifted, Tensor)
    return so.to_nodes(lifted) if lifted.dim() == 3 else lifted


def _check_arguments(arguments: dict[str, Any]) -> None:
    for name in _PARTS:
        if arguments.get(name) is not None:
            raise InputError(
                f"{name} is given twice: expected only the graph, got the graph and {name}. Set data.{name}, or pass tensors; "
                "rules of attributes are passed as carry.",
                field=name,
            )


def _edges(pooler: SRCPooling, data: Data) -> tuple[Tensor | None, Tensor | None]:
    """Return the edge list of a graph and its weights."""
    if data.edge_index is not None:
        return data.edge_index, data.get("edge_weight")
    if "adj_t" in data:
        index, weight = connectivity_to_edge_index(data.adj_t)
        return index.flip(0), weight
    if pooler._connectivity_optional:
        return None, None
    raise InputError(
        f"a graph has no edges: expected edge_index or adj_t, got {list(data.keys())}.", field="edge_index"
    )


def _is_batch(data: Data) -> bool:
    from torch_geometric.data import Batch

    return isinstance(data, Batch)


def _describe(data: Data, num_edges: int) -> dict[str, Attribute]:
    """Return the facts about the attributes of a graph on which their reduction depends."""
    counts: dict[Owner, int] = {"node": int(data.num_nodes or 0), "edge": num_edges}
    slices = getattr(data, "_slice_dict", {}) if _is_batch(data) else {}
    ptr = {"node": data.get("ptr"), "edge": slices.get("edge_index")}
    found = {}
    for name in list(data.keys()):
        if name in _STRUCTURE or name == "num_nodes":
            continue
        value = data[name]
        if not isinstance(value, Tensor) or value.dim() == 0 or data.__cat_dim__(name, value) != 0:
            is_text = isinstance(value, list) and len(value) == counts["node"] and isinstance(value[0], str)
            ids = isinstance(value, Tensor) and _holds_ids(data, name, value)
            found[name] = Attribute("node" if is_text else "graph", "text" if is_text else "other", ids=ids)
            continue
        own = slices.get(name)
        fits = [owner for owner, number in counts.items() if value.size(0) == number]
        fits = [owner for owner in fits if own is None or ptr[owner] is None or _same(own, ptr[owner])]
        owner: Owner = "graph" if not fits else fits[0]
        if len(fits) > 1 and "edge" in name:
            owner = "edge"
        ambiguous = owner == "node" and counts["node"] == (data.num_graphs if _is_batch(data) else 1)
        rows = f"{value.size(0)} rows for {counts['node']} nodes and {counts['edge']} edges"
        found[name] = Attribute(
            owner, _kind(value), _holds_ids(data, name, value), ambiguous, value.dim(), "" if fits else rows
        )
    return found


def _same(a: Any, b: Any) -> bool:
    return torch.equal(torch.as_tensor(a).cpu(), torch.as_tensor(b).cpu())


def _kind(value: Tensor) -> ValueKind:
    if value.dtype is torch.bool:
        return "bool"
    if value.is_floating_point():
        return "float"
    return "other" if value.is_complex() else "int"


def _holds_ids(data: Data, name: str, value: Tensor) -> bool:
    """Return True if PyG adds an offset to the values of an attribute when it joins graphs."""
    return "batch" in name or bool(torch.as_tensor(data.__inc__(name, value)).any())


def _flatten(pooler: SRCPooling, out: PoolingOutput, so: SelectOutput) -> tuple[PoolingOutput, Tensor | None]:
    """Return the output with flat rows and an edge list, and the supernodes that have a row, ``None`` if all have one."""
    if not so.is_dense:
        return out, None
    mask = so.out_mask
    assert mask is not None  # the assignment is dense
    kept = None
    if is_dense_adj(out.edge_index):
        adj = out.edge_index if out.edge_index.dim() == 3 else out.edge_index.unsqueeze(0)
        attr, x = out.edge_attr, out.x
        if getattr(pooler, "adj_transpose", False):
            adj, attr = adj.mT, None if attr is None else attr.transpose(1, 2)
        batch = build_pooled_batch(adj.size(0), adj.size(1), adj.device)
        x = None if x is None else x.flatten(0, 1) if x.dim() == 3 else x
        index, weight = dense_to_block_diag(adj)
        attr = None if attr is None else attributes_of_edges(attr, index)
        if so.s.dim() == 3:  # padded graphs are lifted from non-empty supernodes
            valid = mask.reshape(-1)
            kept = valid.nonzero().squeeze(1)
            proper = (valid[index[0]] & valid[index[1]]).nonzero().squeeze(1)
            index = (valid.long().cumsum(0) - 1)[index[:, proper]]
            weight, batch, x = weight[proper], batch[kept], None if x is None else x[kept]
            attr = None if attr is None else attr[proper]
        return PoolingOutput(x, index, weight, batch, so, out.loss, attr), kept
    rows = (
        out.x.size(0) if out.x is not None else out.batch.numel() if out.batch is not None else mask.numel()
    )
    if rows != mask.numel():
        kept = mask.reshape(-1).nonzero().squeeze(1)
    return out, kept


class _EdgeRequest:
    """Edge attributes that a pooler must pool in one call.

    The pooler gets all attributes with one reduction, side by side. The others are reduced afterwards, if the pooled edges
    are merged input edges.

    Args:
        steps: Edge attributes and their reductions.
        attributes: Attributes of the input graph.
        is_dense: True if the pooler has dense assignments, for which only ``sum`` and ``mean`` are defined.
    """

    def __init__(self, steps: list[CarryStep], attributes: dict[str, Tensor], is_dense: bool) -> None:
        self.steps, self.attributes = steps, attributes
        able = [step for step in steps if not is_dense or step.reduction in DENSE_REDUCTIONS]
        first = next((step for step in able if step.name == "edge_attr"), able[0] if able else None)
        self.main = [] if first is None else [first]
        if is_dense and first is not None:
            self.main = [step for step in able if step.reduction == first.reduction]

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the forward pass."""
        if not self.main:
            return {}
        values = [self.attributes[step.name] for step in self.main]
        if len(values) > 1:
            values = [torch.cat([_as_columns(value) for value in values], 1)]
        return {
            "edge_attr": values[0].flatten(1) if values[0].dim() > 2 else values[0],
            "edge_attr_reduce": self.main[0].reduction,
        }

    def split(self, edges: Any, out: PoolingOutput, chosen: dict[str, str]) -> dict[str, Tensor]:
        """Return the attributes of the pooled edges by name.

        Args:
            edges: Edge list of the input graph.
            out: Output of the pooler.
            chosen: Reductions that the caller has named. Others may be missing in the result.

        Raises:
            InputError: If a named reduction is not possible for a soft assignment.
        """
        pooled, so = out.edge_attr, out.so
        assert so is not None
        if self.main and pooled is None:
            return {}
        if so.cluster is not None:  # also a one-hot assignment, whose pooled edges are merged input edges
            found = {step.name: self._contract(edges, out, so, step) for step in self.steps}
            return {name: value for name, value in found.items() if value is not None}
        for step in self.steps:
            if step not in self.main and step.name in chosen:
                raise InputError(
                    f"{step.name!r} cannot be reduced by {step.reduction}: expected one of "
                    f"{', '.join(DENSE_REDUCTIONS)}, the same for all edge attributes, because the assignment is soft.",
                    field="carry",
                )
        if pooled is None:
            return {}
        if len(self.main) < 2:
            return {step.name: _shaped(pooled, self.attributes[step.name]) for step in self.main}
        widths = [_as_columns(self.attributes[step.name]).size(1) for step in self.main]
        parts = zip(self.main, pooled.split(widths, 1), strict=True)
        return {step.name: _shaped(part, self.attributes[step.name]) for step, part in parts}

    def _contract(self, edges: Any, out: PoolingOutput, so: SelectOutput, step: CarryStep) -> Tensor | None:
        values = self.attributes[step.name]
        if step in self.main and so.is_sparse and out.edge_attr is not None:
            return _shaped(out.edge_attr, values) if step.reduction != "stats" else out.edge_attr
        # The pooler has shown that it merges edges. Some of them may be reverse edges.
        return contract_edge_attributes(
            edges, so, out.edge_index, values, step.reduction, allow_empty=bool(self.main)
        )


def _as_columns(values: Tensor) -> Tensor:
    return values.float().unsqueeze(1) if values.dim() == 1 else values.float().flatten(1)


def _shaped(rows: Tensor, like: Tensor) -> Tensor:
    """Return rows of columns in the shape of the rows of an attribute."""
    return rows.reshape(rows.size(0), *like.shape[1:])


def _assemble(
    data: Data,
    out: PoolingOutput,
    nodes: dict[str, Tensor],
    edges: dict[str, Tensor],
    rest: dict[str, Any],
) -> Data:
    """Return the pooled graph as ``Data``, or as ``Batch`` if the input is one."""
    from torch_geometric.data import Batch, Data

    count = nodes["num_members"].numel()
    nodes = {**({} if out.x is None else {"x": out.x}), **nodes}
    if out.edge_weight is not None:
        edges = {"edge_weight": out.edge_weight, **edges}
    is_batch, batch = _is_batch(data), None if data.batch is None else out.batch
    pooled = Batch(_base_cls=Data) if is_batch else Data()
    index, ptr = out.edge_index, None
    if batch is not None:
        graphs = data.num_graphs if is_batch else int(batch.max()) + 1 if batch.numel() > 0 else 0
        ptr = cumsum(torch.bincount(batch, minlength=graphs))
        if index is not None and is_batch:
            index, edges, edge_ptr = _sort_by_graph(index, edges, batch, graphs)
    for name, value in {**nodes, "edge_index": index, **edges, **rest}.items():
        pooled[name] = value
    pooled.num_nodes = count
    if batch is not None:
        pooled.batch, pooled.ptr = batch, ptr
    if is_batch and ptr is not None:
        slices = {name: ptr.cpu() for name in nodes}
        incs: dict[str, Any] = dict.fromkeys(slices)
        if index is not None:
            slices |= dict.fromkeys(("edge_index", *edges), edge_ptr.cpu())
            incs |= {**dict.fromkeys(edges), "edge_index": ptr[:-1].cpu()}
        for name in rest.keys() & data._slice_dict.keys():
            slices[name], incs[name] = data._slice_dict[name], data._inc_dict[name]
        pooled._num_graphs, pooled._slice_dict, pooled._inc_dict = graphs, slices, incs
        pooled._store._num_nodes = ptr.diff().tolist()
    pooled.so, pooled.loss = out.so, out.loss or {}
    return pooled


def _sort_by_graph(
    index: Tensor, edges: dict[str, Tensor], batch: Tensor, graphs: int
) -> tuple[Tensor, dict[str, Tensor], Tensor]:
    """Return edges and their attributes grouped by graph, as PyG needs them to separate a batch, and their offsets."""
    graph = batch.index_select(0, index[0])
    if bool((graph[1:] < graph[:-1]).any()):
        order = graph.argsort(stable=True)
        index, edges = index[:, order], {name: value[order] for name, value in edges.items()}
    return index, edges, cumsum(torch.bincount(graph, minlength=graphs))
