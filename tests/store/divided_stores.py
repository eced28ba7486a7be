"""Stores of one graph whose arrays are divided over several files, and the same stores in one file."""

from dataclasses import replace

import numpy as np

from tgp.ragged import GraphTable
from tgp.store import HierarchySpec, StoreSpec, StoreWriter, data_digest
from tgp.testing.stores import halving, random_hierarchy, random_level_fields, random_table

PARAMS = {"connect_red_op": "sum", "remove_self_loops": True, "degree_norm": False, "edge_weight_norm": False}


def sorted_table(seed=0, nodes=60, **options):
    """Return one graph whose edges are sorted by source and target."""
    table = random_table(1, seed=seed, min_nodes=nodes, max_nodes=nodes, **options)
    index = table.fields["edge_index"].values
    order = np.lexsort((index[1], index[0]))
    fields = dict(table.fields)
    for name in {"edge_index", "edge_weight"} & fields.keys():
        fields[name] = replace(fields[name], values=np.ascontiguousarray(fields[name].values[..., order]))
    return GraphTable(table.node_ptr, fields)


def halved(table, levels=3, seed=0, fields=True):
    """Return a contraction in which two nodes form a supernode, as specification and levels."""
    spec = HierarchySpec("h", [{"method": "halve", "params": dict(PARAMS)}] * levels, seed)
    hierarchy = halving(table, levels)
    if not fields:
        return spec, hierarchy
    return replace(spec, engine=1, metrics=False, carry="auto"), random_level_fields(hierarchy, seed)


def random_kinds(table, kinds=("hard", "onehot", "soft"), seed=0):
    """Return random levels, as specification and levels."""
    spec = HierarchySpec("h", [{"method": f"any-{kind}", "params": {}} for kind in kinds], seed)
    return spec, random_hierarchy(table.node_ptr, kinds, seed)


def open_writer(path, table, spec, shard_edges):
    """Return a writer of a store of one graph."""
    whole = StoreSpec(
        {"name": "toy"}, data_digest(table), 1, (0, 1), "fast", (spec,), shard_edges=shard_edges
    )
    return StoreWriter.open(path, whole)


def write_one(path, table, spec, hierarchy, shard_edges=None, writer=None):
    """Write a store of one graph."""
    writer = writer or open_writer(path, table, spec, shard_edges)
    for task in writer.pending():
        if task.part == "graphs":
            writer.write_graphs(0, table)
        else:
            writer.write_hierarchy(0, "h", hierarchy, metrics={"0/cut": np.array([0.5])})
    writer.publish()
    return path
