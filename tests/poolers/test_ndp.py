"""``NDPPooling``, ``NDPSelect`` and ``KronConnect`` as users call them. The tests of the kernels cover cuts and reductions."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from tgp.connect import KronConnect
from tgp.poolers import NDPPooling, get_pooler
from tgp.select import NDPSelect, SelectOutput
from tgp.testing.graphs import karate

PATH = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4, 4, 5], [1, 0, 2, 1, 3, 2, 4, 3, 5, 4]])
KARATE = torch.from_numpy(karate().edge_index())


def laplacian(edge_index, n):
    a = torch.zeros(n, n)
    a[edge_index[0], edge_index[1]] = 1.0
    return a.sum(1).diag() - a


def test_forward_and_lift():
    pooler = NDPPooling()
    x = torch.arange(6.0).reshape(6, 1)
    out = pooler(x=x, adj=PATH)
    assert out.so.node_index.tolist() == [1, 3, 5] and out.so.num_nodes == 6
    assert out.x.flatten().tolist() == [1.0, 3.0, 5.0]
    assert out.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert out.edge_weight.tolist() == [0.5] * 4 and out.edge_weight.dtype == torch.float32
    assert pooler(x=out.x, so=out.so, lifting=True).flatten().tolist() == [0, 1, 0, 3, 0, 5]
    assert out.loss is None


def test_batches_in_any_order_and_with_gaps():
    # Graph 2 is a path of three (nodes 0, 2, 4), graph 0 an edge (1, 3), graph 1 has no nodes.
    edges = torch.tensor([[0, 2, 2, 4, 1, 3], [2, 0, 4, 2, 3, 1]])
    batch = torch.tensor([2, 0, 2, 0, 2])
    out = NDPPooling()(x=torch.arange(5.0).reshape(5, 1), adj=edges, batch=batch)
    assert out.x.flatten().tolist() == [1.0, 2.0]
    assert out.batch.tolist() == [0, 2]
    assert out.edge_index.shape == (2, 0) and out.edge_weight.shape == (0,)


@pytest.mark.parametrize("form", ["coo", "csr"])
def test_the_result_has_the_type_of_the_input(form):
    matrix = torch.sparse_coo_tensor(PATH, torch.ones(10), (6, 6), check_invariants=True).coalesce()
    adj = matrix if form == "coo" else matrix.to_sparse_csr()
    for run in (
        lambda: NDPPooling()(x=torch.ones(6, 1), adj=adj),
        lambda: KronConnect()(adj, NDPSelect()(edge_index=adj)),
    ):
        out = run()
        found, weight = (out.edge_index, out.edge_weight) if not isinstance(out, tuple) else out
        assert weight is None and found.layout == adj.layout and found.shape == (3, 3)
        assert found.to_dense().tolist() == [[0, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0]]


def test_online_transform_and_levels_agree():
    pooler = NDPPooling(seed=4)
    out = pooler(x=torch.ones(34, 2), adj=KARATE)
    levels = pooler.multi_level_precoarsening(2, KARATE, num_nodes=34)
    assert torch.equal(levels[0].edge_weight, out.edge_weight)
    assert torch.equal(levels[0].so.node_index, out.so.node_index)
    assert levels[1].so.num_nodes == out.so.num_supernodes == 9
    next_out = pooler(x=out.x, adj=out.edge_index, edge_weight=out.edge_weight, level=1)
    assert torch.equal(levels[1].edge_weight, next_out.edge_weight)


def test_threshold_reaches_connector_and_engine():
    few = NDPPooling(sparse_threshold=1.0)(x=torch.ones(34, 1), adj=KARATE)
    assert (few.edge_weight > 1.0).all() and few.edge_weight.numel() < 48
    assert NDPPooling(sparse_threshold=0.5).connector.sparse_threshold == 0.5
    with pytest.raises(ValueError, match=r"sparse_threshold .*-1"):
        KronConnect(-1.0)


def test_traits_repr_and_factory():
    pooler = get_pooler("ndp", sparse_threshold=0.1)
    assert isinstance(pooler, NDPPooling) and pooler.is_precoarsenable and not pooler.is_trainable
    assert "NDPSelect(s_inv_op=transpose, seed=0)" in repr(pooler)
    assert "KronConnect(sparse_threshold=0.1, threshold=auto)" in repr(pooler)
    assert repr(KronConnect()) == "KronConnect(sparse_threshold=0.01, threshold=auto)"


def test_results_contain_no_scipy_objects():
    so = NDPPooling()(x=torch.ones(6, 1), adj=PATH).so
    assert not hasattr(so, "L")
    assert all(not sp.issparse(value) for value in vars(so).values())


def test_given_selection_is_used():
    pooler = NDPPooling()
    so = NDPSelect()(edge_index=PATH, num_nodes=6)
    x = torch.ones(6, 1)
    out = pooler(x=x, adj=PATH, so=so)
    assert out.so is so and out.edge_weight.tolist() == [0.5] * 4


def test_kron_after_other_selections():
    path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    top = SelectOutput(cluster_index=torch.tensor([1, 0]), node_index=torch.tensor([0, 3]), num_nodes=6)
    with pytest.warns(UserWarning, match="other than NDP"):
        edge_index, weight = KronConnect()(path, top)
    assert edge_index.tolist() == [[0, 1], [1, 0]]
    assert weight.tolist() == pytest.approx([1 / 3, 1 / 3])
    mis = SelectOutput(cluster_index=torch.tensor([0, 0, 1, 1]), mis=torch.tensor([0, 3]))
    with pytest.warns(UserWarning):
        assert KronConnect()(path, mis)[1].tolist() == pytest.approx([1 / 3, 1 / 3])
    # Rows are in the order of the supernodes: supernode 0 is node 3, supernode 2 is node 0.
    ranked = SelectOutput(
        cluster_index=torch.tensor([2, 1, 0]), node_index=torch.tensor([0, 2, 3]), num_nodes=4
    )
    with pytest.warns(UserWarning):
        edge_index, weight = KronConnect()(path, ranked)
    assert edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert weight.tolist() == [1.0, 1.0, 0.5, 0.5]


def test_kron_errors():
    path = torch.tensor([[0, 1], [1, 0]])
    several = SelectOutput(cluster_index=torch.tensor([0, 0, 1, 1]))
    with pytest.raises(ValueError, match="Inconsistent number of clusters and node indices"):
        KronConnect()(path, several)
    outside = SelectOutput(cluster_index=torch.tensor([0, 0, 1, 1]), mis=torch.tensor([0, 9]))
    with pytest.raises(ValueError, match="MIS indices out of range"):
        KronConnect()(path, outside)
    with pytest.raises(ValueError, match="sparse assignment"):
        KronConnect()(path, SelectOutput(s=torch.eye(2)))


@pytest.mark.parametrize("kept", [[], [2]])
def test_no_or_one_kept_node(kept):
    so = SelectOutput(
        cluster_index=torch.arange(len(kept)),
        node_index=torch.tensor(kept, dtype=torch.long),
        num_nodes=6,
        num_supernodes=len(kept),
    )
    so._decimated = True
    edge_index, weight = KronConnect()(PATH, so)
    assert edge_index.shape == (2, 0) and weight.shape == (0,)


@pytest.mark.parametrize("kind", ["tensor", "scipy"])
def test_a_given_laplacian_is_used(kind):
    full = laplacian(PATH, 6)
    given = full if kind == "tensor" else sp.csr_matrix(full.numpy())
    so = SelectOutput(cluster_index=torch.arange(2), node_index=torch.tensor([0, 3]), num_nodes=6, L=given)
    edge_index, weight = KronConnect()(torch.empty(2, 0, dtype=torch.long), so)
    assert edge_index.tolist() == [[0, 1], [1, 0]] and weight.tolist() == pytest.approx([1 / 3, 1 / 3])


def test_zero_laplacian_works():
    so = SelectOutput(
        cluster_index=torch.arange(2),
        node_index=torch.tensor([0, 1]),
        num_nodes=4,
        L=sp.csr_matrix((4, 4), dtype=np.float32),
    )
    assert KronConnect()(torch.empty(2, 0, dtype=torch.long), so)[0].shape == (2, 0)


def test_weights_are_differentiable():
    batch = torch.tensor([0] * 34 + [1] * 6 + [2] * 3)
    # Graph 2 has the component {40, 41} without a kept node. Its block is singular.
    more = torch.tensor([[40, 41], [41, 40]])
    edges = torch.cat([KARATE, PATH + 34, more], dim=1)
    generator = torch.Generator().manual_seed(0)
    weight = torch.rand(edges.size(1), generator=generator, dtype=torch.float64) + 0.5
    nodes = torch.tensor([0, 1, 2, 3, 16, 24, 25, 32, 33, 35, 37, 39, 42])
    so = SelectOutput(cluster_index=torch.arange(13), node_index=nodes, num_nodes=43, batch=batch)
    so._decimated = True
    connect = KronConnect(1e-3)
    edge_index, expected = connect(edges, so, edge_weight=weight)
    leaf = weight.clone().requires_grad_()
    grad_index, found = connect(edges, so, edge_weight=leaf)
    assert torch.equal(grad_index, edge_index)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    found.pow(2).sum().backward()
    step = 1e-6
    for e in (0, 17, 100, 157, 160):
        moved = weight.clone()
        moved[e] += step
        slope = (connect(edges, so, edge_weight=moved)[1].pow(2).sum() - expected.pow(2).sum()) / step
        assert float(leaf.grad[e]) == pytest.approx(float(slope), abs=2e-4)
    assert leaf.grad[-2:].tolist() == [0.0, 0.0]


def test_pooler_passes_gradients_to_weights():
    weight = torch.ones(10, requires_grad=True)
    out = NDPPooling()(x=torch.ones(6, 1), adj=PATH, edge_weight=weight)
    assert out.edge_weight.tolist() == pytest.approx([0.5] * 4)
    out.edge_weight.sum().backward()
    assert weight.grad.sum() > 0


def test_eval_cut_and_sign_partition():
    full = laplacian(KARATE, 34)
    kept = torch.zeros(34, dtype=torch.bool)
    kept[NDPSelect()(edge_index=KARATE).node_index] = True
    z = torch.where(kept, 1.0, -1.0)
    assert NDPSelect.eval_cut(156, full, z) == pytest.approx(60 / 78)
    assert NDPSelect.eval_cut(156, sp.csr_matrix(full.numpy()), z.numpy()[:, None]) == pytest.approx(60 / 78)
    assert NDPSelect.eval_cut(0, np.zeros((2, 2)), [1, -1]) == 0.0
    assert NDPSelect.sign_partition(torch.tensor([0.2, 0.0, -0.1])).tolist() == [1.0, 1.0, -1.0]
    assert NDPSelect.sign_partition(np.array([-1.0, 3.0])).tolist() == [-1.0, 1.0]
    sides = NDPSelect.sign_partition(6)
    assert sides[:2].tolist() == [1.0, -1.0] and len(sides) == 6
    assert NDPSelect.sign_partition(6).tolist() == sides.tolist()
    with pytest.raises(ValueError, match="must not be negative"):
        NDPSelect.sign_partition(-1)


def test_directed_input_and_trailing_isolated_nodes():
    one_way = torch.tensor([[0, 1, 2], [1, 2, 3]])
    out = NDPPooling()(x=torch.ones(5, 1), adj=one_way)
    assert out.so.node_index.tolist() == [1, 3, 4]
    assert out.edge_weight.tolist() == [0.5, 0.5]


def test_cached_results_are_recomputed_for_another_graph():
    pooler = NDPPooling(cached=True)
    first = pooler(x=torch.ones(6, 1), adj=PATH)
    assert pooler(x=torch.ones(6, 1), adj=PATH).so.cluster_index is first.so.cluster_index
    other = pooler(x=torch.ones(34, 1), adj=KARATE)
    assert other.so.num_supernodes == 9


def test_data_objects_of_levels():
    data = NDPPooling().precoarsening(KARATE, num_nodes=34).as_data()
    assert isinstance(data, Data) and data.num_nodes == 9 and data.edge_index.size(1) == 48


@pytest.mark.parametrize("seed", range(4))
def test_mixed_signs_are_never_singular(seed):
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.combinations(torch.arange(9))
    weight = (
        torch.randint(0, 2, (len(pairs),), generator=generator).double() * 2 - 1
    )  # rows of the Laplacian cancel
    edge_index = torch.cat([pairs, pairs.flip(1)]).t()
    weight = torch.cat([weight, weight]).requires_grad_()
    out = NDPPooling()(torch.ones(9, 2), edge_index, edge_weight=weight)
    constant = NDPPooling()(torch.ones(9, 2), edge_index, edge_weight=weight.detach())
    assert torch.equal(out.edge_index, constant.edge_index)
    torch.testing.assert_close(out.edge_weight, constant.edge_weight)
    if out.edge_weight.numel():
        out.edge_weight.sum().backward()
        assert weight.grad.isfinite().all()


def test_rules_reach_selector_connector_and_engine():
    pooler = NDPPooling(threshold="relative", cut="flip")
    assert pooler.connector.threshold == "relative"
    assert pooler.selector.spec.params.cut == "flip"
    edge_index = torch.from_numpy(karate().edge_index())
    weight = torch.full((edge_index.size(1),), 1e-6)
    x = torch.ones(34, 1)
    alone = KronConnect(threshold="relative")
    so = pooler.select(edge_index=edge_index, edge_weight=weight, x=x, num_nodes=34)
    pooled = pooler(x, edge_index, edge_weight=weight)
    assert torch.equal(alone(edge_index, so, weight)[0], pooled.edge_index)
    assert pooled.edge_index.size(1) > 0
    assert NDPPooling(threshold="absolute")(x, edge_index, edge_weight=weight).edge_index.size(1) == 0
