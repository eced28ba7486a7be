"""Training from a store: two stored levels, then a trainable pooler, in one network; stopped and continued.

python examples/store_training.py --pooler mincut
python examples/store_training.py --dataset MUTAG --root DIR --stored ndp --store pooled/MUTAG

Every run is trained twice: straight through, and stopped in the middle of an epoch, saved, and continued by new objects.
Both end in the same parameters. Baselines: the commonest class, and stored levels without a pooler (nopool).
"""

import argparse
import itertools
import tempfile
from pathlib import Path

import torch
from torch.nn import Linear, ModuleList
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GraphConv

from tgp.data import PoolDataLoader, PooledDataset
from tgp.errors import TgpError
from tgp.pipeline import CoarsenConfig, coarsen_dataset
from tgp.poolers import get_pooler
from tgp.reduce import BaseReduce, GlobalReduce

HIDDEN = 32
OPTIONS = {"k": 4, "ratio": 0.5, "scorer": "degree", "num_modes": 1, "batched": False, "sparse_output": True}


class Net(torch.nn.Module):
    """Convolve on each stored level, then pool once more by what the network has learned, then read out."""

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
        return self.head(self.readout(x, batch=out.batch, size=size)), sum(
            out.get_loss_value()
        ) if out.loss else 0.0


def start(dataset: PooledDataset, pooler: str) -> list:
    """Network, optimizer and loader: what a checkpoint has to bring back, besides torch's random state."""
    torch.manual_seed(0)
    net = Net(pooler, dataset.num_features, dataset.num_classes, len(dataset.levels))
    own = torch.Generator()  # an epoch draws a number when it starts: not from the random state of the model
    loader = PoolDataLoader(dataset, batch_size=32, shuffle=True, seed=0, generator=own)
    return [net, torch.optim.Adam(net.parameters(), lr=5e-3), loader]


def train(net: Net, optimizer: torch.optim.Optimizer, loader: PoolDataLoader, batches: int) -> None:
    """Train for a number of batches, over the ends of epochs."""
    for data in itertools.islice((data for _ in itertools.count() for data in loader), batches):
        optimizer.zero_grad()
        logits, auxiliary = net(data)
        (cross_entropy(logits, data.y.view(-1)) + auxiliary).backward()
        optimizer.step()


def stop_and_continue(dataset: PooledDataset, pooler: str, epochs: int, file: Path) -> tuple[Net, bool]:
    """A network whose training was stopped in the middle of an epoch, and whether that made a difference."""
    straight = start(dataset, pooler)
    total = epochs * len(straight[-1])
    train(*straight, total)
    stopped, stop = start(dataset, pooler), total // 2 + 1
    train(*stopped, stop)
    torch.save({"random": torch.get_rng_state(), "parts": [part.state_dict() for part in stopped]}, file)
    print(f"{pooler}: stopped after batch {stop} of {total} at {stopped[-1].state_dict()}")
    resumed, saved = start(dataset, pooler), torch.load(file)
    torch.set_rng_state(saved["random"])
    for part, state in zip(resumed, saved["parts"], strict=True):
        part.load_state_dict(state)
    train(*resumed, total - stop)
    pairs = zip(straight[0].parameters(), resumed[0].parameters(), strict=True)
    return resumed[0], all(torch.equal(one, other) for one, other in pairs)


def main(argv: list[str] | None = None) -> dict[str, float]:
    """Print test accuracies and return them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dataset", default="molecules", help="a built-in set, a known name, or a path")
    parser.add_argument("--root", type=Path, help="folder of the raw files of a known dataset")
    parser.add_argument("--stored", default="graclus*2", help="schedule of the stored levels")
    parser.add_argument("--pooler", default="topk", help="trainable poolers after them, separated by commas")
    parser.add_argument("--store", type=Path, help="where to keep the store; default a temporary folder")
    parser.add_argument("--epochs", type=int, default=15)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        store = options.store or Path(folder) / "store"
        config = CoarsenConfig(options.dataset, options.root, store, (options.stored,))
        coarsen_dataset(config, measure=False)
        torch.manual_seed(0)
        dataset = PooledDataset(store).shuffle()
        seen, test = dataset[:0.8], dataset[0.8:]
        found = {"commonest": float((test.y == seen.y.mode().values).float().mean())}
        (data,) = PoolDataLoader(test, batch_size=len(test))
        for name in dict.fromkeys([*options.pooler.split(","), "nopool"]):
            net, same = stop_and_continue(seen, name, options.epochs, Path(folder) / "checkpoint.pt")
            print(f"  continued, it is {'the same' if same else 'NOT the same'} as a run without a stop")
            found[name] = float((net.eval()(data)[0].argmax(-1) == data.y).float().mean())
    print("test accuracy:", ", ".join(f"{name} {accuracy:.1%}" for name, accuracy in found.items()))
    return found


if __name__ == "__main__":
    try:
        main()
    except TgpError as error:
        raise SystemExit(f"Error: {error}" + (f"\nHint: {error.hint}" if error.hint else "")) from None
