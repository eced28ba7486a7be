"""Online layer, transform, store on disk and store in memory give the same tensors, bit for bit."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tgp.data import PooledBatch, PooledDataset, PreCoarsening
from tgp.poolers import get_pooler

HARD = {"ndp": {}, "graclus": {}, "kmis": {"scorer": "degree"}, "sep": {}}
FIXED = {"nmf": {"k": 3}, "eigen": {"k": 3, "num_modes": 2}}
SIX = HARD | FIXED


@st.composite
def schedules(draw):
    """Draw up to three levels. A method with a fixed number of clusters comes last."""
    names = draw(st.lists(st.sampled_from(sorted(HARD)), max_size=3))
    last = draw(st.sampled_from([None, *FIXED]))
    names = [*names[:2], last] if last else names or ["ndp"]
    return [(name, SIX[name]) for name in names]


@settings(max_examples=20, deadline=None)
@given(
    levels=schedules(),
    seed=st.integers(0, 1000),
    count=st.integers(1, 9),
    units=st.integers(1, 3),
    weighted=st.booleans(),
)
def test_batches_of_mixed_schedules(make_graphs, make_store, same, levels, seed, count, units, weighted):
    graphs = make_graphs(count, seed, weighted=weighted, rich=False, smallest=0)
    dataset = PooledDataset(make_store(graphs, {"h": levels}, seed=seed, units=min(units, count)))
    transform = PreCoarsening(levels, seed=seed)
    ids = np.random.default_rng(seed).integers(0, count, size=count + 2)
    expected = PooledBatch.from_data_list([transform(graphs[i]) for i in ids])
    same(dataset.get_batch(ids.tolist()), expected)
    same(PooledDataset(dataset.reader, in_memory=True).get_batch(ids.tolist()), expected)
    reader = dataset.reader
    same(PooledBatch.from_arrays(reader.gather_graphs(ids), reader.gather_levels(ids, "h")), expected)


def check_layer(out, level, where):
    """Compare the output of a layer with a level of a batch."""
    assert torch.equal(out.edge_index, level.edge_index), where
    assert (out.edge_weight is None) == (level.edge_weight is None), where
    if level.edge_weight is not None:
        assert out.edge_weight.dtype == level.edge_weight.dtype, where
        assert torch.equal(out.edge_weight, level.edge_weight), where
    assert torch.equal(out.batch, level.batch), where
    assert torch.equal(out.so.s.to_dense(), level.so.s.to_dense()), where
    for name in level.so._extra_args:
        assert torch.equal(getattr(out.so, name), getattr(level.so, name)), (where, name)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("alias", list(SIX))
def test_online_layers_equal_the_store(make_graphs, make_store, same, alias, weighted):
    graphs = make_graphs(9, seed=6, weighted=weighted, rich=False)
    levels = [("graclus", {}), (alias, SIX[alias])]
    transform = PreCoarsening(levels, seed=4)
    stored = PooledDataset(make_store(graphs, {"h": levels}, seed=4, units=2)).get_batch(list(range(9)))
    joined = PooledBatch.from_data_list([transform(data) for data in graphs])
    same(stored, joined)
    x, edges, weight, batch = stored.x, stored.edge_index, stored.get("edge_weight"), stored.batch
    for number, (name, options) in enumerate(levels):
        layer = get_pooler(name, seed=4, sparse_output=True, **options)
        out = layer(x=x, adj=edges, edge_weight=weight, batch=batch, level=number)
        check_layer(out, stored.pooled_data[number], f"{name} at level {number + 1}")
        x, edges, weight, batch = out.x, out.edge_index, out.edge_weight, out.batch


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("alias", list(SIX))
def test_an_online_layer_is_the_first_level(make_graphs, make_store, alias, weighted):
    graphs = make_graphs(7, seed=9, weighted=weighted, rich=False)
    dataset = PooledDataset(make_store(graphs, {"h": [(alias, SIX[alias])]}, seed=2))
    batch = dataset.get_batch([6, 0, 3, 3])
    layer = get_pooler(alias, seed=2, sparse_output=True, **SIX[alias])
    out = layer(x=batch.x, adj=batch.edge_index, edge_weight=batch.get("edge_weight"), batch=batch.batch)
    check_layer(out, batch.pooled_data[0], alias)
