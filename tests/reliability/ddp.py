"""Training on two processes that are killed in the middle of an epoch and continue from a checkpoint.

    python -m tests.reliability.ddp --first 0 --count 4

The processes train a small network with ``DistributedDataParallel`` (gloo) on a store. Every few steps the first process
saves the network, the optimizer and the position of the loader. At a random step one process or both are killed. The same
command then continues. The graphs of all steps, in their order, and the parameters at the end must be those of a run that was
not disturbed. Every third case continues with one process: the parameters then differ, the order of the graphs must not.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.reliability.harness import ENVIRONMENT, Figure, scratch

GRAPHS, BATCH, EPOCHS, SAVE_EVERY = 150, 8, 3, 3
PATIENCE = 180.0
KILLED = -signal.SIGKILL


def make_store(path: Path) -> None:
    """Write a store of graphs that know their number."""
    import torch

    import tgp
    from tgp.datasets import load_graphs

    graphs = [data.clone() for data in load_graphs(f"molecules:num_graphs={GRAPHS}")]
    for number, data in enumerate(graphs):
        data.number = torch.tensor([number])
    tgp.coarsen(graphs, "graclus*2", path, progress=False)


def train(store: Path, folder: Path, rank: int, ranks: int, die_at: int, workers: int) -> None:
    """Train one process until the end, or until it kills itself before step ``die_at``."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch_geometric.nn import GraphConv, global_mean_pool

    from tgp.data import PoolDataLoader, PooledDataset
    from tgp.reduce import BaseReduce

    torch.set_num_threads(1)
    torch.manual_seed(0)

    class Net(torch.nn.Module):
        def __init__(self, features: int) -> None:
            super().__init__()
            self.first, self.second = GraphConv(features, 8), GraphConv(8, 8)
            self.head = torch.nn.Linear(8, 2)

        def forward(self, batch):
            x, level = self.first(batch.x, batch.edge_index).relu(), batch.pooled_data[0]
            x, _ = BaseReduce()(x=x, so=level.so)
            x = self.second(x, level.edge_index, level.edge_weight).relu()
            return self.head(global_mean_pool(x, level.batch, batch.num_graphs))

    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting-{os.environ['ATTEMPT']}", rank=rank, world_size=ranks
    )
    dataset = PooledDataset(store)
    network = DistributedDataParallel(Net(dataset.num_features))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    options = {"rank": rank, "world_size": ranks, "num_workers": workers}
    loader = PoolDataLoader(dataset, BATCH, shuffle=True, seed=7, **options)
    checkpoint, step, start = folder / "checkpoint.pt", 0, 0
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        network.load_state_dict(saved["network"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
        step, start = saved["step"], saved["epoch"]
    with open(folder / f"graphs-{os.environ['ATTEMPT']}-{rank}.jsonl", "w") as log:
        for _ in range(start, EPOCHS):
            for batch in loader:
                if step == die_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(network(batch), batch.y).backward()
                optimizer.step()
                log.write(json.dumps([step, batch.number.tolist()]) + "\n")
                log.flush()
                step += 1
                if rank == 0 and step % SAVE_EVERY == 0:
                    state = {"network": network.state_dict(), "optimizer": optimizer.state_dict()}
                    state |= {
                        "loader": loader.state_dict(),
                        "step": step,
                        "epoch": loader.state_dict()["epoch"],
                    }
                    torch.save(state, checkpoint.with_suffix(".new"))
                    checkpoint.with_suffix(".new").rename(checkpoint)
    if rank == 0:
        torch.save(network.module.state_dict(), folder / "end.pt")
    dist.barrier()
    # Freeing DDP holds the GIL and joins a thread of gloo that may wait for the GIL: an ordinary end can hang (torch 2.13).
    os._exit(0)


class Attempts:
    """Starts of one training in a directory."""

    def __init__(self, store: Path, folder: Path) -> None:
        self.store, self.folder, self.number = store, folder, 0
        folder.mkdir()

    def run(self, ranks: int, dying: dict[int, int], workers: int = 0) -> list[int]:
        """Start the processes, kill the others when one was killed, and return their exit statuses."""
        self.number += 1
        environment = {**os.environ, **ENVIRONMENT, "ATTEMPT": str(self.number)}
        processes = []
        for rank in range(ranks):
            words = [self.store, self.folder, rank, ranks, dying.get(rank, -1), workers]
            command = [
                sys.executable,
                "-m",
                "tests.reliability.ddp",
                "--train",
                json.dumps(list(map(str, words))),
            ]
            with open(self.folder / f"log-{self.number}-{rank}", "wb") as log:
                processes.append(
                    subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
                )
        deadline = time.monotonic() + PATIENCE
        while any(process.poll() is None for process in processes):
            if any(process.poll() not in (None, 0) for process in processes) or time.monotonic() > deadline:
                for process in processes:  # as torchrun does
                    if process.poll() is None:
                        os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.02)
        return [process.wait() for process in processes]

    def graphs(self) -> list[int]:
        """Return the graphs of all steps in their order. Steps that a later attempt repeated count once."""
        steps: dict[int, list[int]] = {}
        for attempt in range(1, self.number + 1):
            files = sorted(self.folder.glob(f"graphs-{attempt}-*.jsonl"))
            found: dict[int, list[int]] = {}
            for line in (line for file in files for line in file.read_text().splitlines()):
                step, numbers = json.loads(line)
                found.setdefault(step, []).extend(numbers)
            if found:
                steps = {step: numbers for step, numbers in steps.items() if step < min(found)} | found
        return [number for step in sorted(steps) for number in steps[step]]

    def log(self) -> str:
        """Return the end of the output of the last attempt."""
        return "".join(file.read_text()[-400:] for file in sorted(self.folder.glob(f"log-{self.number}-*")))

    def parameters(self) -> dict[str, list[float]]:
        """Return the parameters at the end of the training."""
        import torch

        return {name: value.tolist() for name, value in torch.load(self.folder / "end.pt").items()}


def train_with_kills(first: int, count: int) -> Figure:
    """Kill and continue trainings with consecutive numbers, and compare them with one that was not disturbed."""
    figure = Figure("DDP training, killed and continued")
    with scratch() as name:
        folder = Path(name)
        make_store(folder / "store")
        whole = Attempts(folder / "store", folder / "whole")
        if whole.run(2, {}) != [0, 0]:
            raise RuntimeError(f"an undisturbed training failed: {whole.log()}")
        expected = whole.graphs()
        steps = EPOCHS * -(-GRAPHS // (2 * BATCH))
        figure.expect(sorted(expected) == sorted(list(range(GRAPHS)) * EPOCHS), "an epoch has other graphs")
        for number in range(first, first + count):
            rng, attempts = random.Random(f"ddp-{number}"), Attempts(folder / "store", folder / str(number))
            ranks, dying = 2, rng.choice(([0], [1], [0, 1]))
            for step in sorted(rng.sample(range(1, steps - 1), rng.choice((1, 2)))):
                statuses = attempts.run(2, dict.fromkeys(dying, step), workers=rng.choice((0, 0, 1)))
                figure.expect(KILLED in statuses, f"case {number}: ended with {statuses}: {attempts.log()}")
                figure.tally["kills"] += 1
            if number % 3 == 2:
                ranks = 1
                figure.tally["continued with one process"] += 1
            statuses = attempts.run(ranks, {})
            figure.count += 1
            what = f"case {number}, {dying} killed"
            figure.expect(statuses == [0] * ranks, f"{what}: ended with {statuses}: {attempts.log()}")
            figure.expect(attempts.graphs() == expected, f"{what}: other graphs or another order")
            if ranks == 2 and statuses == [0, 0]:
                same = attempts.parameters() == whole.parameters()
                figure.expect(same, f"{what}: other parameters at the end")
            shutil.rmtree(attempts.folder)
    return figure


def main() -> None:
    """Run the command line and print the figure as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--count", type=int, default=3)
    parser.add_argument("--train", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train:
        store, folder, *numbers = given.train
        train(Path(store), Path(folder), *map(int, numbers))
        return
    figure = train_with_kills(given.first, given.count)
    print(json.dumps(figure.row()))
    sys.exit(bool(figure.problems))


if __name__ == "__main__":
    main()
