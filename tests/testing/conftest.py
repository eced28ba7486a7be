"""A package outside of tgp that provides poolers and level methods through entry points."""

import pytest

POOLERS = '''
"""Poolers of another package."""

from tgp.poolers import TopkPooling
from tgp.src.mlp import MLPPooling


class NormPooling(TopkPooling):
    """Top-k by the projection, see `"A paper" <https://example.org/norm>`_.

    It has a required argument that the checks cannot know.
    """

    def __init__(self, in_channels, temperature, ratio=0.5):
        super().__init__(in_channels, ratio=ratio, multiplier=temperature)


class BrokenPooling(MLPPooling):
    """A dense pooler whose loss in flat mode is 7 times too large."""

    def compute_loss(self, adj, S, *args, **kwargs):
        return {"size": S.sum() / S.size(-1)}

    def compute_sparse_loss(self, edge_index, edge_weight, S, *args, **kwargs):
        return {"size": 7 * S.sum() / S.size(-1)}
'''

METHODS = '''
"""Level methods of another package."""

from dataclasses import dataclass

import numpy as np

from tgp.engine.contraction import ContractOptions, contract
from tgp.engine.level_method import LevelEstimate, LevelMethod
from tgp.engine.methods.nmf import METHOD as NMF
from tgp.ragged import Assignment
from tgp.ragged.offsets import offsets


@dataclass(frozen=True)
class ChunkParams:
    """Parameters of the method ``chunks``."""

    size: int = 2


def assign_chunks(block, params, key):
    counts = np.diff(block.node_ptr)
    super_ptr = offsets(-(-counts // params.size))
    local = np.arange(block.num_nodes) - np.repeat(block.node_ptr[:-1], counts)
    cluster = local // params.size + np.repeat(super_ptr[:-1], counts)
    return Assignment("hard", super_ptr, cluster.astype(np.int32))


def connect_chunks(block, assignment, params):
    return contract(block, assignment, ContractOptions())


CHUNKS = LevelMethod("chunks", ChunkParams, assign_chunks, connect_chunks)
SOFT = LevelMethod("soft", NMF.params, NMF.assign, NMF.connect, estimate=NMF.estimate, dense=True)
'''

METADATA = "Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\nSummary: Poolers of others\n"

ENTRY_POINTS = """
[tgp.poolers]
norm = their_package.poolers:NormPooling
broken = their_package.poolers:BrokenPooling

[tgp.methods]
chunks = their_package.methods:CHUNKS
soft = their_package.methods:SOFT
"""


@pytest.fixture(scope="session")
def package(tmp_path_factory):
    """Return a folder with the package and its metadata, as an installer writes them."""
    site = tmp_path_factory.mktemp("site")
    files = {
        "their_package/__init__.py": '"""Another package."""\n',
        "their_package/poolers.py": POOLERS,
        "their_package/methods.py": METHODS,
        "their_package-1.0.dist-info/METADATA": METADATA,
        "their_package-1.0.dist-info/entry_points.txt": ENTRY_POINTS,
    }
    for name, text in files.items():
        path = site / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return site
