"""Objects and ``processed`` folders written by tgp 1.0.2 can be read with PyG's loader and used."""

import pickle
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, InMemoryDataset

FOLDER = Path(__file__).resolve().parent / "written_1_0_2"
SETS = {
    "ndp_kmis": [("ndp", None), ("kmis", {"scorer": "degree"})],
    "eigen_nmf": [("eigen", {"k": 2}), ("nmf", {"k": 2})],
}


def ring(n):
    node = torch.arange(n)
    edges = torch.stack([torch.cat([node, (node + 1) % n]), torch.cat([(node + 1) % n, node])])
    return Data(x=torch.arange(2.0 * n).view(n, 2), edge_index=edges, y=torch.tensor([n]))


class Rings(InMemoryDataset):
    def __init__(self, root, pre_transform=None):
        super().__init__(root, pre_transform=pre_transform)
        self.load(self.processed_paths[0])

    processed_file_names = ("data.pt",)

    def process(self):
        self.save([self.pre_transform(ring(n)) for n in (4, 6, 8)], self.processed_paths[0])


@pytest.mark.parametrize("alias", ["topk", "mincut", "ndp", "kmis", "nmf", "eigen", "sep"])
def test_pickled_outputs_load(alias):
    from tgp.poolers import get_pooler
    from tgp.src import PoolingOutput

    out = pickle.loads((FOLDER / "outputs.pkl").read_bytes())[alias]
    assert type(out) is PoolingOutput and out.so.num_nodes == 8
    data = out.as_data()
    assert data.num_nodes == len(data.x.flatten(0, -2))
    pooler = get_pooler(alias, in_channels=2, ratio=0.5, k=2, scorer="degree")
    if alias != "eigen":
        x, _ = pooler.reducer(ring(8).x, out.so)
        torch.testing.assert_close(x.flatten(0, -2), out.x.flatten(0, -2))
    lifted = pooler(x=out.x, so=out.so, lifting=True)
    assert lifted.size(-2) == 8
    again = pickle.loads(pickle.dumps(out))
    torch.testing.assert_close(again.x, out.x)
    assert repr(again) == repr(out)
    assert len(list(out)) == 7 and out.has_loss == (alias == "mincut")


@pytest.mark.parametrize("name", list(SETS))
@pytest.mark.parametrize("workers", [0, 1])
def test_processed_folders_load(name, workers, tmp_path):
    from tgp.data import PoolDataLoader
    from tgp.reduce import BaseReduce, EigenPoolReduce

    (tmp_path / "processed").mkdir()
    shutil.copy(FOLDER / f"{name}.pt", tmp_path / "processed" / "data.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyG warns that it reads the file with its old loader
        dataset = Rings(str(tmp_path))
    expected = np.load(FOLDER / "expected.npz")
    batch = next(iter(PoolDataLoader(dataset, batch_size=3, num_workers=workers)))
    x = batch.x
    for number, level in enumerate(batch.pooled_data):
        reducer = EigenPoolReduce() if SETS[name][number][0] == "eigen" else BaseReduce()
        x, _ = reducer(x, level.so)
        np.testing.assert_allclose(x.numpy(), expected[f"{name}_{number}"], rtol=1e-5, atol=1e-5)
        assert level.edge_index.tolist() == expected[f"{name}_{number}_edges"].tolist()
        assert level.num_graphs == 3
    one = batch.get_example(1)
    assert [level.num_nodes for level in one.pooled_data] == [
        level.num_nodes for level in dataset[1].pooled_data
    ]
