"""The name of the representative nodes comes from the method, in every place that builds a SelectOutput."""

from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

from tgp.data import PoolDataLoader, PreCoarsening
from tgp.engine.methods import METHODS, nopool, representative_name
from tgp.poolers import get_pooler
from tgp.registry import Entry
from tgp.select import SelectOutput

MEDOID = replace(nopool.METHOD, name="medoid", representative="medoids")


@pytest.fixture
def medoid():
    METHODS.register(Entry("medoid", f"{__name__}:MEDOID", ""), loaded=MEDOID)
    yield
    METHODS._drop("medoid")


def _graphs():
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    return [Data(edge_index=edges, num_nodes=size, x=torch.ones(size, 1)) for size in (3, 4)]


def test_methods_name_their_representatives():
    assert representative_name("kmis") == "mis"
    assert representative_name("ndp") is None
    assert representative_name("absent") is None
    assert representative_name(None) is None


def test_the_layer_exposes_the_representatives(medoid):
    data = _graphs()[0]
    so = get_pooler("medoid")(x=data.x, adj=data.edge_index).so
    assert so.medoids.tolist() == [0, 1, 2]


def test_joined_assignments_shift_the_representatives(medoid):
    graphs = [PreCoarsening("medoid")(data) for data in _graphs()]
    batch = next(iter(PoolDataLoader(graphs, batch_size=2)))
    so = batch.pooled_data[0].so
    assert so.medoids.tolist() == [0, 1, 2, 3, 4, 5, 6]
    parts = [data.pooled_data[0].so for data in graphs]
    joined = SelectOutput.cat(parts)
    assert joined.medoids.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert [part.medoids.tolist() for part in joined.split()] == [[0, 1, 2], [0, 1, 2, 3]]
