"""Training from a store: two stored levels and a trainable pooler in one network; training is stopped and resumed.

python examples/store_training.py --pooler topk,mincut
python examples/store_training.py --dataset MUTAG --root DIR --stored ndp --store pooled/MUTAG --epochs 40

Every network is trained twice: without interruption, and stopped in the middle of an epoch, saved, and resumed.
Baselines: the most common class, and stored levels without a pooler (nopool).
"""

import argparse
import itertools
import tempfile
from pathlib import Path

import torch
from torch.nn import Linear, ModuleList
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GraphConv

from tgp.build import CoarsenConfig, coarsen_dataset
from tgp.data import PoolDataLoader, PooledDataset
from tgp.errors import InputError, TgpError
from tgp.poolers import get_pooler
from tgp.reduce import BaseReduce, GlobalReduce

HIDDEN = 32
OPTIONS = {"k": 4, "ratio": 0.5, "scorer": "degree", "num_modes": 1, "batched": False, "sparse_output": True}


class Net(torch.nn.Module):
    """Network with a convolution on each stored level, a trainable pooler, and a readout."""

    def __init__(self, pooler: str, inputs: int, classes: int, stored: int) -> None:
        super().__init__()
        self.convs = ModuleList(GraphConv(size, HIDDEN) for size in [inputs] + [HIDDEN] * stored)
        self.pooler = get_pooler(pooler, in_channels=HIDDEN, **OPTIONS)
        self.last, self.head = GraphConv(HIDDEN, HIDDEN), Linear(HIDDEN, classes)
        self.reduce, self.readout = BaseReduce(), GlobalReduce("mean")

    def forward(self, data):
        x, size = self.convs[0](data.x, data.edge_index).relu(), data.num_graphs
        for conv, level in zip(self.convs[1:], data.pooled_data, strict=True):
            x, _ = self.reduce(x=x, so=level.so)
            x = conv(x, level.edge_index, level.edge_weight).relu()
        out = self.pooler(x, level.edge_index, level.edge_weight, batch=level.batch, batch_size=size)
        x = self.last(out.x, out.edge_index, out.edge_weight).relu()
        auxiliary = sum(out.get_loss_value()) if out.loss else 0.0
        return self.head(self.readout(x, batch=out.batch, size=size)), auxiliary


def start(dataset: PooledDataset, pooler: str) -> dict:
    """Return network, optimizer and loader. A checkpoint contains their states and the random state of torch."""
    torch.manual_seed(0)
    net = Net(pooler, dataset.num_features, dataset.num_classes, len(dataset.levels))
    own = torch.Generator()  # the loader does not use the random state of the model
    loader = PoolDataLoader(dataset, batch_size=32, shuffle=True, seed=0, generator=own)
    return {"net": net, "optimizer": torch.optim.Adam(net.parameters(), lr=5e-3), "loader": loader}


def train(net: Net, optimizer: torch.optim.Optimizer, loader: PoolDataLoader, batches: int) -> None:
    """Train for a number of batches, which may be more than one epoch."""
    for data in itertools.islice((data for _ in itertools.count() for data in loader), batches):
        optimizer.zero_grad()
        logits, auxiliary = net(data)
        (cross_entropy(logits, data.y.view(-1)) + auxiliary).backward()
        optimizer.step()


def stop_and_resume(dataset: PooledDataset, pooler: str, epochs: int, file: Path) -> Net:
    """Return a network whose training was stopped and resumed; print whether its parameters are the same."""
    uninterrupted = start(dataset, pooler)
    total = epochs * len(uninterrupted["loader"])
    train(**uninterrupted, batches=total)
    stopped, stop = start(dataset, pooler), total // 2 + 1
    train(**stopped, batches=stop)
    states = {name: part.state_dict() for name, part in stopped.items()}
    torch.save({"random": torch.get_rng_state(), **states}, file)
    resumed, saved = start(dataset, pooler), torch.load(file, weights_only=True)
    torch.set_rng_state(saved["random"])
    for name, part in resumed.items():
        part.load_state_dict(saved[name])
    train(**resumed, batches=total - stop)
    same = all(map(torch.equal, uninterrupted["net"].parameters(), resumed["net"].parameters()))
    print(f"{pooler}: stopped at batch {stop} of {total} and resumed, parameters equal: {same}", flush=True)
    return resumed["net"]


def main(argv: list[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dataset", default="molecules", help="a built-in set, a known name, or a path")
    parser.add_argument("--root", type=Path, help="folder of the raw files of a known dataset")
    parser.add_argument("--stored", default="graclus*2", help="schedule of the stored levels")
    parser.add_argument("--pooler", default="topk", help="trainable poolers after them, separated by commas")
    parser.add_argument("--store", type=Path, help="folder of the store; default a temporary folder")
    parser.add_argument("--epochs", type=int, default=15)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        store = options.store or Path(folder) / "store"
        config = CoarsenConfig(options.dataset, options.root, store, (options.stored,), add_degree=True)
        coarsen_dataset(config)  # an existing store is not changed
        torch.manual_seed(0)
        dataset = PooledDataset(store).shuffle()
        if len(dataset) < 10 or (y := dataset[0].y) is None or y.numel() != 1 or y.is_floating_point():
            raise InputError(f"{options.dataset!r} must have ten graphs with a class each", field="dataset")
        seen, test = dataset[:0.8], dataset[0.8:]
        found = {"commonest": float((test.y == seen.y.view(-1).mode().values).float().mean())}
        (data,) = PoolDataLoader(test, batch_size=len(test))
        for name in dict.fromkeys([*options.pooler.split(","), "nopool"]):
            net = stop_and_resume(seen, name, options.epochs, Path(folder) / "checkpoint.pt")
            found[name] = float((net.eval()(data)[0].argmax(-1) == data.y.view(-1)).float().mean())
    print("test accuracy:", ", ".join(f"{name} {accuracy:.1%}" for name, accuracy in found.items()))
    return found


if __name__ == "__main__":
    try:
        main()
    except TgpError as error:
        raise SystemExit(f"Error: {error}" + (f"\nHint: {error.hint}" if error.hint else "")) from None
