"""Write ``written_1_0_2/``: outputs and ``processed`` files of tgp 1.0.2, which must be installed.

python tests/compat/write_1_0_2.py
"""

import pickle
import shutil
import tempfile
from pathlib import Path

import numpy as np
import torch

from tests.compat.test_written import SETS, Rings, ring
from tgp.data import PoolDataLoader, PreCoarsening
from tgp.poolers import get_pooler
from tgp.reduce import BaseReduce, EigenPoolReduce

HERE = Path(__file__).resolve().parent / "written_1_0_2"


def main() -> None:
    HERE.mkdir(exist_ok=True)
    outputs, expected = {}, {}
    for alias in ("topk", "mincut", "ndp", "kmis", "nmf", "eigen", "sep"):
        torch.manual_seed(0)
        pooler = get_pooler(alias, in_channels=2, ratio=0.5, k=2, scorer="degree")
        graph = ring(8)
        with torch.no_grad():
            outputs[alias] = pooler(x=graph.x, adj=graph.edge_index, batch=torch.zeros(8, dtype=torch.long))
    (HERE / "outputs.pkl").write_bytes(pickle.dumps(outputs))
    for name, levels in SETS.items():
        root = tempfile.mkdtemp()
        dataset = Rings(root, PreCoarsening(levels))
        shutil.copy(Path(root) / "processed" / "data.pt", HERE / f"{name}.pt")
        batch = next(iter(PoolDataLoader(dataset, batch_size=3)))
        x = batch.x
        for number, level in enumerate(batch.pooled_data):
            reducer = EigenPoolReduce() if levels[number][0] == "eigen" else BaseReduce()
            x, _ = reducer(x, level.so, batch=level.so.batch if level.so.batch is not None else None)
            expected[f"{name}_{number}"] = x.numpy()
            expected[f"{name}_{number}_edges"] = level.edge_index.numpy()
    np.savez(HERE / "expected.npz", **expected)


if __name__ == "__main__":
    main()
