"""Attributes of pooled edges, against plain Python."""

import pytest
import torch

from tgp.connect import KronConnect, SparseConnect, sparse_connect
from tgp.connect.edge_attributes import contract_edge_attributes, dense_edge_attributes
from tgp.errors import InputError, UnknownNameError
from tgp.poolers import get_pooler
from tgp.select import SelectOutput
from tgp.utils.ops.batching import GraphLayout
from tgp.utils.ops.reductions import GROUP_REDUCTIONS, reduce_groups

N, K = 12, 4


def graph(seed=0, edges=60):
    """Return random edges with loops and parallel edges, their weights and attributes, and an assignment."""
    g = torch.Generator().manual_seed(seed)
    index = torch.randint(0, N, (2, edges), generator=g)
    weight = torch.rand(edges, generator=g) + 0.1
    attr = torch.randint(-3, 4, (edges, 2), generator=g).float()
    return index, weight, attr, torch.randint(0, K, (N,), generator=g)


def expected(index, attr, cluster, pooled, how):
    """Return the attributes of pooled edges, edge by edge."""
    out = []
    for a, b in pooled.t().tolist():
        inside = (cluster[index[0]] == a) & (cluster[index[1]] == b)
        assert inside.any()
        out.append(reduce_groups(attr[inside], torch.zeros(int(inside.sum()), dtype=torch.long), 1, how)[0])
    return torch.stack(out)


@pytest.mark.parametrize("how", GROUP_REDUCTIONS)
@pytest.mark.parametrize("weighted", [True, False])
def test_sparse_connect(how, weighted):
    index, weight, attr, cluster = graph()
    attr = attr.long() if how in ("any", "all") else attr
    pooled, _, got = sparse_connect(
        index, weight if weighted else None, None, cluster, N, K, edge_attr=attr, edge_attr_reduce=how
    )
    torch.testing.assert_close(got, expected(index, attr, cluster, pooled, how))
    so = SelectOutput(cluster_index=cluster, num_supernodes=K)
    torch.testing.assert_close(contract_edge_attributes(index, so, pooled, attr, how), got)


def test_dropped_nodes_loops_and_tiny_weights():
    index, weight, attr, cluster = graph()
    weight[(cluster[index[0]] == 0) & (cluster[index[1]] == 1)] = 1e-12
    kept = torch.tensor([0, 2, 3, 5, 7, 8, 11])
    mapping = torch.full((N,), -1)
    mapping[kept] = cluster[kept]
    pooled, w, got = sparse_connect(
        index,
        weight,
        kept,
        cluster[kept],
        N,
        K,
        remove_self_loops=False,
        edge_attr=attr,
        edge_attr_reduce="sum",
    )
    assert [0, 1] not in pooled.t().tolist() and w.numel() == got.size(0)
    torch.testing.assert_close(got, expected(index, attr, mapping, pooled, "sum"))


def test_selected_nodes_keep_parallel_edges():
    index = torch.tensor([[0, 0, 1, 2, 0], [1, 1, 2, 0, 2]])
    attr = torch.arange(5)
    pooled, _, got = sparse_connect(
        index, None, torch.tensor([0, 1]), torch.tensor([1, 0]), 3, 2, edge_attr=attr, edge_attr_reduce="max"
    )
    assert pooled.tolist() == [[1, 1], [0, 0]] and got.tolist() == [0, 1]


def test_matrices_have_their_attributes_row_by_row():
    index, weight, _, cluster = graph()
    matrix = torch.sparse_coo_tensor(index, weight, (N, N), check_invariants=True).coalesce()
    attr = torch.arange(matrix._nnz()).float()
    pooled, _, got = sparse_connect(matrix, None, None, cluster, N, K, edge_attr=attr)
    assert pooled.is_coalesced()
    torch.testing.assert_close(got, expected(matrix.indices(), attr, cluster, pooled.indices(), "mean"))
    order = torch.randperm(N, generator=torch.Generator().manual_seed(3))[:8]
    pooled, _, got = sparse_connect(matrix, None, order.sort().values, None, N, 8, edge_attr=attr)
    mapping = torch.full((N,), -1)
    mapping[order.sort().values] = torch.arange(8)
    torch.testing.assert_close(got, expected(matrix.indices(), attr, mapping, pooled.indices(), "mean"))


def test_gradcheck_of_connectors():
    index, _, attr, cluster = graph(edges=20)
    for how in ("sum", "mean", "stats"):
        run = lambda a, how=how: sparse_connect(  # noqa: E731
            index, None, None, cluster, N, K, edge_attr=a, edge_attr_reduce=how
        )[2]
        values = attr.double() + torch.rand(attr.shape, generator=torch.Generator().manual_seed(1)).double()
        assert torch.autograd.gradcheck(run, (values.requires_grad_(),), atol=1e-6)


@pytest.mark.parametrize("how", ["sum", "mean"])
@pytest.mark.parametrize("weighted", [True, False])
def test_dense_products(how, weighted):
    index, weight, attr, _ = graph()
    weight = weight.double() if weighted else None
    s = torch.rand(N, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    got = dense_edge_attributes(s, index, weight, attr.double(), how, layout=GraphLayout(None, N))
    value = torch.ones(index.size(1), dtype=torch.float64) if weight is None else weight
    adj, per_channel = torch.zeros(N, N, dtype=torch.float64), torch.zeros(N, N, 2, dtype=torch.float64)
    adj.index_put_(tuple(index), value, accumulate=True)
    per_channel.index_put_(tuple(index), value[:, None] * attr, accumulate=True)
    wanted = torch.einsum("ik,ijd,jl->kld", s, per_channel, s)
    if how == "mean":
        wanted = wanted / (s.t() @ adj @ s)[..., None]
    torch.testing.assert_close(got[0], wanted)
    mean = per_channel / torch.where(adj == 0, 1.0, adj)[..., None]
    torch.testing.assert_close(dense_edge_attributes(s[None], adj[None], None, mean[None], how)[0], wanted)


def test_dense_products_need_no_square_array():
    """A graph of 200,000 nodes would need 160 GB for a dense adjacency."""
    size = 200_000
    index = torch.stack([torch.arange(size), (torch.arange(size) + 1) % size])
    s = torch.zeros(size, 2)
    s[:, 0] = 1
    got = dense_edge_attributes(s, index, None, torch.ones(size), "sum", layout=GraphLayout(None, size))
    assert got.flatten().tolist() == [size, 0, 0, 0]


@pytest.mark.parametrize("alias", ["graclus", "kmis", "sep"])
def test_the_engine_and_the_general_path_agree(alias):
    index, _, _, _ = graph(edges=25)
    index = torch.cat([index, index.flip(0)], 1)
    attr = torch.randn(50, 3, generator=torch.Generator().manual_seed(4))
    options = {"scorer": "degree"} if alias == "kmis" else {}
    weight = torch.rand(25, generator=torch.Generator().manual_seed(5)).repeat(2) + 0.1
    for how in ("mean", "sum", "max", "first"):
        fast = get_pooler(alias, **options)(
            adj=index, edge_weight=weight, num_nodes=N, edge_attr=attr, edge_attr_reduce=how
        )
        learned = weight.clone().requires_grad_()  # the engine cannot compute gradients
        slow = get_pooler(alias, **options)(
            adj=index, edge_weight=learned, num_nodes=N, edge_attr=attr, edge_attr_reduce=how
        )
        assert slow.edge_weight.requires_grad and not fast.edge_weight.requires_grad
        assert torch.equal(fast.edge_index, slow.edge_index)
        assert torch.equal(fast.edge_attr, slow.edge_attr)


def test_padded_graphs_and_rows_agree():
    """The fast path of padded poolers runs on rows; a hook turns it off."""
    index, weight, attr, _ = graph(edges=8)
    batch, x = torch.tensor([0] * 7 + [1] * 5), torch.randn(N, 4, generator=torch.Generator().manual_seed(6))
    inside = batch[index[0]] == batch[index[1]]
    call = {
        "x": x,
        "adj": index[:, inside],
        "edge_weight": weight[inside],
        "batch": batch,
        "edge_attr": attr[inside],
    }
    for how in ("sum", "mean"):
        torch.manual_seed(0)
        pooler = get_pooler("mincut", in_channels=4, k=3)
        fast = pooler(**call, edge_attr_reduce=how)
        pooler.selector.register_forward_hook(lambda *_: None)
        torch.testing.assert_close(fast.edge_attr, pooler(**call, edge_attr_reduce=how).edge_attr)


def test_directed_edges_of_kmis():
    index, attr = torch.tensor([[0, 1, 2], [1, 2, 3]]), torch.tensor([[1.0], [2.0], [3.0]])
    for weight in (None, torch.ones(3, requires_grad=True)):
        out = get_pooler("kmis", scorer="degree")(adj=index, edge_weight=weight, num_nodes=4, edge_attr=attr)
        cluster = out.so.cluster
        for (a, b), value in zip(out.edge_index.t().tolist(), out.edge_attr.tolist(), strict=True):
            inside = (cluster[index[0]] == a) & (cluster[index[1]] == b)
            assert value == ([attr[inside].mean().item()] if inside.any() else [0.0])


def test_asap():
    index, weight, attr, _ = graph()
    x = torch.randn(N, 4, generator=torch.Generator().manual_seed(6))
    torch.manual_seed(0)
    pooler = get_pooler("asap", in_channels=4, add_self_loops=True, remove_self_loops=False).eval()
    out = pooler(x=x, adj=index, edge_weight=weight, edge_attr=attr)
    assert out.edge_attr.shape == (out.edge_index.size(1), 2)
    loops = (index[0] == index[1]).nonzero().view(-1)
    given = {int(index[0, e]): attr[e] for e in loops}
    kept = out.so.node_index[out.so.cluster_index.argsort()]
    for place in (out.edge_index[0] == out.edge_index[1]).nonzero().view(-1):
        node = int(kept[out.edge_index[0, place]])
        assert torch.equal(out.edge_attr[place], given.get(node, torch.zeros(2)))
    pooler.soft_connect = True
    assert pooler(x=x, adj=index, edge_attr=attr).edge_attr is None


class TwoValues(SparseConnect):
    """Connector of a user, written before there were edge attributes."""

    def forward(self, edge_index, so, *, edge_weight=None, **kwargs):
        adj, weight = super().forward(edge_index, so, edge_weight=edge_weight, **kwargs)
        return adj, weight


class Complete(SparseConnect):
    """Connector of a user that connects all supernodes."""

    def forward(self, edge_index, so, **kwargs):
        return torch.ones(so.num_supernodes, so.num_supernodes).nonzero().t(), None


class OwnAttributes(SparseConnect):
    """Connector of a user that takes edge attributes."""

    def forward(self, edge_index, so, *, edge_attr=None, **kwargs):
        adj, weight = super().forward(edge_index, so, **kwargs)
        return adj, weight, torch.full((adj.size(1),), 7.0)


def test_connectors_of_users():
    index, _, attr, _ = graph()
    call = {"adj": index, "num_nodes": N, "edge_attr": attr}
    plain = get_pooler("graclus")(**call)
    pooler = get_pooler("graclus")
    pooler.connector = TwoValues()
    assert torch.equal(pooler(**call).edge_attr, plain.edge_attr)
    pooler.connector = Complete()
    with pytest.raises(
        InputError, match=r"to which no input edge belongs.*returns .edge_index, edge_weight, edge_attr"
    ):
        pooler(**call)
    assert pooler(**call, edge_attr_reduce="none").edge_attr is None
    pooler.connector = OwnAttributes()
    assert set(pooler(**call).edge_attr.tolist()) == {7.0}
    pooler.connector = KronConnect()
    assert get_pooler("ndp")(**call).edge_attr is None


def test_cached_poolers_notice_other_attributes():
    index, _, attr, _ = graph()
    pooler = get_pooler("graclus", cached=True)
    first = pooler(adj=index, num_nodes=N, edge_attr=attr)
    assert torch.equal(pooler(adj=index, num_nodes=N, edge_attr=2 * attr).edge_attr, 2 * first.edge_attr)
    assert pooler(adj=index, num_nodes=N).edge_attr is None
    learned = attr.clone().requires_grad_()
    for _ in range(2):
        pooler(adj=index, num_nodes=N, edge_attr=learned).edge_attr.sum().backward()
    with torch.inference_mode():
        pooler(adj=index, num_nodes=N, edge_attr=attr)
        assert torch.equal(pooler(adj=index, num_nodes=N, edge_attr=attr).edge_attr, first.edge_attr)


def test_wrong_attributes_are_refused():
    index, _, attr, cluster = graph()
    for wrong in (attr[:-1], attr[None], attr.to(torch.complex64), attr.tolist(), attr.to_sparse()):
        with pytest.raises(InputError, match="edge_attr"):
            sparse_connect(index, None, None, cluster, N, K, edge_attr=wrong)
        with pytest.raises(InputError, match="edge_attr"):
            get_pooler("graclus")(adj=index, num_nodes=N, edge_attr=wrong)
    with pytest.raises(InputError, match="device"):
        get_pooler("graclus")(adj=index, num_nodes=N, edge_attr=attr.to("meta"))
    with pytest.raises(UnknownNameError, match="dense assignment"):
        get_pooler("nmf", k=2)(adj=index, num_nodes=N, edge_attr=attr, edge_attr_reduce="majority")
    with pytest.raises(InputError, match="coalesced"):
        matrix = torch.sparse_coo_tensor(index, attr[:, 0], (N, N), check_invariants=True)
        get_pooler("graclus")(adj=matrix, edge_attr=attr)
    with pytest.raises(InputError, match="connectivity"):
        get_pooler("nopool")(x=attr, edge_attr=attr)
