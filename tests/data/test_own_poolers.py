"""Poolers that users write: PreCoarsening, precoarsen, pre_transform, and schedules of the engine."""

import dataclasses
import threading

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, InMemoryDataset

from tgp.connect import SparseConnect
from tgp.data import PoolDataLoader, PreCoarsening, graphs_to_arrays, precoarsen
from tgp.engine import coarsen, parse_schedule
from tgp.engine.coarsening import coarsen_with_failures
from tgp.lift import BaseLift
from tgp.poolers import (
    EigenPooling,
    GraclusPooling,
    NDPPooling,
    NMFPooling,
    NoPool,
    get_pooler,
    pooler_map,
    register_pooler,
)
from tgp.reduce import BaseReduce
from tgp.select import Select, SelectOutput
from tgp.src import BasePrecoarseningMixin, DenseSRCPooling, PoolingOutput, SRCPooling


def ring(n, **fields):
    node = torch.arange(n)
    edges = torch.stack([torch.cat([node, (node + 1) % n]), torch.cat([(node + 1) % n, node])])
    return Data(edge_index=edges, num_nodes=n, x=torch.rand(n, 3), **fields)


class PairSelect(Select):
    """Merge nodes ``size * i, size * i + 1, ...``; takes no keyword that 1.0.2 did not pass."""

    def __init__(self, size=2):
        super().__init__()
        self.size = size

    def forward(self, x=None, edge_index=None, edge_weight=None, *, batch=None, num_nodes=None):
        cluster = torch.arange(num_nodes) // self.size
        return SelectOutput(cluster_index=cluster, num_nodes=num_nodes, batch=batch)


class HalfConnect(SparseConnect):
    """Halve the weights; takes the keywords of 1.0.2 only."""

    def forward(self, edge_index, so, *, edge_weight=None, batch_pooled=None):
        weight = torch.ones(edge_index.size(1)) if edge_weight is None else edge_weight
        return super().forward(edge_index, so, edge_weight=weight / 2, batch_pooled=batch_pooled)


class PairPooling(BasePrecoarseningMixin, SRCPooling):
    def __init__(self, size: int = 2, connector: SparseConnect | None = None):
        if size < 1:
            raise ValueError(f"size must be positive, got {size}")
        super().__init__(PairSelect(size), BaseReduce(), BaseLift(), connector or HalfConnect())


class LevelsOnly(SRCPooling):
    """Defines levels without any mixin."""

    def __init__(self):
        super().__init__(PairSelect(), BaseReduce(), BaseLift(), SparseConnect())

    def multi_level_precoarsening(self, levels, edge_index, edge_weight=None, *, batch=None, num_nodes=None):
        outputs = []
        for _ in range(levels):
            so = self.selector(num_nodes=num_nodes, batch=batch)
            edge_index, edge_weight = self.connector(edge_index, so, edge_weight=edge_weight)
            num_nodes = so.num_supernodes
            batch = torch.zeros(num_nodes, dtype=torch.long)
            outputs.append(PoolingOutput(edge_index=edge_index, edge_weight=edge_weight, so=so, batch=batch))
        return outputs


class OneLevel(SRCPooling):
    """Defines one level without any mixin."""

    def __init__(self):
        super().__init__(PairSelect(), BaseReduce(), BaseLift(), SparseConnect())

    def precoarsening(self, edge_index, edge_weight=None, batch=None, num_nodes=None):
        so = self.selector(num_nodes=num_nodes)
        adj, weight = self.connector(edge_index, so, edge_weight=edge_weight)
        return PoolingOutput(edge_index=adj, edge_weight=weight, so=so)


@pytest.mark.parametrize("pooler", [PairPooling(), LevelsOnly(), OneLevel()], ids=lambda p: type(p).__name__)
def test_poolers_with_and_without_the_mixin(pooler):
    graphs = [ring(8), ring(6)]
    sizes = [[level.num_nodes for level in PreCoarsening([pooler, pooler])(g).pooled_data] for g in graphs]
    assert sizes == [[4, 2], [3, 2]]
    made = precoarsen(graphs, [pooler, "graclus"])
    assert [len(graph.pooled_data) for graph in made] == [2, 2]
    batch = next(iter(PoolDataLoader(made, batch_size=2)))
    x, _ = BaseReduce()(batch.x, batch.pooled_data[0].so)
    assert x.size(0) == 7 and batch.pooled_data[0].edge_index.max() < 7


def test_own_connector_and_own_keywords():
    level = PreCoarsening(PairPooling())(ring(8)).pooled_data[0]
    assert level.edge_weight.tolist() == [0.5] * 8


def test_a_dense_own_pooler():
    class Soft(Select):
        is_dense = True

        def forward(self, edge_index=None, num_nodes=None, **kwargs):
            return SelectOutput(s=torch.full((num_nodes, 2), 0.5))

    class Dense(SRCPooling):
        def __init__(self):
            super().__init__(Soft(), BaseReduce(), BaseLift(), None)

        def precoarsening(self, edge_index, num_nodes):
            adj = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
            return PoolingOutput(edge_index=adj, so=self.selector(num_nodes=num_nodes))

    register_pooler("softly", Dense, dense=True, precoarsenable=True)
    _, block = graphs_to_arrays([ring(4), ring(5)])
    (level,) = coarsen(block, parse_schedule("softly")).levels
    assert level.assignment.kind == "soft" and level.assignment.soft.shape == (9, 2)
    assert level.block.num_edges == 4 and level.block.weight.tolist() == [1.0] * 4


class Once(InMemoryDataset):
    def __init__(self, root, pre_transform=None):
        super().__init__(root, pre_transform=pre_transform)
        self.load(self.processed_paths[0])

    processed_file_names = ("data.pt",)

    def process(self):
        self.save([self.pre_transform(ring(n)) for n in (4, 6, 8)], self.processed_paths[0])


def test_as_pre_transform_of_a_dataset(tmp_path):
    dataset = Once(str(tmp_path), PreCoarsening([PairPooling(), "ndp"]))
    again = Once(str(tmp_path), PreCoarsening([PairPooling(), "ndp"]))
    for found in (dataset, again):
        batch = next(iter(PoolDataLoader(found, batch_size=3)))
        assert [level.num_graphs for level in batch.pooled_data] == [3, 3]
        assert batch.pooled_data[0].so.num_supernodes == 9


# -- stock poolers with a step of the user ----------------------------------------------------------------------


def lonely(so):
    """An assignment that keeps every node."""
    return SelectOutput(cluster_index=torch.arange(so.num_nodes), num_nodes=so.num_nodes, batch=so.batch)


class OwnSelect(GraclusPooling):
    def select(self, **kwargs):
        return lonely(super().select(**kwargs))


class OwnConnect(GraclusPooling):
    def connect(self, **kwargs):
        adj, _ = super().connect(**kwargs)
        return adj, torch.full((adj.size(1),), 7.0)


class OwnOutput(NDPPooling):
    def _precoarsening_from_select_output(self, so, edge_index, edge_weight=None, *, batch=None, **kwargs):
        out = super()._precoarsening_from_select_output(so, edge_index, edge_weight, batch=batch, **kwargs)
        out.edge_weight = torch.full((out.edge_index.size(1),), 7.0)
        return out


class OwnLevel(GraclusPooling):
    def precoarsening(self, *args, **kwargs):
        out = super().precoarsening(*args, **kwargs)
        out.edge_weight = torch.full((out.edge_index.size(1),), 7.0)
        return out


class OwnLevels(NoPool):
    def multi_level_precoarsening(self, levels, **kwargs):
        outputs = super().multi_level_precoarsening(levels, **kwargs)
        for out in outputs:
            out.edge_weight = torch.full((out.edge_index.size(1),), 7.0)
        return outputs


@pytest.mark.parametrize("cls", [OwnConnect, OwnOutput, OwnLevel, OwnLevels])
@pytest.mark.parametrize("many", [False, True])
def test_overridden_steps_of_stock_poolers_are_used(cls, many):
    pooler = cls()
    graphs = [ring(8), ring(12)]
    made = (
        precoarsen(graphs, [pooler, pooler]) if many else [PreCoarsening([pooler, pooler])(g) for g in graphs]
    )
    for graph in made:
        for level in graph.pooled_data:
            assert level.edge_weight.numel() == level.edge_index.size(1) > 0
            assert (level.edge_weight == 7).all()


def test_overridden_select_is_used():
    assert PreCoarsening(OwnSelect())(ring(6)).pooled_data[0].num_nodes == 6
    assert [g.pooled_data[0].num_nodes for g in precoarsen([ring(6), ring(4)], OwnSelect())] == [6, 4]


@pytest.mark.parametrize("name", ["precoarsening", "select", "multi_level_precoarsening"])
def test_methods_replaced_on_an_instance_are_used(name):
    pooler, calls = GraclusPooling(), []
    method = getattr(pooler, name)

    def spy(*args, **kwargs):
        calls.append(name)
        return method(*args, **kwargs)

    setattr(pooler, name, spy)
    assert PreCoarsening(pooler)(ring(8)).pooled_data[0].num_nodes == 4 and calls
    calls.clear()
    precoarsen([ring(8), ring(6)], pooler)
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("cls", "stage"),
    [
        (GraclusPooling, "selector"),
        (GraclusPooling, "connector"),
        (NDPPooling, "selector"),
        (NDPPooling, "connector"),
        (NoPool, "selector"),
    ],
)
def test_hooks_of_stages_fire(stage, cls):
    pooler, calls = cls(), []
    getattr(pooler, stage).register_forward_hook(lambda *args: calls.append(stage))
    PreCoarsening(pooler)(ring(8))
    precoarsen([ring(8), ring(6)], pooler)
    assert len(calls) == 3


@pytest.mark.parametrize("alias", ["nmf", "eigen", "sep", "ndp", "kmis", "graclus"])
def test_hooks_do_not_change_the_levels(alias):
    graph = ring(6)  # fewer nodes than supernodes
    pooler = get_pooler(alias, k=8, scorer="degree")
    expected = PreCoarsening([pooler, pooler])(graph).pooled_data
    pooler.selector.register_forward_hook(lambda *args: None)
    found = PreCoarsening([pooler, pooler])(graph).pooled_data
    for new, old in zip(found, expected, strict=True):
        assert new.num_nodes == old.num_nodes and new.edge_index.equal(old.edge_index)
        assert torch.equal(new.so.s.to_dense(), old.so.s.to_dense())


@pytest.mark.parametrize("cls", [NMFPooling, EigenPooling])
def test_an_overridden_dense_connect_still_gives_edge_lists(cls):
    class Twice(cls):
        def connect(self, **kwargs):
            adj, weight = super().connect(**kwargs)
            return 2 * adj, weight

    stock, twice = (PreCoarsening([("nopool", None), kind(k=3)])(ring(9)) for kind in (cls, Twice))
    new, old = twice.pooled_data[1], stock.pooled_data[1]
    assert new.edge_index.equal(old.edge_index)
    torch.testing.assert_close(new.edge_weight, 2 * old.edge_weight)


# -- in schedules -----------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def table(monkeypatch):
    """Restore the table of poolers after a test."""
    monkeypatch.setattr(pooler_map, "entries", dict(pooler_map.entries))
    monkeypatch.setattr(pooler_map, "_loaded", dict(pooler_map._loaded))


def levels_of(block, text, seed=0):
    return coarsen(block, parse_schedule(text), seed).levels


@pytest.mark.parametrize("cls", [PairPooling, LevelsOnly, OneLevel])
def test_a_registered_pooler_is_a_level_of_a_schedule(cls):
    register_pooler("pairs", cls, "Pairs of nodes", precoarsenable=True)
    graphs = [ring(8), ring(6), ring(5)]
    _, block = graphs_to_arrays(graphs)
    made = levels_of(block, "pairs*2,graclus")
    assert np.diff(made[1].assignment.super_ptr).tolist() == [2, 2, 2]
    for index, graph in enumerate(graphs):
        same = PreCoarsening(["pairs", "pairs", "graclus"])(graph).pooled_data
        alone = [level.block.take([index]) for level in made]
        for coarse, level in zip(alone, same, strict=True):
            assert coarse.num_nodes == level.num_nodes
            assert np.stack([coarse.rows(), coarse.indices]).tolist() == level.edge_index.tolist()
            weight = level.get("edge_weight")
            assert (coarse.weight is None) == (weight is None)
            assert weight is None or coarse.weight.tolist() == weight.double().tolist()


def test_the_own_connector_makes_the_coarse_graph():
    register_pooler("pairs", PairPooling, precoarsenable=True)
    _, block = graphs_to_arrays([ring(8)])
    assert levels_of(block, "pairs:size=4")[0].block.weight.tolist() == [1.0, 1.0]
    assert levels_of(block, "pairs:size=4")[0].block.num_nodes == 2


def test_parameters_follow_the_constructor():
    register_pooler("pairs", PairPooling, precoarsenable=True)
    spec = parse_schedule("pairs:size=3")[0]
    assert dataclasses.asdict(spec.params) == {"size": 3} and str(spec) == "pairs:size=3"
    assert parse_schedule([spec.to_json()])[0] == spec
    with pytest.raises(ValueError, match=r"Unknown parameter of pairs 'sise'\. Did you mean 'size'"):
        parse_schedule("pairs:sise=3")
    with pytest.raises(ValueError, match="pairs:size must be a whole number, got 'two'"):
        parse_schedule("pairs:size=two")
    with pytest.raises(ValueError, match="pairs: size must be positive, got 0"):
        parse_schedule("pairs:size=0")


def test_poolers_that_cannot_be_levels():
    class Needs(PairPooling):
        def __init__(self, table: dict):
            super().__init__()

    class Learns(PairPooling):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

    register_pooler("needs", Needs, precoarsenable=True)
    register_pooler("learns", Learns, precoarsenable=True)
    register_pooler("plain", SRCPooling, precoarsenable=True)
    register_pooler("other", PairPooling)
    with pytest.raises(ValueError, match="'table' has no default and is neither a number nor text"):
        parse_schedule("needs")
    with pytest.raises(ValueError, match="it has learnable parameters"):
        parse_schedule("learns")
    with pytest.raises(ValueError, match="has neither 'precoarsening' nor 'multi_level_precoarsening'"):
        parse_schedule("plain")
    for name in ("other", "mincut", "dmon"):
        with pytest.raises(ValueError, match=f"Unknown pooler '{name}'"):
            parse_schedule(name)


class RandomPairs(PairPooling):
    """Uses the global generators of torch and NumPy."""

    def select(self, edge_index=None, num_nodes=None, **kwargs):
        order = torch.randperm(num_nodes)
        shift = int(np.random.randint(num_nodes))  # noqa: NPY002
        return SelectOutput(cluster_index=(order + shift) % num_nodes // 2, num_nodes=num_nodes)


def test_random_choices_depend_on_seed_and_graph_alone():
    register_pooler("shuffled", RandomPairs, precoarsenable=True)
    graphs = [ring(8), ring(10), ring(8)]
    _, block = graphs_to_arrays(graphs)
    _, last = graphs_to_arrays(graphs[2:])
    before = torch.get_rng_state()
    first = levels_of(block, "shuffled*2", seed=3)[1].assignment.cluster
    assert torch.get_rng_state().equal(before)
    again = levels_of(block, "shuffled*2", seed=3)[1].assignment
    assert first.tolist() == again.cluster.tolist()
    alone = levels_of(last, "shuffled*2", seed=3)[1].assignment.cluster
    low = int(again.super_ptr[2])
    assert (first[-len(alone) :] - low).tolist() == alone.tolist()
    data = PreCoarsening(["shuffled", "shuffled"], seed=3)(graphs[2]).pooled_data[1]
    assert data.so.cluster_index.tolist() == alone.tolist()


def test_reading_a_schedule_in_a_thread_does_not_change_random_choices():
    drawing, building, drawn = threading.Event(), threading.Event(), threading.Event()

    class Drawing(RandomPairs):
        def select(self, **kwargs):
            drawing.set()
            building.wait(0.5)  # the other thread gets there only if nothing makes it wait for this one
            try:
                return super().select(**kwargs)
            finally:
                drawn.set()

    class Built(PairPooling):
        def __init__(self):
            super().__init__()
            building.set()
            drawn.wait(60)

    def read_schedule():
        drawing.wait(60)
        parse_schedule("built")  # builds the pooler, with seeded generators

    register_pooler("shuffled", RandomPairs, precoarsenable=True)
    register_pooler("drawing", Drawing, precoarsenable=True)
    register_pooler("built", Built, precoarsenable=True)
    _, block = graphs_to_arrays([ring(64)])
    expected = levels_of(block, "shuffled", seed=3)[0].assignment.cluster
    schedule = parse_schedule("drawing")
    reader = threading.Thread(target=read_schedule)
    reader.start()
    found = coarsen(block, schedule, 3).levels[0].assignment.cluster
    reader.join()
    assert building.is_set() and found.tolist() == expected.tolist()


def test_a_seed_parameter_gets_the_seed_of_the_run():
    class Seeded(PairPooling):
        def __init__(self, seed: int = 0):
            super().__init__(size=2 + seed)

    register_pooler("seeded", Seeded, precoarsenable=True)
    _, block = graphs_to_arrays([ring(12)])
    assert dataclasses.asdict(parse_schedule("seeded")[0].params) == {}
    assert [levels_of(block, "seeded", seed)[0].block.num_nodes for seed in (0, 1, 2)] == [6, 4, 3]


def test_a_graph_that_fails_does_not_stop_the_others():
    class Fails(PairPooling):
        def select(self, num_nodes=None, **kwargs):
            if num_nodes == 5:
                raise RuntimeError("five is too many")
            return super().select(num_nodes=num_nodes, **kwargs)

    register_pooler("fails", Fails, precoarsenable=True)
    _, block = graphs_to_arrays(
        [
            ring(4),
            ring(5),
            ring(6),
            Data(edge_index=torch.zeros(2, 0).long(), num_nodes=0, x=torch.zeros(0, 3)),
        ]
    )
    hierarchy, failures = coarsen_with_failures(block, parse_schedule("fails*2"))
    assert [(f.graph, "five is too many" in f.reason) for f in failures] == [(1, True)]
    assert np.diff(hierarchy.levels[0].assignment.super_ptr).tolist() == [2, 0, 3, 0]


def test_wrong_outputs_are_explained():
    class Short(LevelsOnly):
        def multi_level_precoarsening(self, levels, **kwargs):
            return super().multi_level_precoarsening(1, **kwargs)

    class Twice(PairPooling):
        def select(self, num_nodes=None, **kwargs):
            s = torch.ones(num_nodes, 2).to_sparse_coo()
            return SelectOutput(s=s)

    register_pooler("short", Short, precoarsenable=True)
    register_pooler("twice", Twice, precoarsenable=True)
    _, block = graphs_to_arrays([ring(4)])
    with pytest.raises(ValueError, match="expected 2, got 1"):
        levels_of(block, "short*2")
    with pytest.raises(ValueError, match="expected one supernode per node"):
        levels_of(block, "twice")


def test_assignment_to_pooler_map_makes_a_level():
    pooler_map["PairsOfMine"] = PairPooling
    pooler_map["pairs"] = PairPooling
    _, block = graphs_to_arrays([ring(8)])
    assert levels_of(block, "pairs")[0].block.num_nodes == 4
    assert PreCoarsening("PairsOfMine")(ring(8)).pooled_data[0].num_nodes == 4
    assert issubclass(pooler_map["mincut"], DenseSRCPooling)


def test_a_subclass_of_a_stock_pooler_in_a_schedule():
    register_pooler("lonely", OwnSelect, precoarsenable=True)
    register_pooler("sevens", OwnConnect, precoarsenable=True)
    _, block = graphs_to_arrays([ring(8), ring(6)])
    first, second = levels_of(block, "lonely:order=index,sevens")
    assert first.block.num_nodes == 14 and second.block.num_nodes < 14
    assert set(second.block.weight.tolist()) == {7.0}
    with pytest.raises(ValueError, match="order must be 'random' or 'degree' or 'index'"):
        parse_schedule("lonely:order=upwards")
    with pytest.raises(ValueError, match="'graclus' is a level method of tgp"):
        register_pooler("graclus", OwnSelect, precoarsenable=True, replace=True)
