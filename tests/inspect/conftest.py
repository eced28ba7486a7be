"""Stores that several tests of this folder read."""

import pytest

from tgp.build import CoarsenConfig, coarsen_dataset

DATASET = "er:num_graphs=30:num_nodes=20:degree=3"


def build(out, *poolers, **values):
    """Coarsen the dataset into ``out``."""
    coarsen_dataset(CoarsenConfig(DATASET, out=out, poolers=poolers, **values))
    return out


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """A store with the hierarchies ``graclus-x2`` and ``nopool`` in several shards."""
    return build(tmp_path_factory.mktemp("s") / "er", "graclus*2", "nopool", shard_size=5_000)
