"""From nothing to a trained hierarchical GNN: coarsen, inspect, train. Runs offline in under a minute.

python examples/demo.py
python examples/demo.py --pooler ndp,ndp --epochs 30

The labels of the built-in molecules show on coarser levels; chance is 50 %. examples/custom_pooler.py has a table with
a network that does not pool. The exit status is 0 if more than 75 % of the test graphs are right.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

HIDDEN = 32


def run(*arguments: str) -> None:
    """Run a ``tgp`` command and show it as a user would type it."""
    print(f"\n$ tgp {' '.join(arguments)}", flush=True)
    subprocess.run([sys.executable, "-m", "tgp_cli.main", *arguments], check=True)


def train(store: Path, epochs: int) -> float:
    """Train on 80 % of the stored graphs, return the accuracy on the rest."""
    import torch
    from torch_geometric.nn import GraphConv

    from tgp.data import PoolDataLoader, PooledDataset
    from tgp.reduce import BaseReduce, GlobalReduce

    class HierarchicalGNN(torch.nn.Module):
        def __init__(self, num_features: int, num_classes: int, depth: int) -> None:
            super().__init__()
            sizes = [num_features] + [HIDDEN] * depth
            self.convs = torch.nn.ModuleList(GraphConv(size, HIDDEN) for size in sizes)
            self.reduce, self.readout = BaseReduce(), GlobalReduce("mean")
            self.head = torch.nn.Linear(HIDDEN, num_classes)

        def forward(self, data):
            x = self.convs[0](data.x, data.edge_index).relu()
            for conv, level in zip(self.convs[1:], data.pooled_data, strict=True):
                x, _ = self.reduce(x=x, so=level.so)
                x = conv(x, level.edge_index, level.edge_weight).relu()
            return self.head(self.readout(x, batch=data.pooled_data[-1].batch))

    torch.manual_seed(0)
    dataset = PooledDataset(store).shuffle()
    cut = int(0.8 * len(dataset))
    train_loader = PoolDataLoader(dataset[:cut], batch_size=32, shuffle=True)
    test_loader = PoolDataLoader(dataset[cut:], batch_size=128)

    model = HierarchicalGNN(dataset.num_features, dataset.num_classes, depth=len(dataset[0].pooled_data))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(1, epochs + 1):
        model.train()
        for data in train_loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(data), data.y.view(-1)).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            hits = sum(int((model(data).argmax(-1) == data.y.view(-1)).sum()) for data in test_loader)
        accuracy = hits / len(dataset[cut:])
        if epoch % 3 == 0 or epoch == 1:
            print(f"epoch {epoch:2d}   test accuracy {accuracy:.1%}", flush=True)
    return accuracy


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pooler", default="graclus*2", help="schedule of the levels")
    parser.add_argument("--epochs", type=int, default=15)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "molecules"
        try:
            run("coarsen", "--pooler", options.pooler, "--out", str(store))
            run("inspect", str(store))
        except subprocess.CalledProcessError as error:  # the command has said why
            return error.returncode
        print("\nTraining a hierarchical GNN from the store")
        accuracy = train(store, options.epochs)
    print(f"\nTest accuracy {accuracy:.1%} (chance 50 %)")
    return 0 if accuracy > 0.75 else 1


if __name__ == "__main__":
    sys.exit(main())
