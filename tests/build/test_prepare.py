"""Estimates of size before a run."""

from functools import partial

import numpy as np
import pytest

from tgp.build import CoarsenConfig, coarsen_dataset, plan_run
from tgp.build.estimates import _measure_graphs, attribute_bytes
from tgp.ragged import Field, GraphTable


@pytest.mark.parametrize("profile", ["fast", "small"])
@pytest.mark.parametrize(
    ("dataset", "poolers"),
    [
        ("molecules:num_graphs=400", ("graclus*3",)),
        ("molecules:num_graphs=100", ("ndp*2", "nmf:k=6", "eigen:k=4")),
        ("grid:num_graphs=1:num_nodes=5000", ("kmis*2", "sep*2")),
    ],
)
def test_estimated_bytes_are_correct_within_a_factor_of_two(tmp_path, dataset, poolers, profile):
    config = CoarsenConfig(dataset, poolers=poolers, out=tmp_path / "s", profile=profile)
    planned, done = plan_run(config), coarsen_dataset(config)
    assert done.bytes / 2 <= planned.estimated_bytes <= 2 * done.bytes
    assert planned.num_units == done.num_units and planned.pending == done.units_done


def test_time_and_memory_of_a_plan_are_bounds(tmp_path):
    """They do not shrink with the number of shards, and do not exist for files that are already there."""
    make = partial(CoarsenConfig, "molecules:num_graphs=40", poolers=("graclus*2",), out=tmp_path / "s")
    one, many = plan_run(make()), plan_run(make(shard_size=2000))
    assert one.at_most and many.at_most and many.num_units > one.num_units
    assert one.estimated_seconds == pytest.approx(many.estimated_seconds) and one.estimated_seconds > 0
    assert one.peak_memory >= many.peak_memory > 0
    coarsen_dataset(make())
    assert plan_run(make()).estimated_seconds == 0


def test_sizes_of_a_table():
    edges = np.array([[0, 0, 1, 2, 0], [1, 2, 0, 0, 0]])
    fields = {
        "edge_index": Field("edge_index", edges, np.array([0, 4, 4, 5]), axis=-1, shifted=True),
        "edge_weight": Field("edge_weight", np.array([1.0, 1, 1, 1, -1]), np.array([0, 4, 4, 5])),
    }
    sizes = _measure_graphs(GraphTable(np.array([0, 3, 3, 4]), fields))
    assert sizes.nodes.tolist() == [3, 0, 1] and sizes.edges.tolist() == [4, 0, 1]
    assert sizes.degree.tolist() == [2, 0, 1] and sizes.signed
    del fields["edge_weight"]
    assert not _measure_graphs(GraphTable(np.array([0, 3, 3, 4]), fields)).signed


def test_attribute_bytes_use_the_stored_types():
    node_ptr, edge_ptr = np.array([0, 2, 5]), np.array([0, 1, 3])
    fields = {
        "edge_index": Field("edge_index", np.zeros((2, 3), np.int64), edge_ptr, axis=-1, shifted=True),
        "x": Field("x", np.zeros((5, 3), np.float32), node_ptr),  # 12 bytes a node
        "z": Field("z", np.array([1, 2, 3, 4, 300]), node_ptr),  # 2 bytes a node
        "y": Field("y", np.array([-1, 1]), np.arange(3)),  # 1 byte a graph
        "own": Field("own", np.zeros((4, 2), bool), np.array([0, 4, 4])),  # 2 bytes a row, 4 for an offset
    }
    assert attribute_bytes(GraphTable(node_ptr, fields)).tolist() == [2 * 14 + 1 + 8 + 4, 3 * 14 + 1 + 4]
