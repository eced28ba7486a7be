"""Graphs and stores for the tests of loading."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.data.data import BaseData

from tgp.data.convert import graphs_to_arrays
from tgp.engine import METHODS, coarsen_with_failures, parse_schedule
from tgp.select import SelectOutput
from tgp.store import FailureRecord, HierarchySpec, StoreSpec, StoreWriter, data_digest


def build_graphs(count, seed=0, *, weighted=True, rich=True, smallest=1):
    """Return small random graphs with attributes of every form."""
    rng = np.random.default_rng(seed)
    graphs = []
    for number in range(count):
        n = int(rng.integers(smallest, 12))
        pairs = rng.integers(0, max(n, 1), size=(2, int(rng.integers(0, 2 * n + 1)) if n else 0))
        edges = np.concatenate([pairs, pairs[::-1]], axis=1)
        data = Data(
            x=torch.from_numpy(rng.normal(size=(n, 4)).astype(np.float32)),
            edge_index=torch.from_numpy(np.ascontiguousarray(edges)),
            y=torch.tensor([int(rng.integers(0, 3))]),
        )
        data.pos = data.x[:, :2].abs()
        if weighted:
            weight = rng.random(pairs.shape[1]).astype(np.float32) + np.float32(0.1)
            data.edge_weight = torch.from_numpy(np.concatenate([weight, weight]))
        if rich:
            data.edge_attr = torch.from_numpy(rng.integers(0, 9, size=(edges.shape[1], 2)).astype(np.int16))
            data.scalar = torch.tensor(float(number))
            data.count = number
            data.ratio = number / 8  # exact in single precision, which batches have
            data.flag = number % 2 == 0
            data.name = f"graph {number} é"
            data.root_index = torch.tensor([n - 1]) if n else torch.zeros(0, dtype=torch.long)
        graphs.append(data)
    return graphs


def write_store(path, graphs, schedules, *, seed=0, units=1, profile="fast", failed=()):
    """Write a store of the given graphs. ``schedules`` maps names of hierarchies to schedules."""
    table, _ = graphs_to_arrays(graphs)
    bounds = tuple(int(b) for b in np.linspace(0, len(graphs), units + 1).astype(int))
    plans = {name: parse_schedule(schedule) for name, schedule in schedules.items()}
    specs = tuple(HierarchySpec(name, plan.to_json(), seed) for name, plan in plans.items())
    spec = StoreSpec({"name": "toy"}, data_digest(table), len(graphs), bounds, profile, specs)
    writer = StoreWriter.open(path, spec)
    for unit in range(units):
        ids = np.arange(bounds[unit], bounds[unit + 1])
        writer.write_graphs(unit, table.take(ids))
        for name, plan in plans.items():
            block = table.take(ids).to_block(plan.needs)
            hierarchy, failures = coarsen_with_failures(block, plan, seed)
            records = [FailureRecord(f.graph + bounds[unit], f.level, f.reason) for f in failures]
            records += [FailureRecord(g, 0, "made to fail") for g in failed if g in ids]
            writer.write_hierarchy(unit, name, hierarchy, failures=records)
    writer.publish()
    return path


@pytest.fixture(scope="session")
def make_graphs():
    return build_graphs


@pytest.fixture(scope="session")
def make_store(tmp_path_factory):
    def make(graphs, schedules="graclus*3", **options):
        named = {"main": schedules} if isinstance(schedules, str) else schedules
        return write_store(tmp_path_factory.mktemp("store") / "toy", graphs, named, **options)

    return make


def assert_same(left, right, where="graph"):
    """Check that attributes, values, types, levels and assignments with their extras are equal."""
    graphs = [isinstance(value, Data) and not isinstance(value, Batch) for value in (left, right)]
    assert type(left) is type(right) or all(graphs), where
    if isinstance(left, torch.Tensor):
        assert (left.dtype, left.shape, left.device) == (right.dtype, right.shape, right.device), where
        assert torch.equal(left, right), where
    elif isinstance(left, SelectOutput):
        assert (left.num_nodes, left.num_supernodes, left.is_dense) == (
            right.num_nodes,
            right.num_supernodes,
            right.is_dense,
        ), where
        assert left._extra_args == right._extra_args, where
        names = ["batch", *sorted(left._extra_args)]
        names += ["s"] if left.is_dense else ["node_index", "cluster_index", "weight"]
        for name in names:
            assert_same(getattr(left, name), getattr(right, name), f"{where}.so.{name}")
        assert_same(left.s_inv.to_dense(), right.s_inv.to_dense(), f"{where}.so.s_inv")
    elif isinstance(left, BaseData):
        assert set(left.keys()) == set(right.keys()), where
        for key in left.to_dict():
            if not key.startswith("_"):
                assert_same(left[key], right[key], f"{where}.{key}")
        assert left.num_nodes == right.num_nodes, where
    elif isinstance(left, list):
        assert len(left) == len(right), where
        for number, (a, b) in enumerate(zip(left, right, strict=True)):
            assert_same(a, b, f"{where}[{number}]")
    else:
        assert left == right, where


@pytest.fixture(scope="session")
def same():
    return assert_same


@pytest.fixture(scope="session")
def schedules():
    """Return a schedule for every level method that can be imported."""
    options = {
        "nmf": "nmf:k=3,nopool",
        "eigen": "eigen:k=3:num_modes=2,nopool",
        "kmis": "kmis:scorer=degree*2",
    }
    found = []
    for alias in METHODS:
        try:
            METHODS[alias]  # imports the method
        except ModuleNotFoundError:
            continue
        found.append(options.get(alias, f"{alias}*2"))
    return found
