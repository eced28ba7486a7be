"""Levels of a heterogeneous graph: pool and lift per type, compared with the same network without levels.

python examples/hetero_levels.py --levels 'graclus*2'
python examples/hetero_levels.py --levels 'graclus*3' --films 960 --labels 0.1

Films, actors and directors belong to hidden communities, and most of their relations stay inside. The label of a film is its
community. Few films have a known label, and features are noisy. The data was made for levels: supernodes average the noise
of similar nodes. The baseline is the same network with the same parameters on `nopool` levels. The gain differs by graph.
"""

import argparse

import torch
from torch.nn import Linear, ModuleDict, ModuleList
from torch.nn.functional import cross_entropy
from torch_geometric.data import HeteroData
from torch_geometric.nn import HeteroConv, SAGEConv

from tgp.data import PreCoarsening
from tgp.errors import InputError, TgpError
from tgp.lift import BaseLift
from tgp.reduce import BaseReduce

HIDDEN, CLASSES, NOISE, INSIDE = 16, 4, 1.5, 0.8


def make_graph(num_films: int, labels: float, seed: int) -> HeteroData:
    """Return films with three actors and one director each; `labels` is the share of films with a known label."""
    draw = torch.Generator().manual_seed(seed)
    data, num_films = HeteroData(), num_films // 16 * 16  # as many of each community
    for name, share in (("film", 1), ("actor", 1), ("director", 4)):
        centre = torch.eye(CLASSES).repeat(num_films // share // CLASSES, 1)  # the community: index % CLASSES
        data[name].x = centre + NOISE * torch.randn(centre.shape, generator=draw)
    for name, relation, number in (("actor", "plays", 3), ("director", "directs", 1)):
        films = torch.arange(num_films).repeat(number)
        inside = torch.rand(films.shape, generator=draw) < INSIDE
        people = torch.randint(data[name].num_nodes, films.shape, generator=draw)
        people = torch.where(inside, people - people % CLASSES + films % CLASSES, people)
        data[name, relation, "film"].edge_index = torch.stack([people, films])
        data["film", f"{relation}_of", name].edge_index = torch.stack([films, people])
    data["film"].y = torch.arange(num_films) % CLASSES
    data["film"].train_mask = torch.randperm(num_films, generator=draw) < labels * num_films
    return data


class Block(HeteroConv):
    def __init__(self, data: HeteroData) -> None:
        super().__init__({relation: SAGEConv(HIDDEN, HIDDEN) for relation in data.edge_types}, aggr="mean")

    def forward(self, xs, graph):
        return {name: x.relu() + xs[name] for name, x in super().forward(xs, graph.edge_index_dict).items()}


class Net(torch.nn.Module):
    def __init__(self, data: HeteroData) -> None:
        super().__init__()
        self.encode = ModuleDict({name: Linear(CLASSES, HIDDEN) for name in data.node_types})
        self.down = ModuleList(Block(data) for _ in [data, *data.pooled_data])
        self.up = ModuleList(Block(data) for _ in data.pooled_data)
        self.reduce, self.lift, self.head = BaseReduce("mean"), BaseLift(), Linear(HIDDEN, CLASSES)

    def forward(self, data):
        """Return the logits of the films of all levels, the finest first."""
        graphs = [data, *data.pooled_data]
        found = [self.down[0]({name: self.encode[name](x) for name, x in data.x_dict.items()}, data)]
        for conv, level in zip(self.down[1:], graphs[1:], strict=True):
            pooled = {name: self.reduce(x=x, so=level[name].so)[0] for name, x in found[-1].items()}
            found.append(conv(pooled, level))
        for i in reversed(range(len(self.up))):
            lifted = {name: self.lift(x, so=graphs[i + 1][name].so) for name, x in found[i + 1].items()}
            found[i] = self.up[i]({name: x + lifted[name] for name, x in found[i].items()}, graphs[i])
        return [self.head(xs["film"]) for xs in found]


def train(data: HeteroData, epochs: int, seed: int) -> float:
    """Return the accuracy on films without a known label after the last epoch."""
    torch.manual_seed(seed)
    net, mask = Net(data), data["film"].train_mask
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2, weight_decay=5e-3)
    for _ in range(epochs):
        logits = net(data)
        loss = cross_entropy(logits[0][mask], data["film"].y[mask])
        for level, coarse in zip(data.pooled_data, logits[1:], strict=True):  # -1: no training members
            loss = loss + cross_entropy(coarse, level["film"].y_train, ignore_index=-1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float((net(data)[0].argmax(-1) == data["film"].y)[~mask].float().mean())


def main(argv: list[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--levels", default="graclus*2", help="schedule of levels")
    parser.add_argument("--labels", type=float, default=0.05, help="share of films with a known label")
    for name, value in (("films", 2000), ("epochs", 60), ("seeds", 5)):
        parser.add_argument(f"--{name}", type=int, default=value, help=f"number of {name}")
    options = parser.parse_args(argv)
    if options.films < 40 or not 0 < options.labels <= 0.5 or options.seeds < 1:
        raise InputError("Too few data: expected 40 films, 1 seed or more, labels up to 0.5", field="films")
    found: dict[str, list[float]] = {"guess": [1 / CLASSES], options.levels: [], "no levels": []}
    for seed in range(options.seeds):
        data = make_graph(options.films, options.labels, seed)
        graph = PreCoarsening(options.levels, carry="auto")(data.clone())
        plain = PreCoarsening(f"nopool*{len(graph.pooled_data)}", carry="auto")(data)
        found[options.levels].append(train(graph, options.epochs, seed))
        found["no levels"].append(train(plain, options.epochs, seed))
    for name in graph.node_types:
        print(f"{name}s:", *(one[name].num_nodes for one in [graph, *graph.pooled_data]))
    print(f"{'levels':12} {'accuracy':>8}  of each graph")
    for name, values in found.items():
        print(f"{name:12} {sum(values) / len(values):8.1%}  {', '.join(f'{one:.1%}' for one in values)}")
    return {name: sum(values) / len(values) for name, values in found.items()}


if __name__ == "__main__":
    try:
        main()
    except TgpError as error:
        raise SystemExit(f"Error: {error}" + (f"\nHint: {error.hint}" if error.hint else "")) from None
