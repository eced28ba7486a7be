"""Coarsen, inspect, train a hierarchical GNN, report. Runs offline in less than a minute.

python examples/demo.py
python examples/demo.py --pooler kmis,kmis --epochs 30

The results are kept in the folder out/demo. The label of a built-in molecule (ribbon or cage) is visible on coarser levels.
The same network without these levels is trained for comparison. The exit status is 0 if the levels improve the accuracy by
more than ten percentage points.
"""

import argparse
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path("out", "demo")  # deleted at the start of every run
STORE = "pooled/molecules"  # below FOLDER; the default location of the built-in set
HIDDEN = 32


def say(text: str) -> None:
    """Print a heading, in bold on a terminal."""
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def run(*arguments: str) -> None:
    """Run a ``tgp`` command and show it as a user would type it."""
    say(f"$ {shlex.join(['tgp', *arguments])}")
    subprocess.run([sys.executable, "-m", "tgp_cli.main", *arguments], check=True, cwd=FOLDER)


def train(pool: bool, epochs: int) -> float:
    """Train on 80 % of the stored graphs and return the accuracy on the other graphs."""
    import torch  # imported here, so that the first command starts without delay
    from torch_geometric.nn import GraphConv

    from tgp.data import PoolDataLoader, PooledDataset
    from tgp.reduce import BaseReduce, GlobalReduce

    class HierarchicalGNN(torch.nn.Module):
        def __init__(self, num_features: int, num_classes: int, num_levels: int) -> None:
            super().__init__()
            sizes = [num_features] + [HIDDEN] * num_levels
            self.convs = torch.nn.ModuleList(GraphConv(size, HIDDEN) for size in sizes)
            self.reduce, self.readout = BaseReduce(), GlobalReduce("mean")
            self.head = torch.nn.Linear(HIDDEN, num_classes)

        def forward(self, data):
            graph = data
            x = self.convs[0](data.x, data.edge_index).relu()
            for conv, level in zip(self.convs[1:], data.pooled_data, strict=True):
                if pool:  # otherwise all convolutions use the input graphs
                    graph = level
                    x, _ = self.reduce(x=x, so=level.so)
                x = conv(x, graph.edge_index, graph.edge_weight).relu()
            return self.head(self.readout(x, batch=graph.batch))

    torch.manual_seed(0)
    dataset = PooledDataset(FOLDER / STORE).shuffle()
    train_loader = PoolDataLoader(dataset[:0.8], batch_size=32, shuffle=True)
    test_loader = PoolDataLoader(dataset[0.8:], batch_size=128)

    model = HierarchicalGNN(dataset.num_features, dataset.num_classes, len(dataset.levels))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(1, epochs + 1):
        model.train()
        for data in train_loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(data), data.y).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            hits = sum(int((model(data).argmax(-1) == data.y).sum()) for data in test_loader)
        accuracy = hits / len(test_loader.dataset)
        if epoch % 5 == 0 or epoch == epochs:
            print(f"epoch {epoch:2d}   test accuracy {accuracy:.1%}", flush=True)
    return accuracy


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pooler", default="graclus*2", help="schedule of the levels")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--install-seconds", type=int, help="shown beside the other times")
    options = parser.parse_args(argv)
    if options.epochs < 1:
        parser.error(f"--epochs must be at least 1, got {options.epochs}")
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    started = time.perf_counter()
    try:
        run("warmup", "--pooler", options.pooler)
        compiled = time.perf_counter()
        run("coarsen", "--pooler", options.pooler)
        run("inspect", STORE)
        say("Train a hierarchical GNN from the store")
        pooled = train(True, options.epochs)
        say("Train the same network without the levels")
        flat = train(False, options.epochs)
        run("report", STORE, "-o", "report.html")
    except subprocess.CalledProcessError as error:  # the command has printed the reason
        return error.returncode
    say(f"Test accuracy {pooled:.1%} with pooled levels, {flat:.1%} without (chance 50 %)")
    print(f"Open {FOLDER / 'report.html'} in a browser to see graphs and their levels")
    shares = [f"compiling {compiled - started:.0f} s", f"running {time.perf_counter() - compiled:.0f} s"]
    if options.install_seconds is not None:
        shares.insert(0, f"installing {options.install_seconds} s")
    print(f"Time: {', '.join(shares)}. A second run neither installs nor compiles")
    return 0 if pooled > flat + 0.1 else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
