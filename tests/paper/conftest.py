"""Graphs for the listings of the article."""

import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Batch, Data
from torch_geometric.utils import stochastic_blockmodel_graph

from tgp.datasets import load_graphs


@pytest.fixture(autouse=True)
def seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


@pytest.fixture
def batch():
    return Batch.from_data_list(load_graphs("molecules:num_graphs=6"))


@pytest.fixture
def communities():
    """Return five groups of 40 nodes with noisy features and many edges inside each group."""
    joined = torch.full((5, 5), 0.01).fill_diagonal_(0.3)
    y = torch.arange(5).repeat_interleave(40)
    x = F.one_hot(y).float() + torch.randn(200, 5)
    return Data(x=x, y=y, edge_index=stochastic_blockmodel_graph([40] * 5, joined))
