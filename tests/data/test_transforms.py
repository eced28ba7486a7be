"""``PreCoarsening``: forms of levels, attached attributes, equality with layers and engine."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

from tgp.connect import SparseConnect
from tgp.data import PoolDataLoader, PooledBatch, PreCoarsening, graphs_to_arrays, precoarsen
from tgp.engine import coarsen, parse_schedule
from tgp.engine.methods import METHODS
from tgp.errors import DatasetError, ParameterError, ScheduleError, UnknownNameError
from tgp.poolers import SEPPooling, get_pooler
from tgp.src import PoolingOutput, Precoarsenable, SRCPooling


def path_graph(n=6, **attributes):
    line = torch.arange(n - 1)
    edges = torch.stack([torch.cat([line, line + 1]), torch.cat([line + 1, line])])
    return Data(edge_index=edges, num_nodes=n, **attributes)


class Halve(SRCPooling, Precoarsenable):
    """Pooler of a user that merges pairs of consecutive nodes without the engine."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def multi_level_precoarsening(self, levels, edge_index, edge_weight=None, *, batch=None, num_nodes=None):
        self.calls.append((levels, num_nodes))
        outputs = []
        for _ in range(levels):
            num_nodes = (num_nodes + 1) // 2
            outputs.append(
                PoolingOutput(edge_index=edge_index[:, :0], batch=torch.zeros(num_nodes, dtype=torch.long))
            )
        return outputs


@pytest.mark.parametrize(
    ("poolers", "count"),
    [
        ("graclus", 1),
        ("Graclus", 1),
        (("graclus", {"order": "index"}), 1),
        (("graclus", None), 1),
        (("graclus", "graclus"), 2),
        (["graclus", "nopool", ("graclus", {"order": "degree"})], 3),
        ({"pooler": "graclus", "order": "index"}, 1),
        ({"name": "graclus"}, 1),
        ({"pooler": "graclus", "name": "nopool"}, 1),
        ((name for name in ("graclus", "graclus")), 2),
        (["random", {"pooler": "nopool"}], 2),
    ],
)
def test_forms_of_levels(poolers, count):
    transform = PreCoarsening(poolers)
    assert len(transform.poolers) == count
    levels = transform(path_graph()).pooled_data
    assert isinstance(levels, list) and len(levels) == count


def test_instances():
    first, second = get_pooler("graclus"), get_pooler("nopool")
    transform = PreCoarsening([first, first, (second, {}), {"pooler": second}, first])
    assert transform.poolers == (first, first, second, second, first)
    assert transform.runs == [(first, 2), (second, 2), (first, 1)]
    assert len(transform(path_graph()).pooled_data) == 5


def test_equal_levels_are_one_run_and_objects_are_not():
    assert [n for _, n in PreCoarsening(["graclus", ("GRACLUS", {}), "nopool"]).runs] == [2, 1]
    assert [n for _, n in PreCoarsening([("graclus", {"order": "index"}), "graclus"]).runs] == [1, 1]
    assert [n for _, n in PreCoarsening([get_pooler("graclus"), get_pooler("graclus")]).runs] == [1, 1]


@pytest.mark.parametrize(
    ("poolers", "error", "text"),
    [
        ([], ValueError, "non-empty pooler"),
        ([("graclus", {}, 1)], ValueError, "Tuple pooler configs must be"),
        ([{"order": "index"}], ValueError, "must include a pooler name or instance"),
        ([(get_pooler("graclus"), {"order": "index"})], ValueError, "Cannot provide kwargs together"),
        ([3], TypeError, "Pooler config must be"),
        ([(3, {})], TypeError, "Pooler config must be"),
        (3, TypeError, "iterable"),
        ([("topk", {"in_channels": 4})], ValueError, "must not be trainable"),
        (["mincut"], ValueError, "must not be trainable .* got 'mincut'; use one of .*ndp"),
        ([("kmis", {"scorer": "linear", "in_channels": 4})], ValueError, "must not be trainable"),
        ([("graclus", {"pooler": "nopool"})], ValueError, "two levels"),
        (["graklus"], ValueError, "graclus"),
    ],
)
def test_invalid_levels_are_refused(poolers, error, text):
    with pytest.raises(error, match=text):
        PreCoarsening(poolers)


def test_a_pooler_that_cannot_precoarsen_is_refused_by_the_constructor():
    class Frozen(SRCPooling):
        pass

    with pytest.raises(ValueError, match="cannot pre-coarsen"):
        PreCoarsening(Frozen())


def test_repr():
    transform = PreCoarsening(
        ["graclus", "graclus", ("random", {"ratio": 0.25}), get_pooler("nopool")], seed=3
    )
    assert repr(transform) == "PreCoarsening([graclus*2, random(ratio=0.25), NoPool()], seed=3)"


def test_attributes_of_a_level():
    data = path_graph(x=torch.ones(6, 2), edge_weight=torch.ones(10), y=torch.tensor([1]))
    out = PreCoarsening(["graclus", "graclus"])(data)
    assert "pooled_data" not in data
    assert out.x is data.x
    nodes = 6
    for level in out.pooled_data:
        assert set(level.keys()) == {"edge_index", "edge_weight", "batch", "so", "num_nodes"}
        assert level.so.num_nodes == nodes and level.so.batch.tolist() == [0] * nodes
        assert level.num_nodes == level.so.num_supernodes == level.batch.numel()
        nodes = level.num_nodes


def test_input_and_output_keys():
    data = Data(graph=path_graph(), num_nodes=1)
    out = PreCoarsening("graclus", input_key="graph", output_key="coarse")(data)
    assert out.coarse[0].so.num_nodes == 6
    assert "coarse" not in out.graph


def test_transform_equals_layer_and_engine(make_graphs, same):
    """The transform, the methods of the pooler and the engine give the same tensors."""
    graphs = make_graphs(8, seed=3, smallest=0)
    transform = PreCoarsening(["graclus", "graclus", "random"], seed=5)
    for data in graphs:
        ours = transform(data).pooled_data
        pooler, other = get_pooler("graclus", seed=5), get_pooler("random", seed=5)
        outs = pooler.multi_level_precoarsening(
            2, data.edge_index, data.edge_weight, num_nodes=data.num_nodes, batch_size=1
        )
        last = outs[-1].as_data()
        outs += other.multi_level_precoarsening(
            1, last.edge_index, last.edge_weight, num_nodes=last.num_nodes, level=2, batch_size=1
        )
        same(ours, [out.as_data() for out in outs])
    table, block = graphs_to_arrays(graphs)
    batch = PooledBatch.from_arrays(table, coarsen(block, "graclus*2,random", 5).levels)
    same(batch, PooledBatch.from_data_list([transform(data) for data in graphs]))


@pytest.mark.parametrize("alias", METHODS)
def test_an_alias_has_the_same_defaults_as_in_a_schedule(alias, make_graphs, same):
    graphs = make_graphs(3, seed=4, smallest=1)
    table, _ = graphs_to_arrays(graphs)
    block = table.to_block(parse_schedule(alias).needs)
    batch = PooledBatch.from_arrays(table, coarsen(block, alias, 0).levels)
    same(batch, PooledBatch.from_data_list(precoarsen(graphs, alias)))


def test_a_list_as_one_block(make_graphs, same):
    for options in ({}, {"weighted": False}):
        graphs = make_graphs(12, seed=1, smallest=0, **options)
        transform = PreCoarsening(["graclus", "random", ("graclus", {"s_inv_op": "inverse"})], seed=2)
        same(transform.block(graphs), [transform(data) for data in graphs])
    same(precoarsen(graphs, "graclus", 7), [PreCoarsening("graclus", seed=7)(data) for data in graphs])
    assert all("pooled_data" not in data for data in graphs)
    assert precoarsen([], "graclus") == []


def test_double_weights_stay_double(same):
    data = path_graph(edge_weight=torch.rand(10, dtype=torch.float64))
    transform = PreCoarsening(["graclus", "graclus"])
    assert transform(data).pooled_data[1].edge_weight.dtype == torch.float64
    same(transform.block([data, data]), [transform(data)] * 2)


def test_a_batch_can_be_coarsened(make_graphs, same):
    """A batch is coarsened like its graphs, also when its nodes are not in the order of graphs."""
    graphs = make_graphs(5)
    transform = PreCoarsening(["graclus", "nopool"])
    batch = Batch.from_data_list([Data(edge_index=g.edge_index, num_nodes=g.num_nodes) for g in graphs])
    whole = transform(batch).pooled_data
    single = precoarsen(
        [Data(edge_index=g.edge_index, num_nodes=g.num_nodes) for g in graphs], ["graclus", "nopool"]
    )
    joined = PooledBatch.from_data_list(single).pooled_data
    for left, right in zip(whole, joined, strict=True):
        same(left.edge_index, right.edge_index)
        same(left.batch, right.batch)
        same(left.so.cluster_index, right.so.cluster_index)


def test_a_pooler_of_a_user():
    pooler = Halve()
    out = PreCoarsening([pooler, pooler, "nopool", pooler])(path_graph())
    assert pooler.calls == [(2, 6), (1, 2)]
    assert [level.num_nodes for level in out.pooled_data] == [3, 2, 2, 1]


def test_too_few_levels_of_a_pooler_are_refused():
    class Lazy(Halve):
        def multi_level_precoarsening(self, levels, *args, **kwargs):
            return super().multi_level_precoarsening(
                levels - 1, kwargs["edge_index"], num_nodes=kwargs["num_nodes"]
            )

    pooler = Lazy()
    with pytest.raises(ValueError, match="returned 1 levels, expected 2"):
        PreCoarsening([pooler, pooler])(path_graph())


def test_cached_poolers_still_compute_every_level():
    transform = PreCoarsening([("graclus", {"cached": True})] * 2)
    for n in (6, 9):
        first, second = transform(path_graph(n)).pooled_data
        assert first.so.num_nodes == n and second.so.num_nodes == first.num_nodes


def test_copies_and_pickles(same):
    transform = PreCoarsening(["graclus", ("random", {"ratio": 0.5})], seed=4)
    data = path_graph(8)
    expected = transform(data)
    for twin in (copy.deepcopy(transform), pickle.loads(pickle.dumps(transform))):
        same(twin(data), expected)


def test_random_choices_depend_on_level_and_seed():
    data = path_graph(40)
    first, second = (
        PreCoarsening("random", seed=seed)(data).pooled_data[0].so.cluster_index for seed in (0, 1)
    )
    assert not torch.equal(first, second)
    pair = PreCoarsening(["nopool", "random"])(data).pooled_data[1].so.cluster_index
    assert not torch.equal(pair, first)


def test_dense_assignments_have_a_mask_and_collate(make_graphs):
    pytest.importorskip("tgp.poolers.nmf")
    graphs = precoarsen(make_graphs(6), [("nmf", {"k": 4})])
    assert graphs[0].pooled_data[0].mask.shape == (1, 4)
    batch = next(iter(PoolDataLoader(graphs, batch_size=6)))
    assert batch.pooled_data[0].mask.shape == (6, 4)
    assert batch.pooled_data[0].so.s.shape == (batch.num_nodes, 4)


def test_transforms_alias():
    import tgp.data.transforms

    assert tgp.transforms is tgp.data.transforms
    assert {"NormalizeAdj", "SortNodes"} <= set(tgp.data.transforms.__all__)


def test_weights_are_rounded_the_same_way_everywhere(make_graphs):
    graphs = make_graphs(4)
    levels = precoarsen(graphs, "graclus")
    assert all(g.pooled_data[0].edge_weight.dtype == torch.float32 for g in levels)
    whole = make_graphs(3)
    for g in whole:
        g.edge_weight = torch.ones_like(g.edge_weight, dtype=torch.int64)
    assert precoarsen(whole, "graclus")[0].pooled_data[0].edge_weight.dtype == torch.float32
    assert np.isfinite(levels[0].pooled_data[0].edge_weight.numpy()).all()


def test_masks_of_eigen_levels_need_no_matrix():
    graphs = [path_graph(n) for n in (6, 9)]
    for data in [PreCoarsening([("eigen", {"k": 4})])(graphs[0]), *precoarsen(graphs, [("eigen", {"k": 4})])]:
        level = data.pooled_data[0]
        assert level.so._s is None, "the dense one-hot matrix was built"
        assert level.mask.equal(level.so.s.abs().sum(0, keepdim=True) > 0)


# -- text of the command line, and types of graphs ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("graclus*3", ["graclus"] * 3),
        ("ndp,eigen:k=4", ["ndp", ("eigen", {"k": 4})]),
        ("sep*2", ["sep", "sep"]),
        ("KMIS:order_k=2, nopool", [{"pooler": "kmis", "order_k": 2}, "nopool"]),
        (["graclus*2", "ndp"], ["graclus", "graclus", "ndp"]),
        (parse_schedule("graclus*2"), ["graclus", "graclus"]),
        ("random:ratio=0.3", ("random", {"ratio": 0.3})),
    ],
)
def test_text_is_a_short_form_of_levels(text, levels):
    graph = path_graph(24)
    ours, wanted = PreCoarsening(text, seed=5), PreCoarsening(levels, seed=5)
    assert repr(ours) == repr(wanted)
    for level, other in zip(ours(graph).pooled_data, wanted(graph).pooled_data, strict=True):
        assert torch.equal(level.edge_index, other.edge_index)
        assert level.num_nodes == other.num_nodes


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("graclus,,ndp", ScheduleError, "a comma too many"),
        ("graclus*0", ScheduleError, r"after \*"),
        ("", ScheduleError, "empty"),
        ("graklus*2", UnknownNameError, "Did you mean 'graclus'"),
        ("eigen:kk=8", UnknownNameError, "Did you mean 'k'"),
        ("eigen:k=much", ParameterError, "must be a whole number"),
        ("mincut*2", UnknownNameError, "mincut"),
    ],
)
def test_wrong_text_gets_the_errors_of_schedules(text, error, message):
    with pytest.raises(error, match=message):
        precoarsen([path_graph()], text)


def test_one_graph_a_dataset_and_a_generator():
    many = [path_graph(n) for n in (5, 9, 16)]
    wanted = [g.pooled_data[1].num_nodes for g in precoarsen(many, "graclus*2")]
    (one,) = precoarsen(many[0], "graclus*2")
    assert one.pooled_data[1].num_nodes == wanted[0]
    assert "pooled_data" not in many[0]

    class Mine(torch.utils.data.Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            if index >= 3:
                raise IndexError
            return many[index]

    for source in (Mine(), (graph for graph in many)):
        assert [g.pooled_data[1].num_nodes for g in precoarsen(source, "graclus*2")] == wanted


def test_other_types_are_explained():
    with pytest.raises(DatasetError, match=r"graph 1 must be .*got int") as caught:
        precoarsen([path_graph(), 3], "graclus")
    assert "tgp.coarsen" in caught.value.hint


def test_a_stage_that_a_property_returns_is_called():
    """The transform looks up stages without attribute access, but a property of a subclass counts."""
    calls = []

    class CountedConnect(SparseConnect):
        def forward(self, *args, **kwargs):
            calls.append(1)
            return super().forward(*args, **kwargs)

    counted = CountedConnect()

    class OwnPooling(SEPPooling):
        connector = property(lambda self: counted)

    data = Data(edge_index=torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]), num_nodes=4)
    PreCoarsening(OwnPooling())(data)
    assert calls
