"""``LevelStore``: sampled neighbourhoods of one level, compared with a plain reference, and what the store refuses."""

import pickle
from importlib.util import find_spec
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import NeighborLoader
from torch_geometric.utils import to_undirected

import tgp
from tgp.data import LevelStore, PooledDataset, mapped_edges
from tgp.errors import InputError, StoreDamagedError, UnknownNameError

pytestmark = pytest.mark.filterwarnings("ignore::tgp.build.findings.FindingWarning")

HAS_SAMPLER = any(find_spec(name) for name in ("pyg_lib", "torch_sparse"))


def make_graph(seed=0, nodes=60, edges=150, *, directed=False):
    """Return a graph with isolated nodes, loops and parallel edges in no order, and with attributes of nodes and edges."""
    rng = torch.Generator().manual_seed(seed)
    pairs = torch.randint(0, max(nodes - 3, 1), (2, edges), generator=rng)
    if not directed:
        pairs = torch.cat([pairs, pairs.flip(0)], dim=1)
    part = torch.randint(0, 3, (nodes,), generator=rng)
    return Data(
        x=torch.randn(nodes, 4, generator=rng),
        edge_index=pairs,
        edge_attr=torch.arange(2 * pairs.size(1)).view(-1, 2),
        y=torch.randint(0, 3, (nodes,), generator=rng),
        train_mask=part == 0,
        val_mask=part == 1,
        test_mask=part == 2,
    )


def coarsened(data, schedule="graclus:count_edges=true*2", **options):
    return tgp.coarsen(data, schedule, carry="auto", metrics=False, **options)


def sample_plainly(edge_index, seeds, hops):
    """Return the nodes of each hop and the numbers of all edges to the nodes of the hop before, found one by one."""
    edges = list(enumerate(edge_index.t().tolist()))
    layers, found, known = [list(seeds)], [], set(seeds)
    for _ in range(hops):
        incoming = [(number, source) for number, (source, target) in edges if target in layers[-1]]
        layers.append(sorted({source for _, source in incoming} - known))
        known |= set(layers[-1])
        found.append(sorted(number for number, _ in incoming))
    return layers, found


def cut(values, sizes):
    return [part.tolist() for part in values.split(sizes)]


def check_whole(store, graph, hops=2, batch_size=7, fanout=-1, **options):
    """Compare all batches without a limit of neighbours with the plain sampler."""
    for batch in store.neighbor_loader([fanout] * hops, batch_size=batch_size, **options):
        seeds = batch.n_id[: batch.batch_size].tolist()
        layers, found = sample_plainly(graph.edge_index, seeds, hops)
        assert [sorted(part) for part in cut(batch.n_id, batch.num_sampled_nodes)[1:]] == layers[1:]
        assert [sorted(part) for part in cut(batch.e_id, batch.num_sampled_edges)] == found
        check_rows(batch, graph)


def check_rows(batch, graph):
    """Compare the edges and attributes of a batch with the rows of the graph."""
    assert torch.equal(batch.n_id[batch.edge_index], graph.edge_index[:, batch.e_id])
    assert batch.num_nodes == len(batch.n_id) == sum(batch.num_sampled_nodes)
    for name, value in graph.items():
        if name != "edge_index" and graph.is_node_attr(name):
            assert torch.equal(batch[name], value[batch.n_id]), name
        elif name != "edge_index" and graph.is_edge_attr(name):
            assert torch.equal(batch[name], value[batch.e_id]), name


def same_batches(left, right):
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        assert set(one.keys()) == set(other.keys())
        for name in ("n_id", "e_id", "edge_index", "x"):
            assert torch.equal(one[name], other[name]), name


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("level") / "store"
    coarsened(make_graph(), out=path)
    return path


@pytest.fixture
def dataset(path):
    return PooledDataset(path)


# -- equality with the plain sampler ------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("fanout", [-1, 10**9])
def test_all_neighbours(level, directed, fanout):
    data = make_graph(directed=directed)
    dataset = coarsened(data)
    graph = dataset.as_hierarchy().reduced(level) if level else data
    check_whole(LevelStore(dataset, level), graph, fanout=fanout)


@pytest.mark.parametrize("piece", [1, 7, 64])
@pytest.mark.parametrize("level", [0, 1])
def test_edges_are_read_in_pieces(monkeypatch, piece, level):
    monkeypatch.setattr(mapped_edges, "_PIECE", piece)
    data = make_graph(1, directed=True)
    dataset = coarsened(data)
    check_whole(LevelStore(dataset, level), dataset.as_hierarchy().reduced(1) if level else data)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    nodes=st.integers(1, 14),
    edges=st.integers(0, 30),
    form=st.sampled_from(["any", "both", "by source", "by target", "undirected", "undirected, twice"]),
)
def test_edges_in_any_order(seed, nodes, edges, form):
    data = make_graph(seed, nodes, edges, directed=form != "both")
    if form.startswith("undirected"):
        data.edge_index = to_undirected(data.edge_index, num_nodes=nodes)
        data.edge_index = data.edge_index.repeat_interleave(2 if "twice" in form else 1, dim=1)
    elif form.startswith("by"):
        order = data.edge_index[0 if form == "by source" else 1].argsort(stable=True)
        data.edge_index = data.edge_index[:, order]
    data.edge_attr = torch.arange(data.edge_index.size(1))
    store = LevelStore(coarsened(data, "graclus"))
    check_whole(store, data, batch_size=5)
    check_layouts(store, data.edge_index)


def check_layouts(store, edge_index):
    """Compare the layouts that PyG's samplers ask for with the edges."""
    pairs = edge_index.t().tolist()
    assert torch.equal(torch.stack(store.coo()[:2]), edge_index)
    row, ptr, perm = store.csc()
    targets = torch.arange(store.num_nodes).repeat_interleave(ptr.diff())
    number = torch.arange(len(row)) if perm is None else perm
    assert [pairs[n] for n in number.tolist()] == torch.stack([row, targets], 1).tolist()
    ptr, column, perm = store.csr()
    sources = torch.arange(store.num_nodes).repeat_interleave(ptr.diff())
    number = torch.arange(len(column)) if perm is None else perm
    assert [pairs[n] for n in number.tolist()] == torch.stack([sources, column], 1).tolist()


@pytest.mark.parametrize("level", [0, 1, 2])
def test_layouts_of_edges(dataset, level):
    store = LevelStore(dataset, level)
    hierarchy = dataset.as_hierarchy()
    check_layouts(store, hierarchy[level].edge_index)
    assert {str(attr.layout.value) for attr in store.get_all_edge_attrs()} == {"coo", "csc", "csr"}


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("replace", [False, True])
def test_limited_neighbours(dataset, level, replace):
    graph = dataset.as_hierarchy().reduced(level) if level else dataset[0]
    degree = torch.bincount(graph.edge_index[1], minlength=graph.num_nodes)
    store = LevelStore(dataset, level)
    limits = [3, 2]
    for batch in store.neighbor_loader(limits, batch_size=8, replace=replace):
        check_rows_of_edges(batch, graph)
        assert torch.equal(batch.n_id[: batch.batch_size], batch.input_id)
        begin, edges = 0, batch.edge_index.split(batch.num_sampled_edges, dim=1)
        for limit, size, step in zip(limits, batch.num_sampled_nodes[:-1], edges, strict=True):
            own = degree[batch.n_id[begin : begin + size]]
            expected = (own > 0) * limit if replace else own.clamp(max=limit)
            found = torch.bincount(step[1], minlength=begin + size)
            assert torch.equal(found[begin : begin + size], expected)
            assert not found[:begin].any() and len(found) == begin + size
            begin += size
        assert replace or len(batch.e_id.unique()) == len(batch.e_id)


def check_rows_of_edges(batch, graph):
    assert torch.equal(batch.n_id[batch.edge_index], graph.edge_index[:, batch.e_id])
    assert torch.equal(batch.x, graph.x[batch.n_id])


def test_each_neighbour_is_equally_likely():
    star = torch.stack([torch.arange(1, 9), torch.zeros(8, dtype=torch.long)])
    store = LevelStore(coarsened(Data(x=torch.ones(9, 1), edge_index=star), "nopool"))
    torch.manual_seed(0)
    loader = store.neighbor_loader([3], torch.tensor([0]))
    count = sum(torch.bincount(next(iter(loader)).n_id, minlength=9) for _ in range(800))
    assert count[0] == 800 and count[1:].sum() == 2400
    # The variance of a count is 800 * 3/8 * 5/8; five standard deviations are 69.
    assert (count[1:] - 300).abs().max() < 69


def test_no_neighbours_in_a_hop(dataset):
    batch = next(iter(LevelStore(dataset, 1).neighbor_loader([0, 5], batch_size=4)))
    assert batch.num_sampled_nodes == [4, 0, 0] and batch.edge_index.shape == (2, 0)


def test_a_graph_without_edges():
    data = Data(x=torch.ones(3, 2), edge_index=torch.zeros(2, 0, dtype=torch.long))
    store = LevelStore(coarsened(data, "graclus"), 1)
    batch = next(iter(store.neighbor_loader([2], batch_size=3)))
    assert batch.n_id.tolist() == [0, 1, 2] and batch.num_edges == store.num_edges == 0
    check_layouts(store, data.edge_index)


# -- nodes to start from ------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0, 1, 2])
def test_masks_choose_the_nodes(dataset, level):
    graph = dataset.as_hierarchy().reduced(level) if level else dataset[0]
    store = LevelStore(dataset, level)
    for name in ("train_mask", "val_mask"):
        expected = graph[name].nonzero().flatten()
        for chosen in (name, graph[name], expected, expected.tolist()):
            batches = list(store.neighbor_loader([2], chosen, batch_size=4))
            assert torch.equal(torch.cat([b.n_id[: b.batch_size] for b in batches]), expected)
            labels = torch.cat([b.y[: b.batch_size] for b in batches])
            assert torch.equal(labels, graph.y[expected])


def test_an_empty_mask_is_refused():
    data = make_graph()
    data.train_mask[:] = False
    store = LevelStore(coarsened(data), 1)
    for chosen in ("train_mask", torch.zeros(store.num_nodes, dtype=torch.bool), []):
        with pytest.raises(InputError, match="selects no nodes"):
            store.neighbor_loader([2], chosen)


@pytest.mark.parametrize(
    ("chosen", "error", "text"),
    [
        (torch.ones(3, dtype=torch.bool), InputError, "expected one boolean per node"),
        (torch.ones(2, 2, dtype=torch.long), InputError, "expected a list of node ids"),
        (torch.ones(2), InputError, "expected a list of node ids"),
        ("x", InputError, "x does not fit: expected one boolean per node"),
        ("y", InputError, "y does not fit: expected one boolean per node"),
        ("trian_mask", UnknownNameError, "train_mask"),
        (torch.tensor([-1]), IndexError, "out of range"),
        (torch.tensor([10**6]), IndexError, "out of range"),
    ],
)
def test_wrong_nodes(dataset, chosen, error, text):
    with pytest.raises(error, match=text):
        LevelStore(dataset, 1).neighbor_loader([2], chosen)


@pytest.mark.parametrize("wrong", [[], [-2], [2, -5], [1.5], [True], 5, "55", None, {"a": [1]}])
def test_wrong_numbers_of_neighbours(dataset, wrong):
    with pytest.raises(InputError, match="num_neighbors must be a list of integers from -1"):
        LevelStore(dataset, 1).neighbor_loader(wrong)


# -- attributes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [1, 2])
def test_attributes_are_those_of_the_reduced_graph(dataset, level):
    graph = dataset.as_hierarchy().reduced(level)
    store = LevelStore(dataset, level)
    names = {attr.attr_name for attr in store.get_all_tensor_attrs()}
    assert names == {n for n in graph.node_attrs() if n != "num_nodes"}
    for name in names:
        assert torch.equal(store.node_values(name), graph[name]), name
        assert torch.equal(store.node_values(name, torch.tensor([3, 0, 3])), graph[name][[3, 0, 3]]), name
        assert torch.equal(store.node_values(name, slice(2, 5)), graph[name][2:5]), name
        assert store.get_tensor_size(group_name=None, attr_name=name, index=None) == tuple(graph[name].shape)
    assert torch.equal(store.edge_values("edge_weight"), graph.edge_weight)


def test_attributes_of_the_input_graph(dataset):
    store, graph = LevelStore(dataset), dataset[0]
    assert {a.attr_name for a in store.get_all_tensor_attrs()} == {
        "x",
        "y",
        "train_mask",
        "val_mask",
        "test_mask",
    }
    for name in ("x", "y", "test_mask"):
        assert torch.equal(store.node_values(name), graph[name])
    assert torch.equal(store.edge_values("edge_attr", slice(1, 9)), graph.edge_attr[1:9])


def test_only_chosen_attributes_are_read(path):
    dataset = PooledDataset(path, fields=["edge_index", "x"], level_fields=["x"])
    for level in (0, 1):
        batch = next(iter(LevelStore(dataset, level).neighbor_loader([2], batch_size=2)))
        assert "num_members" not in batch and "edge_attr" not in batch and "x" in batch


def test_unknown_attributes(dataset):
    store = LevelStore(dataset, 1)
    for read in (store.node_values, store.edge_values):
        with pytest.raises(UnknownNameError, match="nothing"):
            read("nothing")
    with pytest.raises(IndexError):
        store.node_values("x", torch.tensor([10**6]))


def test_it_is_read_only(dataset):
    store = LevelStore(dataset, 1)
    with pytest.raises(InputError, match="read-only"):
        store.put_tensor(torch.ones(2), group_name=None, attr_name="x", index=None)
    with pytest.raises(InputError, match="read-only"):
        store.put_edge_index((torch.ones(1), torch.ones(1)), edge_type=None, layout="coo", size=(2, 2))
    with pytest.raises(InputError, match="read-only"):
        store.remove_tensor(group_name=None, attr_name="x", index=None)
    with pytest.raises(InputError, match="read-only"):
        store.remove_edge_index(edge_type=None, layout="coo", size=(2, 2))


# -- stores of other forms ----------------------------------------------------------------------


def test_compressed_stores(tmp_path, dataset):
    small = coarsened(make_graph(), out=tmp_path / "small", profile="small")
    assert small.reader.manifest.spec.profile == "small"
    for level in (0, 1, 2):
        batches = []
        for some in (dataset, small):
            torch.manual_seed(3)
            batches.append(list(LevelStore(some, level).neighbor_loader([3, 2], batch_size=9)))
        same_batches(*batches)


def test_stores_in_memory(path, dataset):
    loaded = PooledDataset(path, in_memory=True)
    check_whole(LevelStore(loaded, 1), dataset.as_hierarchy().reduced(1))


def test_soft_levels_have_no_labels():
    dataset = coarsened(make_graph(), "graclus,nmf:k=6")
    store, graph = LevelStore(dataset, 2), dataset.as_hierarchy().levels[1]
    assert {attr.attr_name for attr in store.get_all_tensor_attrs()} == {"x", "num_members"}
    batch = next(iter(store.neighbor_loader([-1], batch_size=6)))
    assert torch.equal(batch.n_id[batch.edge_index], graph.edge_index[:, batch.e_id])
    assert torch.equal(batch.x, graph.x[batch.n_id])
    assert torch.equal(batch.edge_weight, graph.edge_weight[batch.e_id])
    with pytest.raises(UnknownNameError, match="train_mask"):
        store.neighbor_loader([2], "train_mask")


def test_levels_that_drop_nodes():
    dataset = coarsened(make_graph(2), "ndp*2")
    for level in (1, 2):
        check_whole(LevelStore(dataset, level), dataset.as_hierarchy().reduced(level))


def test_one_of_several_graphs():
    graphs = [make_graph(seed, 20 + seed, 40) for seed in range(3)]
    dataset = coarsened(graphs, "graclus")
    with pytest.raises(InputError, match=r"reads one graph: .* got 3 graphs"):
        LevelStore(dataset, 1)
    for idx in (0, 1, -1):
        check_whole(LevelStore(dataset, 0, idx), graphs[idx])
    part = dataset[1:2]
    assert LevelStore(part, 1).num_nodes == dataset[1].pooled_data[0].num_nodes
    with pytest.raises(IndexError, match="no graph 3"):
        LevelStore(dataset, 1, 3)
    with pytest.raises(InputError, match="got 0 graphs"):
        LevelStore(dataset[:0], 1)


@pytest.mark.parametrize("level", [3, -1])
def test_wrong_levels(dataset, level):
    with pytest.raises(InputError, match=rf"no such level: expected 0 or one of \[1, 2\], got {level}"):
        LevelStore(dataset, level)


def test_a_level_that_the_dataset_does_not_read(path):
    with pytest.raises(InputError, match="no such level"):
        LevelStore(PooledDataset(path, levels=[2]), 1)


def test_levels_without_attributes(tmp_path):
    dataset = tgp.coarsen(make_graph(), "graclus", out=tmp_path / "bare")
    batch = next(iter(LevelStore(dataset, 1).neighbor_loader([2], batch_size=3)))
    assert "x" not in batch and batch.num_nodes == len(batch.n_id) and "y" in batch
    computed = PooledDataset(tmp_path / "bare", carry="auto")
    with pytest.raises(InputError, match="expected no carry="):
        LevelStore(computed, 1)
    assert LevelStore(computed, 0).num_nodes == 60


def test_several_types_of_nodes():
    data = HeteroData()
    data["a"].x, data["b"].x = torch.ones(4, 1), torch.ones(3, 1)
    data["a", "to", "b"].edge_index = torch.tensor([[0, 1, 2, 3], [0, 1, 2, 0]])
    with pytest.raises(InputError, match="one type of nodes"):
        LevelStore(tgp.coarsen(data, "graclus"))


def test_a_store_that_changes_is_noticed(tmp_path):
    dataset = coarsened(make_graph(), out=tmp_path / "store")
    loader = iter(LevelStore(dataset, 1).neighbor_loader([2], batch_size=2))
    next(loader)
    for file in (tmp_path / "store").rglob("*.h5"):
        file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(StoreDamagedError):
        next(loader)


# -- seeds and processes ------------------------------------------------------------------------


def test_a_seed_repeats_the_samples(dataset):
    store = LevelStore(dataset, 1)
    runs = []
    for seed in (7, 7, 8):
        torch.manual_seed(seed)
        runs.append(list(store.neighbor_loader([2, 2], batch_size=8, shuffle=True)))
    same_batches(*runs[:2])
    assert any(not torch.equal(a.n_id, b.n_id) for a, b in zip(runs[0], runs[2], strict=True))


def test_a_pickled_store_opens_the_file_again(dataset):
    store = LevelStore(dataset, 1)
    before = len(pickle.dumps(store))
    list(store.neighbor_loader([2]))
    text = pickle.dumps(store)
    assert len(text) == before
    check_whole(pickle.loads(text), dataset.as_hierarchy().reduced(1))


def test_a_loader_sends_no_arrays_of_the_level():
    large = coarsened(make_graph(0, 4000, 20000), "graclus")
    store = LevelStore(large, 1)
    loader = store.neighbor_loader([2], torch.arange(4))
    sampler = pickle.dumps((loader.node_sampler, loader.transform))
    alone = pickle.dumps(large)
    assert len(sampler) < len(alone) + 2000


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_worker_processes(dataset, start):
    store, graph = LevelStore(dataset, 1), dataset.as_hierarchy().reduced(1)
    runs = []
    for _ in range(2 if start == "fork" else 1):
        torch.manual_seed(5)
        loader = store.neighbor_loader(
            [3, 2], "train_mask", batch_size=5, num_workers=2, multiprocessing_context=start
        )
        runs.append(list(loader))
    same_batches(runs[0], runs[-1])
    for batch in runs[0]:
        check_rows(batch, graph)
    seeds = torch.cat([batch.n_id[: batch.batch_size] for batch in runs[0]])
    assert torch.equal(seeds, graph.train_mask.nonzero().flatten())


# -- the loader of PyG --------------------------------------------------------------------------


@pytest.mark.skipif(not HAS_SAMPLER, reason="PyG samples with pyg-lib or torch-sparse")
@pytest.mark.parametrize("level", [0, 1])
def test_neighbor_loader_of_pyg(dataset, level):
    store = LevelStore(dataset, level)
    graph = dataset.as_hierarchy().reduced(level) if level else dataset[0]
    mask = graph.train_mask
    for batch in NeighborLoader((store, store), [-1, -1], input_nodes=mask, batch_size=6):
        seeds = batch.n_id[: batch.batch_size].tolist()
        layers, found = sample_plainly(graph.edge_index, seeds, 2)
        assert sorted(batch.n_id.tolist()) == sorted(chain(*layers))
        assert sorted(batch.e_id.tolist()) == sorted(chain(*found))
        assert torch.equal(batch.x, graph.x[batch.n_id])


def test_transforms_see_the_attributes_of_edges(dataset):
    seen = []
    store = LevelStore(dataset, 1)
    batches = list(
        store.neighbor_loader([2], batch_size=50, transform=lambda b: seen.append(b.edge_weight) or b)
    )
    assert len(seen) == len(batches) and all(
        len(w) == b.num_edges for w, b in zip(seen, batches, strict=True)
    )


def test_its_text(dataset):
    store = LevelStore(dataset, 1)
    assert repr(store) == f"LevelStore(level 1: {store.num_nodes} nodes, {store.num_edges} edges)"
    assert np.prod(store.get_tensor_size(group_name=None, attr_name="x", index=None)) == 4 * store.num_nodes
