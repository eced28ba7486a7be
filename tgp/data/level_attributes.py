"""Attributes of levels that transforms compute from the attributes of PyG graphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from tgp.data.attributes import as_tensor
from tgp.data.columns import values_by_graph
from tgp.data.convert import graphs_to_table
from tgp.engine.carry import CarryRules, CarryStep, resolve
from tgp.engine.carry_fields import carry_fields
from tgp.errors import InputError, UnknownNameError
from tgp.ragged import Assignment, EdgeList, GraphTable, Hierarchy, Level
from tgp.ragged.offsets import offsets

__all__ = ["CarryPlan", "carry_to_data"]

_NEEDED = {"edge_index", "edge_weight", "num_nodes"}
"""Attributes from which levels are computed."""


def _attributes_table(graphs: Sequence[Data], rules: CarryRules, needs: Iterable[str]) -> GraphTable:
    """Return the attributes of graphs that levels need. With ``auto``, these are all dense tensors."""
    mappings = [graph._store._mapping for graph in graphs]
    names = {name for mapping in mappings for name in mapping}
    chosen = dict(rules.reductions)
    wanted = {name for name, reduction in chosen.items() if reduction != "none"}
    for name in sorted(wanted - names) if graphs else ():
        raise UnknownNameError("attribute", name, names)
    kept = wanted | _NEEDED | set(needs)
    if rules.auto:
        for name in sorted(names - kept - chosen.keys()):
            values = [mapping[name] for mapping in mappings if name in mapping]
            if all(map(_is_dense, values)):
                kept.add(name)
                if len(values) < len(mappings):
                    missing = next(graph for graph, mapping in enumerate(mappings) if name not in mapping)
                    raise InputError(
                        f"{name!r} cannot be carried: expected it on every graph, got none on graph {missing}",
                        field=name,
                        hint=f"leave it out with {name}=none",
                    )
    elif rules:
        kept.add("train_mask")
    return graphs_to_table(graphs, exclude_keys=names - kept)


def _is_dense(value: Any) -> bool:
    return isinstance(value, Tensor) and value.layout is torch.strided


class CarryPlan(NamedTuple):
    """Attributes of graphs, and those that their levels get.

    Args:
        table: Input graphs.
        steps: Attributes of the levels.
    """

    table: GraphTable
    steps: tuple[CarryStep, ...]

    @classmethod
    def make(cls, graphs: Sequence[Data], rules: CarryRules, needs: Iterable[str] = ()) -> CarryPlan:
        """Return the plan for some graphs. Errors in the rules are found here, before levels are computed.

        Args:
            graphs: Graphs.
            rules: Rules.
            needs: Attributes of nodes that methods need.

        Raises:
            UnknownNameError: If an attribute does not exist.
            InputError: If a rule does not fit its attribute.
        """
        table = _attributes_table(graphs, rules, needs)
        # The table has no attributes with the rule ``none``, because they may be of any type.
        names = {name for graph in graphs for name in graph._store._mapping}
        kept = (rule for rule in rules.reductions if rule[1] != "none" or rule[0] not in names)
        return cls(table, resolve(replace(rules, reductions=tuple(kept)), table))

    def apply(self, levels: Sequence[Level]) -> tuple[Level, ...]:
        """Return levels with attributes.

        Args:
            levels: Levels of the graphs, finest first.
        """
        return carry_fields(self.table, Hierarchy(self.table.node_ptr, tuple(levels)), self.steps).levels


def carry_to_data(
    plan: CarryPlan, batch: Tensor | None, levels: Sequence[Data], methods: Sequence[str]
) -> None:
    """Set attributes on levels that poolers computed, in place.

    Args:
        plan: Attributes of one graph, which may be a batch of graphs.
        batch: Graph of each node of a batch.
        levels: Levels, finest first.
        methods: Method of each level that runs on the engine; an empty text for others, whose edges have no attributes.

    Raises:
        InputError: If a node has several supernodes.
    """
    num_nodes = plan.table.num_nodes
    described = []
    for level, method in zip(levels, methods, strict=True):
        described.append(_to_level(level, method, num_nodes, batch))
        batch, num_nodes = level.get("batch"), int(level.num_nodes)
    for level, carried in zip(levels, plan.apply(described), strict=True):
        for name, field in carried.fields.items():
            if field.form == "json":
                level[name] = list(chain.from_iterable(values_by_graph(field)))
            else:
                level[name] = as_tensor(field.values).to(level.so.s.device)


def _to_level(level: Data, method: str, num_nodes: int, batch: Tensor | None) -> Level:
    """Return the arrays of a level that a pooler computed."""
    so, num_supernodes = level.so, int(level.num_nodes)
    graphs = 1 if batch is None or not so.is_dense else num_supernodes // max(so.num_supernodes, 1)
    node_ptr = np.array([0, num_nodes])
    if graphs > 1 and batch is not None:
        node_ptr = offsets(np.bincount(batch.cpu().numpy(), minlength=graphs))
    super_ptr = np.arange(graphs + 1) * (num_supernodes // graphs)
    cluster = so.cluster
    if cluster is not None:
        given = Assignment("hard", super_ptr, cluster.cpu().numpy())
    elif so.is_dense and so.s.numel() == num_nodes * so.num_supernodes:
        soft = so.s.detach().to(torch.float32).reshape(num_nodes, -1).contiguous().cpu().numpy()
        given = Assignment("soft", super_ptr, soft=soft)
    else:
        raise InputError(
            "attributes cannot be carried: expected an assignment of every node to one supernode or by a matrix [N, K], "
            f"got {so}",
            field="carry",
        )
    edges = level.get("edge_index")
    if method and _is_dense(edges) and edges.dim() == 2 and not edges.is_floating_point():
        coarse = EdgeList(np.array([0, edges.size(1)]), edges.cpu().numpy())
    else:
        method, coarse = "", EdgeList(np.zeros(2, np.int64), np.zeros((2, 0), np.int64))
    return Level(method, node_ptr, given, coarse)
